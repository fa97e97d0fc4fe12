#include "place/place_bound.h"

#include "place/place_counts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rates and memory are treated alike. */
enum { RATE, MEMORY, DIMENSIONS };

/* How finely the rate's deviation is divided: first to find about where the bound lies, then
 * relative to that, but not more finely than the last. */
static const double coarse = 1.0 / 64, fine = 1.0 / 256, finest = 1.0 / 4096;
enum { HALVINGS = 30 }; /* of the memory's deviation, at most */

/* Models in the order in which they give most for their cost. */
struct item {
    double amount; /* relative to the mean */
    double cost;   /* of one load or unload */
};

struct shelf {
    struct item *items;
    int32_t count;
    bool same_cost; /* then only whole models count */
};

struct bound {
    const struct tt_place_problem *problem;
    struct item *items;           /* of all shelves */
    struct shelf *held;           /* [sub-cluster * DIMENSIONS + dimension]: what it has now */
    struct shelf all[DIMENSIONS]; /* every model, for those that need more */
    double *load;                 /* as held; relative to the mean */
    double mean[DIMENSIONS];
    double budget;                  /* for models that move, each counted once */
    bool has_new;                   /* models that lie nowhere may fill a gap at no further cost */
    struct tt_place_counts *counts; /* NULL: they say nothing */
};

static int64_t amount_of(const struct tt_place_model *model, int32_t dimension) {
    return dimension == RATE ? model->rate : model->static_bytes;
}

static int best_first(const void *left, const void *right) {
    const struct item *a = left, *b = right;
    double first = a->amount * b->cost, second = b->amount * a->cost;
    if (first > second || first < second)
        return first > second ? -1 : 1;
    return (a->amount < b->amount) - (a->amount > b->amount);
}

static void sort_shelf(struct shelf *self) {
    qsort(self->items, (size_t)self->count, sizeof(*self->items), best_first);
    self->same_cost = true;
    for (int32_t i = 1; i < self->count; i++)
        if (self->items[i].cost > self->items[0].cost || self->items[i].cost < self->items[0].cost)
            self->same_cost = false;
}

/* The least cost of models that add up to `amount`; models may be cut unless all cost the same. */
static double least_cost(const struct shelf *self, double amount) {
    double cost = 0;
    amount -= 1e-9; /* rounding must not ask for one more model */
    for (int32_t i = 0; i < self->count && amount > 0; i++) {
        const struct item *item = &self->items[i];
        if (item->amount > 0 && item->amount > amount && !self->same_cost)
            return cost + item->cost * amount / item->amount;
        cost += item->cost;
        amount -= item->amount;
    }
    return amount > 0 ? INFINITY : cost;
}

/* Whether moves within the budget may bring all sub-clusters within the deviations. */
static bool may_hold(const struct bound *self, const double deviation[DIMENSIONS]) {
    double given = 0, taken = 0;
    for (int32_t j = 0; j < self->problem->cluster_count; j++) {
        double gives = 0, takes = 0;
        for (int32_t d = 0; d < DIMENSIONS; d++) {
            double load = self->load[j * DIMENSIONS + d];
            if (load > 1 + deviation[d])
                gives = fmax(gives,
                             least_cost(&self->held[j * DIMENSIONS + d], load - 1 - deviation[d]));
            if (load < 1 - deviation[d] && !self->has_new)
                takes = fmax(takes, least_cost(&self->all[d], 1 - deviation[d] - load));
        }
        given += gives;
        taken += takes;
    }
    double budget = self->budget * (1 + 1e-9);
    return given <= budget && taken <= budget &&
           (!self->counts ||
            tt_place_counts_may_hold(self->counts, deviation[RATE], deviation[MEMORY]));
}

/* A memory deviation below which the rate deviation cannot be held. At `most` it may be, and mostly
 * not far below. */
static double least_memory(const struct bound *self, double rate, double most, double precision) {
    double low = most, high = most;
    for (double step = precision; low >= high; step *= 4) {
        double below[] = {rate, fmax(high - step, 0)};
        if (high <= 0)
            return 0;
        low = below[MEMORY];
        if (may_hold(self, below))
            high = low;
    }
    for (int32_t k = 0; k < HALVINGS && high - low > precision; k++) {
        double middle[] = {rate, (low + high) / 2};
        if (may_hold(self, middle))
            high = middle[MEMORY];
        else
            low = middle[MEMORY];
    }
    return low;
}

/* A bound of the objective where the rate's deviation is from .. to: `least`, or less where less
 * may be. The objective is at least `from` and the weighted memory deviation, and the assignment
 * keeps `to` with that memory deviation. Intervals where this may hold are halved down to `width`.
 */
static double bound_between(const struct bound *self, double from, double to, double width,
                            double least) {
    double weight = self->problem->weight, at_most[] = {to, self->problem->cluster_count};
    if (from >= least)
        return least;
    if (weight > 0) /* more memory would not lower the least */
        at_most[MEMORY] = fmin(at_most[MEMORY], (least - from) / weight);
    if (!may_hold(self, at_most))
        return least;
    if (to - from <= width && weight > 0)
        return from + weight * least_memory(self, to, at_most[MEMORY], width / 8 / weight);
    if (to - from <= width)
        return from;
    double middle = (from + to) / 2;
    least = bound_between(self, from, middle, width, least);
    return bound_between(self, middle, to, width, least);
}

/* The rate may also become worse than it is now, for the memory's sake; no deviation exceeds the
 * number of sub-clusters. */
static double bound_all(const struct bound *self, double width) {
    double now = 1, any = self->problem->cluster_count;
    for (int32_t j = 0; j < self->problem->cluster_count; j++)
        now = fmax(now, fabs(self->load[j * DIMENSIONS + RATE] - 1));
    double least = bound_between(self, 0, now, width, (1 + self->problem->weight) * any);
    return bound_between(self, now, any, any, least);
}

static void fill(struct bound *self) {
    const struct tt_place_problem *problem = self->problem;
    int32_t clusters = problem->cluster_count;
    struct item *at = self->items;
    self->budget = (double)problem->max_cost;
    for (int32_t j = 0; j <= clusters; j++)
        for (int32_t d = 0; d < DIMENSIONS; d++) {
            struct shelf *shelf = j < clusters ? &self->held[j * DIMENSIONS + d] : &self->all[d];
            shelf->items = at;
            for (int32_t i = 0; i < problem->model_count; i++) {
                const struct tt_place_model *model = &problem->models[i];
                if (j < clusters && model->now != j)
                    continue;
                double amount = (double)amount_of(model, d) / self->mean[d];
                *at++ = (struct item){amount, (double)model->cost};
                if (j < clusters)
                    self->load[j * DIMENSIONS + d] += amount;
            }
            shelf->count = (int32_t)(at - shelf->items);
            sort_shelf(shelf);
        }
    for (int32_t i = 0; i < problem->model_count; i++)
        if (problem->models[i].now == TT_PLACE_NOWHERE) {
            self->has_new = true;
            self->budget -= (double)problem->models[i].cost;
        }
    self->budget /= 2; /* a model that moves is unloaded and loaded */
}

static enum tt_err by_cost(struct bound *self, double *out_bound) {
    size_t clusters = (size_t)self->problem->cluster_count;
    self->items =
        malloc((size_t)self->problem->model_count * 2 * DIMENSIONS * sizeof(*self->items));
    self->held = calloc(clusters * DIMENSIONS, sizeof(*self->held));
    self->load = calloc(clusters * DIMENSIONS, sizeof(*self->load));
    enum tt_err err = self->items && self->held && self->load ? TT_OK : TT_ERR_NO_MEMORY;
    if (!err)
        err = tt_place_counts_new(self->problem, &self->counts);
    if (!err) {
        fill(self);
        *out_bound = bound_all(self, coarse);
        *out_bound = fmax(*out_bound, bound_all(self, fmax(*out_bound * fine, finest)));
    }
    tt_place_counts_free(self->counts);
    free(self->items);
    free(self->held);
    free(self->load);
    return err;
}

static int largest_first(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a < b) - (a > b);
}

/* Of the n * sub-clusters + 1 largest models, n + 1 share one; at least the n + 1 smallest of
 * them. */
static enum tt_err by_size(const struct bound *self, int32_t dimension, double *out_bound) {
    const struct tt_place_problem *problem = self->problem;
    double *amounts = malloc((size_t)problem->model_count * sizeof(*amounts));
    if (!amounts)
        return TT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < problem->model_count; i++)
        amounts[i] = (double)amount_of(&problem->models[i], dimension) / self->mean[dimension];
    qsort(amounts, (size_t)problem->model_count, sizeof(*amounts), largest_first);
    *out_bound = problem->model_count < problem->cluster_count ? 1 : 0; /* one stays empty */
    for (int32_t n = 0; n <= (problem->model_count - 1) / problem->cluster_count; n++) {
        int32_t last = n * problem->cluster_count;
        double sum = 0;
        for (int32_t i = last - n; i <= last; i++)
            sum += amounts[i];
        *out_bound = fmax(*out_bound, sum - 1);
    }
    free(amounts);
    return TT_OK;
}

enum tt_err tt_place_bound(const struct tt_place_problem *problem, double *out_bound) {
    struct bound self = {.problem = problem};
    for (int32_t i = 0; i < problem->model_count; i++)
        for (int32_t d = 0; d < DIMENSIONS; d++)
            self.mean[d] +=
                (double)amount_of(&problem->models[i], d) / (double)problem->cluster_count;
    double bounds[DIMENSIONS] = {0}, cost = 0;
    enum tt_err err = TT_OK;
    for (int32_t d = 0; d < DIMENSIONS && !err; d++) {
        bool is_empty = self.mean[d] <= 0;
        self.mean[d] = is_empty ? 1 : self.mean[d];
        if (!is_empty)
            err = by_size(&self, d, &bounds[d]);
        self.load = NULL;
    }
    if (!err && problem->max_cost >= 0 && self.mean[RATE] > 1 && self.mean[MEMORY] > 1)
        err = by_cost(&self, &cost);
    if (!err)
        *out_bound = fmax(cost, bounds[RATE] + problem->weight * bounds[MEMORY]);
    return err;
}
