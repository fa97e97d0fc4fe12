#include "lab/autoscale/process_run.h"

#include "base/clock.h"
#include "lab/autoscale/autoscale_load.h"
#include "lab/autoscale/autoscale_tally.h"
#include "lab/autoscale/process_clients.h"
#include "lab/autoscale/process_fleet.h"
#include "lab/scenario/allocate.h"
#include "metrics/scaling_advice.h"
#include "serve/rate_window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONNECTIONS = 1088, /* to each frontend: more requests than it keeps in the cluster */
    WARM_UP_S = TT_RATE_WINDOW_S + 5,
    MISSED_LOOKS = 10, /* in a row, after which the scheduler is given up */
};

static const int64_t look_ns = TT_S;
static const double least_hold_s = 5;

struct run {
    struct tt_autoscale_options options; /* with the slower models */
    const struct tt_autoscale_processes *processes;
    struct tt_fleet_world_model *models; /* [model_count] */
    struct tt_profile **profiles;        /* [model_count]: the models' */
    struct tt_autoscale_load load;
    struct tt_autoscale_tally tally;
    struct tt_fleet_count *counts; /* [step_count]: of all models */
    struct tt_process_fleet fleet;
    struct tt_process_clients *clients;
    struct tt_process_view view; /* the latest */
    int32_t missed;              /* looks in a row */
    int32_t done;                /* steps */
    int64_t step_ns;             /* real */
};

static bool is_stopped(const struct run *run) { return run->options.stop && *run->options.stop; }

/* ---- models in slow motion ---- */

static int64_t times(int64_t ns, double slower) { return (int64_t)llround((double)ns * slower); }

static enum tt_err slow_down(struct run *run, int32_t number, struct tt_error *why) {
    const struct tt_fleet_world_model *from = &run->options.models[number];
    struct tt_profile table = *from->profile;
    size_t cells = (size_t)table.length_count * (size_t)(table.max_batch + 1);
    table.latency_ns = tt_allocate(cells, sizeof(*table.latency_ns));
    for (size_t i = 0; i < cells; i++)
        table.latency_ns[i] = times(from->profile->latency_ns[i], run->processes->slower);
    table.tail_ns = NULL; /* made anew */
    table.alpha_ns = times(table.alpha_ns, run->processes->slower);
    table.beta_ns = times(table.beta_ns, run->processes->slower);
    enum tt_err err = tt_profile_new_table(&table, &run->profiles[number], why);
    free(table.latency_ns);
    run->models[number] = *from;
    run->models[number].profile = run->profiles[number];
    run->models[number].slo_ns = times(from->slo_ns, run->processes->slower);
    return err;
}

static enum tt_err begin(struct run *run, const struct tt_autoscale_options *options,
                         struct tt_error *why) {
    size_t models = (size_t)options->model_count;
    *run = (struct run){.options = *options, .processes = options->processes};
    run->models = tt_allocate(models, sizeof(*run->models));
    run->profiles = tt_allocate(models, sizeof(struct tt_profile *));
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < options->model_count; m++)
        err = slow_down(run, m, why);
    if (err)
        return err;
    run->options.models = run->models;
    run->options.sample_ns = times(options->sample_ns, run->processes->slower);
    run->step_ns = (int64_t)(options->step_s / run->processes->pace * (double)TT_S);
    run->counts = tt_allocate((size_t)options->step_count, sizeof(*run->counts));
    tt_autoscale_load_init(&run->load, &run->options);
    tt_autoscale_tally_init(&run->tally, options->step_count, options->model_count);
    return TT_OK;
}

static void end(struct run *run) {
    for (int32_t m = 0; m < run->options.model_count; m++)
        tt_profile_free(run->profiles[m]);
    if (run->load.options)
        tt_autoscale_load_fini(&run->load);
    free(run->profiles);
    free(run->models);
    free(run->counts);
}

/* ---- one step ---- */

/* A scheduler that does not answer for a while has other things to do. */
static enum tt_err look(struct run *run, struct tt_error *why) {
    enum tt_err err = tt_process_fleet_look(&run->fleet, &run->view, why);
    run->missed = err ? run->missed + 1 : 0;
    bool goes_on = err == TT_ERR_TIMEOUT && run->missed < MISSED_LOOKS;
    return goes_on ? TT_OK : err;
}

/* Sums over the looks of a step. */
struct looks {
    int32_t count, most_busy;
    double ready, busy;
};

static enum tt_err run_step(struct run *run, int64_t until_at, struct looks *out_looks,
                            struct tt_error *why) {
    enum tt_err err = TT_OK;
    *out_looks = (struct looks){0};
    for (int64_t now = tt_clock_now(); !err && now < until_at && !is_stopped(run);
         now = tt_clock_now()) {
        tt_process_clients_run(run->clients, tt_instant_min(now + look_ns, until_at));
        err = look(run, why);
        out_looks->count++;
        out_looks->ready += run->view.ready;
        out_looks->busy += run->view.busy;
        if (run->view.busy > out_looks->most_busy)
            out_looks->most_busy = run->view.busy;
    }
    return err;
}

static void count_requests(struct run *run, int32_t step, struct tt_fleet_count *out_count) {
    double step_s = (double)run->step_ns / 1e9;
    int32_t models = run->options.model_count;
    struct tt_fleet_count *counts = tt_allocate((size_t)models, sizeof(*counts));
    float *good = run->tally.result.good_per_s + (size_t)step * (size_t)models;
    tt_process_clients_take(run->clients, counts);
    *out_count = (struct tt_fleet_count){0};
    for (int32_t m = 0; m < models; m++) {
        out_count->arrived += counts[m].arrived;
        out_count->ok += counts[m].ok;
        out_count->bad += counts[m].bad;
        good[m] = (float)((double)counts[m].ok / step_s);
    }
    free(counts);
}

static void fill_point(const struct run *run, int32_t step, const struct looks *looks,
                       int64_t granted, struct tt_autoscale_point *point) {
    const struct tt_fleet_count *count = &run->counts[step];
    double step_s = (double)run->step_ns / 1e9, looked = looks->count > 0 ? looks->count : 1;
    point->offered_per_s = (double)count->arrived / step_s;
    point->good_per_s = (double)count->ok / step_s;
    point->bad = tt_fleet_bad_share(count);
    point->up = (int32_t)lround(looks->ready / looked);
    point->used = looks->most_busy;
    point->target = run->view.asked;
    point->wanted = run->view.wanted;
    point->confidence = run->view.confidence;
    point->busy_share = looks->ready > 0 ? looks->busy / looks->ready : 0;
    point->rows_per_batch = granted > 0 ? (double)(count->ok + count->bad) / (double)granted : 0;
    struct tt_scaling_advice published =
        tt_scaling_advice_of(point->up, point->bad, fmax(1 - point->busy_share, 0));
    point->add = published.add;
    point->release = published.release;
}

/* ---- the whole ---- */

static enum tt_err run_steps(struct run *run, struct tt_error *why) {
    const struct tt_autoscale_options *options = &run->options;
    struct looks looks;
    struct tt_fleet_count ignored;
    int64_t began_at = tt_clock_now();
    tt_process_clients_set_rates(run->clients, tt_autoscale_load_rates(&run->load, 0));
    enum tt_err err = run_step(run, began_at + WARM_UP_S * TT_S, &looks, why);
    count_requests(run, 0, &ignored);
    began_at = tt_clock_now();
    int32_t target = run->view.asked;
    for (int32_t i = 0; !err && i < options->step_count; i++) {
        struct tt_autoscale_point *point = &run->tally.result.points[i];
        int64_t granted = run->view.granted;
        tt_process_clients_set_rates(run->clients, tt_autoscale_load_rates(&run->load, i));
        err = run_step(run, began_at + (i + 1) * run->step_ns, &looks, why);
        if (is_stopped(run)) {
            run->tally.result.interrupted = true;
            break;
        }
        count_requests(run, i, &run->counts[i]);
        fill_point(run, i, &looks, run->view.granted - granted, point);
        run->tally.result.adjustments += point->target != target;
        target = point->target;
        run->done = i + 1;
        if (options->progress)
            options->progress(options->progress_context, i + 1, options->step_count);
    }
    return err;
}

/* After the processes have ended, which the search would disturb. */
static enum tt_err add_up(struct run *run, struct tt_error *why) {
    enum tt_err err = TT_OK;
    run->tally.result.suspected = run->view.suspected;
    double settling_s = TT_RATE_WINDOW_S + run->view.start_up_s;
    int32_t steps = (int32_t)ceil(settling_s * (double)TT_S / (double)run->step_ns) + 1;
    for (int32_t i = 0; !err && i < run->done; i++) {
        struct tt_autoscale_point *point = tt_autoscale_tally_point(&run->tally);
        point->settling = tt_autoscale_load_is_settling(&run->load, i, steps);
        if (tt_autoscale_is_searched(&run->options, i) && !is_stopped(run))
            err = tt_autoscale_load_fewest(&run->load, i, &point->fewest, why);
        tt_autoscale_tally_add(&run->tally, &run->counts[i]);
    }
    return err;
}

static enum tt_err with_processes(struct run *run, struct tt_error *why) {
    const struct tt_autoscale_options *options = &run->options;
    int32_t each = options->capacity / run->processes->backends;
    int32_t first = (run->load.needs[0] + each - 1) / each * each;
    const struct tt_process_fleet_options fleet = {
        .models = run->models,
        .model_count = options->model_count,
        .backends = run->processes->backends,
        .devices = options->capacity,
        .first = first < options->capacity ? first : options->capacity,
        .slower = run->processes->slower,
        .hold_s = fmax(options->hold_s / run->processes->pace, least_hold_s),
        .stop = options->stop};
    enum tt_err err = tt_process_fleet_open(&run->fleet, &fleet, why);
    if (err)
        return err;
    const struct tt_process_clients_options clients = {
        .models = run->models,
        .model_count = options->model_count,
        .urls = (const char *const *)run->fleet.cluster.urls,
        .url_count = TT_PROCESS_FRONTENDS,
        /* A request has a connection. Where the system allows fewer, requests wait for one. */
        .connection_limit = tt_process_connection_limit(TT_PROCESS_FRONTENDS, CONNECTIONS),
        .seed = options->seed};
    err = tt_process_clients_open(&clients, &run->clients, why);
    if (!err)
        err = run_steps(run, why);
    tt_process_clients_close(run->clients);
    struct tt_error left;
    if (tt_process_fleet_close(&run->fleet, &left) && !err)
        err = tt_fail(TT_ERR_TIMEOUT, why, "%s", left.text);
    return err;
}

enum tt_err tt_autoscale_run_processes(const struct tt_autoscale_options *options,
                                       struct tt_autoscale_result *out_result,
                                       struct tt_error *why) {
    struct run run;
    int32_t backends = options->processes->backends;
    if (backends > TT_PROCESS_BACKENDS || options->capacity % backends != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "%d backends cannot share %d devices evenly; at most %d are possible",
                       backends, options->capacity, TT_PROCESS_BACKENDS);
    enum tt_err err = begin(&run, options, why);
    if (!err)
        err = with_processes(&run, why);
    if (!err)
        err = add_up(&run, why);
    if (err)
        tt_autoscale_result_fini(&run.tally.result);
    else
        tt_autoscale_tally_conclude(&run.tally, out_result);
    end(&run);
    return err;
}
