#include "fleet/live_plan.h"

#include "base/instant.h"
#include "base/text.h"

#include <stdlib.h>

/* A plan lowers the largest deviation by so much at least. */
static const double least_gain = 0.1;
/* Numbers of models count little beside loads. */
static const double count_weight = 0.05;

enum {
    SEED = 1,
    MODEL_SIZE = 1000 /* each counts as so much memory: numbers of models are balanced, too */
};

struct problem {
    struct tt_place_model *models; /* [count + fixed]: one for each group, then the shares */
    int32_t *groups;               /* [count] */
    int32_t *at, *now;             /* [count + fixed] */
    int32_t count, fixed;
};

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
            self->models[self->count++] = (struct tt_place_model){.name = settings->models[i]->name,
                                                                  .static_bytes = MODEL_SIZE,
                                                                  .cost = TT_PLACE_MICRO,
                                                                  .now = load->homes[i]};
        }
        int32_t place = self->count - 1;
        while (self->groups[place] != group)
            place--;
        struct tt_place_model *model = &self->models[place];
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
            .static_bytes = share((int64_t)self->count * MODEL_SIZE, missing, all),
            .cost = 2 * TT_PLACE_MICRO * (load->max_moves + INT64_C(1)), /* more than there is */
            .now = pool};
    }
    return TT_OK;
}

static enum tt_err search(const struct problem *self, const struct tt_live_load *load,
                          int32_t pools, const struct tt_place_effort *effort,
                          struct tt_live_plan *out_plan, struct tt_error *why) {
    const struct tt_place_problem problem = {.models = self->models,
                                             .model_count = self->count + self->fixed,
                                             .cluster_count = pools,
                                             .max_cost = 2 * TT_PLACE_MICRO * load->max_moves,
                                             .weight = count_weight,
                                             .seed = SEED};
    struct tt_place_value before, after;
    enum tt_err err = tt_place_search(&problem, effort, self->at, why);
    if (err)
        return err;
    if (tt_place_evaluate(&problem, self->now, &before) ||
        tt_place_evaluate(&problem, self->at, &after))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (before.objective - after.objective < least_gain || after.moves == 0)
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
                           .now = numbers ? numbers + 2 * places : NULL};
    if (self.models && numbers)
        err = make(&self, load, pools, effort, out_plan, why);
    else
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < settings->model_count; i++)
        out_homes[i] = load->homes[i];
    for (int32_t i = 0; !err && i < self.count; i++)
        out_homes[self.groups[i]] = (uint16_t)self.at[i];
    free(self.models);
    free(numbers);
    return err;
}
