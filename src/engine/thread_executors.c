#include "engine/thread_executors.h"

#include "base/clock.h"
#include "base/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one executor ---- */

static void run_task(struct tt_executor_thread *self, struct tt_engine_task *task) {
    tt_lock_take(&self->lock);
    self->current = task;
    if (self->ops->arm)
        self->ops->arm(self);
    tt_lock_give(&self->lock);
    task->gathered_bytes = 0;
    task->spilled_bytes = 0;
    task->spared_bytes = 0;
    task->cell_count = 0;
    task->input_ns = 0;
    task->infer_ns = -1;
    task->head.started_at = tt_clock_now();
    self->ops->run(self, task);
    task->head.ended_at = tt_clock_now();
    if (task->infer_ns < 0)
        task->infer_ns = task->head.ended_at - task->head.started_at;
    tt_lock_take(&self->lock);
    self->current = NULL;
    tt_lock_give(&self->lock);
    self->engine->done(self->engine->done_context, &task->head);
}

static void *executor_main(void *argument) {
    struct tt_executor_thread *self = argument;
    char name[16];
    snprintf(name, sizeof(name), "tutti-exec-%d", self->index % 1000);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        struct tt_engine_task *task = tt_ring_pop(&self->queue);
        if (task) {
            run_task(self, task);
            continue;
        }
        tt_lock_take(&self->lock);
        bool closing = self->closing;
        tt_lock_give(&self->lock);
        if (closing)
            return NULL;
        tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

/* Sets only the fields of this file; the engine has already initialised its own part. */
static enum tt_err start(struct tt_executor_thread *self, const struct tt_executor_thread_ops *ops,
                         struct tt_engine *engine, int32_t index, int32_t depth,
                         struct tt_error *why) {
    self->ops = ops;
    self->engine = engine;
    self->index = index;
    enum tt_err err = tt_ring_init(&self->queue, depth);
    if (err)
        return tt_fail(err, why, "out of memory for the queue of executor %d", index);
    tt_eventcount_init(&self->eventcount);
    tt_lock_init(&self->lock);
    int failed = pthread_create(&self->thread, NULL, executor_main, self);
    if (failed) {
        tt_lock_fini(&self->lock);
        tt_ring_fini(&self->queue);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of executor %d: %s", index,
                       strerror(failed));
    }
    return TT_OK;
}

static void join(struct tt_executor_thread *self) {
    tt_lock_take(&self->lock);
    self->closing = true;
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
    int failed = pthread_join(self->thread, NULL);
    tt_assert(failed == 0);
    tt_assert(tt_ring_pop(&self->queue) == NULL);
    tt_lock_fini(&self->lock);
    tt_ring_fini(&self->queue);
}

static void stop(struct tt_executor_thread *self, struct tt_engine_task *task,
                 enum tt_executor_stop how) {
    tt_lock_take(&self->lock);
    if (task->stop < (int32_t)how)
        task->stop = (int32_t)how;
    if (how == TT_EXECUTOR_ABORT && self->current == task && self->ops->interrupt)
        self->ops->interrupt(self);
    tt_lock_give(&self->lock);
}

enum tt_executor_stop tt_executor_thread_asked(struct tt_executor_thread *self) {
    tt_lock_take(&self->lock);
    enum tt_executor_stop stop = (enum tt_executor_stop)self->current->stop;
    tt_lock_give(&self->lock);
    return stop;
}

/* ---- the engine ---- */

/* Operations get the engine as void *; `struct tt_thread_engine` lies at its start. */
_Static_assert(offsetof(struct tt_thread_engine, engine) == 0, "an engine of threads is an engine");

static struct tt_executor_thread *executor_of(void *self, const struct tt_engine_task *task) {
    return tt_thread_engine_executor(self, task->head.executor);
}

void tt_thread_engine_submit(void *self, struct tt_device_task *head) {
    struct tt_engine_task *task = tt_engine_task_of(head);
    struct tt_executor_thread *executor = executor_of(self, task);
    task->stop = TT_EXECUTOR_GO;
    bool queued = tt_ring_push(&executor->queue, task);
    tt_assert(queued);
    tt_eventcount_notify(&executor->eventcount);
}

void tt_thread_engine_run_here(struct tt_engine *engine, struct tt_engine_task *task) {
    struct tt_executor_thread *executor = executor_of(engine, task);
    task->stop = TT_EXECUTOR_GO;
    executor->is_here =
        true; /* published to the executor's thread with its next task, through the ring */
    run_task(executor, task);
    executor->is_here = false;
}

void tt_thread_engine_yield(void *self, struct tt_device_task *head) {
    struct tt_engine_task *task = tt_engine_task_of(head);
    stop(executor_of(self, task), task, TT_EXECUTOR_YIELD);
}

void tt_thread_engine_abort(void *self, struct tt_device_task *head) {
    struct tt_engine_task *task = tt_engine_task_of(head);
    stop(executor_of(self, task), task, TT_EXECUTOR_ABORT);
}

enum tt_err tt_thread_engine_open(const struct tt_thread_engine_layout *layout,
                                  const struct tt_engine_options *options,
                                  struct tt_thread_engine **out_engine, struct tt_error *why) {
    tt_assert(layout->engine_bytes >= sizeof(struct tt_thread_engine));
    tt_assert(layout->executor_bytes >= sizeof(struct tt_executor_thread));
    int32_t count = options->executor_count;
    if (count < 1 || options->queue_depth < 1)
        return tt_fail(
            TT_ERR_INVALID, why,
            "an engine with %d executors and a queue depth of %d; both must be at least 1", count,
            options->queue_depth);
    size_t executor_bytes = tt_line_up(layout->executor_bytes);
    struct tt_thread_engine *self = tt_line_alloc(layout->engine_bytes);
    char *executors = tt_line_alloc(executor_bytes * (size_t)count);
    if (!self || !executors) {
        free(self);
        free(executors);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors", count);
    }
    self->engine = (struct tt_engine){.ops = layout->ops,
                                      .executor_count = count,
                                      .done = options->done,
                                      .done_context = options->done_context};
    self->executor_bytes = executor_bytes;
    self->executors = executors;
    self->queue_depth = options->queue_depth;
    *out_engine = self;
    return TT_OK;
}

enum tt_err tt_thread_engine_start(struct tt_thread_engine *self,
                                   const struct tt_executor_thread_ops *ops, struct tt_error *why) {
    for (; self->started < self->engine.executor_count; self->started++) {
        enum tt_err err = start(tt_thread_engine_executor(self, self->started), ops, &self->engine,
                                self->started, self->queue_depth, why);
        if (err)
            return err;
    }
    return TT_OK;
}

void tt_thread_engine_stop(struct tt_thread_engine *self) {
    while (self->started > 0)
        join(tt_thread_engine_executor(self, --self->started));
}

void tt_thread_engine_free(struct tt_thread_engine *take_self) {
    tt_assert(take_self->started == 0);
    free(take_self->executors);
    free(take_self);
}
