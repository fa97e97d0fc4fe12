#include "place/place_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What any broken limit adds to the objective: more than all deviations. */
static const double broken = 1e6;

enum tt_err tt_place_state_init(struct tt_place_state *self,
                                const struct tt_place_problem *problem) {
    size_t models = (size_t)problem->model_count, count = (size_t)problem->cluster_count;
    int32_t *lists = malloc(5 * models * sizeof(int32_t));
    struct tt_place_cluster *clusters = calloc(count, sizeof(*clusters));
    if (!lists || !clusters) {
        free(lists);
        free(clusters);
        return TT_ERR_NO_MEMORY;
    }
    *self = (struct tt_place_state){.problem = problem,
                                    .clusters = clusters,
                                    .at = lists,
                                    .next = lists + models,
                                    .before = lists + 2 * models,
                                    .moved = lists + 3 * models,
                                    .moved_at = lists + 4 * models,
                                    .excess_weight = 16};
    for (size_t i = 0; i < models; i++) {
        self->at[i] = TT_PLACE_NOWHERE;
        self->moved_at[i] = -1;
        self->mean_rate += (double)problem->models[i].rate;
        self->mean_memory += (double)problem->models[i].static_bytes;
    }
    for (size_t j = 0; j < count; j++)
        clusters[j].first = -1;
    self->mean_rate = fmax(self->mean_rate / (double)count, 1);
    self->mean_memory = fmax(self->mean_memory / (double)count, 1);
    tt_place_state_sharpen(self, 2);
    return TT_OK;
}

void tt_place_state_fini(struct tt_place_state *self) {
    free(self->at);
    free(self->clusters);
    *self = (struct tt_place_state){0};
}

static double over(int64_t sum, int64_t limit, double mean) {
    return limit > 0 && sum > limit ? (double)(sum - limit) / mean : 0;
}

/* Brings the terms of a sub-cluster, and the sums of them, up to date. */
static void refresh(struct tt_place_state *self, struct tt_place_cluster *cluster) {
    const struct tt_place_problem *problem = self->problem;
    self->rate_sum -= cluster->rate_term;
    self->memory_sum -= cluster->memory_term;
    self->excess -= cluster->excess;
    cluster->rate_deviation = ((double)cluster->rate - self->mean_rate) / self->mean_rate;
    cluster->memory_deviation = ((double)cluster->memory - self->mean_memory) / self->mean_memory;
    double rate_term = cluster->rate_deviation, memory_term = cluster->memory_deviation;
    for (int32_t k = 0; k < self->doublings; k++) {
        rate_term *= rate_term;
        memory_term *= memory_term;
    }
    cluster->rate_term = rate_term;
    cluster->memory_term = memory_term;
    cluster->excess =
        over(cluster->rate, problem->max_rate, self->mean_rate) +
        over(cluster->memory + cluster->dynamic,
             tt_place_max_memory(problem, (int32_t)(cluster - self->clusters)), self->mean_memory);
    self->rate_sum += rate_term;
    self->memory_sum += memory_term;
    self->excess += cluster->excess;
}

static void leave(struct tt_place_state *self, int32_t model) {
    struct tt_place_cluster *cluster = &self->clusters[self->at[model]];
    const struct tt_place_model *models = self->problem->models;
    int32_t next = self->next[model], before = self->before[model];
    if (before >= 0)
        self->next[before] = next;
    else
        cluster->first = next;
    if (next >= 0)
        self->before[next] = before;
    cluster->rate -= models[model].rate;
    cluster->memory -= models[model].static_bytes;
    if (cluster->dynamic == models[model].dynamic_bytes) {
        cluster->dynamic = 0;
        for (int32_t i = cluster->first; i >= 0; i = self->next[i])
            if (cluster->dynamic < models[i].dynamic_bytes)
                cluster->dynamic = models[i].dynamic_bytes;
    }
    refresh(self, cluster);
}

static void enter(struct tt_place_state *self, int32_t model, int32_t to) {
    struct tt_place_cluster *cluster = &self->clusters[to];
    const struct tt_place_model *what = &self->problem->models[model];
    self->at[model] = to;
    self->before[model] = -1;
    self->next[model] = cluster->first;
    if (cluster->first >= 0)
        self->before[cluster->first] = model;
    cluster->first = model;
    cluster->rate += what->rate;
    cluster->memory += what->static_bytes;
    if (cluster->dynamic < what->dynamic_bytes)
        cluster->dynamic = what->dynamic_bytes;
    refresh(self, cluster);
}

static void note_moved(struct tt_place_state *self, int32_t model, bool is_moved) {
    int32_t where = self->moved_at[model];
    if (is_moved == (where >= 0))
        return;
    if (is_moved) {
        self->moved_at[model] = self->moved_count;
        self->moved[self->moved_count++] = model;
        return;
    }
    int32_t last = self->moved[--self->moved_count];
    self->moved[where] = last;
    self->moved_at[last] = where;
    self->moved_at[model] = -1;
}

void tt_place_state_relocate(struct tt_place_state *self, int32_t model, int32_t to) {
    const struct tt_place_model *what = &self->problem->models[model];
    int32_t from = self->at[model];
    if (from == to)
        return;
    if (from != TT_PLACE_NOWHERE) {
        self->cost -= tt_place_move_cost(what, from);
        leave(self, model);
    }
    enter(self, model, to);
    self->cost += tt_place_move_cost(what, to);
    note_moved(self, model, to != what->now);
}

void tt_place_state_load(struct tt_place_state *self, const int32_t *at) {
    for (int32_t i = 0; i < self->problem->model_count; i++)
        tt_place_state_relocate(self, i, at[i]);
}

void tt_place_state_sharpen(struct tt_place_state *self, int32_t doublings) {
    self->doublings = doublings;
    self->rate_sum = self->memory_sum = self->excess = 0;
    for (int32_t j = 0; j < self->problem->cluster_count; j++) {
        struct tt_place_cluster *cluster = &self->clusters[j];
        cluster->rate_term = cluster->memory_term = cluster->excess = 0;
        refresh(self, cluster);
    }
}

/* The 2^doublings-th root; what rounding left below 0 counts as 0. */
static double root(double sum, int32_t doublings) {
    sum = sum > 0 ? sum : 0;
    for (int32_t k = 0; k < doublings; k++)
        sum = sqrt(sum);
    return sum;
}

double tt_place_state_energy(const struct tt_place_state *self) {
    return root(self->rate_sum, self->doublings) +
           self->problem->weight * root(self->memory_sum, self->doublings) +
           self->excess_weight * (self->excess > 1e-12 ? self->excess : 0);
}

double tt_place_state_objective(const struct tt_place_state *self) {
    double rate = 0, memory = 0, excess = 0;
    for (int32_t j = 0; j < self->problem->cluster_count; j++) {
        const struct tt_place_cluster *cluster = &self->clusters[j];
        rate = fmax(rate, fabs(cluster->rate_deviation));
        memory = fmax(memory, fabs(cluster->memory_deviation));
        excess += cluster->excess;
    }
    return rate + self->problem->weight * memory + (excess > 0 ? broken * (1 + excess) : 0);
}

void tt_place_state_check(const struct tt_place_state *self) {
    const struct tt_place_problem *problem = self->problem;
    int64_t cost = 0;
    int32_t listed = 0, moved = 0;
    for (int32_t j = 0; j < problem->cluster_count; j++) {
        const struct tt_place_cluster *cluster = &self->clusters[j];
        int64_t rate = 0, memory = 0, dynamic = 0;
        int32_t before = -1;
        for (int32_t i = cluster->first; i >= 0; i = self->next[i]) {
            const struct tt_place_model *model = &problem->models[i];
            tt_assert(self->at[i] == j);
            tt_assert(self->before[i] == before);
            before = i;
            rate += model->rate;
            memory += model->static_bytes;
            dynamic = model->dynamic_bytes > dynamic ? model->dynamic_bytes : dynamic;
            cost += tt_place_move_cost(model, j);
            tt_assert((model->now != j) == (self->moved_at[i] >= 0));
            moved += model->now != j;
            listed++;
        }
        tt_assert(cluster->rate == rate);
        tt_assert(cluster->memory == memory);
        tt_assert(cluster->dynamic == dynamic);
    }
    tt_assert(self->cost == cost);
    tt_assert(self->moved_count == moved);
    for (int32_t i = 0; i < problem->model_count; i++)
        listed += self->at[i] == TT_PLACE_NOWHERE;
    tt_assert(listed == problem->model_count);
}
