#include "device/async_executors.h"

#include "base/instant.h"
#include "device/async_completions.h"

#include <stdio.h>
#include <stdlib.h>

/* Task number n of an executor has place n % depth. */
struct place {
    struct tt_async_event *begin, *event; /* before the work and behind it; `begin` may be NULL */
    struct tt_async_task *task;           /* under way */
    uint64_t begin_turn;                  /* of `begin`, recorded for the task; 0: not yet */
    int64_t started_at; /* of the task; TT_NEVER: it has not begun, or was not looked at since */
};

struct executor {
    struct tt_async_stream *stream;
    struct tt_async_stream *notices; /* `stream`, or one of its own */
    struct place *places;            /* [depth] */
    uint64_t submitted;
    int64_t last_computed_at; /* of its tasks; the thread's that calls `done` */
    struct tt_lock lock;      /* guards all but the events of its places, and: */
    bool has_lost;            /* a task of it was lost: its stream may never return */
};

struct tt_async_executors {
    struct tt_async_executors_options options;
    struct tt_async_executors_counts counts;
    struct tt_async_completions *completions; /* NULL: `done` is called on the stream */
    bool is_over;                             /* _end was called */
    struct executor *executors;               /* [executor_count] */
    int32_t opened;                           /* of them */
};

static struct executor *executor_of(struct tt_async_executors *self, int32_t index) {
    tt_assert(index >= 0 && index < self->options.executor_count);
    return &self->executors[index];
}

static struct place *place_of(const struct tt_async_executors *self,
                              const struct executor *executor, uint64_t number) {
    return &executor->places[number % (uint64_t)self->options.depth];
}

static bool notes_starts(const struct tt_async_executors *self) {
    return !self->options.notify_apart || self->options.notes_starts;
}

/* ---- opening and closing ---- */

static enum tt_err open_executor(struct tt_async_executors *self, struct executor *executor,
                                 struct tt_error *why) {
    struct tt_async_device *device = self->options.device;
    tt_lock_init(&executor->lock);
    executor->places = calloc((size_t)self->options.depth, sizeof(*executor->places));
    if (!executor->places)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d tasks", self->options.depth);
    enum tt_err err = tt_async_stream_open(device, &executor->stream, why);
    executor->notices = executor->stream;
    if (!err && self->options.notify_apart) {
        executor->notices = NULL;
        err = tt_async_stream_open(device, &executor->notices, why);
    }
    for (int32_t i = 0; !err && i < self->options.depth; i++) {
        err = tt_async_event_open_timed(device, &executor->places[i].event, why);
        if (!err && notes_starts(self))
            err = tt_async_event_open_timed(device, &executor->places[i].begin, why);
    }
    return err;
}

static void return_failed(struct tt_async_executors *self, struct tt_async_task *task) {
    task->head.outcome = TT_OUTCOME_FAILED;
    task->head.last_step_done = task->head.first_step - 1;
    task->head.started_at = task->head.ended_at = task->computed_at =
        tt_async_device_now(self->options.device);
    self->options.done(self->options.done_context, &task->head);
}

static void close_stream(struct tt_async_stream **take_stream) {
    if (*take_stream)
        tt_async_stream_close(*take_stream);
    *take_stream = NULL;
}

/* With the streams the last calls have ended: what is still in its place does not come back. The
 * stream of a lost task makes no call any more, since the device has failed. */
static void close_streams(struct executor *executor, bool closes_lost) {
    if (executor->notices == executor->stream)
        executor->notices = NULL;
    close_stream(&executor->notices);
    tt_lock_take(&executor->lock);
    bool stays = executor->has_lost && !closes_lost;
    tt_lock_give(&executor->lock);
    if (!stays)
        close_stream(&executor->stream);
}

static void return_tasks(struct tt_async_executors *self, struct executor *executor) {
    uint64_t depth = (uint64_t)self->options.depth;
    uint64_t first = executor->submitted > depth ? executor->submitted - depth : 0;
    for (uint64_t n = first; n < executor->submitted; n++) {
        struct place *place = place_of(self, executor, n);
        tt_lock_take(&executor->lock);
        struct tt_async_task *task = place->task;
        place->task = NULL;
        tt_lock_give(&executor->lock);
        if (task)
            return_failed(self, task);
    }
}

void tt_async_executors_end(struct tt_async_executors *self) {
    tt_assert(tt_async_device_status(self->options.device, NULL) != TT_OK);
    self->is_over = true;
    for (int32_t i = 0; i < self->options.executor_count; i++)
        close_streams(&self->executors[i], false);
    tt_async_completions_close(self->completions); /* what has ended comes before what has not */
    self->completions = NULL;
    for (int32_t i = 0; i < self->options.executor_count; i++)
        return_tasks(self, &self->executors[i]);
}

static void close_executor(struct tt_async_executors *self, struct executor *executor) {
    for (int32_t i = 0; executor->places && i < self->options.depth; i++) {
        if (executor->places[i].event)
            tt_async_event_close(executor->places[i].event);
        if (executor->places[i].begin)
            tt_async_event_close(executor->places[i].begin);
    }
    if (executor->places)
        return_tasks(self, executor);
    free(executor->places);
    tt_lock_fini(&executor->lock);
}

void tt_async_executors_close(struct tt_async_executors *take_set) {
    if (!take_set)
        return;
    for (int32_t i = 0; i < take_set->opened; i++)
        close_streams(&take_set->executors[i], true);
    tt_async_completions_close(take_set->completions);
    for (int32_t i = 0; i < take_set->opened; i++)
        close_executor(take_set, &take_set->executors[i]);
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
    if (!tt_async_device_runs_kernels(options->device))
        err = tt_async_completions_open(&self->completions, why);
    for (; !err && self->opened < count; self->opened++)
        err = open_executor(self, &executors[self->opened], why);
    if (err) {
        tt_async_executors_close(self);
        return err;
    }
    *out_set = self;
    return TT_OK;
}

/* ---- tasks ---- */

/* When the task in this place began; TT_NEVER: not yet. */
static int64_t begun_at(struct executor *executor, struct place *place,
                        const struct tt_async_task *task) {
    tt_lock_take(&executor->lock);
    int64_t at = place->started_at;
    uint64_t turn = place->begin_turn;
    tt_lock_give(&executor->lock);
    if (at != TT_NEVER || turn == 0 ||
        tt_async_event_instant(place->begin, turn, &at, NULL) != TT_OK)
        return at;
    tt_lock_take(&executor->lock);
    if (place->task == task && place->begin_turn == turn)
        place->started_at = at;
    tt_lock_give(&executor->lock);
    return at;
}

/* The instants are the device's. Those that it does not tell are the host's. */
static void set_times(struct tt_async_executors *self, struct tt_async_task *task) {
    struct executor *executor = executor_of(self, task->head.executor);
    struct place *place = place_of(self, executor, task->number);
    int64_t ended_at = task->head.ended_at, computed_at = ended_at, started_at = TT_NEVER;
    (void)tt_async_event_instant(place->event, task->end_turn, &computed_at, NULL);
    if (notes_starts(self))
        started_at = begun_at(executor, place, task);
    else
        started_at = task->head.submitted_at; /* or when the task before ended */
    task->computed_at = tt_instant_min(computed_at, ended_at);
    started_at = tt_instant_max(started_at, executor->last_computed_at);
    task->head.started_at = tt_instant_min(started_at, task->computed_at);
    executor->last_computed_at = task->computed_at;
}

static void call_done(void *context) {
    struct tt_async_task *task = context;
    const struct tt_async_executors_options *options = &task->set->options;
    set_times(task->set, task);
    options->done(options->done_context, &task->head);
}

/* On the stream of notices, behind the work. */
static void ended(void *context) {
    struct tt_async_task *task = context;
    struct tt_async_executors *self = task->set;
    struct executor *executor = executor_of(self, task->head.executor);
    struct place *place = place_of(self, executor, task->number);
    tt_lock_take(&executor->lock);
    bool is_lost = place->task != task;
    if (!is_lost)
        place->task = NULL;
    tt_lock_give(&executor->lock);
    if (is_lost)
        return;
    task->head.ended_at = tt_async_device_now(self->options.device);
    bool is_done = task->head.outcome == TT_OUTCOME_DONE;
    task->head.last_step_done = is_done ? task->head.last_step : task->head.first_step - 1;
    task->ended = (struct tt_async_completion){.call = call_done, .context = task};
    tt_async_executors_call(self, &task->ended);
}

/* The oldest task under way of the executor; NULL: none has begun. Under the lock. */
static struct place *oldest_begun(const struct tt_async_executors *self,
                                  const struct executor *executor) {
    struct place *oldest = NULL;
    for (int32_t i = 0; i < self->options.depth; i++) {
        struct place *place = &executor->places[i];
        if (place->task && place->started_at != TT_NEVER &&
            (!oldest || place->task->number < oldest->task->number))
            oldest = place;
    }
    return oldest;
}

/* The oldest task under way of the executor, which is the next to begin, or has begun. */
static struct place *oldest_recorded(const struct tt_async_executors *self,
                                     struct executor *executor, struct tt_async_task **out_task) {
    struct place *oldest = NULL;
    tt_lock_take(&executor->lock);
    for (int32_t i = 0; i < self->options.depth; i++) {
        struct place *place = &executor->places[i];
        if (place->task && place->begin_turn > 0 &&
            (!oldest || place->task->number < oldest->task->number))
            oldest = place;
    }
    *out_task = oldest ? oldest->task : NULL;
    tt_lock_give(&executor->lock);
    return oldest;
}

bool tt_async_executors_running(struct tt_async_executors *self, int32_t index,
                                struct tt_async_running *out_running) {
    struct executor *executor = executor_of(self, index);
    struct tt_async_task *task;
    struct place *oldest = oldest_recorded(self, executor, &task);
    if (oldest)
        (void)begun_at(executor, oldest, task);
    tt_lock_take(&executor->lock);
    const struct place *place = oldest_begun(self, executor);
    if (place)
        *out_running = (struct tt_async_running){.task = place->task,
                                                 .user = place->task->user,
                                                 .max_run_ns = place->task->max_run_ns,
                                                 .started_at = place->started_at};
    tt_lock_give(&executor->lock);
    return place != NULL;
}

struct tt_async_task *tt_async_executors_lose(struct tt_async_executors *self, int32_t index,
                                              const struct tt_async_running *running) {
    struct executor *executor = executor_of(self, index);
    struct tt_async_task *task = NULL;
    tt_lock_take(&executor->lock);
    struct place *place = oldest_begun(self, executor);
    if (place && place->task == running->task && place->started_at == running->started_at) {
        task = place->task;
        place->task = NULL;
        executor->has_lost = true;
    }
    tt_lock_give(&executor->lock);
    return task;
}

/* The stream waits for the tasks named, but for its own, and those that are known to have ended
 * since their place was used again. */
static enum tt_err wait_for_others(struct tt_async_executors *self, struct tt_async_task *task) {
    enum tt_err err = TT_OK;
    struct executor *own = executor_of(self, task->head.executor);
    for (int32_t i = 0; !err && i < task->after_count; i++) {
        const struct tt_async_task *before = task->after[i];
        struct executor *other = executor_of(self, before->head.executor);
        tt_assert(before->set == self);
        tt_assert(before->number < other->submitted);
        bool is_over = other->submitted - before->number > (uint64_t)self->options.depth;
        if (other == own || is_over)
            continue;
        err = tt_async_wait(own->stream, place_of(self, other, before->number)->event, task->why);
        self->counts.waits++;
    }
    return err;
}

static enum tt_err put_more(struct tt_async_task *task, enum tt_async_put where,
                            struct tt_async_stream *stream) {
    return task->put ? task->put(task, where, stream, task->why) : TT_OK;
}

static enum tt_err put_begin(struct tt_async_executors *self, struct executor *executor,
                             struct place *place, struct tt_error *why) {
    enum tt_err err = tt_async_record(executor->stream, place->begin, why);
    self->counts.records++;
    tt_lock_take(&executor->lock);
    place->begin_turn = err ? 0 : place->begin->turns;
    tt_lock_give(&executor->lock);
    return err;
}

/* The work. An error is the task's alone. TT_ASYNC_PUT_FIRST happens in any case. */
static enum tt_err put_work(struct tt_async_executors *self, struct executor *executor,
                            struct place *place, struct tt_async_task *task) {
    enum tt_err err = wait_for_others(self, task);
    if (!err && notes_starts(self))
        err = put_begin(self, executor, place, task->why);
    task->refused = err;
    enum tt_err first = put_more(task, TT_ASYNC_PUT_FIRST, executor->stream);
    if (!err)
        err = first;
    if (!err)
        err = tt_async_launch(executor->stream, &task->kernel, task->why);
    if (!err)
        err = put_more(task, TT_ASYNC_PUT_LAST, executor->stream);
    tt_assert(err != TT_ERR_BUSY);
    return err;
}

/* What brings the task back. After an error nothing would. */
static enum tt_err put_end(struct tt_async_executors *self, const struct executor *executor,
                           const struct place *place, struct tt_async_task *task,
                           struct tt_error *why) {
    enum tt_err err = tt_async_record(executor->stream, place->event, why);
    self->counts.records++;
    task->end_turn = place->event->turns;
    if (!err && self->options.notify_apart)
        err = tt_async_wait(executor->notices, place->event, why);
    if (!err && !task->refused)
        task->refused = put_more(task, TT_ASYNC_PUT_NOTICE, executor->notices);
    task->head.outcome = task->refused ? TT_OUTCOME_FAILED : TT_OUTCOME_DONE;
    if (!err)
        err = tt_async_call_short(executor->notices, ended, task, why);
    tt_assert(err != TT_ERR_BUSY);
    return err;
}

static void put(struct tt_async_executors *self, struct executor *executor,
                struct tt_async_task *task) {
    struct place *place = place_of(self, executor, executor->submitted++);
    tt_lock_take(&executor->lock);
    place->task = task;
    place->started_at = TT_NEVER;
    place->begin_turn = 0;
    tt_lock_give(&executor->lock);
    struct tt_error why;
    task->refused = tt_async_device_status(self->options.device, task->why);
    if (!task->refused)
        task->refused = put_work(self, executor, place, task);
    if (put_end(self, executor, place, task, &why) == TT_OK)
        return;
    char reason[sizeof(why.text) + 64];
    snprintf(reason, sizeof(reason), "it cannot keep the order of executor %d's tasks: %s",
             task->head.executor, why.text);
    tt_async_device_fail(self->options.device, reason); /* no effect if it has failed before */
}

void tt_async_executors_submit(struct tt_async_executors *self, struct tt_async_task *task) {
    struct executor *executor = executor_of(self, task->head.executor);
    task->set = self;
    task->number = executor->submitted;
    task->refused = TT_OK;
    self->counts.tasks++;
    bool returns = self->is_over || !self->options.keeps_failed;
    if (returns)
        task->refused = tt_async_device_status(self->options.device, task->why);
    if (task->refused)
        return_failed(self, task);
    else
        put(self, executor, task);
}

void tt_async_executors_call(struct tt_async_executors *self,
                             struct tt_async_completion *completion) {
    if (self->completions)
        tt_async_completions_add(self->completions, completion);
    else
        completion->call(completion->context);
}

int64_t tt_async_executors_started_at(struct tt_async_executors *self,
                                      const struct tt_async_task *task) {
    struct executor *executor = executor_of(self, task->head.executor);
    int64_t at = begun_at(executor, place_of(self, executor, task->number), task);
    return at == TT_NEVER ? task->head.submitted_at : at;
}

int64_t tt_async_executors_computed_at(struct tt_async_executors *self,
                                       const struct tt_async_task *task) {
    const struct place *place =
        place_of(self, executor_of(self, task->head.executor), task->number);
    int64_t at = tt_async_device_now(self->options.device);
    (void)tt_async_event_instant(place->event, task->end_turn, &at, NULL);
    return at;
}

struct tt_async_stream *tt_async_executors_stream(const struct tt_async_executors *self,
                                                  int32_t executor) {
    tt_assert(executor >= 0 && executor < self->options.executor_count);
    return self->executors[executor].stream;
}

bool tt_async_executors_take_back(struct tt_async_executors *self,
                                  const struct tt_async_task *task) {
    struct executor *executor = executor_of(self, task->head.executor);
    return executor->submitted - task->number > (uint64_t)self->options.depth ||
           tt_async_event_query(place_of(self, executor, task->number)->event, NULL) == TT_OK;
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
