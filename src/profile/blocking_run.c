#include "profile/blocking_run.h"

#include "base/instant.h"

/* Runs on the executor's thread. The wake is its last access to our memory. */
static void over(void *context, struct tt_device_task *task) {
    (void)task;
    struct tt_blocking_run *self = context;
    tt_eventcount_notify(&self->eventcount);
}

void tt_blocking_run_begin(struct tt_blocking_run *self, struct tt_engine *engine) {
    tt_assert(engine->done != over); /* one at a time */
    *self = (struct tt_blocking_run){
        .engine = engine, .done = engine->done, .done_context = engine->done_context};
    tt_eventcount_init(&self->eventcount);
    engine->done = over;
    engine->done_context = self;
}

void tt_blocking_run_run(struct tt_blocking_run *self, struct tt_engine_task *task) {
    tt_assert(self->engine->done_context == self); /* between _begin and _end */
    tt_engine_submit(self->engine, task);
    while (!tt_eventcount_wait(&self->eventcount, TT_NEVER)) { /* a spurious wake */
    }
}

enum tt_err tt_blocking_run_whole(struct tt_blocking_run *self, struct tt_engine_model *model,
                                  int32_t rows, const struct tt_tensor_view *inputs,
                                  int64_t *out_ns, struct tt_engine_result **out_result,
                                  struct tt_error *why) {
    const struct tt_engine_ops *ops = self->engine->ops;
    tt_assert(model->engine == self->engine);
    struct tt_engine_member member = {.rows = rows, .inputs = inputs, .why = why};
    struct tt_engine_task task = {.model = model,
                                  .head.last_step = ops->step_count(model) - 1,
                                  .member_count = 1,
                                  .members = &member,
                                  .together = true};
    tt_blocking_run_run(self, &task);
    tt_assert(!member.err == (member.result != NULL));
    if (member.err) {
        ops->state_release(member.state);
        return member.err;
    }
    tt_assert(task.head.ended_at >= task.head.started_at);
    if (out_ns)
        *out_ns = task.head.ended_at - task.head.started_at;
    *out_result = member.result;
    return TT_OK;
}

void tt_blocking_run_end(struct tt_blocking_run *self) {
    tt_assert(self->engine->done_context == self);
    self->engine->done = self->done;
    self->engine->done_context = self->done_context;
}
