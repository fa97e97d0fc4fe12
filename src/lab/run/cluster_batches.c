#include "lab/run/cluster_batches.h"

#include "lab/scenario/allocate.h"
#include "record/record_setup.h"
#include "record/recording_reader.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN_MODEL = -1, DEPTH = 2 };

struct request {
    int64_t arrived_at, deadline_at;
    int32_t rows, length;
};

/* A task of an executor that has not finished. */
struct running {
    int64_t *numbers; /* [count] */
    int32_t count, model;
};

struct reading {
    struct tt_cluster_batches *batches;
    const struct tt_scenario *scenario;
    int32_t *models; /* [model_count]: the scenario's, by the recording's */
    int64_t model_count;
    struct request *requests; /* [request_count], by number */
    int64_t request_count, request_capacity;
    struct running (*running)[DEPTH]; /* [executor_count]: the oldest task first */
    int32_t executor_count;
    /* The task that is reported. */
    struct tt_task_item items[TT_PROFILE_MAX_BATCH];
    struct tt_request members[TT_PROFILE_MAX_BATCH];
};

static enum tt_err take_model(struct reading *self, const struct tt_recorded_event *event,
                              struct tt_error *why) {
    if (event->change != TT_CHANGE_ADDED)
        return TT_OK;
    struct tt_record_model *model;
    enum tt_err err = tt_record_model_read(event->message, event->message_bytes, &model, why);
    if (err)
        return err;
    if (event->index >= self->model_count) {
        int64_t count = event->index + 1;
        self->models = tt_reallocate(self->models, (size_t)count, sizeof(*self->models));
        for (int64_t m = self->model_count; m < count; m++)
            self->models[m] = UNKNOWN_MODEL;
        self->model_count = count;
    }
    for (int32_t m = 0; m < self->scenario->model_count; m++)
        if (strcmp(self->scenario->models[m].name, model->name) == 0)
            self->models[event->index] = m;
    tt_record_model_free(model);
    return TT_OK;
}

static void take_arrival(struct reading *self, const struct tt_recorded_event *event) {
    while (self->request_count <= event->number) {
        if (self->request_count == self->request_capacity) {
            self->request_capacity = self->request_capacity ? 2 * self->request_capacity : 1024;
            self->requests = tt_reallocate(self->requests, (size_t)self->request_capacity,
                                           sizeof(*self->requests));
        }
        self->requests[self->request_count++] = (struct request){.arrived_at = -1};
    }
    self->requests[event->number] = (struct request){.arrived_at = event->now,
                                                     .deadline_at = event->arrival.deadline_at,
                                                     .rows = event->arrival.rows,
                                                     .length = event->arrival.length};
}

static bool is_known(const struct reading *self, const struct tt_recorded_event *event) {
    bool is_known = event->index < self->executor_count && event->model < self->model_count &&
                    self->models[event->model] >= 0 && event->count <= TT_PROFILE_MAX_BATCH;
    for (int32_t i = 0; is_known && i < event->count; i++)
        is_known = event->numbers[i] >= 0 && event->numbers[i] < self->request_count;
    return is_known;
}

static enum tt_err take_run(struct reading *self, const struct tt_recorded_event *event,
                            struct tt_error *why) {
    if (!is_known(self, event))
        return tt_fail(TT_ERR_INVALID, why,
                       "the scheduler's recording has a batch of unknown requests, at offset %zu",
                       event->offset);
    struct running *running = &self->running[event->index][0];
    if (running->numbers) /* it was sent ahead of that one's end */
        running++;
    free(running->numbers);
    *running = (struct running){.count = event->count, .model = self->models[event->model]};
    running->numbers = tt_allocate((size_t)event->count, sizeof(*running->numbers));
    memcpy(running->numbers, event->numbers, (size_t)event->count * sizeof(*running->numbers));
    return TT_OK;
}

static int64_t since(const struct reading *self, int64_t at) {
    return at == TT_NEVER ? at : at - self->batches->epoch_at;
}

/* The batch has ended as it was to. */
static void report(struct reading *self, const struct tt_recorded_event *event) {
    const struct running *running = &self->running[event->index][0];
    const struct tt_live_run *run = self->batches->run;
    const struct tt_scenario_model *model = &self->scenario->models[running->model];
    struct tt_task task = {.executor = event->index,
                           .model = running->model,
                           .count = running->count,
                           .items = self->items,
                           .last_step_done = 0};
    int64_t from_at = since(self, event->started_at), to_at = since(self, event->ended_at);
    for (int32_t i = 0; i < running->count; i++) {
        const struct request *request = &self->requests[running->numbers[i]];
        self->members[i] = (struct tt_request){.arrived_at = since(self, request->arrived_at),
                                               .deadline_at = since(self, request->deadline_at),
                                               .rows = request->rows};
        self->items[i] = (struct tt_task_item){.request = &self->members[i]};
        task.rows += request->rows;
        task.length = request->length > task.length ? request->length : task.length;
        run->waited(run->sink.context, running->model, self->members[i].arrived_at,
                    from_at - self->members[i].arrived_at);
    }
    run->sink.step_started(run->sink.context, from_at, &task, 0, running->numbers);
    run->sink.step_ended(run->sink.context, to_at, &task, 0);
    self->batches->count++;
    int64_t predicted = tt_profile_latency(model->step_model.whole, task.rows, task.length);
    if (from_at >= self->scenario->warm_up_ns)
        tt_histogram_add(&self->batches->run_ppm,
                         (int64_t)((__int128)(to_at - from_at) * 1000000 / predicted));
}

static void take_end(struct reading *self, const struct tt_recorded_event *event) {
    if (event->index >= self->executor_count || !self->running[event->index][0].numbers)
        return;
    struct running *running = self->running[event->index];
    if (event->outcome == TT_OUTCOME_DONE && event->started_at >= 0)
        report(self, event);
    free(running[0].numbers);
    running[0] = running[1];
    running[1] = (struct running){.numbers = NULL};
}

static enum tt_err take(struct reading *self, const struct tt_recorded_event *event,
                        struct tt_error *why) {
    if (event->kind == TT_RECORD_MODEL)
        return take_model(self, event, why);
    if (event->kind == TT_RECORD_RUN)
        return take_run(self, event, why);
    if (event->kind == TT_RECORD_GAP)
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "the scheduler's recording misses %lld events: its disk was too slow",
                       (long long)event->lost);
    if (event->kind == TT_RECORD_ARRIVED)
        take_arrival(self, event);
    else if (event->kind == TT_RECORD_FINISHED)
        take_end(self, event);
    return TT_OK;
}

static enum tt_err read_domain(struct reading *self, const struct tt_recording *recording,
                               int32_t stream, struct tt_error *why) {
    struct tt_recording_cursor cursor;
    const struct tt_recorded_event *event;
    enum tt_err err = tt_recording_cursor_init(&cursor, recording, stream, why);
    if (err)
        return err;
    while (!(err = tt_recording_next(&cursor, &event, why)) && event)
        if ((err = take(self, event, why)))
            break;
    tt_recording_cursor_fini(&cursor);
    return err;
}

static struct reading *reading_new(struct tt_cluster_batches *batches) {
    struct reading *self = tt_allocate(1, sizeof(*self));
    self->batches = batches;
    self->scenario = batches->run->scenario;
    for (int32_t d = 0; d < self->scenario->device_count; d++)
        self->executor_count += self->scenario->devices[d].executors;
    self->running = tt_allocate((size_t)self->executor_count, sizeof(*self->running));
    return self;
}

static void reading_free(struct reading *take_self) {
    for (int32_t e = 0; e < take_self->executor_count; e++)
        for (int32_t i = 0; i < DEPTH; i++)
            free(take_self->running[e][i].numbers);
    free(take_self->running);
    free(take_self->models);
    free(take_self->requests);
    free(take_self);
}

enum tt_err tt_cluster_batches_read(struct tt_cluster_batches *self, const char *path,
                                    struct tt_error *why) {
    struct tt_recording recording;
    enum tt_err err = tt_recording_open(path, &recording, why);
    if (err)
        return err;
    if (!tt_recording_has_end(&recording))
        err = tt_fail(TT_ERR_UNAVAILABLE, why, "the scheduler's recording has no end");
    for (int32_t d = 0; !err && d < recording.domain_count; d++) {
        struct reading *reading = reading_new(self);
        err = read_domain(reading, &recording, tt_recording_domain_stream(&recording, d), why);
        reading_free(reading);
    }
    tt_recording_close(&recording);
    return err;
}
