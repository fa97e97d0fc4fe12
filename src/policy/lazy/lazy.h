/* L1-L6: LazyBatching: requests join a batch that is already under way.
 *
 * Every executor has a stack of sub-batches, each at its next step (lazy_stack.h); the top one
 * runs. A task spans all steps up to where something may change: the last, the end of a recurrent
 * block for some of its members, or the step at which the entry below waits. While nobody comes,
 * nothing is decided.
 *
 * A request comes. If an executor is idle and its stack empty, everything that waits of the oldest
 * waiting request's model runs there, up to the largest batch (the paper is silent here; one
 * request plus those that the check lets pass collapses to serial service under load). Else, where
 * the door (lazy_admission.h) opens for the head of a queue, the running task is asked to YIELD. At
 * that boundary, with exact knowledge, the check is made again: as many newcomers as pass are
 * pushed as a new entry and run until they stand where the entry below stands; there the two are
 * merged. Refused requests wait; a timer looks again where the check may pass later.
 *
 * Members of an entry whose recurrent blocks end at different rounds part: who has more rounds to
 * go is on top, and the others wait for them one entry below (or leave, after the last step).
 * Entries at the same step merge whatever their rounds: the weights are the same.
 *
 * Two questions stand between a newcomer and the stack. May anybody's deadline break (option
 * `slack`, lazy_slack.h)? And is it worth it: the paper lets in whoever may come; option
 * `patience` lets newcomers wait until they have waited what their coming costs those under way
 * (lazy_ski_rental.h), since to catch up costs more than it saves when they are nearly done, or
 * when a larger batch is hardly cheaper.
 *
 * Several models on one executor (L5) share its stack: the check covers all of its entries. The
 * model of the top entry goes first among those that wait. What cannot merge with the running entry
 * delays it without sharing anything with it: option `foreign` says when that may be (`shorter`:
 * the head of another queue that needs least, when its batch needs less than the running entry has
 * before it; `slack`: the oldest head, whenever the check allows; `never`; `turns`: never, and who
 * comes after somebody of another model does not join the running batch before him, so that the
 * models take turns with all that waits of each).
 *
 * Other options: `votes` (who may refuse; lazy_slack.h), `max_batch`,
 * `coverage` (the share of profiled outputs that the predicted output length covers, 90 %) or
 * `dec_timesteps` (that length itself), `drop`.
 *
 * Ties: idle executors before busy ones, smallest number first; one executor is asked to yield at a
 * time. Within a model first come, first served. An executor that drains gives what waits on its
 * stack back to the queues, at the steps where it stands.
 *
 * O(1) for an arrival (O(entries on the stack) with `curves`; O(members) where a vote has just
 * lapsed), O(rows of the batch) where a task starts or ends, and O(executors) and O(models that
 * wait) per decision. */
#ifndef TT_POLICY_LAZY_LAZY_H
#define TT_POLICY_LAZY_LAZY_H

#include "policy/lazy/lazy_stack.h"
#include "policy/policy.h"

extern const struct tt_policy_kind tt_lazy_kind;

/* For tests and pictures: the stack of an executor. Borrowed, good until the next event. */
const struct tt_lazy_stack *tt_lazy_stack_of(const struct tt_policy *self, int32_t executor);

#endif
