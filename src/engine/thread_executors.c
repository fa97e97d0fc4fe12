#include "engine/thread_executors.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/line.h"
#include "engine/task_follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one executor ---- */

/* D4: lets the task that takes up the members of `before` begin. The lock: its executor may be
 * replaced meanwhile. */
static void hand_on(struct tt_engine *engine, struct tt_engine_task *follower,
                    const struct tt_engine_task *before) {
    struct tt_thread_engine *self = TT_CONTAINER_OF(engine, struct tt_thread_engine, engine);
    int32_t executor = follower->head.executor; /* the task may be back after the next call */
    tt_task_follow_hand_on(follower, before);
    tt_lock_take(&self->lost_lock);
    tt_eventcount_notify(&tt_thread_engine_executor(self, executor)->eventcount);
    tt_lock_give(&self->lost_lock);
}

/* False: the executor was replaced while the task ran. */
static bool run_task(struct tt_executor_thread *self, struct tt_engine_task *task, bool is_here) {
    bool runs = !task->after || tt_task_follow_await(task, &self->eventcount);
    tt_lock_take(&self->lock);
    task->head.started_at = task->hand_on.begins_at > 0 ? task->hand_on.begins_at : tt_clock_now();
    self->current = task;
    self->is_here = is_here;
    if (self->ops->arm)
        self->ops->arm(self);
    tt_lock_give(&self->lock);
    task->gathered_bytes = 0;
    task->spilled_bytes = 0;
    task->spared_bytes = 0;
    task->cell_count = 0;
    task->run_count = 0;
    task->input_ns = 0;
    task->infer_ns = -1;
    if (runs)
        self->ops->run(self, task);
    task->head.ended_at = tt_clock_now();
    if (task->infer_ns < 0)
        task->infer_ns =
            task->head.ended_at - tt_instant_max(task->head.started_at, task->head.received_at);
    tt_lock_take(&self->lock);
    self->current = NULL;
    bool is_lost = self->is_lost; /* not set from here on: `current` is NULL */
    struct tt_engine_task *follower = tt_task_follow_over(task);
    tt_lock_give(&self->lock);
    if (is_lost)
        task->head.outcome = TT_OUTCOME_LOST;
    if (follower)
        hand_on(self->engine, follower, task);
    self->engine->done(self->engine->done_context, &task->head);
    return !is_lost;
}

static void *executor_main(void *argument) {
    struct tt_executor_thread *self = argument;
    char name[16];
    snprintf(name, sizeof(name), "tutti-exec-%d", self->index % 1000);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        struct tt_engine_task *task = tt_ring_pop(&self->queue);
        bool is_over = task && !run_task(self, task, false);
        if (task && !is_over)
            continue;
        tt_lock_take(&self->lock);
        self->is_over = is_over;
        bool ends = is_over || self->closing;
        tt_lock_give(&self->lock);
        if (ends)
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

/* Joins and frees an executor that has no index: a replaced one, or a spare one. */
static void discard(struct tt_executor_thread *take_self) {
    join(take_self);
    if (take_self->ops->release)
        take_self->ops->release(take_self);
    free(take_self);
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
    tt_task_follow_init(task);
    struct tt_engine_task *after = task->after; /* the task is the executor's once it is queued */
    bool queued = tt_ring_push(&executor->queue, task);
    tt_assert(queued);
    tt_eventcount_notify(&executor->eventcount);
    if (!after)
        return;
    struct tt_executor_thread *first = executor_of(self, after);
    tt_lock_take(&first->lock);
    bool is_over = tt_task_follow_name(task);
    tt_lock_give(&first->lock);
    if (is_over)
        hand_on(self, task, after);
}

void tt_thread_engine_run_here(struct tt_engine *engine, struct tt_engine_task *task) {
    struct tt_executor_thread *executor = executor_of(engine, task);
    task->stop = TT_EXECUTOR_GO;
    tt_task_follow_init(task);
    tt_assert(task->after == NULL);
    (void)run_task(executor, task, true); /* such an executor is never replaced */
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
    struct tt_thread_engine *self = tt_line_alloc(layout->engine_bytes);
    struct tt_executor_thread **executors = calloc((size_t)count, sizeof(*executors));
    bool good = self && executors;
    for (int32_t i = 0; good && i < count; i++)
        good = (executors[i] = tt_line_alloc(layout->executor_bytes));
    if (!good) {
        for (int32_t i = 0; executors && i < count; i++)
            free(executors[i]);
        free((void *)executors);
        free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors", count);
    }
    self->engine = (struct tt_engine){.ops = layout->ops,
                                      .executor_count = count,
                                      .done = options->done,
                                      .done_context = options->done_context};
    self->executor_bytes = layout->executor_bytes;
    self->executors = executors;
    self->queue_depth = options->queue_depth;
    tt_lock_init(&self->lost_lock);
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

/* Discards the replaced executors whose threads have ended; with `all` waits for the others. */
static void discard_lost(struct tt_thread_engine *self, bool all) {
    struct tt_executor_thread *gone = NULL, **at = &self->lost;
    tt_lock_take(&self->lost_lock);
    while (*at) {
        struct tt_executor_thread *executor = *at;
        tt_lock_take(&executor->lock);
        bool is_over = executor->is_over;
        tt_lock_give(&executor->lock);
        if (!is_over && !all) {
            at = &executor->next;
            continue;
        }
        *at = executor->next;
        executor->next = gone;
        gone = executor;
    }
    tt_lock_give(&self->lost_lock);
    for (struct tt_executor_thread *next; gone; gone = next) {
        next = gone->next;
        discard(gone);
    }
}

void tt_thread_engine_stop(struct tt_thread_engine *self) {
    while (self->started > 0) {
        struct tt_executor_thread *executor = tt_thread_engine_executor(self, --self->started);
        join(executor);
        if (executor->spare)
            discard(executor->spare);
        executor->spare = NULL;
    }
    discard_lost(self, true);
}

void tt_thread_engine_free(struct tt_thread_engine *take_self) {
    tt_assert(take_self->started == 0);
    tt_assert(take_self->lost == NULL);
    for (int32_t i = 0; i < take_self->engine.executor_count; i++)
        free(take_self->executors[i]);
    free((void *)take_self->executors);
    tt_lock_fini(&take_self->lost_lock);
    free(take_self);
}

/* ---- runs that take too long ---- */

static struct tt_thread_engine *threads_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct tt_thread_engine, engine);
}

/* Under the executor's lock. */
static bool is_running(const struct tt_executor_thread *self,
                       const struct tt_engine_running *running) {
    return self->current && self->current == running->task &&
           self->current->head.started_at == running->started_at;
}

static bool watch_running(struct tt_engine *engine, int32_t executor,
                          struct tt_engine_running *out) {
    struct tt_executor_thread *self = tt_thread_engine_executor(threads_of(engine), executor);
    tt_lock_take(&self->lock);
    const struct tt_engine_task *task = self->current;
    if (task)
        *out = (struct tt_engine_running){.task = task,
                                          .started_at = task->head.started_at,
                                          .max_run_ns = task->max_run_ns,
                                          .is_here = self->is_here};
    tt_lock_give(&self->lock);
    return task != NULL;
}

static void watch_cut(struct tt_engine *engine, const struct tt_engine_running *running) {
    struct tt_executor_thread *self = executor_of(engine, running->task);
    tt_lock_take(&self->lock);
    if (is_running(self, running)) {
        self->current->was_cut = true;
        self->current->stop = TT_EXECUTOR_ABORT;
        if (self->ops->interrupt)
            self->ops->interrupt(self);
    }
    tt_lock_give(&self->lock);
}

static enum tt_err watch_prepare(struct tt_engine *engine, int32_t executor, struct tt_error *why) {
    struct tt_thread_engine *self = threads_of(engine);
    struct tt_executor_thread *old = tt_thread_engine_executor(self, executor);
    discard_lost(self, false);
    if (old->spare)
        return TT_OK;
    struct tt_executor_thread *spare = tt_line_alloc(self->executor_bytes);
    if (!spare)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for executor %d", executor);
    enum tt_err err = old->ops->renew ? old->ops->renew(spare, old) : TT_OK;
    if (err) {
        free(spare);
        return tt_fail(err, why, "out of memory for executor %d", executor);
    }
    err = start(spare, old->ops, engine, executor, self->queue_depth, why);
    if (err) {
        if (old->ops->release)
            old->ops->release(spare);
        free(spare);
        return err;
    }
    old->spare = spare;
    return TT_OK;
}

static bool watch_replace(struct tt_engine *engine, const struct tt_engine_running *running) {
    struct tt_thread_engine *self = threads_of(engine);
    struct tt_executor_thread *old = executor_of(engine, running->task), *spare = old->spare;
    tt_lock_take(&old->lock);
    bool loses = spare && is_running(old, running) && !old->is_here;
    old->is_lost |= loses;
    struct tt_engine_task *follower = loses ? tt_task_follow_lost(old->current) : NULL;
    tt_lock_give(&old->lock);
    if (!loses)
        return false;
    /* The old thread is in `run` and will not look at its queue again. */
    for (void *task; (task = tt_ring_pop(&old->queue));) {
        bool moved = tt_ring_push(&spare->queue, task);
        tt_assert(moved);
    }
    old->spare = NULL;
    tt_lock_take(&self->lost_lock);
    self->executors[old->index] = spare;
    old->next = self->lost;
    self->lost = old;
    tt_lock_give(&self->lost_lock);
    tt_eventcount_notify(&spare->eventcount);
    if (follower)
        hand_on(engine, follower, NULL);
    return true;
}

const struct tt_engine_watch_ops tt_thread_engine_watch = {
    .running = watch_running,
    .cut = watch_cut,
    .prepare = watch_prepare,
    .replace = watch_replace,
};
