/* The bytes of answers that clients do not take, of all connections of one loop: they wait in the
 * server's memory. A budget of bodies (net/access/body_budget.h) whose parts are connections: when
 * the answers of all threads and transports reach their limit, the connection that has held the
 * most for the longest is closed.
 *
 * A connection has a struct tt_body_part whose `evict` closes it, and calls _count when what it
 * holds has changed. An answer counts as a whole until the socket has taken all of it: its memory
 * stays until then. One that is larger than the limit, and that the socket does not take at once,
 * ends its own connection only.
 *
 * A holder with a limit of bytes may hold so many in answers, too: the share of an answer is
 * taken before it is sent, and given back when it was written, or its client has gone. One answer
 * that is larger than the limit may be sent alone.
 *
 * Everything happens on the loop's thread. Implemented in answer_budget.c. */
#ifndef TT_NET_ACCESS_ANSWER_BUDGET_H
#define TT_NET_ACCESS_ANSWER_BUDGET_H

#include "base/threads/counter.h"
#include "net/access/body_budget.h"
#include "net/access/peer_address.h"

struct tt_log;

struct tt_answer_budget {
    struct tt_body_budget bodies;
    struct tt_counter evicted; /* connections; other threads may read */
    struct tt_log *log;        /* borrowed; NULL: silent */
};

/* Borrows all. */
void tt_answer_budget_init(struct tt_answer_budget *self, struct tt_quota *quota,
                           struct tt_largest *board, struct tt_log *log);
/* Every part has ended. */
void tt_answer_budget_fini(struct tt_answer_budget *self);
/* The answers of the connection take `bytes`. False: it must be closed, in favour of others; not
 * counted yet. `self` NULL: nothing is counted. `now_ms`: of the loop; it does not go back. */
TT_MUST_CHECK bool tt_answer_budget_count(struct tt_answer_budget *self, struct tt_body_part *part,
                                          int64_t bytes, int64_t now_ms);
/* The connection is closed because of what it holds; `peer` may be unknown. */
void tt_answer_budget_evicted(struct tt_answer_budget *self, const struct tt_peer_address *peer,
                              int64_t bytes);

/* What one answer takes of the limit of its holder; zero-initialised. */
struct tt_answer_share {
    struct tt_byte_holder *holder; /* a reference until _give; NULL: it takes nothing */
    int64_t bytes;
};

/* False: `why` says which limit; nothing is taken. `holder` may be NULL. */
TT_MUST_CHECK bool tt_answer_share_take(struct tt_answer_share *self, struct tt_byte_holder *holder,
                                        int64_t bytes, struct tt_error *why);
/* Legal again. */
void tt_answer_share_give(struct tt_answer_share *self);

#endif
