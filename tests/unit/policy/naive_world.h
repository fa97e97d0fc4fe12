/* The world of the naive models: requests, executors, models, and a clock that advances by one
 * nanosecond (or quantum) at a time, with a decision at each instant.
 *
 * It mirrors unit/policy/drive.h: completions, executors and models that change, arrivals,
 * cancellations, then one decision. A naive policy is a `decide` that visits everything and answers
 * by `world_run`, `world_drop` and `world_abort`. It has no timers, so a fast policy that asks to
 * be called too late differs from it. For tests only. */
#ifndef TT_TEST_NAIVE_WORLD_H
#define TT_TEST_NAIVE_WORLD_H

#include "unit/policy/drive.h"

enum { WORLD_REQUESTS = 48, WORLD_MODELS = 4, WORLD_EXECUTORS = 4, WORLD_TASKS = 1024 };

enum world_state { WORLD_TO_COME, WORLD_WAITS, WORLD_RUNS, WORLD_LEFT };
enum world_presence { WORLD_UP, WORLD_DRAINS, WORLD_GONE };
enum world_order { WORLD_BY_NUMBER, WORLD_BY_PRIORITY, WORLD_BY_DEADLINE };

struct world_request {
    enum world_state state;
    bool cancelled;
    struct drive_outcome outcome;
};
struct world_task {
    int32_t executor, model, rows, count, members[WORLD_REQUESTS];
    int64_t start_at, end_at;
    bool aborted;
};
struct world_executor {
    enum world_presence presence;
    int tasks[2]; /* the one that runs first; a second only if messages take time */
    int queued;
    int64_t stop_at;
};
struct world {
    const struct drive_model *models;
    const struct tt_step_model *step_models; /* for properties that drive_model lacks */
    const struct drive_arrival *arrivals;
    const struct drive_change *changes;
    int model_count, executor_count, request_count, change_count;
    int64_t d_ctrl_ns, d_data_ns, abort_ns;
    int64_t quantum_ns; /* all times of the case are multiples of it */
    enum world_presence presence[WORLD_MODELS];
    struct world_request requests[WORLD_REQUESTS];
    struct world_executor executors[WORLD_EXECUTORS];
    int task_count;
    /* What happened at this instant. */
    bool event, queue_changed[WORLD_MODELS], came_back[WORLD_MODELS], changed;
    void (*decide)(struct world *self, int64_t t);
    void *policy; /* state of the naive policy */
    struct world_task tasks[WORLD_TASKS];
};

/* ---- queries ---- */

static inline int64_t world_latency(const struct world *self, int m, int rows) {
    return self->models[m].alpha_ns * rows + self->models[m].beta_ns;
}
/* The time from decision to end, on an idle executor. */
static inline int64_t world_duration(const struct world *self, int m, int rows) {
    return self->d_ctrl_ns + self->d_data_ns * rows + world_latency(self, m, rows);
}

/* True if `rows` rows of model m that are dispatched at t meet the deadline. */
static inline bool world_in_time(const struct world *self, int m, int rows, int64_t t,
                                 int64_t deadline_at) {
    return deadline_at == TT_NEVER || t + world_duration(self, m, rows) <= deadline_at;
}

static inline int world_rows(const struct world *self, const int *queue, int from, int to) {
    int rows = 0;
    for (int i = from; i < to; i++)
        rows += self->arrivals[queue[i]].rows;
    return rows;
}

/* The waiting requests of a model, in order; ties by number. */
static inline int world_queue(const struct world *self, int m, enum world_order order, int *out) {
    int count = 0;
    for (int r = 0; r < self->request_count; r++) {
        if (self->requests[r].state != WORLD_WAITS || self->arrivals[r].model != m)
            continue;
        int at = count++;
        for (; at > 0; at--) {
            const struct drive_arrival *a = &self->arrivals[out[at - 1]], *b = &self->arrivals[r];
            if (order == WORLD_BY_NUMBER ||
                (order == WORLD_BY_DEADLINE && a->deadline_at <= b->deadline_at) ||
                (order == WORLD_BY_PRIORITY && a->priority <= b->priority))
                break;
            out[at] = out[at - 1];
        }
        out[at] = r;
    }
    return count;
}

static inline bool world_is_idle(const struct world *self, int e) {
    return self->executors[e].presence == WORLD_UP && self->executors[e].queued == 0;
}
static inline int world_first_idle(const struct world *self) {
    for (int e = 0; e < self->executor_count; e++)
        if (world_is_idle(self, e))
            return e;
    return -1;
}
/* The instant at which all tasks given to the executor will have ended. */
static inline int64_t world_free_at(const struct world *self, int e) {
    const struct world_executor *x = &self->executors[e];
    return x->queued ? self->tasks[x->tasks[x->queued - 1]].end_at : INT64_MIN;
}

/* ---- actions ---- */

static inline void world_leave(struct world *self, int r, int64_t t, enum tt_ending ending,
                               enum tt_drop_reason reason) {
    tt_assert(self->requests[r].outcome.ended_at == TT_NEVER);
    self->requests[r].state = WORLD_LEFT;
    self->requests[r].outcome =
        (struct drive_outcome){.ended_at = t, .ending = ending, .reason = reason};
}

static inline void world_drop(struct world *self, int r, int64_t t, enum tt_drop_reason reason) {
    tt_assert(self->requests[r].state == WORLD_WAITS);
    world_leave(self, r, t, TT_ENDING_DROPPED, reason);
}

/* Drops every hopeless head. */
static inline void world_drop_lost(struct world *self, enum world_order order, int64_t t) {
    for (int m = 0; m < self->model_count; m++) {
        int q[WORLD_REQUESTS];
        while (
            world_queue(self, m, order, q) > 0 &&
            !world_in_time(self, m, self->arrivals[q[0]].rows, t, self->arrivals[q[0]].deadline_at))
            world_drop(self, q[0], t, TT_DROP_DEADLINE);
    }
}

static inline void world_run(struct world *self, int e, const int *members, int count, int64_t t) {
    struct world_executor *x = &self->executors[e];
    tt_assert(x->presence == WORLD_UP && x->queued < 2);
    tt_assert(self->task_count < WORLD_TASKS && count > 0);
    struct world_task *task = &self->tasks[self->task_count];
    *task = (struct world_task){.executor = e, .model = self->arrivals[members[0]].model};
    for (int i = 0; i < count; i++) {
        tt_assert(self->requests[members[i]].state == WORLD_WAITS);
        self->requests[members[i]].state = WORLD_RUNS;
        task->members[task->count++] = members[i];
        task->rows += self->arrivals[members[i]].rows;
    }
    task->start_at =
        tt_instant_max(t + self->d_ctrl_ns + self->d_data_ns * task->rows, world_free_at(self, e));
    task->end_at = task->start_at + world_latency(self, task->model, task->rows);
    x->tasks[x->queued++] = self->task_count++;
}

static inline void world_abort(struct world *self, int e, int64_t t) {
    tt_assert(self->executors[e].queued == 1 && self->executors[e].stop_at == TT_NEVER);
    self->executors[e].stop_at = t + self->abort_ns;
}

/* ---- time ---- */

static inline void world_complete(struct world *self, int e, int64_t t) {
    struct world_executor *x = &self->executors[e];
    if (x->queued == 0)
        return;
    struct world_task *task = &self->tasks[x->tasks[0]];
    if (tt_instant_min(x->stop_at, task->end_at) != t)
        return;
    self->event = true;
    task->aborted = x->stop_at < task->end_at;
    task->end_at = t;
    x->tasks[0] = x->tasks[1];
    x->queued--;
    x->stop_at = TT_NEVER;
    for (int i = 0; i < task->count; i++) {
        int r = task->members[i];
        if (self->requests[r].cancelled)
            world_leave(self, r, t, TT_ENDING_CANCELLED, TT_DROP_NONE);
        else if (task->aborted)
            self->requests[r].state = WORLD_WAITS;
        else
            world_leave(self, r, t, TT_ENDING_DONE, TT_DROP_NONE);
    }
}

static inline void world_change(struct world *self, const struct drive_change *change) {
    bool empty = true;
    enum world_presence *presence =
        change->is_model ? &self->presence[change->id] : &self->executors[change->id].presence;
    if (change->is_model)
        for (int r = 0; r < self->request_count; r++)
            empty &=
                self->arrivals[r].model != change->id ||
                (self->requests[r].state != WORLD_WAITS && self->requests[r].state != WORLD_RUNS);
    else
        empty = self->executors[change->id].queued == 0;
    self->event = true;
    if (*presence == WORLD_DRAINS && !empty)
        return;
    *presence = (enum world_presence)((*presence + 1) % 3);
    self->changed = true;
    if (change->is_model && *presence == WORLD_UP)
        self->came_back[change->id] = true;
}

static inline void world_arrive(struct world *self, int r) {
    int m = self->arrivals[r].model;
    self->event = true;
    if (self->presence[m] == WORLD_UP) {
        self->requests[r].state = WORLD_WAITS;
        self->queue_changed[m] = true;
    } else {
        self->requests[r].state = WORLD_LEFT;
        self->requests[r].outcome.refused = true;
    }
}

static inline void world_cancel(struct world *self, int r, int64_t t) {
    struct world_request *request = &self->requests[r];
    if (request->state != WORLD_WAITS && request->state != WORLD_RUNS)
        return;
    self->event = request->cancelled = true;
    if (request->state == WORLD_RUNS)
        return;
    world_leave(self, r, t, TT_ENDING_CANCELLED, TT_DROP_NONE);
    self->queue_changed[self->arrivals[r].model] = true;
}

static inline void world_instant(struct world *self, int64_t t) {
    self->event = self->changed = false;
    memset(self->queue_changed, 0, sizeof(self->queue_changed));
    memset(self->came_back, 0, sizeof(self->came_back));
    for (int e = 0; e < self->executor_count; e++)
        world_complete(self, e, t);
    for (int c = 0; c < self->change_count; c++)
        if (self->changes[c].at == t)
            world_change(self, &self->changes[c]);
    for (int r = 0; r < self->request_count; r++)
        if (self->arrivals[r].at == t)
            world_arrive(self, r);
    for (int r = 0; r < self->request_count; r++)
        if (self->arrivals[r].cancel_at == t)
            world_cancel(self, r, t);
    self->decide(self, t);
}

/* Takes the setup of the drive, which must stay valid. */
static inline void world_open(struct world *self, const struct drive *drive,
                              void (*decide)(struct world *self, int64_t t), void *policy) {
    memset(self, 0, offsetof(struct world, tasks));
    self->models = drive->setup.models;
    self->step_models = drive->models;
    self->arrivals = drive->arrivals;
    self->changes = drive->setup.changes;
    self->model_count = drive->setup.model_count;
    self->executor_count = drive->setup.executors;
    self->request_count = drive->arrival_count;
    self->change_count = drive->setup.change_count;
    self->d_ctrl_ns = drive->setup.d_ctrl_ns;
    self->d_data_ns = drive->setup.d_data_ns;
    self->abort_ns = drive->setup.abort_ns;
    self->quantum_ns = 1;
    self->decide = decide;
    self->policy = policy;
    tt_assert(self->request_count <= WORLD_REQUESTS && self->model_count <= WORLD_MODELS);
    for (int e = 0; e < self->executor_count; e++)
        self->executors[e].stop_at = TT_NEVER;
    for (int r = 0; r < self->request_count; r++)
        self->requests[r].outcome.ended_at = TT_NEVER;
}

/* Walks through 0 .. until, or until all requests have arrived and left. With a quantum the instant
 * after each multiple counts too: a head that had to start at a multiple becomes hopeless there. */
static inline void world_walk(struct world *self, int64_t until) {
    int left = 0;
    for (int64_t t = 0; t <= until && left < self->request_count; t += self->quantum_ns) {
        world_instant(self, t);
        if (self->quantum_ns > 1 && t < until)
            world_instant(self, t + 1);
        left = 0;
        for (int r = 0; r < self->request_count; r++)
            left += self->requests[r].state == WORLD_LEFT;
    }
}

/* ---- comparison ---- */

static inline void world_describe_task(FILE *to, const char *whose, const struct drive_task *task,
                                       const int32_t *members) {
    fprintf(to, "%s: model %d on executor %d, [%lld, %lld]%s, requests", whose, task->model,
            task->executor, (long long)task->start_at, (long long)task->end_at,
            task->outcome == TT_OUTCOME_ABORTED ? " aborted" : "");
    for (int i = 0; i < task->count; i++)
        fprintf(to, " %d", members[i]);
    fprintf(to, "\n");
}

/* False if the two differ: the first difference goes to stderr. */
static inline bool world_agrees(const struct world *self, const struct drive *fast) {
    for (int i = 0; i < self->task_count && i < fast->task_count; i++) {
        const struct world_task *b = &self->tasks[i];
        const struct drive_task *a = &fast->tasks[i];
        bool aborted = a->outcome == TT_OUTCOME_ABORTED;
        bool same = a->executor == b->executor && a->model == b->model && a->count == b->count &&
                    a->rows == b->rows && a->start_at == b->start_at && a->end_at == b->end_at &&
                    aborted == b->aborted;
        for (int k = 0; same && k < a->count; k++)
            same = fast->members[a->first + k] == b->members[k];
        if (same)
            continue;
        fprintf(stderr, "task %d\n", i);
        world_describe_task(stderr, "  fast", a, fast->members + a->first);
        const struct drive_task naive = {.model = b->model,
                                         .executor = b->executor,
                                         .start_at = b->start_at,
                                         .end_at = b->end_at,
                                         .count = b->count,
                                         .outcome =
                                             b->aborted ? TT_OUTCOME_ABORTED : TT_OUTCOME_DONE};
        world_describe_task(stderr, "  naive", &naive, b->members);
        return false;
    }
    if (self->task_count != fast->task_count) {
        fprintf(stderr, "%d tasks, naive %d\n", fast->task_count, self->task_count);
        return false;
    }
    for (int r = 0; r < self->request_count; r++) {
        const struct drive_outcome *a = &fast->outcomes[r], *b = &self->requests[r].outcome;
        if (a->ended_at == b->ended_at && a->ending == b->ending && a->reason == b->reason &&
            a->refused == b->refused)
            continue;
        fprintf(stderr, "request %d left at %lld, ending %d, reason %d; naive: %lld, %d, %d\n", r,
                (long long)a->ended_at, a->ending, a->reason, (long long)b->ended_at, b->ending,
                b->reason);
        return false;
    }
    return true;
}

#endif
