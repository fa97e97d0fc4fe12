/* A flag that one thread raises for another to see, together with everything written before. All
 * functions are inline; there is no .c file. */
#ifndef TT_BASE_FLAG_H
#define TT_BASE_FLAG_H

#include <stdatomic.h>
#include <stdbool.h>

struct tt_flag {
    _Atomic bool raised;
};

static inline void tt_flag_raise(struct tt_flag *self) {
    atomic_store_explicit(&self->raised, true, memory_order_release);
}
static inline bool tt_flag_is_raised(const struct tt_flag *self) {
    return atomic_load_explicit(&self->raised, memory_order_acquire);
}

#endif
