#include "device/async_executors.h"

#include "base/instant.h"

#include <stdlib.h>

/* Task number n of an executor has place n % depth. */
struct place {
    struct tt_async_event *event;
    struct tt_async_task *task; /* under way; written by the stream's thread when it has ended */
};

struct executor {
    struct tt_async_stream *stream;
    struct tt_async_stream *notices; /* `stream`, or one of its own */
    struct place *places;            /* [depth] */
    uint64_t submitted;
    int64_t last_ended_at; /* of its tasks; the notices' thread's */
};

struct tt_async_executors {
    struct tt_async_executors_options options;
    struct tt_async_executors_counts counts;
    struct executor *executors; /* [executor_count] */
};

static struct executor *executor_of(struct tt_async_executors *self, int32_t index) {
    tt_assert(index >= 0 && index < self->options.executor_count);
    return &self->executors[index];
}

static struct place *place_of(const struct tt_async_executors *self,
                              const struct executor *executor, uint64_t number) {
    return &executor->places[number % (uint64_t)self->options.depth];
}

/* ---- opening and closing ---- */

static enum tt_err open_executor(struct tt_async_executors *self, struct executor *executor,
                                 struct tt_error *why) {
    struct tt_async_device *device = self->options.device;
    executor->places = calloc((size_t)self->options.depth, sizeof(*executor->places));
    if (!executor->places)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d tasks", self->options.depth);
    enum tt_err err = tt_async_stream_open(device, &executor->stream, why);
    executor->notices = executor->stream;
    if (!err && self->options.notify_apart) {
        executor->notices = NULL;
        err = tt_async_stream_open(device, &executor->notices, why);
    }
    for (int32_t i = 0; !err && i < self->options.depth; i++)
        err = tt_async_event_open(device, &executor->places[i].event, why);
    return err;
}

static void return_failed(struct tt_async_executors *self, struct tt_async_task *task) {
    task->head.outcome = TT_OUTCOME_FAILED;
    task->head.last_step_done = task->head.first_step - 1;
    task->head.started_at = task->head.ended_at = tt_async_device_now(self->options.device);
    self->options.done(self->options.done_context, &task->head);
}

/* With the streams the last calls have ended: what is still in its place does not come back. */
static void close_streams(struct executor *executor) {
    if (executor->stream)
        tt_async_stream_close(executor->stream);
    if (executor->notices && executor->notices != executor->stream)
        tt_async_stream_close(executor->notices);
}

static void close_places(struct tt_async_executors *self, struct executor *executor) {
    for (int32_t i = 0; executor->places && i < self->options.depth; i++)
        if (executor->places[i].event)
            tt_async_event_close(executor->places[i].event);
    uint64_t depth = (uint64_t)self->options.depth;
    uint64_t first = executor->submitted > depth ? executor->submitted - depth : 0;
    for (uint64_t n = first; n < executor->submitted; n++) {
        struct place *place = place_of(self, executor, n);
        if (place->task)
            return_failed(self, place->task);
    }
    free(executor->places);
}

void tt_async_executors_close(struct tt_async_executors *take_set) {
    if (!take_set)
        return;
    int32_t count = take_set->executors ? take_set->options.executor_count : 0;
    for (int32_t i = 0; i < count; i++)
        close_streams(&take_set->executors[i]);
    for (int32_t i = 0; i < count; i++)
        close_places(take_set, &take_set->executors[i]);
    free(take_set->executors);
    free(take_set);
}

enum tt_err tt_async_executors_open(const struct tt_async_executors_options *options,
                                    struct tt_async_executors **out_set, struct tt_error *why) {
    int32_t count = options->executor_count;
    if (count < 1 || options->depth < 1)
        return tt_fail(TT_ERR_INVALID, why,
                       "%d executors with a depth of %d tasks; both must be at least 1", count,
                       options->depth);
    struct tt_async_executors *self = calloc(1, sizeof(*self));
    struct executor *executors = calloc((size_t)count, sizeof(*executors));
    if (!self || !executors) {
        free(self);
        free(executors);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors", count);
    }
    self->options = *options;
    self->executors = executors;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < count; i++)
        err = open_executor(self, &executors[i], why);
    if (err) {
        tt_async_executors_close(self);
        return err;
    }
    *out_set = self;
    return TT_OK;
}

/* ---- tasks ---- */

static bool notes_starts(const struct tt_async_executors *self) {
    return !self->options.notify_apart || self->options.notes_starts;
}

/* On the executor's stream, before the work. */
static void begun(void *context) {
    struct tt_async_task *task = context;
    task->head.started_at = tt_async_device_now(task->set->options.device);
}

/* On the stream of notices, behind the work. */
static void ended(void *context) {
    struct tt_async_task *task = context;
    struct tt_async_executors *self = task->set;
    struct executor *executor = executor_of(self, task->head.executor);
    task->head.ended_at = tt_async_device_now(self->options.device);
    if (!notes_starts(self)) /* no call noted the start */
        task->head.started_at = tt_instant_max(task->head.submitted_at, executor->last_ended_at);
    executor->last_ended_at = task->head.ended_at;
    bool is_done = task->head.outcome == TT_OUTCOME_DONE;
    task->head.last_step_done = is_done ? task->head.last_step : task->head.first_step - 1;
    place_of(self, executor, task->number)->task = NULL;
    self->options.done(self->options.done_context, &task->head);
}

/* The stream waits for the tasks named, but for its own, and those that are known to have ended
 * since their place was used again. */
static enum tt_err wait_for_others(struct tt_async_executors *self, struct tt_async_task *task) {
    enum tt_err err = tt_async_device_status(self->options.device, NULL);
    struct executor *own = executor_of(self, task->head.executor);
    for (int32_t i = 0; !err && i < task->after_count; i++) {
        const struct tt_async_task *before = task->after[i];
        struct executor *other = executor_of(self, before->head.executor);
        tt_assert(before->set == self);
        tt_assert(before->number < other->submitted);
        bool is_over = other->submitted - before->number > (uint64_t)self->options.depth;
        if (other == own || is_over)
            continue;
        err = tt_async_wait(own->stream, place_of(self, other, before->number)->event, NULL);
        self->counts.waits++;
    }
    tt_assert(err != TT_ERR_BUSY);
    return err;
}

static enum tt_err put_more(struct tt_async_task *task, enum tt_async_put where,
                            struct tt_async_stream *stream) {
    return task->put ? task->put(task, where, stream) : TT_OK;
}

/* Everything behind the waits. Once an operation has the task, the task comes back from the stream;
 * only the device's failure keeps it there, and then _close returns it. */
static void put(struct tt_async_executors *self, struct executor *executor,
                struct tt_async_task *task) {
    struct place *place = place_of(self, executor, executor->submitted++);
    enum tt_err err = TT_OK;
    place->task = task;
    if (notes_starts(self))
        err = tt_async_call(executor->stream, begun, task, NULL);
    tt_assert(err != TT_ERR_BUSY);
    enum tt_err work = put_more(task, TT_ASYNC_PUT_FIRST, executor->stream);
    if (!work)
        work = tt_async_launch(executor->stream, &task->kernel, NULL);
    if (!work)
        work = put_more(task, TT_ASYNC_PUT_LAST, executor->stream);
    tt_assert(work != TT_ERR_BUSY);
    err = tt_async_record(executor->stream, place->event, NULL);
    self->counts.records++;
    if (!err && self->options.notify_apart)
        err = tt_async_wait(executor->notices, place->event, NULL);
    if (!err && !work)
        work = put_more(task, TT_ASYNC_PUT_NOTICE, executor->notices);
    task->head.outcome = work ? TT_OUTCOME_FAILED : TT_OUTCOME_DONE;
    if (!err)
        err = tt_async_call(executor->notices, ended, task, NULL);
    tt_assert(err != TT_ERR_BUSY);
}

void tt_async_executors_submit(struct tt_async_executors *self, struct tt_async_task *task) {
    struct executor *executor = executor_of(self, task->head.executor);
    task->set = self;
    task->number = executor->submitted;
    self->counts.tasks++;
    if (wait_for_others(self, task) == TT_OK)
        put(self, executor, task);
    else if (self->options.keeps_failed)
        place_of(self, executor, executor->submitted++)->task = task;
    else
        return_failed(self, task);
}

void tt_async_executors_take_back(struct tt_async_executors *self,
                                  const struct tt_async_task *task) {
    struct executor *executor = executor_of(self, task->head.executor);
    if (executor->submitted - task->number <= (uint64_t)self->options.depth)
        (void)tt_async_event_query(place_of(self, executor, task->number)->event, NULL);
}

static void submit(void *self, struct tt_device_task *task) {
    tt_async_executors_submit(self, (struct tt_async_task *)(void *)task);
}

struct tt_device_set tt_async_executors_set(struct tt_async_executors *self) {
    return (struct tt_device_set){.self = self, .ops = {.submit = submit}};
}

struct tt_async_executors_counts tt_async_executors_counts(const struct tt_async_executors *self) {
    return self->counts;
}
