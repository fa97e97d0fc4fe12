#include "fleet/live_plan.h"

#include "base/instant.h"
#include "base/text.h"

#include <stdlib.h>

/* A plan lowers the largest deviation by so much at least. */
static const double least_gain = 0.1;
/* Memory, or the number of models, counts little beside loads. */
static const double memory_weight = 0.05;

enum {
    SEED = 1,
    MODEL_SIZE = 1000, /* each counts as so much if memory is not known: numbers are balanced */
};

struct problem {
    struct tt_place_model *models; /* [count + fixed]: one for each group, then the shares */
    int32_t *groups;               /* [count] */
    int32_t *at, *now;             /* [count + fixed] */
    int64_t *limits;               /* [pools]: memory of a device */
    int32_t count, fixed;
    bool knows_memory;
};

/* ---- memory ---- */

/* Of the device of a pool that has the least; 0: none states it. */
static int64_t memory_of(const struct tt_cluster_settings *settings, int32_t pool) {
    int64_t least = 0;
    for (int32_t i = 0; i < settings->node_count; i++) {
        const struct tt_cluster_node *node = &settings->nodes[i];
        if (node->role == TT_ROLE_BACKEND && node->pool == pool && node->memory_bytes > 0 &&
            (least == 0 || node->memory_bytes < least))
            least = node->memory_bytes;
    }
    return least;
}

static bool knows_memory(const struct tt_cluster_settings *settings) {
    bool has_limit = false, has_need = false;
    for (int32_t i = 0; i < settings->node_count; i++)
        has_limit |= settings->nodes[i].memory_bytes > 0;
    for (int32_t i = 0; i < settings->model_count; i++)
        has_need |= settings->models[i]->whole->static_bytes > 0;
    return has_limit && has_need;
}

enum tt_err tt_live_plan_fits(const struct tt_cluster_settings *settings, const bool *served,
                              const uint16_t *homes, const uint16_t *next, struct tt_error *why) {
    for (int32_t pool = 0; pool < tt_cluster_pools(settings); pool++) {
        int64_t limit = memory_of(settings, pool), sum = 0, largest = 0;
        bool gets_more = false;
        for (int32_t i = 0; limit > 0 && i < settings->model_count; i++) {
            const struct tt_profile *whole = settings->models[i]->whole;
            bool comes = next[tt_cluster_group(settings, (uint16_t)i)] == pool;
            if ((homes[i] != pool && !comes) || (served && !served[i]))
                continue;
            gets_more |= homes[i] != pool;
            sum += whole->static_bytes;
            largest = whole->dynamic_bytes > largest ? whole->dynamic_bytes : largest;
        }
        if (gets_more && sum + largest > limit)
            return tt_fail(TT_ERR_UNAVAILABLE, why,
                           "a device of pool %s would need %.6g MiB while models come before "
                           "others leave; it has %.6g",
                           tt_cluster_pool_name(settings, (uint16_t)pool),
                           (double)(sum + largest) / 0x100000, (double)limit / 0x100000);
    }
    return TT_OK;
}

/* ---- the problem ---- */

static int64_t load_of(const struct tt_live_load *load, int32_t model) {
    const struct tt_step_model *step = load->settings->models[model];
    int64_t whole = tt_profile_latency(step->whole, step->max_batch, 0);
    double per_second = (double)load->rows[model] * (double)whole / step->max_batch * (double)TT_S /
                        (double)load->span_ns;
    return per_second < (double)TT_PLACE_MAX_AMOUNT ? (int64_t)per_second : TT_PLACE_MAX_AMOUNT;
}

static void fill(struct problem *self, const struct tt_live_load *load) {
    const struct tt_cluster_settings *settings = load->settings;
    for (int32_t i = 0; i < settings->model_count; i++) {
        uint16_t group = tt_cluster_group(settings, (uint16_t)i);
        if (group == i) {
            self->groups[self->count] = i;
            self->now[self->count] = load->homes[i];
            self->models[self->count++] =
                (struct tt_place_model){.name = settings->models[i]->name,
                                        .static_bytes = self->knows_memory ? 0 : MODEL_SIZE,
                                        .cost = TT_PLACE_MICRO,
                                        .now = load->homes[i]};
        }
        int32_t place = self->count - 1;
        while (self->groups[place] != group)
            place--;
        struct tt_place_model *model = &self->models[place];
        const struct tt_profile *whole = settings->models[i]->whole;
        if (self->knows_memory && (!load->served || load->served[i])) {
            model->static_bytes += whole->static_bytes;
            if (model->dynamic_bytes < whole->dynamic_bytes)
                model->dynamic_bytes = whole->dynamic_bytes;
        }
        int64_t more = load_of(load, i);
        model->rate =
            more < TT_PLACE_MAX_AMOUNT - model->rate ? model->rate + more : TT_PLACE_MAX_AMOUNT;
    }
}

static int64_t share(int64_t total, int32_t part, int32_t all) {
    double amount = (double)total * part / all;
    return amount < (double)TT_PLACE_MAX_AMOUNT ? (int64_t)amount : TT_PLACE_MAX_AMOUNT;
}

/* Fills smaller pools up to the size of the largest with shares that do not move. */
static enum tt_err add_shares(struct problem *self, const struct tt_live_load *load, int32_t pools,
                              int64_t rate, struct tt_error *why) {
    int32_t largest = 0, all = 0;
    for (int32_t pool = 0; pool < pools; pool++) {
        if (load->devices[pool] < 1)
            return tt_fail(TT_ERR_UNAVAILABLE, why, "no device of pool %s takes work",
                           tt_cluster_pool_name(load->settings, (uint16_t)pool));
        largest = load->devices[pool] > largest ? load->devices[pool] : largest;
        all += load->devices[pool];
    }
    for (int32_t pool = 0; pool < pools; pool++) {
        int32_t missing = largest - load->devices[pool];
        if (missing == 0)
            continue;
        int32_t place = self->count + self->fixed++;
        self->now[place] = pool;
        self->models[place] = (struct tt_place_model){
            .name = "devices that are not there",
            .rate = share(rate, missing, all),
            .static_bytes =
                self->knows_memory ? 0 : share((int64_t)self->count * MODEL_SIZE, missing, all),
            .cost = 2 * TT_PLACE_MICRO * (load->max_moves + INT64_C(1)), /* more than there is */
            .now = pool};
    }
    return TT_OK;
}

/* The placement in force does not keep the limits: then a plan need not gain anything else. */
static bool is_broken(const struct tt_place_problem *problem, const int32_t *now) {
    struct tt_place_problem free_of_cost = *problem;
    struct tt_error ignored;
    free_of_cost.max_cost = -1;
    return tt_place_check(&free_of_cost, now, &ignored) == TT_ERR_INVALID;
}

/* The model with the least load that comes to a pool which has no room for it before others leave;
 * -1: there is none. */
static int32_t find_crowded(const struct problem *self, int32_t pool) {
    int64_t sum = 0, largest = 0;
    int32_t least = -1;
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_place_model *model = &self->models[i];
        if (self->now[i] != pool && self->at[i] != pool)
            continue;
        sum += model->static_bytes;
        largest = model->dynamic_bytes > largest ? model->dynamic_bytes : largest;
        if (self->now[i] != pool && (least < 0 || model->rate < self->models[least].rate))
            least = i;
    }
    return self->limits[pool] > 0 && sum + largest > self->limits[pool] ? least : -1;
}

/* What the search found may need room that others leave too late: then models stay. */
static void keep_room(const struct problem *self, int32_t pools) {
    for (int32_t pool = 0; self->knows_memory && pool < pools; pool++)
        for (int32_t model; (model = find_crowded(self, pool)) >= 0;)
            self->at[model] = self->now[model];
}

static enum tt_err search(const struct problem *self, const struct tt_live_load *load,
                          int32_t pools, const struct tt_place_effort *effort,
                          struct tt_live_plan *out_plan, struct tt_error *why) {
    const struct tt_place_problem problem = {.models = self->models,
                                             .model_count = self->count + self->fixed,
                                             .cluster_count = pools,
                                             .max_cost = 2 * TT_PLACE_MICRO * load->max_moves,
                                             .max_memories =
                                                 self->knows_memory ? self->limits : NULL,
                                             .weight = memory_weight,
                                             .seed = SEED};
    struct tt_place_value before, after;
    enum tt_err err = tt_place_search(&problem, effort, self->at, why);
    if (err)
        return err;
    keep_room(self, pools);
    err = tt_place_check(&problem, self->at, why);
    if (err)
        return tt_fail_in(TT_ERR_UNAVAILABLE, why,
                          "models must come before others leave, and then a limit is exceeded");
    if (tt_place_evaluate(&problem, self->now, &before) ||
        tt_place_evaluate(&problem, self->at, &after))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    bool is_needed = after.moves > 0 && is_broken(&problem, self->now);
    if (!is_needed && (before.objective - after.objective < least_gain || after.moves == 0))
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "no plan of %d move%s gains enough: a pool's load differs from its share by "
                       "%.0f %%, and would by %.0f %%",
                       (int)load->max_moves, tt_plural(load->max_moves),
                       100 * before.rate_deviation, 100 * after.rate_deviation);
    *out_plan = (struct tt_live_plan){
        .before = before.rate_deviation, .after = after.rate_deviation, .moves = after.moves};
    return TT_OK;
}

static enum tt_err make(struct problem *self, const struct tt_live_load *load, int32_t pools,
                        const struct tt_place_effort *effort, struct tt_live_plan *out_plan,
                        struct tt_error *why) {
    self->knows_memory = knows_memory(load->settings);
    for (int32_t pool = 0; pool < pools; pool++)
        self->limits[pool] = memory_of(load->settings, pool);
    fill(self, load);
    int64_t total = 0;
    for (int32_t i = 0; i < self->count; i++)
        total = total < TT_PLACE_MAX_AMOUNT ? total + self->models[i].rate : total;
    if (total == 0)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "no request came: there is nothing to balance");
    enum tt_err err = add_shares(self, load, pools, total, why);
    return err ? err : search(self, load, pools, effort, out_plan, why);
}

enum tt_err tt_live_plan_make(const struct tt_live_load *load, const struct tt_place_effort *effort,
                              uint16_t *out_homes, struct tt_live_plan *out_plan,
                              struct tt_error *why) {
    const struct tt_cluster_settings *settings = load->settings;
    size_t models = (size_t)settings->model_count;
    int32_t pools = tt_cluster_pools(settings);
    tt_assert(models > 0 && load->span_ns > 0 && load->max_moves > 0);
    enum tt_err err = TT_OK;
    size_t places = models + (size_t)pools;
    int32_t *numbers = calloc(3 * places, sizeof(*numbers));
    struct problem self = {.models = calloc(places, sizeof(*self.models)),
                           .groups = numbers,
                           .at = numbers ? numbers + places : NULL,
                           .now = numbers ? numbers + 2 * places : NULL,
                           .limits = calloc((size_t)pools, sizeof(*self.limits))};
    if (self.models && numbers && self.limits)
        err = make(&self, load, pools, effort, out_plan, why);
    else
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < settings->model_count; i++)
        out_homes[i] = load->homes[i];
    for (int32_t i = 0; !err && i < self.count; i++)
        out_homes[self.groups[i]] = (uint16_t)self.at[i];
    free(self.limits);
    free(self.models);
    free(numbers);
    return err;
}
