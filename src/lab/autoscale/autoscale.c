#include "lab/autoscale/autoscale.h"

#include "base/instant.h"
#include "lab/autoscale/autoscale_load.h"
#include "lab/autoscale/autoscale_tally.h"
#include "lab/autoscale/proxy_servers.h"
#include "lab/scenario/allocate.h"
#include "metrics/scaling_advice.h"
#include "scale/autoscaler.h"

#include <math.h>
#include <stdlib.h>

enum { SERVERS_PER_DEVICE = 8 }; /* the servers may be so many more than the devices */

struct run {
    const struct tt_autoscale_options *options;
    struct tt_autoscale_load load;
    struct tt_autoscale_tally tally;
    struct tt_fleet_world *world;
    struct tt_proxy_servers servers;
    struct tt_autoscaler scaler;
    struct tt_devices_feedback feedback;
    double before[2]; /* the total rates of the last two steps */
};

/* ---- one step ---- */

/* What grows steadily over three steps, relative to now. */
static double growth(struct run *run, double total) {
    double late = total - run->before[0], early = run->before[0] - run->before[1];
    double smaller = fmin(late, early);
    bool known = run->before[1] > 0;
    run->before[1] = run->before[0];
    run->before[0] = total;
    return known && smaller > 0 ? smaller / run->options->step_s / total : 0;
}

static void follow_advice(struct run *run, double now_s, const struct tt_fleet_span *span,
                          struct tt_autoscale_point *point) {
    const struct tt_autoscale_options *options = run->options;
    double sample_s = (double)options->sample_ns / 1e9, per_s[TT_AUTOSCALE_MODELS];
    for (int32_t m = 0; m < options->model_count; m++)
        per_s[m] = (double)span->models[m].arrived / sample_s;
    struct tt_devices_load load = tt_autoscale_load_demand(&run->load, per_s);
    load.window_s = sample_s;
    load.start_up_s = options->start_up_s;
    load.growth_per_s = growth(run, tt_autoscale_load_sum(&run->load, per_s));
    bool served = point->up == run->scaler.target;
    if (served)
        tt_devices_feedback_learn(&run->feedback, &load, point->up, point->bad, options->step_s);
    struct tt_devices_wanted wanted = tt_devices_wanted(&load, &run->feedback);
    int32_t target = tt_autoscaler_step(&run->scaler, now_s, &wanted, served ? point->bad : 0);
    int64_t steps = (int64_t)ceil(options->start_up_s / options->step_s);
    tt_fleet_world_resize(run->world, target, steps * options->sample_ns);
    point->wanted = wanted.count;
    point->confidence = wanted.confidence;
    point->target = target;
}

static void step_servers(struct run *run, int32_t step, struct tt_autoscale_point *point) {
    const struct tt_autoscale_options *options = run->options;
    struct tt_proxy_step done =
        tt_proxy_servers_step(&run->servers, step * options->step_s,
                              tt_autoscale_load_rates(&run->load, step), options->sample_ns);
    point->servers = done.servers;
    point->server_bad = done.bad;
    point->server_good_per_s = done.good_per_s;
}

static enum tt_err take_step(struct run *run, int32_t step, struct tt_error *why) {
    const struct tt_autoscale_options *options = run->options;
    struct tt_autoscale_point *point = tt_autoscale_tally_point(&run->tally);
    double sample_s = (double)options->sample_ns / 1e9, now_s = step * options->step_s;
    int32_t start_up_steps = (int32_t)ceil(options->start_up_s / options->step_s);
    point->up = tt_fleet_world_up(run->world);
    tt_fleet_world_set_rates(run->world, tt_autoscale_load_rates(&run->load, step));
    struct tt_fleet_span span = tt_fleet_world_run(run->world, options->sample_ns);
    point->offered_per_s =
        tt_autoscale_load_sum(&run->load, tt_autoscale_load_rates(&run->load, step));
    point->good_per_s = (double)span.total.ok / sample_s;
    point->bad = tt_fleet_bad_share(&span.total);
    point->used = span.devices_used;
    point->busy_share = (double)span.busy_ns / ((double)options->sample_ns * point->up);
    point->rows_per_batch = span.batches > 0 ? (double)span.rows / (double)span.batches : 0;
    point->settling = tt_autoscale_load_is_settling(&run->load, step, start_up_steps + 1);
    struct tt_scaling_advice published =
        tt_scaling_advice_of(point->up, point->bad, fmax(1 - point->busy_share, 0));
    point->add = published.add;
    point->release = published.release;
    float *good = tt_autoscale_tally_good(&run->tally);
    for (int32_t m = 0; m < options->model_count; m++)
        good[m] = (float)((double)span.models[m].ok / sample_s);
    follow_advice(run, now_s, &span, point);
    if (options->with_servers)
        step_servers(run, step, point);
    enum tt_err err = TT_OK;
    if (tt_autoscale_is_searched(options, step))
        err = tt_autoscale_load_fewest(&run->load, step, &point->fewest, why);
    if (!err)
        tt_autoscale_tally_add(&run->tally, &span.total);
    return err;
}

/* ---- the whole ---- */

enum tt_err tt_autoscale_models(const struct tt_scenario *scenario,
                                struct tt_fleet_world_model **out_models, struct tt_error *why) {
    if (scenario->model_count > TT_AUTOSCALE_MODELS)
        return tt_fail(TT_ERR_INVALID, why, "there are %d models; at most %d are possible",
                       scenario->model_count, TT_AUTOSCALE_MODELS);
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *from = &scenario->models[m];
        const char *wrong = from->step_model.step_count != 1      ? "several steps"
                            : from->step_model.slo_ns == TT_NEVER ? "no objective (slo_ms)"
                                                                  : NULL;
        if (wrong)
            return tt_fail(TT_ERR_INVALID, why,
                           "model '%s' has %s; a fleet has models of one step with an objective",
                           from->name, wrong);
    }
    struct tt_fleet_world_model *models =
        tt_allocate((size_t)scenario->model_count, sizeof(*models));
    for (int32_t m = 0; m < scenario->model_count; m++)
        models[m] =
            (struct tt_fleet_world_model){.name = scenario->models[m].name,
                                          .profile = scenario->models[m].step_model.whole,
                                          .max_batch = scenario->models[m].step_model.max_batch,
                                          .slo_ns = scenario->models[m].step_model.slo_ns};
    *out_models = models;
    return TT_OK;
}

bool tt_autoscale_is_searched(const struct tt_autoscale_options *options, int32_t step) {
    return options->search_every > 0 && step % options->search_every == options->search_every / 2;
}

static enum tt_err begin(struct run *run, struct tt_error *why) {
    const struct tt_autoscale_options *options = run->options;
    tt_autoscale_load_init(&run->load, options);
    tt_autoscale_tally_init(&run->tally, options->step_count, options->model_count);
    int32_t first = run->load.needs[0] < options->capacity ? run->load.needs[0] : options->capacity;
    tt_autoscaler_init(&run->scaler, first, 1, options->capacity, options->hold_s);
    struct tt_fleet_world_options world = {.models = options->models,
                                           .model_count = options->model_count,
                                           .capacity = options->capacity,
                                           .devices = first,
                                           .policy = options->policy,
                                           .seed = options->seed};
    enum tt_err err = tt_fleet_world_new(&world, &run->world, why);
    struct tt_proxy_options servers = {.world = world,
                                       .per_s = run->load.rates,
                                       .most = SERVERS_PER_DEVICE * options->capacity,
                                       .start_up_s = options->start_up_s,
                                       .hold_s = options->hold_s};
    if (!err && options->with_servers)
        err = tt_proxy_servers_init(&run->servers, &servers, why);
    return err;
}

enum tt_err tt_autoscale_run(const struct tt_autoscale_options *options,
                             struct tt_autoscale_result *out_result, struct tt_error *why) {
    tt_assert(options->model_count >= 1 && options->model_count <= TT_AUTOSCALE_MODELS);
    tt_assert(options->step_count >= 1 && options->capacity >= 1);
    struct run run = {.options = options};
    enum tt_err err = begin(&run, why);
    for (int32_t i = 0; !err && i < options->step_count; i++) {
        if (options->stop && *options->stop) {
            run.tally.result.interrupted = true;
            break;
        }
        err = take_step(&run, i, why);
        if (options->progress)
            options->progress(options->progress_context, i + 1, options->step_count);
    }
    run.tally.result.adjustments = run.scaler.adjustments;
    tt_fleet_world_free(run.world);
    tt_proxy_servers_fini(&run.servers);
    tt_autoscale_load_fini(&run.load);
    if (err)
        tt_autoscale_result_fini(&run.tally.result);
    else
        tt_autoscale_tally_conclude(&run.tally, out_result);
    return err;
}

void tt_autoscale_result_fini(struct tt_autoscale_result *self) {
    free(self->points);
    free(self->good_per_s);
    *self = (struct tt_autoscale_result){0};
}
