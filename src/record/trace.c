#include "record/trace.h"

#include "base/array.h"
#include "base/instant.h"
#include "record/trace_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

char *tt_trace_as_json(const char *name) {
    json_t *string = json_string(name);
    if (!string)
        string = json_string("?"); /* a directory may have a name that is not UTF-8 */
    char *text = string ? json_dumps(string, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    json_decref(string);
    return text;
}

/* The number of the name, which is kept once; -1: out of memory. Under the lock. */
static int32_t intern(struct tt_trace *self, const char *name) {
    char *text = tt_trace_as_json(name);
    for (int32_t i = 0; text && i < self->name_count; i++)
        if (strcmp(self->names[i], text) == 0) {
            free(text);
            return i;
        }
    if (!text || !TT_ARRAY_RESERVE(self->names, &self->name_capacity, self->name_count + 1)) {
        free(text);
        return -1;
    }
    self->names[self->name_count] = text;
    return self->name_count++;
}

/* ---- listening ---- */

static void put(struct tt_trace_tap *self, const struct tt_trace_record *record) {
    uint64_t words[TT_TRACE_RECORD_WORDS];
    memcpy(words, record, sizeof(words));
    tt_recent_put(&self->recent, words);
}

void tt_trace_identified(struct tt_trace_tap *tap, int64_t now, const struct tt_request *request,
                         const char *id) {
    struct tt_trace_id record = {.kind = TT_TRACE_ID,
                                 .domain = tap->domain,
                                 .number = tt_request_arrival(request),
                                 .end_at = now};
    uint64_t words[TT_TRACE_RECORD_WORDS];
    tt_assert(tap->in_use);
    memcpy(record.id, id, strnlen(id, TT_TRACE_ID_BYTES));
    memcpy(words, &record, sizeof(words));
    tt_recent_put(&tap->recent, words);
}

static uint16_t narrow(int32_t value) { return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX; }

static void finished(struct tt_trace_tap *self, const struct tt_task *task) {
    tt_assert(self->in_use);
    self->last_run = task->number;
    if (task->started_at < 0)
        return;
    tt_assert(task->ended_at >= task->started_at);
    put(self, &(struct tt_trace_record){.kind = TT_TRACE_BATCH,
                                        .outcome = (uint8_t)task->outcome,
                                        .rows = narrow(task->rows),
                                        .count = narrow(task->count),
                                        .executor = task->executor,
                                        .name = self->names[task->model],
                                        .domain = self->domain,
                                        .first_step = task->first_step,
                                        .last_step = task->last_step_done,
                                        .run = task->number,
                                        .number = task->dispatched_at,
                                        .begin_at = task->started_at,
                                        .end_at = task->ended_at});
}

/* By cells: the batch that a request joined first. */
static void started(struct tt_trace_tap *self, const struct tt_task *task) {
    int32_t first = task->items[0].subgraph ? tt_task_first_beginner(task) : task->count;
    for (int32_t i = first; i < task->count; i++)
        if (task->items[i].begins)
            self->first_runs[task->items[i].request->handle.index] = task->number;
}

static int32_t batches_behind_first(const struct tt_trace_tap *self,
                                    const struct tt_request *request) {
    int64_t first = request->graph ? self->first_runs[request->handle.index] : -1;
    int64_t behind = first < 0 ? 0 : self->last_run - first;
    return behind < INT32_MAX ? (int32_t)behind : INT32_MAX;
}

/* Saturates: the record has 32 bits. */
static int32_t slack_us(const struct tt_request *request, int64_t now) {
    if (request->deadline_at == TT_NEVER)
        return TT_TRACE_NO_SLACK;
    int64_t us = (request->deadline_at - now) / 1000;
    return us >= TT_TRACE_NO_SLACK ? TT_TRACE_NO_SLACK - 1
           : us < INT32_MIN        ? INT32_MIN
                                   : (int32_t)us;
}

static void ended(struct tt_trace_tap *self, const struct tt_event *event) {
    const struct tt_request *request = event->request;
    tt_assert(self->in_use);
    tt_assert(event->now >= request->arrived_at);
    /* A request that leaves a batch ends while the domain reports that batch, or, E7, before. */
    const struct tt_task *task = request->task;
    put(self, &(struct tt_trace_record){.kind = TT_TRACE_REQUEST,
                                        .outcome = (uint8_t)event->ending,
                                        .reason = (uint8_t)event->reason,
                                        .ran = task || request->state == TT_REQUEST_LEAVING,
                                        .rows = narrow(request->rows),
                                        .slack_us = slack_us(request, event->now),
                                        .name = self->names[request->model],
                                        .domain = self->domain,
                                        .first_step = batches_behind_first(self, request),
                                        .run = task ? task->number : self->last_run,
                                        .number = tt_request_arrival(request),
                                        .begin_at = request->arrived_at,
                                        .end_at = event->now});
}

void tt_trace_emitted(struct tt_trace_tap *tap, const struct tt_request *request,
                      int64_t emitted_at) {
    tt_assert(tap->in_use);
    put(tap, &(struct tt_trace_record){.kind = TT_TRACE_WORD,
                                       .rows = narrow(request->rows),
                                       .name = tap->names[request->model],
                                       .domain = tap->domain,
                                       .run = tap->last_run,
                                       .number = tt_request_arrival(request),
                                       .begin_at = request->arrived_at,
                                       .end_at = emitted_at});
}

void tt_trace_copied(struct tt_trace_tap *tap, const struct tt_task *task,
                     const struct tt_trace_copies *copies) {
    tt_assert(tap->in_use);
    tt_assert(copies->end_at >= copies->begin_at);
    put(tap, &(struct tt_trace_record){
                 .kind = TT_TRACE_COPY,
                 .outcome = (uint8_t)copies->direction,
                 .rows = narrow(copies->rows),
                 .count = narrow(copies->requests),
                 .executor = copies->direction == TT_TRACE_ARRIVAL ? -1 : task->executor,
                 .name = tap->names[task->model],
                 .domain = tap->domain,
                 .run = task->number,
                 .begin_at = copies->begin_at,
                 .end_at = copies->end_at});
}

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct tt_trace_tap *self = TT_CONTAINER_OF(observer, struct tt_trace_tap, observer);
    if (event->kind == TT_EVENT_ENDED) {
        ended(self, event);
    } else if (event->kind == TT_EVENT_FINISHED) {
        finished(self, event->task);
    } else if (event->kind == TT_EVENT_RUN) {
        started(self, event->task);
    } else if (event->kind == TT_EVENT_ARRIVED && event->request->graph) {
        self->first_runs[event->request->handle.index] = -1;
    } else if (event->kind == TT_EVENT_MODEL && event->change == TT_CHANGE_ADDED) {
        tt_lock_take(&self->trace->lock);
        self->names[event->index] = intern(self->trace, event->domain->models[event->index]->name);
        tt_lock_give(&self->trace->lock);
    }
}

/* ---- making ---- */

enum tt_err tt_trace_new(int64_t records, struct tt_trace **out_trace, struct tt_error *why) {
    tt_assert(records >= 1);
    struct tt_trace *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a trace");
    tt_lock_init(&self->lock);
    self->records = records;
    *out_trace = self;
    return TT_OK;
}

static void tap_free(struct tt_trace_tap *tap) {
    tt_recent_fini(&tap->recent);
    free(tap->names);
    free(tap->first_runs);
    free(tap);
}

void tt_trace_free(struct tt_trace *take_trace) {
    if (!take_trace)
        return;
    for (struct tt_trace_tap *tap = take_trace->taps, *next; tap; tap = next) {
        next = tap->next;
        tt_assert(!tap->in_use);
        tap_free(tap);
    }
    for (int32_t i = 0; i < take_trace->name_count; i++)
        free(take_trace->names[i]);
    free(take_trace->names);
    free(take_trace->policies);
    tt_lock_fini(&take_trace->lock);
    free(take_trace);
}

/* An unused tap, or a new one. Under the lock. */
static struct tt_trace_tap *take_tap(struct tt_trace *self) {
    for (struct tt_trace_tap *tap = self->taps; tap; tap = tap->next)
        if (!tap->in_use)
            return tap;
    struct tt_trace_tap *tap = calloc(1, sizeof(*tap));
    if (!tap)
        return NULL;
    if (tt_recent_init(&tap->recent, self->records, TT_TRACE_RECORD_WORDS) != TT_OK) {
        free(tap);
        return NULL;
    }
    tap->trace = self;
    tap->next = self->taps;
    self->taps = tap;
    return tap;
}

/* Makes the tap the new domain's. False: out of memory. Under the lock. */
static bool enter_domain(struct tt_trace *self, struct tt_trace_tap *tap,
                         const struct tt_mechanism *mechanism, const char *policy) {
    int32_t model_capacity = mechanism->model_capacity;
    tt_assert(!tap->in_use);
    tt_assert(tap->trace == self);
    int32_t *names = realloc(tap->names, (size_t)model_capacity * sizeof(*names));
    if (!names)
        return false;
    tap->names = names;
    if (mechanism->traits && tt_policy_runs_cells(mechanism->traits)) {
        size_t requests = (size_t)tt_request_pool_indices(0, mechanism->requests.limit);
        int64_t *first_runs = realloc(tap->first_runs, requests * sizeof(*first_runs));
        if (!first_runs)
            return false;
        tap->first_runs = first_runs;
    }
    for (int32_t m = 0; m < model_capacity; m++)
        names[m] = -1;
    int32_t name = intern(self, policy);
    if (name < 0 ||
        !TT_ARRAY_RESERVE(self->policies, &self->domain_capacity, self->domain_count + 1))
        return false;
    tap->domain = self->domain_count;
    tap->last_run = -1;
    tap->in_use = true;
    tap->observer.observe = observe;
    self->policies[self->domain_count++] = name;
    return true;
}

enum tt_err tt_trace_add(struct tt_trace *self, struct tt_mechanism *mechanism, const char *policy,
                         struct tt_trace_tap **out_tap, struct tt_error *why) {
    tt_lock_take(&self->lock);
    struct tt_trace_tap *tap = take_tap(self);
    bool made = tap && enter_domain(self, tap, mechanism, policy);
    tt_lock_give(&self->lock);
    if (!made)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a trace");
    tt_mechanism_observe(mechanism, &tap->observer);
    *out_tap = tap;
    return TT_OK;
}

void tt_trace_leave(struct tt_trace_tap *tap) {
    if (!tap)
        return;
    tt_lock_take(&tap->trace->lock);
    tt_assert(tap->in_use);
    tap->in_use = false;
    tt_lock_give(&tap->trace->lock);
}

void tt_trace_check(struct tt_trace *self) {
    tt_lock_take(&self->lock);
    for (int32_t d = 0; d < self->domain_count; d++) {
        tt_assert(self->policies[d] >= 0);
        tt_assert(self->policies[d] < self->name_count);
    }
    for (int32_t i = 0; i < self->name_count; i++)
        for (int32_t k = 0; k < i; k++)
            tt_assert(strcmp(self->names[i], self->names[k]) != 0);
    for (const struct tt_trace_tap *tap = self->taps; tap; tap = tap->next) {
        tt_assert(tap->trace == self);
        tt_assert(tap->domain < self->domain_count);
        for (const struct tt_trace_tap *other = tap->next; other; other = other->next)
            tt_assert(!tap->in_use || !other->in_use || tap->domain != other->domain);
    }
    tt_lock_give(&self->lock);
}
