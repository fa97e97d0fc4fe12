#include "place/place_search.h"

#include "base/prng.h"
#include "place/place_exchange.h"
#include "place/place_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DRAWS = 1024,          /* of the table of exponential variates */
    REPORT_EVERY = 16384,  /* moves */
    EXCHANGE_MOVES = 4286, /* an exchange of two sub-clusters takes as long as so many moves */
    EXCHANGES_PER_REPORT = 256,
    FRESH_EVERY = 4, /* runs */
    RUNS = 16,       /* the least number of them; an early end of exchanges leaves time for more */
    KINDS = 8, /* of replacements: 0 exchanges targets, 1 changes one; up to NEIGHBOURS the other
                  model comes from the same sub-cluster */
    NEIGHBOURS = 5,
    HOT = 8,
    COLD = 400,    /* the energy at the start over the first and the last temperature, */
    COLDEST = 4000 /* and the last where the cost is not bound: no other run follows */
};

struct search {
    const struct tt_place_problem *problem;
    const struct tt_place_effort *effort;
    struct tt_place_state state;
    struct tt_place_exchange exchange;
    struct tt_prng prng;
    double draws[DRAWS];           /* exponential, of mean 1 */
    int32_t *by_home, *home_first; /* models by their present sub-cluster, and each one's first */
    int32_t *best;                 /* the best assignment so far, and its objective */
    double best_objective;
    int64_t tried;
    bool stopped;
};

/* Up to two models and where they go. */
struct move {
    int32_t model[2], to[2];
    int32_t count;
};

/* ln(x) for x in (0, 1], by a series: libraries round it in different ways. */
static double logarithm(double x) {
    static const double ln2 = 0.69314718055994530942;
    double sum = 0;
    while (x < 0.5) {
        x *= 2;
        sum -= ln2;
    }
    double t = (x - 1) / (x + 1), power = t, series = 0;
    for (int32_t k = 1; k < 40; k += 2, power *= t * t)
        series += power / k;
    return sum + 2 * series;
}

static int32_t below(struct search *self, int32_t bound) {
    return (int32_t)tt_prng_below(&self->prng, (uint64_t)bound);
}

/* ---- the start ---- */

struct by_size {
    double size;
    int32_t model;
};

static int largest_first(const void *left, const void *right) {
    const struct by_size *a = left, *b = right;
    if (a->size > b->size || a->size < b->size)
        return a->size > b->size ? -1 : 1;
    return a->model - b->model;
}

/* Where the model raises the fullest dimension least, limits first. */
static int32_t best_home(const struct search *self, int32_t model) {
    const struct tt_place_state *state = &self->state;
    const struct tt_place_problem *problem = self->problem;
    const struct tt_place_model *what = &problem->models[model];
    int32_t best = 0;
    double least = 0;
    for (int32_t j = 0; j < problem->cluster_count; j++) {
        const struct tt_place_cluster *cluster = &state->clusters[j];
        int64_t rate = cluster->rate + what->rate, memory = cluster->memory + what->static_bytes;
        int64_t dynamic =
            cluster->dynamic > what->dynamic_bytes ? cluster->dynamic : what->dynamic_bytes;
        double fill = (double)rate / state->mean_rate;
        double other = problem->weight * (double)memory / state->mean_memory;
        fill = fill > other ? fill : other;
        if (problem->max_rate > 0 && rate > problem->max_rate)
            fill += 1e6;
        int64_t most = tt_place_max_memory(problem, j);
        if (most > 0 && memory + dynamic > most)
            fill += 1e6;
        if (j == 0 || fill < least) {
            least = fill;
            best = j;
        }
    }
    return best;
}

/* Models that lie somewhere keep their place when the cost is bound; the others follow, the largest
 * first. Errors: NO_MEMORY. */
static enum tt_err start(struct search *self) {
    const struct tt_place_problem *problem = self->problem;
    struct tt_place_state *state = &self->state;
    struct by_size *left = malloc((size_t)problem->model_count * sizeof(*left));
    if (!left)
        return TT_ERR_NO_MEMORY;
    int32_t count = 0;
    for (int32_t i = 0; i < problem->model_count; i++) {
        const struct tt_place_model *model = &problem->models[i];
        if (problem->max_cost >= 0 && model->now != TT_PLACE_NOWHERE) {
            tt_place_state_relocate(state, i, model->now);
            continue;
        }
        double rate = (double)model->rate / state->mean_rate;
        double memory = problem->weight * (double)model->static_bytes / state->mean_memory;
        left[count++] = (struct by_size){rate > memory ? rate : memory, i};
    }
    qsort(left, (size_t)count, sizeof(*left), largest_first);
    for (int32_t k = 0; k < count; k++)
        tt_place_state_relocate(state, left[k].model, best_home(self, left[k].model));
    free(left);
    return TT_OK;
}

/* ---- annealing ---- */

/* What a sub-cluster has above the mean, both dimensions together. */
static double surplus(const struct search *self, int32_t cluster) {
    const struct tt_place_cluster *at = &self->state.clusters[cluster];
    return at->rate_deviation + self->problem->weight * at->memory_deviation;
}

static bool is_tight(const struct search *self, int32_t model) {
    return self->problem->max_cost >= 0 &&
           self->state.cost + 2 * self->problem->models[model].cost > self->problem->max_cost;
}

/* Any model; half of the time the one of three whose sub-cluster has most above the mean. */
static int32_t draw_model(struct search *self) {
    const struct tt_place_state *state = &self->state;
    int32_t best = below(self, self->problem->model_count);
    for (int32_t k = below(self, 2) ? 2 : 0; k > 0; k--) {
        int32_t other = below(self, self->problem->model_count);
        if (surplus(self, state->at[other]) > surplus(self, state->at[best]))
            best = other;
    }
    return best;
}

/* Any sub-cluster; half of the time the one of three that has least. */
static int32_t draw_target(struct search *self) {
    int32_t best = below(self, self->problem->cluster_count);
    for (int32_t k = below(self, 2) ? 2 : 0; k > 0; k--) {
        int32_t other = below(self, self->problem->cluster_count);
        if (surplus(self, other) < surplus(self, best))
            best = other;
    }
    return best;
}

/* A model that lies where `model` did before it moved. */
static int32_t draw_neighbour(struct search *self, int32_t model) {
    int32_t home = self->problem->models[model].now, first = self->home_first[home];
    return self->by_home[first + below(self, self->home_first[home + 1] - first)];
}

/* Changes which models move while as many do: one moved model gets another target, two exchange
 * theirs, or one goes back and another moves instead. That one often comes from the same
 * sub-cluster or goes to the same one, for most of what the other did is right. */
static struct move replace(struct search *self, int32_t model) {
    const struct tt_place_state *state = &self->state;
    int32_t back = state->moved[below(self, state->moved_count)];
    int32_t home = self->problem->models[back].now, kind = below(self, KINDS);
    if (kind == 0) {
        int32_t other = state->moved[below(self, state->moved_count)];
        return (struct move){{back, other}, {state->at[other], state->at[back]}, 2};
    }
    int32_t instead =
        kind < NEIGHBOURS && home != TT_PLACE_NOWHERE ? draw_neighbour(self, back) : model;
    int32_t to = below(self, 2) ? state->at[back] : draw_target(self);
    if (kind == 1 || home == TT_PLACE_NOWHERE || instead == back)
        return (struct move){{back}, {draw_target(self)}, 1};
    return (struct move){{back, instead}, {home, to}, 2};
}

static struct move propose(struct search *self) {
    const struct tt_place_state *state = &self->state;
    int32_t model = draw_model(self);
    if (is_tight(self, model) && state->moved_count > 0 && below(self, 8) > 0)
        return replace(self, model);
    int32_t other = below(self, self->problem->model_count);
    if (below(self, 2) == 0)
        return (struct move){{model, other}, {state->at[other], state->at[model]}, 2};
    return (struct move){{model}, {draw_target(self)}, 1};
}

static void keep_if_best(struct search *self) {
    double objective = tt_place_state_objective(&self->state);
    if (self->best_objective >= 0 && objective >= self->best_objective)
        return;
    self->best_objective = objective;
    memcpy(self->best, self->state.at, (size_t)self->problem->model_count * sizeof(int32_t));
}

/* Tries a move at a temperature; a rise of the energy is kept with probability exp(-rise / T). */
static bool try_move(struct search *self, double temperature, double *energy) {
    struct tt_place_state *state = &self->state;
    struct move move = propose(self);
    int32_t from[2] = {-1, -1};
    int64_t cost = state->cost;
    for (int32_t k = 0; k < move.count; k++) {
        from[k] = state->at[move.model[k]];
        tt_place_state_relocate(state, move.model[k], move.to[k]);
    }
    bool is_free = self->problem->max_cost < 0 || state->cost <= self->problem->max_cost ||
                   state->cost <= cost;
    double after = tt_place_state_energy(state);
    double allowed = temperature * self->draws[below(self, DRAWS)];
    if (is_free && after - *energy <= allowed) {
        *energy = after;
        return true;
    }
    for (int32_t k = move.count - 1; k >= 0; k--)
        tt_place_state_relocate(state, move.model[k], from[k]);
    return false;
}

static bool report(struct search *self) {
    const struct tt_place_effort *effort = self->effort;
    double share = (double)self->tried / (double)effort->moves;
    if (effort->goes_on && !effort->goes_on(effort->context, share < 1 ? share : 1))
        self->stopped = true;
    return !self->stopped;
}

/* Cools from `hot` to `cold` within `moves`, while p rises. */
static void anneal(struct search *self, double hot, double cold, int64_t moves) {
    enum { LEVELS = 100, FIRST_P = 2, LAST_P = 4 };
    struct tt_place_state *state = &self->state;
    double temperature = hot, factor = logarithm(cold / hot) / LEVELS;
    /* exp(factor) by its series: |factor| is small */
    double ratio = 1 + factor * (1 + factor / 2 * (1 + factor / 3 * (1 + factor / 4)));
    for (int32_t level = 0; level < LEVELS; level++, temperature *= ratio) {
        tt_place_state_sharpen(state, FIRST_P + level * (LAST_P - FIRST_P + 1) / LEVELS);
        double energy = tt_place_state_energy(state), root = self->problem->cluster_count;
        for (int32_t k = 0; k < state->doublings; k++)
            root = sqrt(root);
        for (int64_t k = 0; k <= moves / LEVELS; k++) {
            /* The objective is at least the energy over the root. */
            if (try_move(self, temperature, &energy) && energy < self->best_objective * root)
                keep_if_best(self);
            if (++self->tried % REPORT_EVERY == 0 && !report(self))
                return;
        }
    }
}

/* ---- the whole ---- */

static bool is_bound(const struct search *self) { return self->problem->max_cost >= 0; }

/* One run from the present assignment: annealing, then exchanges until `until` moves were tried or
 * none improves. Exchanges need models that may still move. */
static void run_once(struct search *self, int64_t anneals, int64_t until) {
    struct tt_place_state *state = &self->state;
    tt_place_state_sharpen(state, 2);
    double energy = tt_place_state_energy(state);
    anneal(self, energy / HOT + 1e-9, energy / (is_bound(self) ? COLD : COLDEST) + 1e-12, anneals);
    if (self->stopped || (is_bound(self) && state->cost > self->problem->max_cost / 2))
        return;
    int64_t rounds = (until - self->tried) / EXCHANGE_MOVES;
    while (rounds > 0 && report(self)) {
        int64_t part = rounds < EXCHANGES_PER_REPORT ? rounds : EXCHANGES_PER_REPORT;
        int64_t used = tt_place_exchange_all(&self->exchange, state, part);
        self->tried += used * EXCHANGE_MOVES;
        keep_if_best(self);
        rounds = used < part ? 0 : rounds - part;
    }
}

/* The start of another run: the best so far, or every fourth time one that knows nothing of it, for
 * a run may end in a valley that no later one leaves. */
static void start_again(struct search *self, int32_t run) {
    if (run % FRESH_EVERY < FRESH_EVERY - 1) {
        tt_place_state_load(&self->state, self->best);
        return;
    }
    for (int32_t i = 0; i < self->problem->model_count; i++) {
        int32_t now = self->problem->models[i].now;
        bool stays = is_bound(self) && now != TT_PLACE_NOWHERE;
        tt_place_state_relocate(&self->state, i,
                                stays ? now : below(self, self->problem->cluster_count));
    }
}

static enum tt_err run_all(struct search *self) {
    int64_t moves = self->effort->moves;
    enum tt_err err = start(self);
    if (err)
        return err;
    keep_if_best(self);
    for (int32_t run = 0; self->tried < moves && !self->stopped; run++) {
        if (run > 0)
            start_again(self, run);
        if (run > 0 && self->best_objective > 1e6)
            self->state.excess_weight *= 4; /* it found no assignment that holds the limits */
        int64_t until = is_bound(self) ? self->tried + moves / RUNS : moves;
        run_once(self, moves / RUNS + 1, until);
    }
    if (!self->stopped)
        report(self);
    return TT_OK;
}

/* Errors: NO_MEMORY. */
static enum tt_err list_homes(struct search *self) {
    const struct tt_place_problem *problem = self->problem;
    int32_t clusters = problem->cluster_count;
    self->home_first = calloc((size_t)clusters + 1, sizeof(int32_t));
    self->by_home = calloc((size_t)problem->model_count, sizeof(int32_t));
    if (!self->home_first || !self->by_home)
        return TT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < problem->model_count; i++)
        if (problem->models[i].now != TT_PLACE_NOWHERE)
            self->home_first[problem->models[i].now]++;
    for (int32_t j = 1; j <= clusters; j++)
        self->home_first[j] += self->home_first[j - 1];
    for (int32_t i = problem->model_count - 1; i >= 0; i--)
        if (problem->models[i].now != TT_PLACE_NOWHERE)
            self->by_home[--self->home_first[problem->models[i].now]] = i;
    return TT_OK;
}

static enum tt_err with_memory(struct search *self, int32_t *out_at) {
    enum tt_err err = tt_place_state_init(&self->state, self->problem);
    if (err)
        return err;
    err = tt_place_exchange_init(&self->exchange);
    if (!err)
        err = list_homes(self);
    if (!err) {
        self->best = out_at;
        err = run_all(self);
    }
    free(self->by_home);
    free(self->home_first);
    tt_place_exchange_fini(&self->exchange);
    tt_place_state_fini(&self->state);
    return err;
}

enum tt_err tt_place_search(const struct tt_place_problem *problem,
                            const struct tt_place_effort *effort, int32_t *out_at,
                            struct tt_error *why) {
    enum tt_err err = tt_place_possible(problem, why);
    if (err)
        return err;
    struct search *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->problem = problem;
    self->effort = effort;
    self->best_objective = -1;
    tt_prng_init(&self->prng, problem->seed, 0);
    for (int32_t k = 0; k < DRAWS; k++)
        self->draws[k] = -logarithm((k + 0.5) / DRAWS);
    err = with_memory(self, out_at);
    free(self);
    if (err)
        return tt_fail(err, why, "out of memory");
    err = tt_place_check(problem, out_at, why);
    if (err == TT_ERR_INVALID)
        err = tt_fail_in(TT_ERR_UNAVAILABLE, why, "no assignment was found that keeps the limits");
    return err;
}
