/* A naive model of the deferred family: no timers, no heaps, no cursors. At every instant it
 * recomputes all that the rules in policy/deferred/deferred_model.h and deferred_rank.h name, by
 * scanning everything. The minimum size is fixed or 1, because rates need longer times than the
 * world can walk. For tests only. */
#ifndef TT_TEST_NAIVE_DEFERRED_H
#define TT_TEST_NAIVE_DEFERRED_H

#include "policy/deferred/deferred_model.h"
#include "unit/policy/naive_world.h"

struct naive_deferred {
    struct tt_deferred_options options;
    struct tt_deferred_candidate candidates[WORLD_MODELS];
    int64_t credit[WORLD_MODELS];
    bool offered[WORLD_EXECUTORS];
    int64_t gap_fixed, gap_seen, last_dispatch_at; /* -1: none */
};

static inline void naive_deferred_drop(struct world *w, int r, int64_t t,
                                       enum tt_drop_reason reason) {
    struct naive_deferred *self = w->policy;
    int64_t *credit = &self->credit[w->arrivals[r].model];
    *credit = tt_instant_min(*credit + 100, 1000);
    world_drop(w, r, t, reason);
}

static inline int64_t naive_deferred_start(const struct world *w, int64_t t, int64_t free_at,
                                           int rows) {
    return tt_instant_max(t + w->d_ctrl_ns + w->d_data_ns * rows, free_at);
}
static inline bool naive_deferred_fits(const struct world *w, int m, int64_t t, int64_t free_at,
                                       int rows, int64_t deadline_at) {
    return naive_deferred_start(w, t, free_at, rows) + world_latency(w, m, rows) <= deadline_at;
}
static inline int naive_deferred_floor(const struct world *w, int m) {
    const struct naive_deferred *self = w->policy;
    int floor = self->options.floor == TT_FLOOR_FIXED ? self->options.target : 1;
    return floor < w->models[m].max_batch ? floor : w->models[m].max_batch;
}

/* The start of a batch of `size` rows that can still grow; its head has a deadline. */
static inline int64_t naive_deferred_exec(const struct world *w, int m,
                                          const struct drive_arrival *head, int size) {
    const struct naive_deferred *self = w->policy;
    const struct tt_deferred_options *o = &self->options;
    int64_t frontrun = head->deadline_at - world_latency(w, m, size + 1);
    int64_t latest = head->deadline_at - world_latency(w, m, size);
    if (o->defer == TT_DEFER_TIMEOUT && o->delay_permille > 0)
        return tt_instant_min(latest,
                              head->at + (head->deadline_at - head->at) * o->delay_permille / 1000);
    if (o->defer == TT_DEFER_TIMEOUT)
        return tt_instant_min(latest, head->at + o->delay_ns);
    if (o->defer == TT_DEFER_FULL)
        return frontrun;
    if (o->defer == TT_DEFER_NONE)
        return INT64_MIN;
    if (o->by_load && 2 * world_latency(w, m, 1) <= w->models[m].slo_ns)
        return head->at; /* no load is known */
    int64_t slack = tt_instant_max(0, frontrun - head->at);
    int64_t wait = slack - tt_instant_min(self->gap_seen * o->gap_permille / 1000,
                                          slack * o->slack_permille / 1000);
    if (o->beta_permille)
        wait = tt_instant_min(wait, w->models[m].beta_ns * o->beta_permille / 1000);
    return head->at + wait;
}

/* The first request, from q[k] on, of which a batch of the minimum size could be in time. If there
 * is none: 0. */
static inline int naive_deferred_skip(const struct world *w, int m, int64_t t, int64_t free_at,
                                      const int *q, int k, int count) {
    int floor = naive_deferred_floor(w, m);
    for (; k < count; k++) {
        int left = world_rows(w, q, k, count), need = left < floor ? left : floor;
        if (need < w->arrivals[q[k]].rows)
            need = w->arrivals[q[k]].rows;
        if (naive_deferred_fits(w, m, t, free_at, need, w->arrivals[q[k]].deadline_at))
            return k;
    }
    return 0;
}

/* The end of the longest prefix from q[k] on that is in time. */
static inline int naive_deferred_end(const struct world *w, int m, int64_t t, int64_t free_at,
                                     const int *q, int k, int count) {
    int end = k + 1;
    while (end < count && world_rows(w, q, k, end + 1) <= w->models[m].max_batch &&
           naive_deferred_fits(w, m, t, free_at, world_rows(w, q, k, end + 1),
                               w->arrivals[q[k]].deadline_at))
        end++;
    return end;
}
/* Forms the candidate anew; drops hopeless requests. Returns the number of heads that it skips. */
static inline int naive_deferred_form(struct world *w, int m, int64_t t, int64_t free_at) {
    struct naive_deferred *self = w->policy;
    const struct tt_deferred_options *o = &self->options;
    struct tt_deferred_candidate *c = &self->candidates[m];
    *c = (struct tt_deferred_candidate){.model = m};
    int q[WORLD_REQUESTS], count;
    while ((count = world_queue(w, m, WORLD_BY_DEADLINE, q)) > 0 &&
           !naive_deferred_fits(w, m, t, free_at, w->arrivals[q[0]].rows,
                                w->arrivals[q[0]].deadline_at))
        naive_deferred_drop(w, q[0], t, TT_DROP_DEADLINE);
    if (count == 0)
        return 0;
    int max_batch = w->models[m].max_batch;
    int k = naive_deferred_skip(w, m, t, free_at, q, 0, count);
    int end = naive_deferred_end(w, m, t, free_at, q, k, count);
    const struct drive_arrival *head = &w->arrivals[q[k]];
    c->size = world_rows(w, q, k, end);
    c->left = world_rows(w, q, k, count);
    c->lead_ns = w->d_ctrl_ns + w->d_data_ns * c->size;
    c->exec_at = naive_deferred_start(w, t, free_at, c->size);
    c->latest_at = c->key = TT_NEVER;
    if (head->deadline_at == TT_NEVER)
        return k;
    if (end == count && c->size < max_batch)
        c->exec_at = tt_instant_max(c->exec_at, naive_deferred_exec(w, m, head, c->size));
    /* Appendix D of Symphony: frontrun binds a batch with more requests behind it, too. */
    if (end < count && o->defer == TT_DEFER_FULL) {
        int grown = c->size + w->arrivals[q[end]].rows;
        if (grown <= max_batch)
            c->exec_at = tt_instant_max(c->exec_at, head->deadline_at - world_latency(w, m, grown));
    }
    c->latest_at = head->deadline_at - world_latency(w, m, c->size);
    c->key = o->key == TT_KEY_LATEST ? c->latest_at : head->deadline_at;
    if (o->credit)
        c->key -= self->credit[m] * o->credit_step_ns / 100;
    return k;
}

/* The rows of the candidate to take if `idle` executors can share the waiting rows. */
static inline int naive_deferred_want(const struct world *w, int m, int left, int size, int idle) {
    const struct naive_deferred *self = w->policy;
    if (!self->options.split || idle <= 1)
        return size;
    int64_t alpha = w->models[m].alpha_ns, beta = w->models[m].beta_ns;
    int max_batch = w->models[m].max_batch, want = (left + idle - 1) / idle;
    int grain = alpha ? (int)tt_instant_min((2 * beta + alpha - 1) / alpha, max_batch) : max_batch;
    int floor = naive_deferred_floor(w, m);
    want = want > grain ? want : grain;
    want = want > floor ? want : floor;
    return want < size ? want : size;
}

/* ---- lookahead: as lookahead.h says, request by request ---- */

enum { NAIVE_ROWS = 4096, NAIVE_EXECUTORS = 64 };

struct naive_plan {
    const int64_t *tail_ns, *centre_ns; /* by rows */
    int max_batch, min_size;
    int64_t start_at;
    int64_t free_at[NAIVE_EXECUTORS]; /* of the others, in any order */
    int free_count;
    int64_t known_until; /* TT_NEVER: all are known */
};

/* The losses of serving rows with these deadlines. */
static inline int naive_plan_losses(const struct naive_plan *self, const int64_t *deadline_at,
                                    int rows) {
    int64_t free_at[NAIVE_EXECUTORS + 1];
    int lost = 0;
    for (int e = 0; e < self->free_count; e++)
        free_at[e] = tt_instant_max(self->start_at, self->free_at[e]);
    free_at[self->free_count] = self->start_at;
    for (int batch = 0, row = 0; batch < 64 && row < rows; batch++) {
        int first = 0;
        for (int e = 0; e <= self->free_count; e++)
            if (free_at[e] < free_at[first])
                first = e;
        int64_t t = free_at[first];
        while (row < rows &&
               t + self->tail_ns[rows - row < self->min_size ? rows - row : self->min_size] >
                   deadline_at[row]) {
            row++;
            lost++;
        }
        if (row == rows || t >= self->known_until)
            break;
        int size = 1;
        while (size < self->max_batch && size < rows - row &&
               t + self->tail_ns[size + 1] <= deadline_at[row])
            size++;
        free_at[first] = t + self->centre_ns[size];
        row += size;
    }
    return lost;
}

/* The number of requests to skip, of `count` that wait with these deadlines and rows. */
static inline int naive_plan_skip(const struct naive_plan *self, const int64_t *deadline_at,
                                  const int *request_rows, int count) {
    static int64_t deadlines[NAIVE_ROWS];
    int rows = 0, best = 0, fewest = INT32_MAX;
    for (int i = 0; i < count; i++)
        for (int row = 0; row < request_rows[i]; row++)
            deadlines[rows++] = deadline_at[0];
    tt_assert(rows <= NAIVE_ROWS);
    if (naive_plan_losses(self, deadlines, rows) == 0)
        return 0;
    int64_t apart_ns = (deadline_at[count - 1] - deadline_at[0]) / 64;
    int counted = count < 512 ? count : 512, begins[512], group = 0;
    rows = 0;
    for (int i = 0; i < counted; i++) {
        if (deadline_at[i] - deadline_at[group] > apart_ns)
            group = i;
        begins[i] = group == i ? rows : -1;
        for (int row = 0; row < request_rows[i]; row++)
            deadlines[rows++] = deadline_at[group];
    }
    for (int i = 0; i < counted; i++) {
        if (begins[i] < 0)
            continue;
        int lost = begins[i] + naive_plan_losses(self, deadlines + begins[i], rows - begins[i]);
        if (lost < fewest) {
            fewest = lost;
            best = i;
        }
    }
    return best;
}

/* How many heads a grant skips where the rules of the batch alone skip `k`. */
static inline int naive_deferred_look_ahead(const struct world *w, int m, int granted, int64_t t,
                                            int64_t free_at, int k) {
    int q[WORLD_REQUESTS], rows[WORLD_REQUESTS];
    int64_t deadline_at[WORLD_REQUESTS], latency_ns[NAIVE_ROWS];
    int count = world_queue(w, m, WORLD_BY_DEADLINE, q);
    struct naive_plan plan = {.tail_ns = latency_ns,
                              .centre_ns = latency_ns,
                              .max_batch = w->models[m].max_batch,
                              .min_size = naive_deferred_floor(w, m),
                              .start_at = naive_deferred_start(w, t, free_at, 1),
                              .known_until = TT_NEVER};
    for (int b = 0; b <= plan.max_batch; b++)
        latency_ns[b] = b ? world_latency(w, m, b) : 0;
    for (int e = 0; e < w->executor_count; e++)
        if (e != granted && w->executors[e].presence == WORLD_UP)
            plan.free_at[plan.free_count++] = world_free_at(w, e);
    for (int i = k; i < count; i++) {
        deadline_at[i - k] = w->arrivals[q[i]].deadline_at;
        rows[i - k] = w->arrivals[q[i]].rows;
    }
    int more = naive_plan_skip(&plan, deadline_at, rows, count - k);
    return more > 0 ? naive_deferred_skip(w, m, t, free_at, q, k + more, count) : k;
}

/* The executor answers the candidate of model m at t. */
static inline void naive_deferred_grant(struct world *w, int m, int e, int idle, int64_t t) {
    struct naive_deferred *self = w->policy;
    int64_t free_at = world_free_at(w, e);
    self->offered[e] = false;
    self->gap_seen = self->gap_fixed >> 10;
    bool listed = self->candidates[m].left > self->candidates[m].size;
    int skip = naive_deferred_form(w, m, t, free_at);
    struct tt_deferred_candidate c = self->candidates[m];
    bool strict = self->options.defer == TT_DEFER_FULL || self->options.defer == TT_DEFER_TIMEOUT;
    if (c.size == 0 || (strict && c.exec_at > naive_deferred_start(w, t, free_at, c.size))) {
        self->offered[e] = world_is_idle(w, e);
        naive_deferred_form(w, m, t, INT64_MIN);
        return;
    }
    int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q), rows = 0;
    if (self->options.lookahead && listed && c.left > c.size)
        skip = naive_deferred_look_ahead(w, m, e, t, free_at, skip);
    int end = naive_deferred_end(w, m, t, free_at, q, skip, count);
    c.size = world_rows(w, q, skip, end);
    end = skip;
    int want = naive_deferred_want(w, m, world_rows(w, q, skip, count), c.size, idle);
    for (int i = 0; i < skip; i++)
        naive_deferred_drop(w, q[i], t, TT_DROP_EARLY);
    while (end < count && (rows == 0 || rows + w->arrivals[q[end]].rows <= want))
        rows += w->arrivals[q[end++]].rows;
    world_run(w, e, q + skip, end - skip, t);
    if (self->last_dispatch_at >= 0)
        self->gap_fixed += (((t - self->last_dispatch_at) << 10) - self->gap_fixed) / 100;
    self->last_dispatch_at = t;
    naive_deferred_form(w, m, t, INT64_MIN);
}

/* True if messages take time and a batch could be sent to the executor while it runs another. */
static inline bool naive_deferred_is_ahead(const struct world *w, int e) {
    const struct world_executor *x = &w->executors[e];
    return (w->d_ctrl_ns > 0 || w->d_data_ns > 0) && x->presence == WORLD_UP && x->queued < 2;
}

/* The candidate of the smallest key that some executor reaches in time. *out_lead: the longest
 * message of such a candidate. */
static inline const struct tt_deferred_candidate *
naive_deferred_best(const struct world *w, int64_t t, int64_t *out_lead) {
    const struct naive_deferred *self = w->policy;
    int64_t first_free_at = TT_NEVER;
    for (int e = 0; e < w->executor_count; e++)
        if (self->offered[e] || naive_deferred_is_ahead(w, e))
            first_free_at = tt_instant_min(first_free_at, tt_instant_max(t, world_free_at(w, e)));
    const struct tt_deferred_candidate *best = NULL;
    *out_lead = 0;
    for (int m = 0; m < w->model_count; m++) {
        const struct tt_deferred_candidate *c = &self->candidates[m];
        if (c->size == 0 || c->exec_at > t + c->lead_ns || t + c->lead_ns > c->latest_at ||
            first_free_at > c->latest_at)
            continue;
        *out_lead = tt_instant_max(*out_lead, c->lead_ns);
        if (!best || c->key < best->key)
            best = c;
    }
    return best;
}

/* One grant, if one is due at t. */
static inline bool naive_deferred_match(struct world *w, int64_t t) {
    struct naive_deferred *self = w->policy;
    int64_t lead;
    const struct tt_deferred_candidate *best = naive_deferred_best(w, t, &lead);
    if (!best)
        return false;
    int first = -1, idle = 0;
    for (int e = w->executor_count - 1; e >= 0; e--) {
        int64_t free_at = world_free_at(w, e);
        if (self->offered[e] ||
            (naive_deferred_is_ahead(w, e) && free_at <= t + lead && free_at <= best->latest_at)) {
            first = e;
            idle++;
        }
    }
    if (first < 0)
        return false;
    naive_deferred_grant(w, best->model, first, idle, t);
    return true;
}

/* True if the candidate of model m must be formed anew. */
static inline bool naive_deferred_is_due(const struct world *w, int m, int64_t t) {
    const struct naive_deferred *self = w->policy;
    const struct tt_deferred_candidate *c = &self->candidates[m];
    int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q);
    if (w->queue_changed[m] || (count > 0 && w->arrivals[q[0]].deadline_at <= t))
        return true;
    if (c->size == 0 || c->latest_at == TT_NEVER)
        return false;
    return self->options.reform_at_latest && c->latest_at - c->lead_ns < t;
}

static inline void naive_deferred_decide(struct world *w, int64_t t) {
    struct naive_deferred *self = w->policy;
    for (int e = 0; e < w->executor_count; e++) {
        if (world_is_idle(w, e))
            self->offered[e] = true;
        else if (w->executors[e].presence != WORLD_UP)
            self->offered[e] = false;
    }
    for (int m = 0; m < w->model_count; m++)
        if (w->came_back[m])
            self->credit[m] = 0;
    for (int r = 0; r < w->request_count; r++)
        if (w->arrivals[r].at == t && !w->requests[r].outcome.refused) {
            int64_t *credit = &self->credit[w->arrivals[r].model];
            *credit = tt_instant_max(*credit - 1, -1000);
        }
    for (int m = 0; m < w->model_count; m++)
        if (naive_deferred_is_due(w, m, t))
            naive_deferred_form(w, m, t, INT64_MIN);
    while (naive_deferred_match(w, t))
        continue;
}

#endif
