#include "engine/task_follow.h"

#include "engine/engine_task.h"

bool tt_task_follow_name(struct tt_engine_task *task) {
    struct tt_engine_task *before = task->after;
    tt_assert(task->kind == TT_ENGINE_REQUESTS && before->kind == TT_ENGINE_REQUESTS);
    tt_assert(before->hand_on.follower == NULL);
    tt_assert(before->member_count == task->member_count);
    tt_assert(before->head.last_step + 1 == task->head.first_step);
    before->hand_on.follower = task;
    return before->hand_on.is_over;
}

struct tt_engine_task *tt_task_follow_lost(struct tt_engine_task *task) {
    struct tt_engine_task *follower = task->hand_on.follower;
    task->hand_on.follower = NULL;
    return follower;
}

void tt_task_follow_hand_on(struct tt_engine_task *task, const struct tt_engine_task *before) {
    task->hand_on.is_refused = !before || before->head.outcome != TT_OUTCOME_DONE;
    task->hand_on.begins_at = before ? before->hand_on.ended_at : 0;
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_member *member = &task->members[i];
        tt_assert(member->state == NULL);
        member->err = TT_OK;
        if (!before)
            continue;
        tt_assert(before->members[i].next_step < 0);
        member->state = before->members[i].state;
        member->err = before->members[i].err;
        const struct tt_error *why = before->members[i].why;
        if (member->err && why && member->why && why != member->why)
            *member->why = *why;
    }
    tt_flag_raise(&task->hand_on.may_begin);
}

bool tt_task_follow_await(struct tt_engine_task *task, struct tt_eventcount *eventcount) {
    while (!tt_flag_is_raised(&task->hand_on.may_begin))
        tt_eventcount_wait(eventcount, TT_NEVER);
    if (!task->hand_on.is_refused)
        return true;
    for (int32_t i = 0; i < task->member_count; i++)
        task->members[i].result = NULL;
    tt_engine_task_give_up(task);
    task->head.last_step_done = task->head.first_step - 1;
    return false;
}
