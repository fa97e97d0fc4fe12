/* S5: Shepherd's Flex, as section 2.2 of the Symphony paper describes it (baseline S5).
 *
 * Queues are in order of deadline. Each model has one candidate: the longest prefix of its queue
 * that is in time if it starts now (option `candidate` = `prefix`), or the longest such run from
 * anywhere in the queue (`largest`; those it skips stay and are dropped when they are lost). When
 * an executor is idle the largest candidate runs. When none is, a candidate of at least `threshold`
 * times (3x) the rows of the smallest running batch ABORTs that batch; what was aborted goes back
 * to its queue, and wasted its time.
 *
 * What an abort was for is kept: the executor it freed first runs the largest run of the promised
 * model if that is still `threshold` times what was stopped, so that requests that came back to the
 * head of the same queue cannot undo the reason of the abort (with an abort that costs nothing this
 * could go on for ever within one instant). Until then the model asks for no other abort. An idle
 * executor that is found meanwhile may take the batch. The promise is over when nothing waits at
 * the instant at which the executor is idle.
 *
 * Option `abort_cost`: what the policy expects an abort to take; a batch that would preempt must be
 * in time that much later. The paper's costs nothing; real devices need 3-20 ms: the carrier's
 * device says what it really takes.
 *
 * Ties: equal sizes by earliest latest start, then by the model's number; among equal runs of
 * `largest` the one that begins first; executors by smallest id, running batches of equal size too.
 * A head that would be late even alone and at once is dropped at that instant.
 *
 * O(M b) per dispatch (`largest`: O(queue b)); an event while all executors are busy costs O(M)
 * plus the candidates that are long enough. */
#ifndef TT_POLICY_DEFERRED_SHEPHERD_H
#define TT_POLICY_DEFERRED_SHEPHERD_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_shepherd_kind;

#endif
