/* D4: tasks that take up the members of a task that has not ended.
 *
 * A policy that knows what comes next for a whole batch submits it before the batch is back. The
 * device then begins the follower as soon as the first task has ended: no message, turn or decision
 * lies between them. Streams of a GPU wait for each other this way.
 *
 * Life: RUN of the first task; RUN of the follower, on any executor with room. Its members are
 * those of the first task, in the same order, and its steps come next. While both are under way the
 * requests are RUNNING and belong to the first. When that one finishes, they go to the follower.
 * The policy is notified of the end as always, with the requests still RUNNING. Then the follower
 * may get a follower.
 *
 * Members that fail in the first task stay in the follower, which does not compute them, and leave
 * with it as failed. All do so if the first task fails as a whole. A request that is cancelled
 * leaves with the follower, too.
 *
 * Conditions, asserted: the first task is of requests, walks TOGETHER, ends at the end of a block,
 * has no follower yet, and was not asked to stop. It ends as DONE or FAILED, and no member leaves
 * or jumps at its end: a policy that follows up a task with a step where requests may exit
 * (`may_exit`) is at fault.
 *
 * Implemented in follow.c; the mechanism calls tt_follow_finished. */
#ifndef TT_CORE_FOLLOW_H
#define TT_CORE_FOLLOW_H

#include "core/mechanism.h"

/* For policies: instead of tt_mechanism_run_add, adds all members of `before` to the task between
 * _run_begin and _run_commit. */
void tt_mechanism_run_follow(struct tt_mechanism *self, struct tt_task *before);

/* The task has finished: its follower takes over the requests. */
void tt_follow_finished(const struct tt_mechanism *self, struct tt_task *task);

#endif
