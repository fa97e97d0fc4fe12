#include "lab/autoscale/autoscale.h"

#include "base/instant.h"
#include "lab/autoscale/proxy_servers.h"
#include "lab/autoscale/wander.h"
#include "lab/scenario/allocate.h"
#include "metrics/scaling_advice.h"
#include "scale/autoscaler.h"

#include <math.h>
#include <stdlib.h>

enum {
    HALVINGS = 30,
    SEARCH_SAMPLES = 4,
    SERVERS_PER_DEVICE = 8, /* the servers may be so many more than the devices */
};
static const double jump = 1.05; /* of the need, from one step to the next */

struct run {
    const struct tt_autoscale_options *options;
    struct tt_devices_model *models; /* with the rates of the step in hand */
    double *rates;                   /* [step_count][model_count] */
    int32_t *needs;                  /* [step_count]: wanted if the rates were known */
    struct tt_fleet_world *world;
    struct tt_proxy_servers servers;
    struct tt_autoscaler scaler;
    struct tt_devices_feedback feedback;
    struct tt_autoscale_result result;
    int64_t settled_bad, settled_all, settling_bad, settling_all;
    double server_bad, server_all;
    int32_t settled_steps, bad_steps, searched;
    int64_t searched_up, searched_fewest, searched_servers;
    double before[2]; /* the total rates of the last two steps */
};

/* ---- the load ---- */

static const double *rates_of(const struct run *run, int32_t step) {
    return &run->rates[(size_t)step * (size_t)run->options->model_count];
}

static struct tt_devices_load load_of(struct run *run, const double *per_s) {
    for (int32_t m = 0; m < run->options->model_count; m++)
        run->models[m].rows_per_s = per_s[m];
    return (struct tt_devices_load){.models = run->models,
                                    .model_count = run->options->model_count};
}

static int32_t need_of(struct run *run, const double *per_s) {
    struct tt_devices_load load = load_of(run, per_s);
    return tt_devices_wanted(&load, NULL).count;
}

static double sum_of(const struct run *run, const double *per_s) {
    double sum = 0;
    for (int32_t m = 0; m < run->options->model_count; m++)
        sum += per_s[m];
    return sum;
}

static void scale_rates(double *rates, size_t count, double factor) {
    for (size_t i = 0; i < count; i++)
        rates[i] *= factor;
}

/* Draws the rates, scaled so that the highest load needs `peak` of the fleet. */
static void make_load(struct run *run) {
    const struct tt_autoscale_options *options = run->options;
    struct tt_wander_options wander = {.model_count = options->model_count,
                                       .step_count = options->step_count,
                                       .step_s = options->step_s,
                                       .jumps_per_day = options->jumps_per_day,
                                       .seed = options->seed};
    size_t models = (size_t)options->model_count, steps = (size_t)options->step_count;
    run->rates = tt_wander_new(&wander);
    int32_t highest = 0;
    for (int32_t i = 1; i < options->step_count; i++)
        if (sum_of(run, rates_of(run, i)) > sum_of(run, rates_of(run, highest)))
            highest = i;
    double *peak = tt_allocate(models, sizeof(*peak));
    double low = 0, high = 1e7; /* a model's rate at factor 1 */
    for (int32_t k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2;
        for (size_t m = 0; m < models; m++)
            peak[m] = middle * rates_of(run, highest)[m];
        if (need_of(run, peak) <= options->peak * options->capacity)
            low = middle;
        else
            high = middle;
    }
    free(peak);
    scale_rates(run->rates, models * steps, low);
    run->needs = tt_allocate(steps, sizeof(*run->needs));
    for (int32_t i = 0; i < options->step_count; i++)
        run->needs[i] = need_of(run, rates_of(run, i));
}

/* ---- the fewest devices ---- */

static enum tt_err bad_on(const struct run *run, const double *per_s, int32_t devices,
                          double *out_bad, struct tt_error *why) {
    const struct tt_autoscale_options *options = run->options;
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
static enum tt_err search(const struct run *run, int32_t step, int32_t *out_fewest,
                          struct tt_error *why) {
    const double *per_s = rates_of(run, step);
    int32_t n = run->needs[step], stride = 1 + n / 64;
    double bad = 0;
    enum tt_err err = TT_OK;
    while (n > stride && !(err = bad_on(run, per_s, n - stride, &bad, why)) &&
           bad <= TT_DEVICES_BAD_SHARE)
        n -= stride;
    while (!err && n < 2 * run->options->capacity && !(err = bad_on(run, per_s, n, &bad, why)) &&
           bad > TT_DEVICES_BAD_SHARE)
        n++;
    *out_fewest = n;
    return err;
}

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
    struct tt_devices_load load = load_of(run, per_s);
    load.window_s = sample_s;
    load.start_up_s = options->start_up_s;
    load.growth_per_s = growth(run, sum_of(run, per_s));
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

static bool is_settling(const struct run *run, int32_t step) {
    int32_t steps = (int32_t)ceil(run->options->start_up_s / run->options->step_s) + 1;
    for (int32_t i = step; i > 0 && i > step - steps; i--)
        if (run->needs[i] > jump * run->needs[i - 1])
            return true;
    return false;
}

static void count_fleet(struct run *run, const struct tt_fleet_count *count,
                        const struct tt_autoscale_point *point) {
    int64_t ended = count->ok + count->bad;
    run->result.arrived += count->arrived;
    *(point->settling ? &run->settling_bad : &run->settled_bad) += count->bad;
    *(point->settling ? &run->settling_all : &run->settled_all) += ended;
    run->settled_steps += !point->settling;
    run->bad_steps += !point->settling && point->bad > TT_DEVICES_BAD_SHARE;
    run->result.mean_up += point->up;
}

static void step_servers(struct run *run, int32_t step, struct tt_autoscale_point *point) {
    const struct tt_autoscale_options *options = run->options;
    struct tt_proxy_step done = tt_proxy_servers_step(&run->servers, step * options->step_s,
                                                      rates_of(run, step), options->sample_ns);
    point->servers = done.servers;
    point->server_bad = done.bad;
    point->server_good_per_s = done.good_per_s;
    run->server_bad += done.bad * point->offered_per_s;
    run->server_all += point->offered_per_s;
    run->result.mean_servers += done.servers;
}

static enum tt_err take_step(struct run *run, int32_t step, struct tt_error *why) {
    const struct tt_autoscale_options *options = run->options;
    struct tt_autoscale_point *point = &run->result.points[step];
    double sample_s = (double)options->sample_ns / 1e9, now_s = step * options->step_s;
    point->up = tt_fleet_world_up(run->world);
    tt_fleet_world_set_rates(run->world, rates_of(run, step));
    struct tt_fleet_span span = tt_fleet_world_run(run->world, options->sample_ns);
    point->offered_per_s = sum_of(run, rates_of(run, step));
    point->good_per_s = (double)span.total.ok / sample_s;
    point->bad = tt_fleet_bad_share(&span.total);
    point->used = span.devices_used;
    point->settling = is_settling(run, step);
    double idle = 1 - (double)span.busy_ns / ((double)options->sample_ns * point->up);
    struct tt_scaling_advice published = tt_scaling_advice_of(point->up, point->bad, fmax(idle, 0));
    point->add = published.add;
    point->release = published.release;
    float *good = run->result.good_per_s + (size_t)step * (size_t)options->model_count;
    for (int32_t m = 0; m < options->model_count; m++)
        good[m] = (float)((double)span.models[m].ok / sample_s);
    count_fleet(run, &span.total, point);
    follow_advice(run, now_s, &span, point);
    if (options->with_servers)
        step_servers(run, step, point);
    if (options->search_every == 0 || step % options->search_every != options->search_every / 2)
        return TT_OK;
    enum tt_err err = search(run, step, &point->fewest, why);
    run->searched++;
    run->searched_up += point->up;
    run->searched_servers += point->servers;
    run->searched_fewest += point->fewest;
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

static enum tt_err begin(struct run *run, struct tt_error *why) {
    const struct tt_autoscale_options *options = run->options;
    size_t models = (size_t)options->model_count, steps = (size_t)options->step_count;
    run->models = tt_allocate(models, sizeof(*run->models));
    for (size_t m = 0; m < models; m++)
        run->models[m] = (struct tt_devices_model){
            .curve = tt_batch_curve_of(options->models[m].profile, 0, options->models[m].max_batch),
            .slo_s = (double)options->models[m].slo_ns / 1e9,
            .dispersion = 1};
    make_load(run);
    run->result =
        (struct tt_autoscale_result){.points = tt_allocate(steps, sizeof(*run->result.points)),
                                     .good_per_s = tt_allocate(steps * models, sizeof(float)),
                                     .model_count = options->model_count};
    int32_t first = run->needs[0] < options->capacity ? run->needs[0] : options->capacity;
    tt_autoscaler_init(&run->scaler, first, 1, options->capacity, options->hold_s);
    struct tt_fleet_world_options world = {.models = options->models,
                                           .model_count = options->model_count,
                                           .capacity = options->capacity,
                                           .devices = first,
                                           .policy = options->policy,
                                           .seed = options->seed};
    enum tt_err err = tt_fleet_world_new(&world, &run->world, why);
    struct tt_proxy_options servers = {.world = world,
                                       .per_s = run->rates,
                                       .most = SERVERS_PER_DEVICE * options->capacity,
                                       .start_up_s = options->start_up_s,
                                       .hold_s = options->hold_s};
    if (!err && options->with_servers)
        err = tt_proxy_servers_init(&run->servers, &servers, why);
    return err;
}

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void conclude(struct run *run) {
    struct tt_autoscale_result *result = &run->result;
    int32_t steps = result->point_count > 0 ? result->point_count : 1;
    result->bad = share(run->settled_bad + run->settling_bad, run->settled_all + run->settling_all);
    result->bad_settled = share(run->settled_bad, run->settled_all);
    result->bad_settling = share(run->settling_bad, run->settling_all);
    result->settled_share = (double)run->settled_steps / steps;
    result->bad_steps = share(run->bad_steps, run->settled_steps);
    result->mean_up /= steps;
    result->mean_servers /= steps;
    result->over_fewest = share(run->searched_up, run->searched_fewest);
    result->servers_over_fewest = share(run->searched_servers, run->searched_fewest);
    result->server_bad = run->server_all > 0 ? run->server_bad / run->server_all : 0;
    result->adjustments = run->scaler.adjustments;
}

enum tt_err tt_autoscale_run(const struct tt_autoscale_options *options,
                             struct tt_autoscale_result *out_result, struct tt_error *why) {
    tt_assert(options->model_count >= 1 && options->model_count <= TT_AUTOSCALE_MODELS);
    tt_assert(options->step_count >= 1 && options->capacity >= 1);
    struct run run = {.options = options};
    enum tt_err err = begin(&run, why);
    for (int32_t i = 0; !err && i < options->step_count; i++) {
        if (options->stop && *options->stop) {
            run.result.interrupted = true;
            break;
        }
        err = take_step(&run, i, why);
        run.result.point_count = i + 1;
        if (options->progress)
            options->progress(options->progress_context, i + 1, options->step_count);
    }
    conclude(&run);
    tt_fleet_world_free(run.world);
    tt_proxy_servers_fini(&run.servers);
    free(run.models);
    free(run.rates);
    free(run.needs);
    if (err)
        tt_autoscale_result_fini(&run.result);
    else
        *out_result = run.result;
    return err;
}

void tt_autoscale_result_fini(struct tt_autoscale_result *self) {
    free(self->points);
    free(self->good_per_s);
    *self = (struct tt_autoscale_result){0};
}
