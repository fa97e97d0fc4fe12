/* The deferred family once more, slowly: no timers, no heaps, no cursors. It walks through time one
 * nanosecond after the other and recomputes whatever the rules in policy/deferred_model.h and
 * deferred_rank.h name, by scanning everything. Floors are fixed (rates need longer times than it
 * can walk). Test-only. */
#ifndef TT_TEST_NAIVE_DEFERRED_H
#define TT_TEST_NAIVE_DEFERRED_H

#include "policy/deferred_model.h"
#include "unit/policy/drive.h"

enum { NAIVE_REQUESTS = 64, NAIVE_MODELS = 4, NAIVE_EXECUTORS = 4, NAIVE_TASKS = 64 };

struct naive_request {
    bool here, gone; /* queued; has left the queue */
    int64_t ended_at;
    enum tt_drop_reason dropped;
    bool cancelled;
};
struct naive_executor {
    int64_t free_at;
    int64_t ends[2];
    int queued;
    bool offered;
};
struct naive_task {
    int executor, count, members[NAIVE_REQUESTS];
    int64_t start_at;
};
struct naive {
    struct tt_deferred_options options;
    const struct drive_model *models;
    int model_count, executor_count, request_count;
    const struct drive_arrival *arrivals;
    struct naive_request requests[NAIVE_REQUESTS];
    struct naive_executor executors[NAIVE_EXECUTORS];
    struct tt_deferred_candidate candidates[NAIVE_MODELS];
    int64_t credit[NAIVE_MODELS];
    struct naive_task tasks[NAIVE_TASKS];
    int task_count;
    int64_t gap_fixed, gap_seen, last_dispatch_at;
};

static inline int64_t naive_latency(const struct naive *self, int m, int rows) {
    return self->models[m].alpha_ns * rows + self->models[m].beta_ns;
}

/* The queue of a model in order of (deadline, number). */
static inline int naive_queue(const struct naive *self, int m, int *out) {
    int count = 0;
    for (int r = 0; r < self->request_count; r++) {
        if (!self->requests[r].here || self->arrivals[r].model != m)
            continue;
        int at = count++;
        while (at > 0 && self->arrivals[out[at - 1]].deadline_at > self->arrivals[r].deadline_at) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = r;
    }
    return count;
}

static inline void naive_drop(struct naive *self, int r, int64_t t, enum tt_drop_reason reason) {
    self->requests[r] = (struct naive_request){.gone = true, .ended_at = t, .dropped = reason};
    int64_t *credit = &self->credit[self->arrivals[r].model];
    *credit = tt_instant_min(*credit + 100, 1000);
}

static inline int64_t naive_start(const struct naive *self, int64_t t, int64_t free_at, int rows) {
    return tt_instant_max(t + self->options.d_ctrl_ns + self->options.d_data_ns * rows, free_at);
}
static inline bool naive_fits(const struct naive *self, int m, int64_t t, int64_t free_at, int rows,
                              int64_t deadline_at) {
    return naive_start(self, t, free_at, rows) + naive_latency(self, m, rows) <= deadline_at;
}
static inline int naive_rows(const struct naive *self, const int *queue, int from, int to) {
    int rows = 0;
    for (int i = from; i < to; i++)
        rows += self->arrivals[queue[i]].rows;
    return rows;
}

static inline int64_t naive_exec(const struct naive *self, int m, const struct drive_arrival *head,
                                 int size) {
    const struct tt_deferred_options *o = &self->options;
    int64_t frontrun = head->deadline_at - naive_latency(self, m, size + 1);
    if (o->defer == TT_DEFER_TIMEOUT)
        return head->at + o->delay_ns;
    if (o->defer == TT_DEFER_FULL)
        return frontrun;
    if (o->defer == TT_DEFER_NONE)
        return INT64_MIN;
    int64_t slack = tt_instant_max(0, frontrun - head->at);
    int64_t wait = slack - tt_instant_min(self->gap_seen * o->gap_permille / 1000,
                                          slack * o->slack_permille / 1000);
    if (o->beta_permille)
        wait = tt_instant_min(wait, self->models[m].beta_ns * o->beta_permille / 1000);
    return head->at + wait;
}

/* Returns how many heads are skipped; drops the dead. */
static inline int naive_form(struct naive *self, int m, int64_t t, int64_t free_at) {
    const struct tt_deferred_options *o = &self->options;
    struct tt_deferred_candidate *c = &self->candidates[m];
    *c = (struct tt_deferred_candidate){.model = m};
    int q[NAIVE_REQUESTS], count;
    while ((count = naive_queue(self, m, q)) > 0 &&
           !naive_fits(self, m, t, free_at, self->arrivals[q[0]].rows,
                       self->arrivals[q[0]].deadline_at))
        naive_drop(self, q[0], t, TT_DROP_DEADLINE);
    if (count == 0)
        return 0;
    int max_batch = self->models[m].max_batch;
    int target = o->floor == TT_FLOOR_FIXED ? o->target : 1;
    target = target < max_batch ? target : max_batch;
    int k = 0;
    for (; k < count; k++) {
        int left = naive_rows(self, q, k, count), need = left < target ? left : target;
        if (need < self->arrivals[q[k]].rows)
            need = self->arrivals[q[k]].rows;
        if (naive_fits(self, m, t, free_at, need, self->arrivals[q[k]].deadline_at))
            break;
    }
    if (k == count)
        k = 0;
    const struct drive_arrival *head = &self->arrivals[q[k]];
    int end = k + 1;
    while (end < count && naive_rows(self, q, k, end + 1) <= max_batch &&
           naive_fits(self, m, t, free_at, naive_rows(self, q, k, end + 1), head->deadline_at))
        end++;
    c->size = naive_rows(self, q, k, end);
    c->lead_ns = o->d_ctrl_ns + o->d_data_ns * c->size;
    c->exec_at = naive_start(self, t, free_at, c->size);
    if (end == count && c->size < max_batch)
        c->exec_at = tt_instant_max(c->exec_at, naive_exec(self, m, head, c->size));
    c->latest_at = head->deadline_at - naive_latency(self, m, c->size);
    c->key = o->key == TT_KEY_LATEST ? c->latest_at : head->deadline_at;
    if (o->credit)
        c->key -= self->credit[m] * o->credit_step_ns / 100;
    return k;
}

/* The executor answers the candidate of model m at t. */
static inline void naive_grant(struct naive *self, int m, int e, int idle, int64_t t) {
    const struct tt_deferred_options *o = &self->options;
    struct naive_executor *executor = &self->executors[e];
    executor->offered = false;
    self->gap_seen = self->gap_fixed >> 10;
    int skip = naive_form(self, m, t, executor->free_at);
    struct tt_deferred_candidate c = self->candidates[m];
    bool strict = o->defer == TT_DEFER_FULL || o->defer == TT_DEFER_TIMEOUT;
    if (c.size == 0 || (strict && c.exec_at > naive_start(self, t, executor->free_at, c.size))) {
        executor->offered = executor->queued == 0 && executor->free_at <= t;
        naive_form(self, m, t, INT64_MIN);
        return;
    }
    int q[NAIVE_REQUESTS], count = naive_queue(self, m, q);
    int want = c.size, max_batch = self->models[m].max_batch;
    if (o->split && idle > 1) {
        int64_t alpha = self->models[m].alpha_ns, beta = self->models[m].beta_ns;
        int share = (naive_rows(self, q, skip, count) + idle - 1) / idle;
        int grain =
            alpha ? (int)tt_instant_min((2 * beta + alpha - 1) / alpha, max_batch) : max_batch;
        int target = o->floor == TT_FLOOR_FIXED ? o->target : 1;
        target = target < max_batch ? target : max_batch;
        share = share > grain ? share : grain;
        share = share > target ? share : target;
        want = share < want ? share : want;
    }
    for (int i = 0; i < skip; i++)
        naive_drop(self, q[i], t, TT_DROP_EARLY);
    struct naive_task *task = &self->tasks[self->task_count++];
    *task = (struct naive_task){.executor = e};
    int rows = 0;
    for (int i = skip; i < count; i++) {
        int more = self->arrivals[q[i]].rows;
        if (rows > 0 && rows + more > want)
            break;
        rows += more;
        task->members[task->count++] = q[i];
        self->requests[q[i]].here = false;
        self->requests[q[i]].gone = true;
    }
    task->start_at = naive_start(self, t, executor->free_at, rows);
    executor->free_at = task->start_at + naive_latency(self, m, rows);
    executor->ends[executor->queued++] = executor->free_at;
    for (int i = 0; i < task->count; i++)
        self->requests[task->members[i]].ended_at = executor->free_at;
    if (self->last_dispatch_at >= 0)
        self->gap_fixed += (((t - self->last_dispatch_at) << 10) - self->gap_fixed) / 100;
    self->last_dispatch_at = t;
    naive_form(self, m, t, INT64_MIN);
}

/* One grant, if one is due at t. */
static inline bool naive_match(struct naive *self, int64_t t) {
    bool ahead = self->options.d_ctrl_ns > 0 || self->options.d_data_ns > 0;
    const struct tt_deferred_candidate *best = NULL;
    for (int m = 0; m < self->model_count; m++) {
        const struct tt_deferred_candidate *c = &self->candidates[m];
        if (c->size > 0 && c->exec_at <= t + c->lead_ns && t + c->lead_ns <= c->latest_at &&
            (!best || c->key < best->key))
            best = c;
    }
    if (!best)
        return false;
    int first = -1, idle = 0;
    for (int e = self->executor_count - 1; e >= 0; e--) {
        struct naive_executor *x = &self->executors[e];
        if (ahead && x->queued < 2 && x->free_at <= t + best->lead_ns &&
            x->free_at <= best->latest_at)
            x->offered = true;
        if (x->offered) {
            first = e;
            idle++;
        }
    }
    if (first < 0)
        return false;
    naive_grant(self, best->model, first, idle, t);
    return true;
}

static inline void naive_instant(struct naive *self, int64_t t) {
    bool changed[NAIVE_MODELS] = {false};
    for (int e = 0; e < self->executor_count; e++) {
        struct naive_executor *x = &self->executors[e];
        if (x->queued > 0 && x->ends[0] == t) {
            x->ends[0] = x->ends[1];
            x->queued--;
        }
        if (x->queued == 0 && x->free_at <= t)
            x->offered = true;
    }
    for (int r = 0; r < self->request_count; r++) {
        const struct drive_arrival *a = &self->arrivals[r];
        if (a->at == t) {
            self->requests[r].here = true;
            self->credit[a->model] = tt_instant_max(self->credit[a->model] - 1, -1000);
            changed[a->model] = true;
        }
        if (a->cancel_at == t && self->requests[r].here) {
            self->requests[r] =
                (struct naive_request){.gone = true, .ended_at = t, .cancelled = true};
            changed[a->model] = true;
        }
    }
    for (int m = 0; m < self->model_count; m++) {
        const struct tt_deferred_candidate *c = &self->candidates[m];
        int q[NAIVE_REQUESTS];
        bool due = changed[m];
        if (naive_queue(self, m, q) > 0)
            due |= self->arrivals[q[0]].deadline_at <= t;
        if (c->size > 0 && self->options.reform_at_latest)
            due |= c->latest_at - c->lead_ns < t;
        if (c->size > 0 && c->exec_at > c->latest_at)
            due |= c->exec_at - c->lead_ns <= t;
        if (due)
            naive_form(self, m, t, INT64_MIN);
    }
    while (naive_match(self, t))
        ;
}

static inline void naive_run(struct naive *self, int64_t until) {
    self->last_dispatch_at = -1;
    for (int64_t t = 0; t <= until; t++)
        naive_instant(self, t);
}

#endif
