/* How many operations one thread has brought and others have not done yet. The queue itself is the
 * caller's.
 *
 * At any time the queue belongs to at most one thread, which does its operations. The producer
 * makes an operation visible and calls _add(); if that returns true the queue was empty, and is
 * now the producer's. Its owner does an operation and calls _done(); if that returns false the
 * queue is empty and the owner's no longer. An owner may hand the queue to another thread by any
 * means that shows what it wrote. So no operation is left without a thread, and none is done twice.
 *
 * All functions are inline; there is no .c file. */
#ifndef TT_BASE_QUEUE_OWNER_H
#define TT_BASE_QUEUE_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_queue_owner {
    _Atomic int32_t count;
};

static inline void tt_queue_owner_init(struct tt_queue_owner *self) {
    atomic_init(&self->count, 0);
}
/* The producer. True: the queue was empty, and is the caller's. */
static inline bool tt_queue_owner_add(struct tt_queue_owner *self) {
    return atomic_fetch_add_explicit(&self->count, 1, memory_order_acq_rel) == 0;
}
/* The owner. False: it was the last one, and the queue is not the caller's any more. */
static inline bool tt_queue_owner_done(struct tt_queue_owner *self) {
    return atomic_fetch_sub_explicit(&self->count, 1, memory_order_acq_rel) > 1;
}
/* Any thread. For the owner it can only grow, for the producer it can only shrink. */
static inline int32_t tt_queue_owner_count(const struct tt_queue_owner *self) {
    return atomic_load_explicit(&self->count, memory_order_acquire);
}

#endif
