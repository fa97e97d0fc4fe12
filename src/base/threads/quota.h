/* An amount that several threads share, such as the requests that a server may have in flight.
 *
 * A struct tt_quota is the whole, used by all threads. A struct tt_quota_share is one thread's side
 * of it: it takes the quota in pieces, so that most requests touch no memory of other threads.
 *
 * Life: the quota is initialised with its limit; each thread initialises a share of it, takes and
 * gives, and finishes the share, which gives back what it kept; the quota needs no end.
 *
 * All threads together never use more than the limit, but for what tt_quota_share_force() took. A
 * share keeps less than two pieces that it does not use, so the last 1/512 of the limit per thread
 * may be refused; below 2048 a piece is 1, nothing is kept, and the limit is exact. Neither is a
 * means of synchronisation. Implemented here and in quota.c. */
#ifndef TT_BASE_QUOTA_H
#define TT_BASE_QUOTA_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT_QUOTA_PIECES = 1024 }; /* of a limit, at least */

struct tt_quota {
    int64_t limit;
    char padding[64]; /* what is written by all threads has a cache line of its own */
    _Atomic int64_t used;
    char padding_after[64];
};

/* `limit` >= 0. */
void tt_quota_init(struct tt_quota *self, int64_t limit);
/* Any thread. False: it would exceed the limit; nothing is taken. */
TT_MUST_CHECK bool tt_quota_take(struct tt_quota *self, int64_t amount);
/* Any thread; what was taken. */
void tt_quota_give(struct tt_quota *self, int64_t amount);
/* Any thread: what is taken, and what shares keep. */
int64_t tt_quota_used(const struct tt_quota *self);

struct tt_quota_share {
    struct tt_quota *quota; /* borrowed */
    int64_t used;           /* by this thread */
    int64_t held;           /* taken from the quota; at least `used` */
    int64_t piece;
};

void tt_quota_share_init(struct tt_quota_share *self, struct tt_quota *quota);
/* Nothing is in use. */
void tt_quota_share_fini(struct tt_quota_share *self);

/* ---- for the two functions below ---- */

TT_MUST_CHECK bool tt_quota_share_take_more(struct tt_quota_share *self, int64_t amount);
void tt_quota_share_give_back(struct tt_quota_share *self);
/* Takes it also beyond the limit. The share's thread. */
void tt_quota_share_force(struct tt_quota_share *self, int64_t amount);

/* The share's thread. False: it would exceed the limit; nothing is taken. */
TT_MUST_CHECK static inline bool tt_quota_share_take(struct tt_quota_share *self, int64_t amount) {
    if (amount > self->held - self->used)
        return tt_quota_share_take_more(self, amount);
    self->used += amount;
    return true;
}
/* The share's thread; what was taken. */
static inline void tt_quota_share_give(struct tt_quota_share *self, int64_t amount) {
    self->used -= amount;
    if (self->held - self->used >= 2 * self->piece - 1)
        tt_quota_share_give_back(self);
}

#endif
