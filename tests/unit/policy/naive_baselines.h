/* Naive models of serial, window, clockwork and shepherd, written from their headers. At every
 * instant, and again after each action, each visits all requests. For tests only. */
#ifndef TT_TEST_NAIVE_BASELINES_H
#define TT_TEST_NAIVE_BASELINES_H

#include "unit/policy/naive_world.h"

/* ---- serial ---- */

struct naive_serial {
    bool drop;
};

static inline void naive_serial_decide(struct world *w, int64_t t) {
    const struct naive_serial *self = w->policy;
    for (;;) {
        if (self->drop)
            world_drop_lost(w, WORLD_BY_NUMBER, t);
        int e = world_first_idle(w), first = -1;
        for (int r = w->request_count - 1; r >= 0; r--)
            if (w->requests[r].state == WORLD_WAITS)
                first = r;
        if (e < 0 || first < 0)
            return;
        world_run(w, e, &first, 1, t);
    }
}

/* ---- window ---- */

struct naive_window {
    bool drop, is_static, same_length, round_robin;
    int64_t delay_ns; /* -1: the model's own */
    int max_batch;    /* 0: the model's own */
    int last;         /* the model that ran last; -1: none */
};

/* Writes the requests that run if model m runs to `out`; 0: its candidate is not due. */
static inline int naive_window_due(const struct world *w, int m, int64_t t, int *out) {
    const struct naive_window *self = w->policy;
    const struct tt_step_model *model = &w->step_models[m];
    int most = w->models[m].max_batch, q[WORLD_REQUESTS], count = 0, rows = 0;
    if (self->max_batch && self->max_batch < most)
        most = self->max_batch;
    int waiting = world_queue(w, m, WORLD_BY_PRIORITY, q);
    bool full = false;
    int64_t oldest_at = TT_NEVER;
    for (int i = 0; i < waiting && !full; i++) {
        const struct drive_arrival *a = &w->arrivals[q[i]];
        if (self->same_length && a->length != w->arrivals[q[0]].length)
            continue;
        full = count > 0 && rows + a->rows > most;
        if (full)
            break;
        out[count++] = q[i];
        rows += a->rows;
        oldest_at = tt_instant_min(oldest_at, a->at);
    }
    if (count == 0)
        return 0;
    for (int p = model->preferred_count - 1; !self->is_static && p >= 0; p--)
        for (int k = 1; k <= count; k++)
            if (world_rows(w, out, 0, k) == model->preferred[p])
                return k;
    if (full || rows >= most || w->presence[m] == WORLD_DRAINS)
        return count;
    int64_t delay = self->delay_ns >= 0 ? self->delay_ns : model->window_ns;
    if (self->is_static && self->delay_ns < 0 && model->window_ns == 0)
        return 0;
    return t >= oldest_at + delay ? count : 0;
}

static inline void naive_window_decide(struct world *w, int64_t t) {
    struct naive_window *self = w->policy;
    for (;;) {
        if (self->drop)
            world_drop_lost(w, WORLD_BY_PRIORITY, t);
        int e = world_first_idle(w), count = 0, members[WORLD_REQUESTS];
        if (e < 0)
            return;
        for (int k = 1; k <= w->model_count; k++) {
            int m = self->round_robin ? (self->last + k) % w->model_count : k - 1;
            int batch[WORLD_REQUESTS], size = naive_window_due(w, m, t, batch);
            if (size == 0 || (count > 0 && (self->round_robin || batch[0] > members[0])))
                continue;
            count = size;
            memcpy(members, batch, sizeof(batch));
        }
        if (count == 0)
            return;
        self->last = w->arrivals[members[0]].model;
        world_run(w, e, members, count, t);
    }
}

/* ---- clockwork and shepherd: candidates ---- */

struct naive_candidate {
    int members[WORLD_REQUESTS];
    int count, rows;
    int64_t latest_at;
};

/* The requests from, .. to - 1 of a queue as a batch that starts at `t`; count = 0 if they are too
 * many or too late. */
static inline struct naive_candidate naive_candidate(const struct world *w, int m, const int *q,
                                                     int from, int to, int64_t t) {
    struct naive_candidate c = {.latest_at = TT_NEVER};
    int64_t deadline_at = TT_NEVER;
    for (int i = from; i < to; i++) {
        c.members[c.count++] = q[i];
        c.rows += w->arrivals[q[i]].rows;
        deadline_at = tt_instant_min(deadline_at, w->arrivals[q[i]].deadline_at);
    }
    if (deadline_at != TT_NEVER)
        c.latest_at = deadline_at - world_duration(w, m, c.rows);
    if (c.rows > w->models[m].max_batch || c.latest_at < t)
        c.count = c.rows = 0;
    return c;
}

struct naive_clockwork {
    bool batch_of_one;
};

static inline void naive_clockwork_decide(struct world *w, int64_t t) {
    const struct naive_clockwork *self = w->policy;
    for (;;) {
        world_drop_lost(w, WORLD_BY_DEADLINE, t);
        int e = world_first_idle(w);
        struct naive_candidate best = {.count = 0};
        for (int m = 0; m < w->model_count; m++) {
            int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q);
            if (self->batch_of_one && count > 1)
                count = 1;
            for (int to = count; to > 0; to--) { /* among equal ones the longest */
                struct naive_candidate c = naive_candidate(w, m, q, 0, to, t);
                if (c.count > 0 && (best.count == 0 || c.latest_at < best.latest_at))
                    best = c;
            }
        }
        if (e < 0 || best.count == 0)
            return;
        world_run(w, e, best.members, best.count, t);
    }
}

/* ---- shepherd ---- */

enum { NO_MODEL = -1 };

struct naive_shepherd {
    bool largest;
    int64_t threshold_permille, abort_cost_ns;
    struct {
        int model,
            rows; /* the model that the executor was freed for, and the rows of the aborted batch */
    } claims[WORLD_EXECUTORS];
    int64_t aborts, kept;
};

static inline bool naive_shepherd_is_enough(const struct naive_shepherd *self, int rows,
                                            int stopped_rows) {
    return rows * INT64_C(1000) >= self->threshold_permille * stopped_rows;
}

/* The candidate of model m for a start at t: the longest run from the head, or from any request. */
static inline struct naive_candidate naive_shepherd_run(const struct world *w, int m, bool anywhere,
                                                        int64_t t) {
    int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q);
    struct naive_candidate best = {.count = 0};
    for (int from = 0; from < (anywhere ? count : 1); from++)
        for (int to = from + 1; to <= count; to++) {
            struct naive_candidate c = naive_candidate(w, m, q, from, to, t);
            if (c.rows > best.rows)
                best = c;
        }
    return best;
}

static inline bool naive_shepherd_is_promised(const struct world *w, int m) {
    const struct naive_shepherd *self = w->policy;
    for (int e = 0; e < w->executor_count; e++)
        if (self->claims[e].model == m)
            return true;
    return false;
}

/* The largest of all models' candidates; `aborting`: of those that may request an abort. */
static inline struct naive_candidate naive_shepherd_best(const struct world *w, bool aborting,
                                                         int64_t t) {
    const struct naive_shepherd *self = w->policy;
    struct naive_candidate best = {.count = 0};
    for (int m = 0; m < w->model_count; m++) {
        if (aborting && naive_shepherd_is_promised(w, m))
            continue;
        struct naive_candidate c =
            naive_shepherd_run(w, m, self->largest, t + (aborting ? self->abort_cost_ns : 0));
        if (c.rows > best.rows || (c.rows == best.rows && c.latest_at < best.latest_at))
            best = c;
    }
    return best;
}

/* The batch of the idle executor e: that of its claim if it is still valid, else the largest
 * candidate. The claim ends if no request waits for an idle executor. */
static inline struct naive_candidate naive_shepherd_choose(struct world *w, int e, int64_t t) {
    struct naive_shepherd *self = w->policy;
    int m = self->claims[e].model;
    self->claims[e].model = NO_MODEL;
    if (m != NO_MODEL) {
        struct naive_candidate c = naive_shepherd_run(w, m, true, t);
        if (c.count > 0 && naive_shepherd_is_enough(self, c.rows, self->claims[e].rows)) {
            self->kept++;
            return c;
        }
    }
    return naive_shepherd_best(w, false, t);
}

/* The executor of the smallest running batch that was not aborted; -1: none. */
static inline int naive_shepherd_victim(const struct world *w) {
    int victim = -1, least = 0;
    for (int e = 0; e < w->executor_count; e++) {
        const struct world_executor *x = &w->executors[e];
        if (x->presence != WORLD_UP || x->queued == 0 || x->stop_at != TT_NEVER)
            continue;
        int rows = w->tasks[x->tasks[0]].rows;
        if (victim < 0 || rows < least) {
            victim = e;
            least = rows;
        }
    }
    return victim;
}

static inline void naive_shepherd_preempt(struct world *w, int64_t t) {
    struct naive_shepherd *self = w->policy;
    for (int victim; (victim = naive_shepherd_victim(w)) >= 0;) {
        struct naive_candidate c = naive_shepherd_best(w, true, t);
        int rows = w->tasks[w->executors[victim].tasks[0]].rows;
        if (c.count == 0 || !naive_shepherd_is_enough(self, c.rows, rows))
            return;
        world_abort(w, victim, t);
        self->aborts++;
        self->claims[victim].model = w->arrivals[c.members[0]].model;
        self->claims[victim].rows = rows;
    }
}

static inline void naive_shepherd_decide(struct world *w, int64_t t) {
    struct naive_shepherd *self = w->policy;
    for (int e = 0; e < w->executor_count; e++) {
        int m = self->claims[e].model;
        if (w->executors[e].presence != WORLD_UP ||
            (m != NO_MODEL && (w->presence[m] == WORLD_GONE || w->came_back[m])))
            self->claims[e].model = NO_MODEL;
    }
    world_drop_lost(w, WORLD_BY_DEADLINE, t);
    for (int e = 0; e < w->executor_count; e++) {
        if (!world_is_idle(w, e))
            continue;
        struct naive_candidate c = naive_shepherd_choose(w, e, t);
        if (c.count > 0)
            world_run(w, e, c.members, c.count, t);
        world_drop_lost(w, WORLD_BY_DEADLINE, t);
    }
    if (world_first_idle(w) < 0)
        naive_shepherd_preempt(w, t);
}

#endif
