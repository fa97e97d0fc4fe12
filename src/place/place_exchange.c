#include "place/place_exchange.h"

#include <math.h>
#include <stdlib.h>

/* All bundles of up to two of 63 models; of more models all single ones and a part of the pairs. */
enum { MAX_BUNDLES = 2048, MAX_SINGLE = 1024, PAIR_STRIDE = 7 };

enum tt_err tt_place_exchange_init(struct tt_place_exchange *self) {
    struct tt_place_bundle *both = calloc(2 * (size_t)MAX_BUNDLES, sizeof(*both));
    if (!both)
        return TT_ERR_NO_MEMORY;
    *self = (struct tt_place_exchange){0};
    self->bundles[0] = both;
    self->bundles[1] = both + MAX_BUNDLES;
    return TT_OK;
}

void tt_place_exchange_fini(struct tt_place_exchange *self) {
    free(self->bundles[0]);
    *self = (struct tt_place_exchange){0};
}

static int by_rate(const void *left, const void *right) {
    const struct tt_place_bundle *a = left, *b = right;
    if (a->rate < b->rate || a->rate > b->rate)
        return a->rate < b->rate ? -1 : 1;
    if (a->models[0] != b->models[0])
        return a->models[0] < b->models[0] ? -1 : 1;
    return a->models[1] < b->models[1] ? -1 : a->models[1] > b->models[1];
}

/* The bundles of a sub-cluster, by rate. */
static int32_t bundle(const struct tt_place_state *state, int32_t cluster,
                      struct tt_place_bundle *out) {
    const struct tt_place_model *models = state->problem->models;
    int32_t count = 0, alone;
    out[count++] = (struct tt_place_bundle){0, 0, {-1, -1}};
    for (int32_t i = state->clusters[cluster].first; i >= 0 && count < MAX_SINGLE;
         i = state->next[i])
        out[count++] = (struct tt_place_bundle){(double)models[i].rate / state->mean_rate,
                                                (double)models[i].static_bytes / state->mean_memory,
                                                {i, -1}};
    alone = count;
    int32_t pairs = (alone - 1) * (alone - 2) / 2;
    int32_t stride = pairs > MAX_BUNDLES - alone ? PAIR_STRIDE : 1, skipped = 0;
    for (int32_t i = 1; i < alone; i++)
        for (int32_t k = i + 1; k < alone && count < MAX_BUNDLES; k++)
            if (skipped++ % stride == 0)
                out[count++] = (struct tt_place_bundle){out[i].rate + out[k].rate,
                                                        out[i].memory + out[k].memory,
                                                        {out[i].models[0], out[k].models[0]}};
    qsort(out, (size_t)count, sizeof(*out), by_rate);
    return count;
}

static void hand_over(struct tt_place_state *state, const struct tt_place_bundle *bundle,
                      int32_t to) {
    for (int32_t k = 0; k < 2; k++)
        if (bundle->models[k] >= 0)
            tt_place_state_relocate(state, bundle->models[k], to);
}

/* What `to` instead of `from` adds to the cost. */
static int64_t cost_of(const struct tt_place_state *state, const struct tt_place_bundle *bundle,
                       int32_t from, int32_t to) {
    int64_t cost = 0;
    for (int32_t k = 0; k < 2; k++)
        if (bundle->models[k] >= 0) {
            const struct tt_place_model *model = &state->problem->models[bundle->models[k]];
            cost += tt_place_move_cost(model, to) - tt_place_move_cost(model, from);
        }
    return cost;
}

struct match {
    struct tt_place_bundle given, taken;
    double distance; /* squared, of the pair from its mean */
    bool found;
};

static bool is_affordable(const struct tt_place_state *state, const struct tt_place_bundle *given,
                          const struct tt_place_bundle *taken, int32_t left, int32_t right) {
    int64_t limit = state->problem->max_cost;
    return limit < 0 ||
           state->cost + cost_of(state, given, left, right) + cost_of(state, taken, right, left) <=
               limit;
}

/* Looks for what `right` should give for `given`, outward from where its rate fits best. */
static void match_one(const struct tt_place_exchange *self, const struct tt_place_state *state,
                      const struct tt_place_bundle *given, const double target[2], int32_t left,
                      int32_t right, struct match *best) {
    const struct tt_place_bundle *taken = self->bundles[1];
    int32_t count = self->count[1], low = 0, high = count;
    double rate = given->rate - target[0], memory = given->memory - target[1];
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (taken[middle].rate < rate)
            low = middle + 1;
        else
            high = middle;
    }
    for (int32_t step = -1; step <= 1; step += 2)
        for (int32_t k = step < 0 ? low - 1 : low; k >= 0 && k < count; k += step) {
            double off = taken[k].rate - rate;
            if (off * off >= best->distance)
                break;
            double away = state->problem->weight * (taken[k].memory - memory);
            double distance = off * off + away * away;
            if (distance < best->distance && is_affordable(state, given, &taken[k], left, right))
                *best = (struct match){*given, taken[k], distance, true};
        }
}

bool tt_place_exchange_pair(struct tt_place_exchange *self, struct tt_place_state *state,
                            int32_t left, int32_t right) {
    const struct tt_place_cluster *a = &state->clusters[left], *b = &state->clusters[right];
    double target[2] = {(a->rate_deviation - b->rate_deviation) / 2,
                        (a->memory_deviation - b->memory_deviation) / 2};
    double away = state->problem->weight * target[1];
    double before = target[0] * target[0] + away * away;
    /* Not for less than a thousandth: rounding must not keep the search going. */
    struct match best = {.distance = before * 0.999};
    double excess = a->excess + b->excess;
    self->count[0] = bundle(state, left, self->bundles[0]);
    self->count[1] = bundle(state, right, self->bundles[1]);
    for (int32_t k = 0; k < self->count[0]; k++)
        match_one(self, state, &self->bundles[0][k], target, left, right, &best);
    if (!best.found)
        return false;
    hand_over(state, &best.given, right);
    hand_over(state, &best.taken, left);
    if (a->excess + b->excess <= excess)
        return true;
    hand_over(state, &best.taken, right);
    hand_over(state, &best.given, left);
    return false;
}

static double badness(const struct tt_place_state *state, int32_t cluster) {
    const struct tt_place_cluster *at = &state->clusters[cluster];
    double memory = state->problem->weight * at->memory_deviation;
    return at->rate_deviation * at->rate_deviation + memory * memory;
}

/* The worst sub-cluster that is not marked; -1: all are. */
static int32_t worst(const struct tt_place_state *state, const bool *is_done) {
    int32_t found = -1;
    for (int32_t j = 0; j < state->problem->cluster_count; j++)
        if (!is_done[j] && (found < 0 || badness(state, j) > badness(state, found)))
            found = j;
    return found;
}

int64_t tt_place_exchange_all(struct tt_place_exchange *self, struct tt_place_state *state,
                              int64_t rounds) {
    int32_t count = state->problem->cluster_count;
    bool *is_done = calloc((size_t)count, sizeof(bool));
    int64_t tried = 0;
    int32_t at;
    while (is_done && tried < rounds && (at = worst(state, is_done)) >= 0) {
        is_done[at] = true;
        for (int32_t k = 1; k < count && tried < rounds; k++, tried++) {
            int32_t other = (at + k) % count;
            if (tt_place_exchange_pair(self, state, at, other))
                is_done[at] = is_done[other] = false;
        }
    }
    free(is_done);
    return tried;
}
