/* S5: Shepherd's Flex, as section 2.2 of the Symphony paper describes it (a baseline).
 *
 * Queues are in order of deadline. Each model has one candidate, which must be in time if it starts
 * now. With option `candidate` = `prefix` it is the longest such prefix of its queue. With
 * `largest` it is the longest such run from anywhere in the queue; requests that it skips stay, and
 * are dropped when they are hopeless.
 * - When an executor is idle, the largest candidate runs.
 * - When none is idle, a candidate of at least `threshold` (3) times the rows of the smallest
 *   running batch ABORTs that batch. The aborted requests return to their queue, and the time that
 *   they ran is lost.
 *
 * Life of a claim: an abort records the model that it was for. The freed executor first runs the
 * largest run of that model, if it still has `threshold` times the rows of the aborted batch.
 * Otherwise requests that return to the head of the same queue could undo the reason of the abort;
 * with aborts that cost nothing this could repeat without end within one instant. Until then the
 * model requests no other abort. An executor that becomes idle meanwhile may take the batch. The
 * claim ends if no request waits at the instant at which the executor is idle.
 *
 * Option `abort_cost`: the time that the policy expects an abort to take. A batch that preempts
 * must be in time that much later. In the paper aborts cost nothing; real devices need 3-20 ms. The
 * carrier's device determines the actual time.
 *
 * Order:
 * - Equal sizes go by earliest latest start, then by the model's number. Among equal runs of
 *   `largest` the one that begins first is taken.
 * - Executors are taken by smallest number; running batches of equal size too.
 * - A hopeless head is dropped at that instant.
 *
 * Cost: O(M b) per dispatch (`largest`: O(queue b)). An event while all executors are busy costs
 * O(M) plus the candidates that are large enough. */
#ifndef TT_POLICY_DEFERRED_SHEPHERD_H
#define TT_POLICY_DEFERRED_SHEPHERD_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_shepherd_kind;

#endif
