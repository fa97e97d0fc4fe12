/* L1-L6: lazy batching (LazyBatching): requests join a batch that is already under way.
 *
 * Every executor has a stack of sub-batches, the *entries*, each at its next step (lazy_stack.h).
 * The top entry runs. A task spans all steps up to the next point at which its entry may change:
 * the last step, the end of a recurrent block for some members, or the step of the entry below.
 * Without arrivals no decision is made.
 *
 * Life of a request:
 * 1. It waits in the queue of its model.
 * 2. An idle executor with an empty stack runs all waiting requests of one model, up to the maximum
 *    batch: the model with the oldest request. (The paper is silent here. One request plus those
 *    that the check admits collapses to serial service under load.)
 * 3. Otherwise, if lazy_admission.h admits the head of a queue, the running task is asked to YIELD.
 *    At its next boundary the check is repeated with exact knowledge. The admitted newcomers are
 *    pushed as a new entry.
 * 4. The new entry runs until it reaches the step of the entry below; there the two merge.
 * 5. A refused request waits. A timer repeats the check when it may succeed later.
 *
 * Members of an entry whose recurrent blocks end at different rounds separate. Those with more
 * rounds left are on top. The others wait for them one entry below, or leave after the last step.
 * Entries at the same step merge whatever their rounds, because the weights are the same.
 *
 * Two conditions admit a newcomer:
 * - No deadline of a voting request breaks (options `slack` and `votes`, lazy_slack.h).
 * - Its waiting time balances the delay that it causes (lazy_ski_rental.h). The paper admits at
 *   once; with the option `patience` newcomers first wait that long. Catching up costs more than it
 *   saves if the batch is nearly done, or if a larger batch is hardly cheaper per row.
 *
 * L5: several models on one executor share its stack, and the check covers all entries. Among
 * waiting requests, those of the top entry's model go first. A request that cannot merge with the
 * running entry delays it and shares nothing with it. The option `foreign` says when it may
 * preempt:
 * - shorter: the head of another queue that needs least, if its batch needs less time than the
 *   running entry still does;
 * - slack: the oldest head of another queue, whenever the check admits it;
 * - never: not at all;
 * - turns: not at all. In addition, a request that arrived after a waiting request of another model
 *   does not join the running batch. So models take turns, each with all its waiting requests.
 *
 * Other options: `max_batch`; `coverage` (the share of profiled outputs that the predicted output
 * length covers, 90 %) or `dec_timesteps` (that length itself; a model may have its own); `drop`.
 *
 * Order: idle executors before busy ones, smallest number first. One executor at a time is asked to
 * yield. Within a model first come, first served. An executor that drains returns the waiting
 * members of its stack to the queues, at the steps that they have reached.
 *
 * Cost: O(1) per arrival. With `curves` it is O(entries on the stack), and O(members) after a vote
 * has expired. O(rows of the batch) when a task starts or ends; O(executors) and O(models that
 * wait) per decision. */
#ifndef TT_POLICY_LAZY_LAZY_H
#define TT_POLICY_LAZY_LAZY_H

#include "policy/lazy/lazy_stack.h"
#include "policy/policy.h"

extern const struct tt_policy_kind tt_lazy_kind;

/* The stack of an executor, for tests and displays. Borrowed; valid until the next event. */
const struct tt_lazy_stack *tt_lazy_stack_of(const struct tt_policy *self, int32_t executor);

#endif
