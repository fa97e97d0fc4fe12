/* A naive model of Nexus. The packer stores only which model is on which node, and computes every
 * duty cycle, batch and occupancy from that on demand. The policy visits all requests at every
 * event. For tests only. */
#ifndef TT_TEST_NAIVE_NEXUS_H
#define TT_TEST_NAIVE_NEXUS_H

#include "unit/policy/naive_world.h"

enum { NEXUS_MODELS = 16, NEXUS_NODES = 16, NEXUS_SESSIONS = NEXUS_MODELS + NEXUS_NODES };
enum { NEXUS_FRONTENDS = 4 };
/* Rates are in rows per 1000 seconds. */
#define NAIVE_NEXUS_RATE_NS INT64_C(1000000000000)

struct naive_nexus_model {
    bool exists;
    int64_t alpha_ns, beta_ns, slo_ns; /* messages included in alpha and beta */
    int max_batch;
};
struct naive_nexus_session {
    int model, node;
    bool own; /* reserved for the model */
    int64_t rate;
};
struct naive_nexus_plan {
    struct naive_nexus_model models[NEXUS_MODELS];
    int model_count;
    struct naive_nexus_session sessions[NEXUS_SESSIONS]; /* in order of creation */
    int session_count, node_count;
};

static inline int64_t naive_nexus_cost(const struct naive_nexus_plan *self, int m, int rows) {
    return self->models[m].alpha_ns * rows + self->models[m].beta_ns;
}
static inline int64_t naive_nexus_slo(const struct naive_nexus_plan *self, int m) {
    const struct naive_nexus_model *model = &self->models[m];
    return model->slo_ns != TT_NEVER ? model->slo_ns
                                     : 2 * naive_nexus_cost(self, m, model->max_batch);
}
/* B */
static inline int naive_nexus_full(const struct naive_nexus_plan *self, int m) {
    int best = 1;
    for (int b = 1; b <= self->models[m].max_batch; b++)
        if (2 * naive_nexus_cost(self, m, b) <= naive_nexus_slo(self, m))
            best = b;
    return best;
}
static inline int64_t naive_nexus_full_rate(const struct naive_nexus_plan *self, int m) {
    int full = naive_nexus_full(self, m);
    int64_t rate = full * NAIVE_NEXUS_RATE_NS / naive_nexus_cost(self, m, full);
    return rate ? rate : 1;
}
/* The batch of a residual, and its duty cycle. */
static inline int naive_nexus_residual(const struct naive_nexus_plan *self, int m, int64_t rate,
                                       int64_t *out_duty_ns) {
    int best = 0;
    for (int b = 1; b <= naive_nexus_full(self, m); b++)
        if (b * NAIVE_NEXUS_RATE_NS / rate + naive_nexus_cost(self, m, b) <=
            naive_nexus_slo(self, m))
            best = b;
    int64_t duty = best ? best * NAIVE_NEXUS_RATE_NS / rate
                        : naive_nexus_slo(self, m) - naive_nexus_cost(self, m, 1);
    best = best ? best : 1;
    *out_duty_ns = tt_instant_max(duty, naive_nexus_cost(self, m, best));
    return best;
}
static inline int64_t naive_nexus_ppm(int64_t busy_ns, int64_t duty_ns) {
    __int128 ppm = (__int128)1000000 * busy_ns / duty_ns;
    return ppm > INT32_MAX ? INT32_MAX : (int64_t)ppm;
}

/* The duty cycle of a node: the shortest of its members'. */
static inline int64_t naive_nexus_duty(const struct naive_nexus_plan *self, int node) {
    int64_t duty = TT_NEVER;
    for (int s = 0; s < self->session_count; s++) {
        const struct naive_nexus_session *session = &self->sessions[s];
        if (session->node != node)
            continue;
        int64_t own;
        if (session->own)
            own = naive_nexus_cost(self, session->model, naive_nexus_full(self, session->model));
        else
            naive_nexus_residual(self, session->model, session->rate, &own);
        duty = tt_instant_min(duty, own);
    }
    return duty;
}
static inline int naive_nexus_batch(const struct naive_nexus_plan *self, int s) {
    const struct naive_nexus_session *session = &self->sessions[s];
    int full = naive_nexus_full(self, session->model);
    if (session->own)
        return full;
    __int128 come = (__int128)naive_nexus_duty(self, session->node) * session->rate;
    __int128 rows = come / NAIVE_NEXUS_RATE_NS + (come % NAIVE_NEXUS_RATE_NS > 0);
    return rows > full ? full : rows < 1 ? 1 : (int)rows;
}
static inline int64_t naive_nexus_busy(const struct naive_nexus_plan *self, int node) {
    int64_t busy = 0;
    for (int s = 0; s < self->session_count; s++)
        if (self->sessions[s].node == node)
            busy += naive_nexus_cost(self, self->sessions[s].model, naive_nexus_batch(self, s));
    return busy;
}

/* Places the residual by trying every node. */
static inline bool naive_nexus_place(struct naive_nexus_plan *self, int m, int64_t rate, int limit,
                                     bool force) {
    int fullest = -1, emptiest = -1, at = self->session_count++;
    int64_t most = -1, least = TT_NEVER;
    for (int n = 0; n < self->node_count; n++) {
        bool own = false;
        for (int s = 0; s < at; s++)
            own |= self->sessions[s].node == n && self->sessions[s].own;
        if (own)
            continue;
        self->sessions[at] = (struct naive_nexus_session){.model = m, .node = n, .rate = rate};
        int64_t busy = naive_nexus_busy(self, n), duty = naive_nexus_duty(self, n);
        int64_t ppm = naive_nexus_ppm(busy, duty);
        if (busy <= duty && ppm > most) {
            fullest = n;
            most = ppm;
        }
        if (ppm < least) {
            emptiest = n;
            least = ppm;
        }
    }
    int node = fullest;
    if (node < 0 && self->node_count < limit)
        node = self->node_count++;
    if (node < 0 && force)
        node = emptiest;
    self->sessions[at] = (struct naive_nexus_session){.model = m, .node = node, .rate = rate};
    return node >= 0;
}

static inline bool naive_nexus_pack(struct naive_nexus_plan *self, const int64_t *rates,
                                    int64_t factor, int limit, bool force) {
    self->session_count = self->node_count = 0;
    int64_t residuals[NEXUS_MODELS] = {0}, ppm[NEXUS_MODELS] = {0};
    for (int m = 0; m < self->model_count; m++) {
        if (!self->models[m].exists)
            continue;
        __int128 product = (__int128)rates[m] * factor / 65536;
        int64_t rate = product < 1                           ? 1
                       : product > INT64_C(1000000000000000) ? INT64_C(1000000000000000)
                                                             : (int64_t)product;
        int64_t each = naive_nexus_full_rate(self, m);
        int64_t devices = force ? 0 : rate / each;
        if (devices > limit - self->node_count)
            return false;
        residuals[m] = rate - devices * each;
        if (devices > 0 && residuals[m] < each / 1000)
            residuals[m] = 0;
        for (int64_t d = 0; d < devices; d++)
            self->sessions[self->session_count++] = (struct naive_nexus_session){
                .model = m, .node = self->node_count++, .own = true, .rate = each};
        if (residuals[m] == 0)
            continue;
        int64_t duty, batch = naive_nexus_residual(self, m, residuals[m], &duty);
        ppm[m] = naive_nexus_ppm(naive_nexus_cost(self, m, (int)batch), duty);
    }
    for (;;) {
        int next = -1;
        for (int m = 0; m < self->model_count; m++)
            if (residuals[m] > 0 && (next < 0 || ppm[m] > ppm[next]))
                next = m;
        if (next < 0)
            return true;
        if (!naive_nexus_place(self, next, residuals[next], limit, force))
            return false;
        residuals[next] = 0;
    }
}

static inline void naive_nexus_make(struct naive_nexus_plan *self, const int64_t *rates,
                                    int limit) {
    int64_t factor = 0;
    self->session_count = self->node_count = 0;
    if (limit == 0)
        return;
    for (int64_t bit = INT64_C(1) << 46; bit > 0; bit /= 2)
        if (naive_nexus_pack(self, rates, factor + bit, limit, false))
            factor += bit;
    bool packed = naive_nexus_pack(self, rates, factor ? factor : 1, limit, factor == 0);
    tt_assert(packed);
}

/* ---- the policy ---- */

struct naive_nexus {
    int64_t epoch_ns, epoch_at; /* TT_NEVER: none has begun */
    int64_t counted_until;      /* arrivals up to then belong to closed epochs */
    int frontends;
    struct naive_nexus_plan plan;
    int64_t rates[WORLD_MODELS]; /* of the epoch before; 0: unknown */
    int64_t came_at[WORLD_MODELS];
    int64_t credits[NEXUS_SESSIONS][NEXUS_FRONTENDS];
    int executor_of_node[WORLD_EXECUTORS];
    int session_of[WORLD_REQUESTS]; /* -1: none */
    int served_last[WORLD_EXECUTORS];
    int64_t plans, early;
};

static inline void naive_nexus_deal(struct world *w, int r) {
    struct naive_nexus *self = w->policy;
    int number = 0, best = -1;
    for (int before = 0; before < r; before++)
        number += !w->requests[before].outcome.refused;
    int frontend = number % self->frontends;
    int64_t total = 0;
    for (int s = 0; s < self->plan.session_count; s++) {
        if (self->plan.sessions[s].model != w->arrivals[r].model)
            continue;
        self->credits[s][frontend] += self->plan.sessions[s].rate;
        total += self->plan.sessions[s].rate;
        if (best < 0 || self->credits[s][frontend] > self->credits[best][frontend])
            best = s;
    }
    if (best >= 0)
        self->credits[best][frontend] -= total;
    self->session_of[r] = best;
}

/* The rates of the epoch that ends at t. */
static inline void naive_nexus_close(struct world *w, int64_t t) {
    struct naive_nexus *self = w->policy;
    for (int m = 0; m < w->model_count; m++) {
        int64_t rows = 0;
        for (int r = 0; r < w->request_count; r++) {
            const struct drive_arrival *a = &w->arrivals[r];
            if (a->model == m && a->at <= t && a->at > self->counted_until &&
                a->at >= self->came_at[m] && !w->requests[r].outcome.refused)
                rows += a->rows;
        }
        __int128 rate = (__int128)tt_instant_max(rows, 1) * NAIVE_NEXUS_RATE_NS;
        self->rates[m] = tt_instant_max(1, (int64_t)(rate / (t - self->epoch_at)));
        if (w->presence[m] == WORLD_GONE)
            self->rates[m] = 0;
    }
    self->counted_until = self->epoch_at = t;
}

/* Assigns the models anew, and distributes all waiting requests again. */
static inline void naive_nexus_replan(struct world *w) {
    struct naive_nexus *self = w->policy;
    int64_t rates[WORLD_MODELS], sum = 0, known = 0;
    self->plans++;
    for (int m = 0; m < w->model_count; m++) {
        sum += self->rates[m];
        known += self->rates[m] > 0;
    }
    for (int m = 0; m < w->model_count; m++) {
        rates[m] = self->rates[m] ? self->rates[m] : known ? sum / known : 1000;
        self->plan.models[m] =
            (struct naive_nexus_model){.exists = w->presence[m] != WORLD_GONE,
                                       .alpha_ns = w->models[m].alpha_ns + w->d_data_ns,
                                       .beta_ns = w->models[m].beta_ns + w->d_ctrl_ns,
                                       .slo_ns = w->models[m].slo_ns,
                                       .max_batch = w->models[m].max_batch};
    }
    int up = 0;
    for (int e = 0; e < w->executor_count; e++) {
        self->served_last[e] = -1;
        if (w->executors[e].presence == WORLD_UP)
            self->executor_of_node[up++] = e;
    }
    self->plan.model_count = w->model_count;
    naive_nexus_make(&self->plan, rates, up);
    memset(self->credits, 0, sizeof(self->credits));
    for (int m = 0; m < w->model_count; m++) {
        int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q);
        for (int i = 0; i < count; i++)
            naive_nexus_deal(w, q[i]);
    }
}

/* The batch that session s starts at t, into `out`; drops heads. */
static inline int naive_nexus_slide(struct world *w, int s, int64_t t, int *out) {
    struct naive_nexus *self = w->policy;
    int m = self->plan.sessions[s].model, planned = naive_nexus_batch(&self->plan, s);
    for (;;) {
        int q[WORLD_REQUESTS], waiting = world_queue(w, m, WORLD_BY_DEADLINE, q);
        int count = 0, rows = 0;
        for (int i = 0; i < waiting; i++) {
            if (self->session_of[q[i]] != s)
                continue;
            if (count > 0 && rows + w->arrivals[q[i]].rows > planned)
                break;
            out[count++] = q[i];
            rows += w->arrivals[q[i]].rows;
        }
        if (count == 0)
            return 0;
        const struct drive_arrival *head = &w->arrivals[out[0]];
        if (world_in_time(w, m, rows, t, head->deadline_at))
            return count;
        bool alone = world_in_time(w, m, head->rows, t, head->deadline_at);
        self->early += alone;
        world_drop(w, out[0], t, alone ? TT_DROP_EARLY : TT_DROP_DEADLINE);
    }
}

static inline void naive_nexus_serve(struct world *w, int e, int64_t t) {
    struct naive_nexus *self = w->policy;
    int turns[NEXUS_SESSIONS], count = 0, start = 0, batch[WORLD_REQUESTS];
    for (int s = self->plan.session_count - 1; s >= 0; s--) { /* created last, served first */
        if (self->executor_of_node[self->plan.sessions[s].node] != e)
            continue;
        turns[count++] = s;
        if (s == self->served_last[e])
            start = count;
    }
    for (int i = 0; i < count; i++) {
        int s = turns[(start + i) % count], size = naive_nexus_slide(w, s, t, batch);
        if (size == 0)
            continue;
        self->served_last[e] = s;
        world_run(w, e, batch, size, t);
        return;
    }
}

/* True if at t the head of a queue without a session becomes hopeless. That timer is an event. */
static inline bool naive_nexus_loses(const struct world *w, int64_t t) {
    const struct naive_nexus *self = w->policy;
    for (int m = 0; m < w->model_count; m++) {
        int q[WORLD_REQUESTS], count = world_queue(w, m, WORLD_BY_DEADLINE, q);
        if (count > 0 && self->session_of[q[0]] < 0 &&
            !world_in_time(w, m, w->arrivals[q[0]].rows, t, w->arrivals[q[0]].deadline_at))
            return true;
    }
    return false;
}

static inline void naive_nexus_decide(struct world *w, int64_t t) {
    struct naive_nexus *self = w->policy;
    for (int r = 0; r < w->request_count; r++)
        if (w->arrivals[r].at == t && !w->requests[r].outcome.refused)
            naive_nexus_deal(w, r);
    for (int m = 0; m < w->model_count; m++) {
        if (w->presence[m] == WORLD_GONE || w->came_back[m])
            self->rates[m] = 0;
        if (w->came_back[m])
            self->came_at[m] = t;
    }
    if (!w->event && !naive_nexus_loses(w, t))
        return;
    bool first = self->epoch_at == TT_NEVER, over = !first && t - self->epoch_at >= self->epoch_ns;
    if (first)
        self->epoch_at = t;
    if (over)
        naive_nexus_close(w, t);
    if (first || over || w->changed)
        naive_nexus_replan(w);
    if (self->plan.node_count == 0)
        world_drop_lost(w, WORLD_BY_DEADLINE, t);
    for (int e = 0; e < w->executor_count; e++)
        if (world_is_idle(w, e))
            naive_nexus_serve(w, e, t);
}

#endif
