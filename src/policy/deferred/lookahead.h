/* Lookahead of the deferred family: how many of the oldest waiting requests a grant gives up, so
 * that as few as possible of all that wait are lost.
 *
 * A burst brings more requests than the executors can serve in time. Served in order, the oldest go
 * first, in batches that are small because their deadlines are near. The executors then come too
 * late for the others. Without the oldest, the first batch is larger.
 *
 * For a number k of skipped heads a plan counts the losses: k, and those of serving the rest
 * without further arrivals. The executors take batches in the order in which they become free; the
 * granted one is the first. At its instant t each one skips heads while a batch of min(m, rows
 * left) could not be in time, m being the minimum size. It takes the largest batch in time, and is
 * free again at t + centre(size). The k with the fewest losses is chosen; of equal ones the
 * smallest. Then the policy's own rule skips heads as ever (deferred_model.h, step 2).
 *
 * The work is bounded:
 * - Requests count by groups. A group begins with the first request whose deadline is more than
 *   1/64 of (last - first deadline of the queue) after that of the group before it; it counts with
 *   its first deadline. k ends at a group.
 * - Only the first 512 requests count. A request of several rows counts as so many of one row.
 * - Of many executors only the TT_DEFERRED_FREE_TIMES that become free first are known (and the
 *   granted one). A plan ends at the last instant that is known, because others are free from then
 *   on: what could still be in time then is not lost. It also ends after 64 batches.
 * - If no request is lost even if all had the first deadline, nothing is skipped.
 *
 * All executors count, also those that will serve other models. A model alone gets them all. Among
 * many models a plan is too hopeful, so that it gives up fewer, and at worst none.
 *
 * Life: one per grant, on the stack. Pure; integers only; allocates nothing. */
#ifndef TT_POLICY_DEFERRED_LOOKAHEAD_H
#define TT_POLICY_DEFERRED_LOOKAHEAD_H

#include "core/ticket.h"
#include "policy/deferred/deferred_messages.h"

enum { TT_LOOKAHEAD_GROUPS = 64, TT_LOOKAHEAD_REQUESTS = 512, TT_LOOKAHEAD_BATCHES = 64 };

struct tt_lookahead_group {
    struct tt_list_node *first; /* its first ticket */
    int64_t deadline_at;
    int32_t rows;
    int32_t count_before, rows_before; /* of all groups before it */
};

struct tt_lookahead {
    /* Filled by the caller: the latencies by rows (tail and centre), the model's limits, and the
     * instants at which the granted executor and the others are free. */
    const int64_t *latency, *centre;
    int32_t max_batch, min_size;
    int64_t start_at;
    const struct tt_deferred_free_times *others;

    int32_t group_count;
    struct tt_lookahead_group groups[TT_LOOKAHEAD_GROUPS];
};

/* `first` is the first ticket that is not skipped yet, `head` its list's, `rows` wait from it on.
 * Returns the group before which all heads should be skipped; NULL: none should. */
const struct tt_lookahead_group *tt_lookahead_choose(struct tt_lookahead *self,
                                                     struct tt_list_node *first,
                                                     struct tt_list_node *head, int32_t rows);

#endif
