/* A count of references that may be dropped on different threads. The thread that drops the last
 * one frees the object. All functions are inline; there is no .c file. */
#ifndef TT_BASE_REFCOUNT_H
#define TT_BASE_REFCOUNT_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_refcount {
    _Atomic int32_t count;
};

static inline void tt_refcount_init(struct tt_refcount *self, int32_t count) {
    atomic_init(&self->count, count);
}

static inline void tt_refcount_ref(struct tt_refcount *self) {
    int32_t before = atomic_fetch_add_explicit(&self->count, 1, memory_order_relaxed);
    tt_assert(before > 0);
}

/* True: this was the last reference. Everything that other threads did to the object before they
 * dropped theirs is visible. */
static inline bool tt_refcount_unref(struct tt_refcount *self) {
    int32_t before = atomic_fetch_sub_explicit(&self->count, 1, memory_order_acq_rel);
    tt_assert(before > 0);
    return before == 1;
}

#endif
