#include "profile/blocking_run.h"

#include "profile/repetition.h"

/* Runs on an executor's thread. The wake is its last access to our memory: it happens under the
 * lock, which the waiting thread takes before it continues. */
static void over(void *context, struct tt_device_task *task) {
    (void)task;
    struct tt_blocking_run *self = context;
    tt_lock_take(&self->lock);
    tt_assert(self->running > 0);
    if (--self->running == 0)
        tt_eventcount_notify(&self->eventcount);
    tt_lock_give(&self->lock);
}

void tt_blocking_run_begin(struct tt_blocking_run *self, struct tt_engine *engine) {
    tt_assert(engine->done != over); /* one at a time */
    *self = (struct tt_blocking_run){
        .engine = engine, .done = engine->done, .done_context = engine->done_context};
    tt_eventcount_init(&self->eventcount);
    tt_lock_init(&self->lock);
    engine->done = over;
    engine->done_context = self;
}

static void wait_for_all(struct tt_blocking_run *self) {
    for (bool all = false; !all;) {
        tt_eventcount_wait(&self->eventcount, TT_NEVER);
        tt_lock_take(&self->lock);
        all = self->running == 0;
        tt_lock_give(&self->lock);
    }
}

void tt_blocking_run_all(struct tt_blocking_run *self, struct tt_engine_task *tasks,
                         int32_t count) {
    tt_assert(self->engine->done_context == self); /* between _begin and _end */
    tt_assert(self->running == 0);
    tt_assert(count >= 1);
    self->running = count;
    for (int32_t i = 0; i < count; i++)
        tt_engine_submit(self->engine, &tasks[i]);
    wait_for_all(self);
}

void tt_blocking_run_run(struct tt_blocking_run *self, struct tt_engine_task *task) {
    tt_blocking_run_all(self, task, 1);
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
        *out_ns = tt_run_ns(task.head.started_at, task.head.ended_at);
    *out_result = member.result;
    return TT_OK;
}

void tt_blocking_run_end(struct tt_blocking_run *self) {
    tt_assert(self->engine->done_context == self);
    self->engine->done = self->done;
    self->engine->done_context = self->done_context;
    tt_lock_fini(&self->lock);
}
