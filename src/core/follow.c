#include "core/follow.h"

#include "base/instant.h"

void tt_mechanism_run_follow(struct tt_mechanism *self, struct tt_task *before) {
    struct tt_task *task = self->building;
    tt_assert(task != NULL && task->count == 0);
    tt_assert(before->state == TT_TASK_QUEUED);
    tt_assert(before->follower == NULL);
    tt_assert(before->items[0].subgraph == NULL);
    tt_assert(before->model == task->model);
    tt_assert(before->last_step + 1 == task->first_step);
    tt_assert(before->walk == TT_WALK_TOGETHER && before->repeat == 1);
    tt_assert(tt_step_last_of(self->models[task->model], before->last_step) == before->last_step);
    tt_assert(!self->executors[before->executor].stopping ||
              tt_mechanism_oldest(self, before->executor) != before);
    tt_assert(before->count <= task->capacity);
    for (int32_t i = 0; i < before->count; i++)
        task->items[i] = (struct tt_task_item){.request = before->items[i].request};
    task->count = before->count;
    task->rows = before->rows;
    task->after = before;
    before->follower = task;
}

void tt_follow_finished(const struct tt_mechanism *self, struct tt_task *task) {
    struct tt_task *follower = task->follower;
    bool fails = task->outcome == TT_OUTCOME_FAILED;
    tt_assert(task->outcome == TT_OUTCOME_DONE || fails);
    tt_assert(follower->after == task && follower->count == task->count);
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        struct tt_request *request = item->request;
        tt_assert(request->state == TT_REQUEST_RUNNING && request->task == task);
        tt_assert(item->fate == TT_FATE_GOES_ON || item->fate == TT_FATE_FAILS);
        tt_assert(follower->items[i].request == request);
        request->task = follower;
        if (fails || item->fate == TT_FATE_FAILS) {
            follower->items[i].fate = TT_FATE_FAILS;
        } else {
            request->step = task->last_step_done + 1;
            request->round = item->round;
        }
    }
    follower->after = NULL;
    follower->start_at = tt_instant_max(follower->start_at, self->now);
}
