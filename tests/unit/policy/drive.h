/* A small deterministic carrier for policy tests: a list of arrivals, devices that take l(b), and a
 * log.
 *
 * Usage: fill a `struct drive_setup` (models, executors, policy), call `drive_open`, add arrivals
 * in order of time with `drive_arrival`, call `drive_run`, read `tasks` and `outcomes`, call
 * `drive_close`.
 *
 * At each instant it reports to the mechanism, as the contract in policy/policy.h requires: all
 * completions (smallest executor first), executors and models that change, arrivals, cancellations.
 * Then it asks for one decision. With `check` the invariants are verified after every instant.
 *
 * Executors run their queue one task at a time. A task starts at max(start_at, end of the one
 * before). YIELD ends the oldest task at its next step boundary, ABORT after `abort_ns`. For tests
 * only: it allocates freely and aborts on misuse. */
#ifndef TT_TEST_DRIVE_H
#define TT_TEST_DRIVE_H

#include "base/heap.h"
#include "base/instant.h"
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct drive_model {
    int64_t alpha_ns, beta_ns, slo_ns;
    int32_t max_batch;      /* 0: 512 */
    int32_t steps;          /* 0: 1; the whole is divided into equal steps */
    int32_t slots;          /* rows between the steps; 0: any number */
    int32_t demand_percent; /* of every batch, known; 0: not known */
    int32_t tail_percent;   /* the tail of the whole's latency, of its centre; 0: 100 */
};

/* At `at` an executor or a model that is up drains; one that drains and is empty is removed; one
 * that is gone is added again. Otherwise nothing happens. */
struct drive_change {
    int64_t at;
    bool is_model;
    int32_t id;
};

struct drive_setup {
    const struct drive_model *models;
    int32_t model_count;
    int32_t executors; /* each on its own device, unless `devices` assigns them */
    const int32_t *devices;
    int32_t depth; /* 0: 2 */
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    int64_t d_ctrl_ns, d_data_ns, lateness_ns;
    int64_t abort_ns;
    const struct drive_change *changes; /* in order of time */
    int32_t change_count;
    bool check;
    /* Optional: the duration of a task, instead of its profile. */
    int64_t (*duration)(void *context, const struct tt_task *task, int64_t planned_ns);
    void *context;
};

struct drive_arrival {
    int64_t at, deadline_at, cancel_at; /* TT_NEVER: not cancelled */
    int32_t model, rows, length, priority;
    struct tt_request *request; /* while the request exists */
};

struct drive_outcome {
    int64_t ended_at; /* TT_NEVER: it has not ended */
    enum tt_ending ending;
    enum tt_drop_reason reason;
    bool refused; /* at arrival: BUSY, or its model is not up */
};

struct drive_task {
    int64_t number, dispatched_at, start_at, end_at; /* end_at: TT_NEVER while it runs */
    int32_t executor, model, rows, count;
    int32_t first; /* requests [first, first + count) of drive.members */
    enum tt_outcome outcome;
};

struct drive_executor {
    int64_t free_at; /* end of the last task that started */
    int64_t stop_at; /* the instant at which the oldest task ends early; TT_NEVER: none */
    enum tt_outcome stop_outcome;
};

struct drive {
    struct tt_mechanism mechanism;
    struct drive_setup setup;
    struct tt_step_model *models;
    struct tt_step *steps;
    struct tt_profile **profiles; /* [2 m] whole, [2 m + 1] one step */
    struct drive_arrival *arrivals;
    struct drive_outcome *outcomes;
    int32_t arrival_count, arrival_capacity, next_arrival;
    struct drive_task *tasks;
    int32_t task_count, task_capacity;
    int32_t *members;
    int32_t member_count, member_capacity;
    struct drive_executor *executors;
    bool *draining; /* [model] */
    int32_t next_change;
    struct tt_heap ends; /* executor -> the end of its oldest task */
    bool any_cancel;
    int64_t now;
};

static inline void *drive_grow(void *array, int32_t count, int32_t *capacity, size_t size) {
    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 64;
    void *bigger = realloc(array, (size_t)*capacity * size);
    tt_assert(bigger != NULL);
    return bigger;
}

static inline int64_t drive_planned(const struct drive *self, const struct tt_task *task) {
    const struct tt_step_model *model = self->mechanism.models[task->model];
    if (task->first_step == 0 && task->last_step == model->step_count - 1 && task->repeat == 1)
        return tt_profile_latency(model->whole, task->rows, task->length);
    int64_t sum = 0;
    for (int32_t s = task->first_step; s <= task->last_step; s++)
        sum += tt_profile_latency(model->steps[s].profile, task->rows, task->length);
    return sum * task->repeat;
}

/* Puts the executor's oldest task into `ends`. */
static inline void drive_head(struct drive *self, int32_t executor) {
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, executor);
    if (!task) {
        tt_heap_remove(&self->ends, executor);
        return;
    }
    const struct drive_task *log = &self->tasks[task->number];
    int64_t at = tt_instant_min(log->end_at, self->executors[executor].stop_at);
    tt_heap_set(&self->ends, executor, at, executor);
}

static inline void drive_on_start(void *context, int64_t now, struct tt_task *task) {
    struct drive *self = context;
    struct drive_executor *executor = &self->executors[task->executor];
    int64_t planned = drive_planned(self, task);
    if (self->setup.duration)
        planned = self->setup.duration(self->setup.context, task, planned);
    tt_assert(task->number == self->task_count);
    self->tasks =
        drive_grow(self->tasks, self->task_count, &self->task_capacity, sizeof(*self->tasks));
    struct drive_task *log = &self->tasks[self->task_count++];
    int64_t start = tt_instant_max(task->start_at, executor->free_at);
    *log = (struct drive_task){.number = task->number,
                               .dispatched_at = now,
                               .start_at = start,
                               .end_at = start + planned,
                               .executor = task->executor,
                               .model = task->model,
                               .rows = task->rows,
                               .count = task->count,
                               .first = self->member_count};
    for (int32_t i = 0; i < task->count; i++) {
        self->members = drive_grow(self->members, self->member_count, &self->member_capacity,
                                   sizeof(*self->members));
        self->members[self->member_count++] = (int32_t)(intptr_t)task->items[i].request->user;
    }
    executor->free_at = log->end_at;
    drive_head(self, task->executor);
}

static inline void drive_on_stop(struct drive *self, int32_t executor, int64_t at,
                                 enum tt_outcome outcome) {
    self->executors[executor].stop_at = at;
    self->executors[executor].stop_outcome = outcome;
    drive_head(self, executor);
}
static inline void drive_on_yield(void *context, int64_t now, int32_t executor) {
    struct drive *self = context;
    const struct tt_task *task = tt_mechanism_oldest(&self->mechanism, executor);
    const struct drive_task *log = &self->tasks[task->number];
    int64_t step = (log->end_at - log->start_at) / (task->last_step - task->first_step + 1);
    /* a step that begins at this instant has begun */
    int64_t done = now < log->start_at ? 0 : (now - log->start_at) / step + 1;
    drive_on_stop(self, executor, log->start_at + done * step, TT_OUTCOME_PREEMPTED);
}
static inline void drive_on_abort(void *context, int64_t now, int32_t executor) {
    struct drive *self = context;
    drive_on_stop(self, executor, now + self->setup.abort_ns, TT_OUTCOME_ABORTED);
}
static inline void drive_on_gone(void *context, struct tt_request *request) {
    (void)context;
    tt_cell_graph_free(request->graph);
}
static inline void drive_on_ended(void *context, int64_t now, struct tt_request *request,
                                  enum tt_ending ending, enum tt_drop_reason reason) {
    struct drive *self = context;
    int32_t index = (int32_t)(intptr_t)request->user;
    tt_assert(self->outcomes[index].ended_at == TT_NEVER); /* a request leaves once */
    self->outcomes[index] =
        (struct drive_outcome){.ended_at = now, .ending = ending, .reason = reason};
    self->arrivals[index].request = NULL;
}

static inline int32_t drive_max_batch(const struct drive_model *model) {
    return model->max_batch ? model->max_batch : 512;
}

static inline void drive_stretch_tail(struct tt_profile *profile, int32_t percent) {
    int64_t *tail_ns = calloc((size_t)profile->max_batch + 1, sizeof(*tail_ns));
    tt_assert(tail_ns != NULL && profile->length_count == 1);
    for (int32_t b = 0; b <= profile->max_batch; b++)
        tail_ns[b] = profile->latency_ns[b] * percent / 100;
    profile->tail_ns = tail_ns;
}

static inline void drive_make_model(struct drive *self, int32_t m, const struct drive_model *from) {
    int32_t max_batch = drive_max_batch(from);
    int32_t steps = from->steps ? from->steps : 1;
    struct tt_error why;
    tt_assert(!tt_profile_new_linear(from->alpha_ns, from->beta_ns, max_batch,
                                     &self->profiles[2 * m], &why));
    tt_assert(!tt_profile_new_linear(from->alpha_ns / steps, from->beta_ns / steps, max_batch,
                                     &self->profiles[2 * m + 1], &why));
    for (int32_t b = 1; b <= max_batch && from->demand_percent; b++)
        self->profiles[2 * m]->demand_ppm[b] = from->demand_percent * (TT_DEMAND_WHOLE / 100);
    self->profiles[2 * m]->knows_demand = from->demand_percent > 0;
    if (from->tail_percent)
        drive_stretch_tail(self->profiles[2 * m], from->tail_percent);
    struct tt_step *row = calloc((size_t)steps, sizeof(*row));
    for (int32_t s = 0; s < steps; s++)
        row[s] = (struct tt_step){.name = "step", .profile = self->profiles[2 * m + 1]};
    self->models[m] = (struct tt_step_model){.name = "model",
                                             .step_count = steps,
                                             .steps = row,
                                             .slots = from->slots,
                                             .whole = self->profiles[2 * m],
                                             .slo_ns = from->slo_ns,
                                             .max_batch = max_batch};
}

static inline void drive_open(struct drive *self, const struct drive_setup *setup) {
    *self = (struct drive){.setup = *setup, .now = INT64_MIN};
    int32_t count = setup->model_count;
    self->models = calloc((size_t)count, sizeof(*self->models));
    self->profiles = calloc((size_t)count * 2, sizeof(struct tt_profile *));
    self->executors = calloc((size_t)setup->executors, sizeof(*self->executors));
    self->draining = calloc((size_t)count, sizeof(*self->draining));
    tt_assert(!tt_heap_init(&self->ends, setup->executors));
    int32_t max_batch = 1;
    for (int32_t m = 0; m < count; m++)
        if (drive_max_batch(&setup->models[m]) > max_batch)
            max_batch = drive_max_batch(&setup->models[m]);
    struct tt_mechanism_options options = {.model_capacity = count,
                                           .executor_capacity = setup->executors,
                                           .max_batch = max_batch,
                                           .depth = setup->depth ? setup->depth : 2,
                                           .request_limit = 1 << 20,
                                           .request_reserve = 1024};
    struct tt_carrier carrier = {self,           drive_on_start, drive_on_yield,
                                 drive_on_abort, drive_on_ended, drive_on_gone};
    struct tt_error why = {""};
    tt_assert(!tt_mechanism_init(&self->mechanism, &options, &carrier, &why));
    struct tt_policy_setup policy = {.domain = &self->mechanism,
                                     .d_ctrl_ns = setup->d_ctrl_ns,
                                     .d_data_ns = setup->d_data_ns,
                                     .lateness_ns = setup->lateness_ns,
                                     .options = setup->options,
                                     .option_count = setup->option_count};
    if (tt_policy_create(&self->mechanism, setup->policy, &policy, &why)) {
        fprintf(stderr, "drive: %s\n", why.text);
        abort();
    }
    for (int32_t m = 0; m < count; m++) {
        drive_make_model(self, m, &setup->models[m]);
        tt_mechanism_add_model(&self->mechanism, INT64_MIN, m, &self->models[m]);
    }
    for (int32_t e = 0; e < setup->executors; e++) {
        self->executors[e] = (struct drive_executor){.free_at = INT64_MIN, .stop_at = TT_NEVER};
        tt_mechanism_add_executor(&self->mechanism, INT64_MIN, e,
                                  setup->devices ? setup->devices[e] : e);
    }
}

static inline void drive_close(struct drive *self) {
    tt_policy_destroy(&self->mechanism);
    tt_mechanism_fini(&self->mechanism);
    for (int32_t m = 0; m < self->setup.model_count; m++) {
        free((void *)self->models[m].steps);
        if (self->setup.models[m].tail_percent)
            free(self->profiles[2 * m]->tail_ns);
        tt_profile_free(self->profiles[2 * m]);
        tt_profile_free(self->profiles[2 * m + 1]);
    }
    tt_heap_fini(&self->ends);
    free(self->models);
    free(self->profiles);
    free(self->executors);
    free(self->draining);
    free(self->arrivals);
    free(self->outcomes);
    free(self->tasks);
    free(self->members);
}

/* Adds an arrival, not before the one added last, with the model's SLO as its deadline. The caller
 * may change the returned record: deadline, rows, cancellation. It is valid until the next call. */
static inline struct drive_arrival *drive_arrival(struct drive *self, int64_t at, int32_t model) {
    tt_assert(self->arrival_count == 0 || self->arrivals[self->arrival_count - 1].at <= at);
    int32_t capacity = self->arrival_capacity;
    self->outcomes =
        drive_grow(self->outcomes, self->arrival_count, &capacity, sizeof(*self->outcomes));
    self->arrivals = drive_grow(self->arrivals, self->arrival_count, &self->arrival_capacity,
                                sizeof(*self->arrivals));
    self->outcomes[self->arrival_count] = (struct drive_outcome){.ended_at = TT_NEVER};
    struct drive_arrival *arrival = &self->arrivals[self->arrival_count++];
    *arrival = (struct drive_arrival){.at = at,
                                      .deadline_at = tt_instant_add(at, self->models[model].slo_ns),
                                      .cancel_at = TT_NEVER,
                                      .model = model,
                                      .rows = 1};
    return arrival;
}

static inline void drive_complete(struct drive *self, int32_t executor) {
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, executor);
    struct drive_executor *state = &self->executors[executor];
    struct drive_task *log = &self->tasks[task->number];
    if (state->stop_at < log->end_at) {
        task->outcome = state->stop_outcome;
        int64_t step = (log->end_at - log->start_at) / (task->last_step - task->first_step + 1);
        task->last_step_done = task->first_step - 1;
        if (task->outcome == TT_OUTCOME_PREEMPTED)
            task->last_step_done += (int32_t)((self->now - log->start_at) / step);
        log->end_at = self->now;
        int64_t at = self->now; /* the tasks queued behind it move forward */
        const struct tt_executor *e = &self->mechanism.executors[executor];
        for (int32_t k = 1; k < e->queued; k++) {
            const struct tt_task *next = &e->tasks[(e->oldest + k) % e->depth];
            struct drive_task *moved = &self->tasks[next->number];
            int64_t span = moved->end_at - moved->start_at;
            moved->start_at = tt_instant_max(next->start_at, at);
            moved->end_at = at = moved->start_at + span;
        }
        state->free_at = at;
    } else {
        task->outcome = TT_OUTCOME_DONE;
        task->last_step_done = task->last_step;
    }
    state->stop_at = TT_NEVER;
    log->outcome = task->outcome;
    tt_mechanism_finished(&self->mechanism, self->now, task);
    drive_head(self, executor);
}

static inline int64_t drive_next_cancel(const struct drive *self) {
    int64_t at = TT_NEVER;
    for (int32_t i = 0; self->any_cancel && i < self->next_arrival; i++)
        if (self->arrivals[i].request)
            at = tt_instant_min(at, self->arrivals[i].cancel_at);
    return at;
}

static inline void drive_change_executor(struct drive *self, int64_t now, int32_t e) {
    const struct tt_executor *executor = &self->mechanism.executors[e];
    if (executor->state == TT_EXECUTOR_UP)
        tt_mechanism_drain_executor(&self->mechanism, now, e);
    else if (executor->state == TT_EXECUTOR_DRAINING && executor->queued == 0)
        tt_mechanism_remove_executor(&self->mechanism, now, e);
    else if (executor->state == TT_EXECUTOR_GONE)
        tt_mechanism_add_executor(&self->mechanism, now, e,
                                  self->setup.devices ? self->setup.devices[e] : e);
}
static inline void drive_change_model(struct drive *self, int64_t now, int32_t m) {
    if (!self->mechanism.models[m]) {
        tt_mechanism_add_model(&self->mechanism, now, m, &self->models[m]);
    } else if (!self->draining[m]) {
        tt_mechanism_drain_model(&self->mechanism, now, m);
        self->draining[m] = true;
    } else if (self->mechanism.model_requests[m] == 0) {
        tt_mechanism_remove_model(&self->mechanism, now, m);
        self->draining[m] = false;
    }
}

/* One cell per step, each with the one before as its input. */
static inline struct tt_cell_graph *drive_unfold(const struct tt_step_model *model) {
    struct tt_cell_spec *specs = calloc((size_t)model->step_count, sizeof(*specs));
    int32_t *sources = calloc((size_t)model->step_count, sizeof(*sources));
    for (int32_t s = 0; s < model->step_count; s++) {
        sources[s] = s - 1;
        specs[s] = (struct tt_cell_spec){s, s, 1, false, s > 0, &sources[s]};
    }
    struct tt_cell_graph *graph;
    tt_assert(!tt_cell_graph_new(specs, model->step_count, model->step_count, &graph, NULL));
    free(specs);
    free(sources);
    return graph;
}

static inline void drive_arrive(struct drive *self, int32_t index) {
    struct drive_arrival *a = &self->arrivals[index];
    struct tt_arrival arrival = {.model = a->model,
                                 .rows = a->rows,
                                 .length = a->length,
                                 .priority = a->priority,
                                 .deadline_at = a->deadline_at,
                                 .user = (void *)(intptr_t)index};
    if (self->mechanism.ops->released && self->mechanism.models[a->model])
        arrival.graph = drive_unfold(&self->models[a->model]);
    self->any_cancel |= a->cancel_at != TT_NEVER;
    if (!self->mechanism.models[a->model] || self->draining[a->model] ||
        tt_mechanism_arrived(&self->mechanism, self->now, &arrival, &a->request))
        self->outcomes[index].refused = true;
    if (self->outcomes[index].refused)
        tt_cell_graph_free(arrival.graph);
    else
        tt_mechanism_ready(&self->mechanism, self->now, a->request);
}

static inline void drive_tell(struct drive *self) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->ends)) && top->key == self->now)
        drive_complete(self, top->id);
    while (self->next_change < self->setup.change_count &&
           self->setup.changes[self->next_change].at == self->now) {
        const struct drive_change *change = &self->setup.changes[self->next_change++];
        if (change->is_model)
            drive_change_model(self, self->now, change->id);
        else
            drive_change_executor(self, self->now, change->id);
    }
    while (self->next_arrival < self->arrival_count &&
           self->arrivals[self->next_arrival].at == self->now)
        drive_arrive(self, self->next_arrival++);
    for (int32_t i = 0; self->any_cancel && i < self->next_arrival; i++) {
        if (self->arrivals[i].request && self->arrivals[i].cancel_at <= self->now) {
            self->arrivals[i].cancel_at = TT_NEVER;
            tt_mechanism_cancelled(&self->mechanism, self->now, self->arrivals[i].request);
        }
    }
}

/* Runs through all instants up to and including `until`. Ends earlier if all arrivals have been
 * reported and every request has left. */
static inline void drive_run(struct drive *self, int64_t until) {
    for (;;) {
        if (self->next_arrival == self->arrival_count && self->mechanism.requests.in_use == 0)
            return;
        int64_t at = self->next_arrival < self->arrival_count
                         ? self->arrivals[self->next_arrival].at
                         : TT_NEVER;
        const struct tt_heap_entry *top = tt_heap_top(&self->ends);
        if (top)
            at = tt_instant_min(at, top->key);
        at = tt_instant_min(at, tt_mechanism_next_at(&self->mechanism));
        at = tt_instant_min(at, drive_next_cancel(self));
        if (self->next_change < self->setup.change_count)
            at = tt_instant_min(at, self->setup.changes[self->next_change].at);
        if (at == TT_NEVER || at > until)
            return;
        tt_assert(at > self->now); /* with a timer in the past, time would never advance */
        self->now = at;
        drive_tell(self);
        tt_mechanism_decide(&self->mechanism, self->now);
        if (self->setup.check)
            tt_mechanism_check(&self->mechanism);
    }
}

/* The number of requests that arrived and did not end DONE in time. */
static inline int32_t drive_bad(const struct drive *self) {
    int32_t bad = 0;
    for (int32_t i = 0; i < self->arrival_count; i++)
        bad += self->outcomes[i].ending != TT_ENDING_DONE ||
               self->outcomes[i].ended_at > self->arrivals[i].deadline_at;
    return bad;
}

#endif
