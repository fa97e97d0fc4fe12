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

void tt_blocking_run_end(struct tt_blocking_run *self) {
    tt_assert(self->engine->done_context == self);
    self->engine->done = self->done;
    self->engine->done_context = self->done_context;
}
