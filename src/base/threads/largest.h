/* Which of several threads holds the largest of something, so that a thread that needs room can ask
 * that one to give way.
 *
 * Life: each thread joins the board and sets its value whenever it changes. A thread that has no
 * room asks: the thread with the largest value, if it is above a bound, is woken, and takes the
 * request. A thread that leaves is not woken any more.
 *
 * What was asked of a thread, together, is never more than its value. Values are written without a
 * lock; joining, leaving and asking take one, for a few instructions. Implemented in largest.c. */
#ifndef TT_BASE_LARGEST_H
#define TT_BASE_LARGEST_H

#include "base/err.h"
#include "base/threads/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT_LARGEST_THREADS = 256 };

struct tt_largest_place {
    _Atomic int64_t value;
    _Atomic int64_t asked; /* amount; 0: nothing */
    void (*wake)(void *context);
    void *context;
    bool is_used;
    char padding[64]; /* each is written by its own thread */
};

struct tt_largest {
    struct tt_lock lock;
    struct tt_largest_place places[TT_LARGEST_THREADS];
};

void tt_largest_init(struct tt_largest *self);
void tt_largest_fini(struct tt_largest *self);
/* The place of a thread, whose value is 0; -1: there is none left. `wake` may be called on any
 * thread until tt_largest_leave() has returned. */
int32_t tt_largest_join(struct tt_largest *self, void (*wake)(void *context), void *context);
/* `place` -1 is legal here and below, and does nothing. */
void tt_largest_leave(struct tt_largest *self, int32_t place);
/* The place's thread. */
static inline void tt_largest_set(struct tt_largest *self, int32_t place, int64_t value) {
    if (place >= 0)
        atomic_store_explicit(&self->places[place].value, value, memory_order_relaxed);
}
/* Asks the thread with the largest value, other than `place`, to give `amount`. False: no value is
 * above `bound`, or so much was asked of it before. Any thread. */
TT_MUST_CHECK bool tt_largest_ask(struct tt_largest *self, int32_t place, int64_t bound,
                                  int64_t amount);
/* The place's thread: what was asked of it since; 0: nothing. */
static inline int64_t tt_largest_take(struct tt_largest *self, int32_t place) {
    if (place < 0 || atomic_load_explicit(&self->places[place].asked, memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange_explicit(&self->places[place].asked, 0, memory_order_relaxed);
}

#endif
