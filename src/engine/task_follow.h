/* D4: executors that run tasks which take up the members of a task that has not ended
 * (engine/engine.h, `after`).
 *
 * Life: submitting the second task enters it in the first, or, if that one is over already, hands
 * on at once. The executor of the second task waits in _await. When the first task has run, its
 * executor hands on what its members left, and wakes the other.
 *
 * The caller of _name, _over and _lost holds the lock of the first task's executor. A task that
 * names none costs a load and a branch. Implemented in task_follow.c. */
#ifndef TT_ENGINE_TASK_FOLLOW_H
#define TT_ENGINE_TASK_FOLLOW_H

#include "base/threads/eventcount.h"
#include "engine/engine.h"

/* A task is about to be submitted. */
static inline void tt_task_follow_init(struct tt_engine_task *task) {
    task->hand_on = (struct tt_engine_hand_on){0};
}
/* Enters the task in the one that it names. True: that one is over, so the caller calls _hand_on.
 */
bool tt_task_follow_name(struct tt_engine_task *task);
/* The task has run. Returns the task that follows it, for _hand_on; NULL: none yet. */
static inline struct tt_engine_task *tt_task_follow_over(struct tt_engine_task *task) {
    task->hand_on.is_over = true;
    return task->hand_on.follower;
}
/* The task will not return in time: its follower must not wait for it. Returns it; NULL: none. */
struct tt_engine_task *tt_task_follow_lost(struct tt_engine_task *task);
/* Hands on what the members of `before` left, and lets the task begin. The caller then wakes its
 * executor. `before` NULL: lost. */
void tt_task_follow_hand_on(struct tt_engine_task *task, const struct tt_engine_task *before);
/* Waits until the task may begin, on its executor's thread, which waits in `eventcount`. False: it
 * must not run; it has been ended as ABORTED. */
bool tt_task_follow_await(struct tt_engine_task *task, struct tt_eventcount *eventcount);

#endif
