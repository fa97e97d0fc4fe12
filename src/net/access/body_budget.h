/* The bytes of all bodies that are being received, over all threads and transports, and which body
 * gives way when they reach the limit: the largest, wherever it is. Answers that clients do not
 * take have such a budget, too (net/access/answer_budget.h). Its parts are connections, and it is
 * timed: of the thread whose parts hold the most, the one with the most bytes times milliseconds
 * gives way to any that asks.
 *
 * A struct tt_body_budget is one thread's side. Life of a body's part: zero-initialised; bytes are
 * taken as they arrive; when the body is complete it cannot be evicted any more; its end gives the
 * bytes back. Bytes that are promised take nothing.
 *
 * Without room the largest body of all is evicted, if it is larger than the one that asks. If it is
 * another thread's, that thread is asked to evict it (base/threads/largest.h), and the one that
 * asks goes on at once. So until that thread has done it, the limit is exceeded by what one read of
 * the socket brought. A body that would be the largest itself gets no room.
 *
 * A part with a holder (net/access/byte_holder.h) counts against the limit of that, too: of an
 * identity, or of the client's address. Small bodies (up to TT_BODY_SMALL bytes, less with a low
 * limit) are neither evicted nor counted by holder.
 * Everything happens on the thread of the budget. Implemented in body_budget.c. */
#ifndef TT_NET_ACCESS_BODY_BUDGET_H
#define TT_NET_ACCESS_BODY_BUDGET_H

#include "base/list.h"
#include "base/threads/largest.h"
#include "base/threads/quota.h"

struct tt_byte_holder;

enum { TT_BODY_SMALL = 64 * 1024, TT_BODY_SIZES = 48 };

/* Why a body that was evicted had to go, for its client. */
extern const char tt_body_evicted[];

struct tt_body_part;
typedef void tt_body_evict_fn(struct tt_body_part *part);

struct tt_body_budget {
    struct tt_quota_share share;
    struct tt_largest *board;            /* borrowed; NULL: this thread is the only one */
    int32_t place;                       /* on the board; -1: none */
    struct tt_list sizes[TT_BODY_SIZES]; /* parts by the power of two of their bytes, the one that
                                            came there first ahead */
    int64_t largest_bytes;               /* of a timed budget: of all parts that may be evicted */
    int64_t small_bytes;
    bool is_timed;  /* set after _init */
    int64_t now_ms; /* if it is timed: set before a part is */
};

/* The members are the budget's, but for `evict` and `holder`. */
struct tt_body_part {
    struct tt_body_budget *budget; /* NULL: it holds nothing */
    struct tt_list_node node;      /* in the budget's sizes: it may be evicted */
    int64_t bytes;
    int64_t since_ms; /* of a timed budget: it holds bytes, and has given none back */
    /* Ends the receipt, and so the part. NULL: it is never evicted. */
    tt_body_evict_fn *evict;
    struct tt_byte_holder *holder; /* a reference; NULL: none */
    int64_t holder_bytes;          /* counted as the holder's */
    bool is_complete;
};

enum tt_body_taken {
    TT_BODY_TAKEN,
    TT_BODY_NO_ROOM,    /* the limit of all */
    TT_BODY_OVER_SHARE, /* the limit of its holder */
};

/* Borrows both. */
void tt_body_budget_init(struct tt_body_budget *self, struct tt_quota *quota,
                         struct tt_largest *board);
/* Every part has ended. */
void tt_body_budget_fini(struct tt_body_budget *self);
/* From now on other threads call `wake`, after which this one calls tt_body_budget_relieve(). */
void tt_body_budget_join(struct tt_body_budget *self, void (*wake)(void *context), void *context);
/* Not any more. Legal without _join, and again. */
void tt_body_budget_leave(struct tt_body_budget *self);
/* Evicts what other threads have asked for. */
void tt_body_budget_relieve(struct tt_body_budget *self);

/* Takes bytes that have arrived; this may evict other parts of the budget. */
TT_MUST_CHECK enum tt_body_taken tt_body_part_take(struct tt_body_part *self,
                                                   struct tt_body_budget *budget, size_t bytes);
/* The part, which has no holder, holds `bytes` from now on; fewer than before are never refused.
 */
TT_MUST_CHECK enum tt_body_taken tt_body_part_set(struct tt_body_part *self,
                                                  struct tt_body_budget *budget, int64_t bytes);
/* The body is complete. */
void tt_body_part_settle(struct tt_body_part *self);
/* Gives the bytes back; the part serves the next body of the same holder. */
void tt_body_part_clear(struct tt_body_part *self);
/* Gives everything back; legal again. */
void tt_body_part_end(struct tt_body_part *self);
/* What the part holds goes to `to`, which is zero-initialised, and is complete; the part itself
 * serves the next body. */
void tt_body_part_move(struct tt_body_part *self, struct tt_body_part *to);
/* Asserts the invariants. */
void tt_body_budget_check(const struct tt_body_budget *self);

#endif
