/* What a fleet's plan is worth in a simulation, and what other fleets would cost. */
#include "lab/autoscale/fleet_world.h"
#include "lab/plan/fleet_plan.h"
#include "lab/scenario/allocate.h"
#include "scale/devices_wanted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS = 40000, SLOS = 40 };
static const double most_factor = 1.3; /* beyond it the advice is wrong, and the plan says so */

static enum tt_err simulate(const struct tt_fleet_file *file, const struct tt_fleet_plan *plan,
                            int32_t group, int32_t devices, double *out_bad, struct tt_error *why) {
    struct tt_fleet_world_model models[TT_FLEET_MAX_MODELS];
    double per_s[TT_FLEET_MAX_MODELS], sum = 0, dispersion = 0;
    int32_t count = 0, hour = plan->groups[group].peak_hour;
    int64_t slo_ns = 0;
    for (int32_t m = 0; m < file->model_count; m++) {
        const struct tt_fleet_load *from = &file->models[m];
        if (plan->group_of[m] != group)
            continue;
        const struct tt_profile *profile = from->on[plan->type_of[m]];
        per_s[count] = tt_fleet_rate(from, hour);
        sum += per_s[count];
        dispersion = fmax(dispersion, from->dispersion);
        slo_ns = from->slo_ns > slo_ns ? from->slo_ns : slo_ns;
        models[count++] = (struct tt_fleet_world_model){.name = from->name,
                                                        .profile = profile,
                                                        .max_batch = profile->max_batch,
                                                        .slo_ns = from->slo_ns};
    }
    *out_bad = 0;
    if (sum <= 0)
        return TT_OK;
    double shape_ppm = dispersion > 1 ? fmax(1e6 / dispersion, 1e4) : 0;
    struct tt_fleet_world_options options = {.models = models,
                                             .model_count = count,
                                             .capacity = devices,
                                             .devices = devices,
                                             .policy = "deferred",
                                             .shape_ppm = (int64_t)shape_ppm,
                                             .seed = file->seed};
    struct tt_fleet_world *world;
    enum tt_err err = tt_fleet_world_new(&options, &world, why);
    if (err)
        return err;
    tt_fleet_world_set_rates(world, per_s);
    (void)tt_fleet_world_run(world, 4 * slo_ns);
    int64_t span_ns = (int64_t)(REQUESTS / sum * 1e9);
    struct tt_fleet_span span =
        tt_fleet_world_run(world, span_ns > SLOS * slo_ns ? span_ns : SLOS * slo_ns);
    *out_bad = tt_fleet_bad_share(&span.total);
    tt_fleet_world_free(world);
    return TT_OK;
}

enum tt_err tt_fleet_plan_check(const struct tt_fleet_file *file, struct tt_fleet_plan *plan,
                                struct tt_error *why) {
    const struct tt_fleet_change none = {0};
    for (int32_t g = 0; g < plan->group_count; g++) {
        struct tt_fleet_group *group = &plan->groups[g];
        int32_t planned = group->devices[group->peak_hour], devices = planned;
        enum tt_err err = simulate(file, plan, g, devices, &group->simulated_bad, why);
        while (!err && group->simulated_bad > TT_DEVICES_BAD_SHARE &&
               devices < most_factor * planned + 1)
            err = simulate(file, plan, g, ++devices, &group->simulated_bad, why);
        if (err)
            return err;
        group->factor = (double)devices / planned;
        for (int32_t h = 0; h < file->hour_count; h++)
            group->devices[h] = (int32_t)ceil(group->devices[h] * group->factor - 1e-9);
    }
    tt_fleet_plan_sum(file, &none, plan);
    for (int32_t t = 0; t < file->type_count; t++)
        for (int32_t h = 0; h < file->hour_count && file->types[t].most > 0; h++)
            if (tt_fleet_plan_devices(plan, t, h) > file->types[t].most)
                return tt_fail(TT_ERR_INVALID, why,
                               "hour %d needs %d devices '%s', by simulation; there are %d", h,
                               tt_fleet_plan_devices(plan, t, h), file->types[t].name,
                               file->types[t].most);
    return TT_OK;
}

static void try(const struct tt_fleet_file *file, const struct tt_fleet_change *change,
                struct tt_fleet_what_if *out) {
    struct tt_fleet_plan *plan = tt_allocate(1, sizeof(*plan));
    if (tt_fleet_plan_make(file, change, plan, &out->why) == TT_OK) {
        out->cost = plan->cost;
        out->cost_per_million = plan->cost_per_million;
    }
    free(plan);
}

int32_t tt_fleet_what_ifs(const struct tt_fleet_file *file,
                          struct tt_fleet_what_if out[TT_FLEET_WHAT_IFS]) {
    static const double objectives[] = {0.5, 0.75, 1.5, 2};
    static const double rates[] = {0.5, 2};
    int32_t count = 0;
    for (size_t i = 0; i < TT_COUNT(objectives); i++) {
        struct tt_fleet_change change = {.objectives = objectives[i]};
        out[count] = (struct tt_fleet_what_if){.cost = 0};
        snprintf(out[count].change, TT_FLEET_WORDS, "objectives x %g", objectives[i]);
        try(file, &change, &out[count++]);
    }
    for (size_t i = 0; i < TT_COUNT(rates); i++) {
        struct tt_fleet_change change = {.rates = rates[i]};
        out[count] = (struct tt_fleet_what_if){.cost = 0};
        snprintf(out[count].change, TT_FLEET_WORDS, "rates x %g", rates[i]);
        try(file, &change, &out[count++]);
    }
    for (int32_t t = 0; t < file->type_count && file->type_count > 1; t++) {
        struct tt_fleet_change change = {.without = UINT32_C(1) << t};
        out[count] = (struct tt_fleet_what_if){.cost = 0};
        snprintf(out[count].change, TT_FLEET_WORDS, "without %s", file->types[t].name);
        try(file, &change, &out[count++]);
    }
    return count;
}
