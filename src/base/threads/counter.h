/* A number that one thread adds to and others read: statistics. Never a means of synchronisation.
 * All functions are inline; there is no .c file. */
#ifndef TT_BASE_COUNTER_H
#define TT_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

struct tt_counter {
    _Atomic int64_t value;
};

/* The one writing thread. (A load and a store, not a locked add: there is only one writer.) */
static inline void tt_counter_add(struct tt_counter *self, int64_t amount) {
    int64_t value = atomic_load_explicit(&self->value, memory_order_relaxed);
    atomic_store_explicit(&self->value, value + amount, memory_order_relaxed);
}
/* Where several threads add. */
static inline void tt_counter_add_shared(struct tt_counter *self, int64_t amount) {
    atomic_fetch_add_explicit(&self->value, amount, memory_order_relaxed);
}
/* For a number that is replaced; the writing thread too. */
static inline void tt_counter_set(struct tt_counter *self, int64_t value) {
    atomic_store_explicit(&self->value, value, memory_order_relaxed);
}
/* Any thread. */
static inline int64_t tt_counter_get(const struct tt_counter *self) {
    return atomic_load_explicit(&self->value, memory_order_relaxed);
}

#endif
