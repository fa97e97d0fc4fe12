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
    int64_t slack = tt_instant_max(0, frontrun - head->at);
    int64_t wait = slack - tt_instant_min(self->gap_seen * o->gap_permille / 1000,
                                          slack * o->slack_permille / 1000);
    if (o->beta_permille)
        wait = tt_instant_min(wait, w->models[m].beta_ns * o->beta_permille / 1000);
    return head->at + wait;
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
    int max_batch = w->models[m].max_batch, floor = naive_deferred_floor(w, m), k = 0;
    for (; k < count; k++) {
        int left = world_rows(w, q, k, count), need = left < floor ? left : floor;
        if (need < w->arrivals[q[k]].rows)
            need = w->arrivals[q[k]].rows;
        if (naive_deferred_fits(w, m, t, free_at, need, w->arrivals[q[k]].deadline_at))
            break;
    }
    if (k == count)
        k = 0;
    const struct drive_arrival *head = &w->arrivals[q[k]];
    int end = k + 1;
    while (end < count && world_rows(w, q, k, end + 1) <= max_batch &&
           naive_deferred_fits(w, m, t, free_at, world_rows(w, q, k, end + 1), head->deadline_at))
        end++;
    c->size = world_rows(w, q, k, end);
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

/* The executor answers the candidate of model m at t. */
static inline void naive_deferred_grant(struct world *w, int m, int e, int idle, int64_t t) {
    struct naive_deferred *self = w->policy;
    int64_t free_at = world_free_at(w, e);
    self->offered[e] = false;
    self->gap_seen = self->gap_fixed >> 10;
    int skip = naive_deferred_form(w, m, t, free_at);
    struct tt_deferred_candidate c = self->candidates[m];
    bool strict = self->options.defer == TT_DEFER_FULL || self->options.defer == TT_DEFER_TIMEOUT;
    if (c.size == 0 || (strict && c.exec_at > naive_deferred_start(w, t, free_at, c.size))) {
        self->offered[e] = world_is_idle(w, e);
        naive_deferred_form(w, m, t, INT64_MIN);
        return;
    }
    int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q), end = skip, rows = 0;
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
