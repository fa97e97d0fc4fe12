#include "engine/worker.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static void run_task(struct tt_worker *self, struct tt_engine_task *task) {
    tt_lock_take(&self->lock);
    self->current = task;
    self->ops->arm(self);
    tt_lock_give(&self->lock);
    task->gathered_bytes = 0;
    task->spilled_bytes = 0;
    task->spared_bytes = 0;
    task->cell_count = 0;
    task->input_ns = 0;
    task->infer_ns = -1;
    task->started_at = tt_clock_now();
    self->ops->run(self, task);
    task->finished_at = tt_clock_now();
    if (task->infer_ns < 0)
        task->infer_ns = task->finished_at - task->started_at;
    tt_lock_take(&self->lock);
    self->current = NULL;
    tt_lock_give(&self->lock);
    self->engine->done(self->engine->done_context, task);
}

static void *worker_main(void *argument) {
    struct tt_worker *self = argument;
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
        tt_parker_park(&self->parker, TT_NEVER);
    }
}

enum tt_err tt_worker_open(struct tt_worker *self, const struct tt_worker_ops *ops,
                           struct tt_engine *engine, int32_t index, int32_t depth,
                           struct tt_error *why) {
    self->ops = ops;
    self->engine = engine;
    self->index = index;
    self->current = NULL;
    self->closing = self->is_here = false;
    enum tt_err err = tt_ring_init(&self->queue, depth);
    if (err)
        return tt_fail(err, why, "out of memory for the queue of executor %d", index);
    tt_parker_init(&self->parker);
    tt_lock_init(&self->lock);
    int failed = pthread_create(&self->thread, NULL, worker_main, self);
    if (failed) {
        tt_lock_fini(&self->lock);
        tt_ring_fini(&self->queue);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of executor %d: %s", index,
                       strerror(failed));
    }
    return TT_OK;
}

void tt_worker_close(struct tt_worker *self) {
    tt_lock_take(&self->lock);
    self->closing = true;
    tt_lock_give(&self->lock);
    tt_parker_unpark(&self->parker);
    int failed = pthread_join(self->thread, NULL);
    tt_assert(failed == 0);
    tt_assert(tt_ring_pop(&self->queue) == NULL);
    tt_lock_fini(&self->lock);
    tt_ring_fini(&self->queue);
}

void tt_worker_submit(struct tt_worker *self, struct tt_engine_task *task) {
    task->stop = TT_WORKER_GO;
    bool queued = tt_ring_push(&self->queue, task);
    tt_assert(queued);
    tt_parker_unpark(&self->parker);
}

void tt_worker_run_here(struct tt_worker *self, struct tt_engine_task *task) {
    task->stop = TT_WORKER_GO;
    self->is_here = true; /* the worker's thread sees this, and all else, with the next task */
    run_task(self, task);
    self->is_here = false;
}

void tt_worker_stop(struct tt_worker *self, struct tt_engine_task *task, enum tt_worker_stop how) {
    tt_lock_take(&self->lock);
    if (task->stop < (int32_t)how)
        task->stop = (int32_t)how;
    if (how == TT_WORKER_ABORT && self->current == task)
        self->ops->interrupt(self);
    tt_lock_give(&self->lock);
}

enum tt_worker_stop tt_worker_asked(struct tt_worker *self) {
    tt_lock_take(&self->lock);
    enum tt_worker_stop stop = (enum tt_worker_stop)self->current->stop;
    tt_lock_give(&self->lock);
    return stop;
}
