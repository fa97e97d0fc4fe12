#include "lab/autoscale/autoscale_load.h"

#include "lab/autoscale/wander.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>

enum { HALVINGS = 30, SEARCH_SAMPLES = 4 };
static const double jump = 1.05; /* of the need, from one step to the next */

const double *tt_autoscale_load_rates(const struct tt_autoscale_load *self, int32_t step) {
    return &self->rates[(size_t)step * (size_t)self->options->model_count];
}

struct tt_devices_load tt_autoscale_load_demand(struct tt_autoscale_load *self,
                                                const double *per_s) {
    for (int32_t m = 0; m < self->options->model_count; m++)
        self->models[m].rows_per_s = per_s[m];
    return (struct tt_devices_load){.models = self->models,
                                    .model_count = self->options->model_count};
}

static int32_t need_of(struct tt_autoscale_load *self, const double *per_s) {
    struct tt_devices_load demand = tt_autoscale_load_demand(self, per_s);
    return tt_devices_wanted(&demand, NULL).count;
}

double tt_autoscale_load_sum(const struct tt_autoscale_load *self, const double *per_s) {
    double sum = 0;
    for (int32_t m = 0; m < self->options->model_count; m++)
        sum += per_s[m];
    return sum;
}

static void scale_rates(double *rates, size_t count, double factor) {
    for (size_t i = 0; i < count; i++)
        rates[i] *= factor;
}

/* Draws the rates, scaled so that the highest load needs `peak` of the fleet. */
static void draw_rates(struct tt_autoscale_load *self) {
    const struct tt_autoscale_options *options = self->options;
    struct tt_wander_options wander = {.model_count = options->model_count,
                                       .step_count = options->step_count,
                                       .step_s = options->step_s,
                                       .jumps_per_day = options->jumps_per_day,
                                       .seed = options->seed};
    size_t models = (size_t)options->model_count, steps = (size_t)options->step_count;
    self->rates = tt_wander_new(&wander);
    int32_t highest = 0;
    for (int32_t i = 1; i < options->step_count; i++)
        if (tt_autoscale_load_sum(self, tt_autoscale_load_rates(self, i)) >
            tt_autoscale_load_sum(self, tt_autoscale_load_rates(self, highest)))
            highest = i;
    double *peak = tt_allocate(models, sizeof(*peak));
    double low = 0, high = 1e7; /* a model's rate at factor 1 */
    for (int32_t k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2;
        for (size_t m = 0; m < models; m++)
            peak[m] = middle * tt_autoscale_load_rates(self, highest)[m];
        if (need_of(self, peak) <= options->peak * options->capacity)
            low = middle;
        else
            high = middle;
    }
    free(peak);
    scale_rates(self->rates, models * steps, low);
}

void tt_autoscale_load_init(struct tt_autoscale_load *self,
                            const struct tt_autoscale_options *options) {
    size_t models = (size_t)options->model_count, steps = (size_t)options->step_count;
    *self = (struct tt_autoscale_load){.options = options,
                                       .models = tt_allocate(models, sizeof(*self->models))};
    for (size_t m = 0; m < models; m++)
        self->models[m] = (struct tt_devices_model){
            .curve = tt_batch_curve_of(options->models[m].profile, 0, options->models[m].max_batch),
            .slo_s = (double)options->models[m].slo_ns / 1e9,
            .dispersion = 1};
    draw_rates(self);
    self->needs = tt_allocate(steps, sizeof(*self->needs));
    for (int32_t i = 0; i < options->step_count; i++)
        self->needs[i] = need_of(self, tt_autoscale_load_rates(self, i));
}

void tt_autoscale_load_fini(struct tt_autoscale_load *self) {
    free(self->models);
    free(self->rates);
    free(self->needs);
    *self = (struct tt_autoscale_load){.options = NULL};
}

bool tt_autoscale_load_is_settling(const struct tt_autoscale_load *self, int32_t step,
                                   int32_t steps) {
    for (int32_t i = step; i > 0 && i > step - steps; i--)
        if (self->needs[i] > jump * self->needs[i - 1])
            return true;
    return false;
}

/* ---- the fewest devices ---- */

static enum tt_err bad_on(const struct tt_autoscale_load *self, const double *per_s,
                          int32_t devices, double *out_bad, struct tt_error *why) {
    const struct tt_autoscale_options *options = self->options;
    struct tt_fleet_world_options fixed = {.models = options->models,
                                           .model_count = options->model_count,
                                           .capacity = devices,
                                           .devices = devices,
                                           .policy = options->policy,
                                           .seed = options->seed};
    struct tt_fleet_world *world;
    enum tt_err err = tt_fleet_world_new(&fixed, &world, why);
    if (err)
        return err;
    tt_fleet_world_set_rates(world, per_s);
    (void)tt_fleet_world_run(world, options->sample_ns);
    struct tt_fleet_span span = tt_fleet_world_run(world, SEARCH_SAMPLES * options->sample_ns);
    *out_bad = tt_fleet_bad_share(&span.total);
    tt_fleet_world_free(world);
    return TT_OK;
}

/* From the need, which is near: down while fewer suffice, then up while they do not. */
enum tt_err tt_autoscale_load_fewest(const struct tt_autoscale_load *self, int32_t step,
                                     int32_t *out_fewest, struct tt_error *why) {
    const double *per_s = tt_autoscale_load_rates(self, step);
    int32_t n = self->needs[step], stride = 1 + n / 64;
    double bad = 0;
    enum tt_err err = TT_OK;
    while (n > stride && !(err = bad_on(self, per_s, n - stride, &bad, why)) &&
           bad <= TT_DEVICES_BAD_SHARE)
        n -= stride;
    while (!err && n < 2 * self->options->capacity && !(err = bad_on(self, per_s, n, &bad, why)) &&
           bad > TT_DEVICES_BAD_SHARE)
        n++;
    *out_fewest = n;
    return err;
}
