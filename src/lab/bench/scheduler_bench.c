#include "lab/bench/scheduler_bench.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/eventcount.h"
#include "lab/bench/scheduler_load.h"
#include "lab/bench/scheduler_tally.h"
#include "lab/closed_form/bound.h"
#include "lab/load/arrivals.h"
#include "lab/scenario/allocate.h"
#include "multicore/emulated_fleet.h"
#include "multicore/multicore.h"
#include "policy/deferred/deferred.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING = 1 << 14,          /* requests between the generator and a model thread */
    REQUEST_LIMIT = 1 << 22, /* queued at once */
    BURST = 1 << 14,         /* maximum requests per submission */
    GENERATOR_REST_NS = 50000,
    ZIPF_PPM = 900000, /* the exponent of popularity */
    CHUNK = 1 << 16,   /* in virtual time: requests drawn at once */
};

struct run {
    const struct tt_scheduler_bench *bench;
    const volatile sig_atomic_t *stop;
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model *models;
    int64_t *weights;
    struct tt_emulated_fleet fleet;
    struct tt_multicore *multicore;
    struct tt_scheduler_tally tally;
    struct tt_scheduler_load load;
    int64_t from_at, to_at;
    /* Used by the generator. */
    struct tt_device_request *burst;
    int64_t offered, offered_in_window, ring_full;
    struct tt_histogram lag_ns;
    int64_t generator_ns;
};

/* ---- construction ---- */

static enum tt_err make_models(struct run *run, struct tt_error *why) {
    const struct tt_scheduler_bench *bench = run->bench;
    enum tt_err err = tt_profile_new_linear(bench->alpha_ns, bench->beta_ns, bench->max_batch,
                                            &run->profile, why);
    if (err)
        return err;
    run->models = tt_allocate((size_t)bench->models, sizeof(*run->models));
    run->weights = tt_allocate((size_t)bench->models, sizeof(*run->weights));
    run->step = (struct tt_step){.name = "whole", .profile = run->profile};
    for (int32_t m = 0; m < bench->models; m++)
        run->models[m] = (struct tt_step_model){.name = "bench",
                                                .step_count = 1,
                                                .steps = &run->step,
                                                .whole = run->profile,
                                                .slo_ns = bench->slo_ns - bench->margin_ns,
                                                .max_batch = bench->max_batch};
    tt_arrivals_zipf(bench->zipf ? ZIPF_PPM : 0, bench->models, run->weights);
    return TT_OK;
}

static enum tt_err make_scheduler(struct run *run, int64_t start_at, struct tt_error *why) {
    const struct tt_scheduler_bench *bench = run->bench;
    const struct tt_policy_kind *kind = tt_policy_find(bench->policy);
    struct tt_deferred_options policy;
    if (!kind)
        return tt_fail(TT_ERR_NOT_FOUND, why, "no policy is called '%s'", bench->policy);
    enum tt_err err =
        tt_deferred_options_parse(kind, bench->options, bench->option_count, &policy, why);
    if (err)
        return err;
    int32_t threads = bench->model_threads > 0 ? bench->model_threads : 1;
    run->from_at = start_at + bench->warm_up_ns;
    run->to_at = run->from_at + bench->duration_ns;
    struct tt_scheduler_load_options load = {.model_count = bench->models,
                                             .weights = run->weights,
                                             .rate_per_s = bench->rate_per_s,
                                             .start_at = start_at,
                                             .patience_ns = bench->slo_ns - bench->margin_ns,
                                             .seed = bench->seed};
    run->burst = tt_allocate(bench->virtual_time ? CHUNK : BURST, sizeof(*run->burst));
    if (tt_scheduler_load_init(&run->load, &load) ||
        tt_emulated_fleet_init(&run->fleet, bench->devices, run->models) ||
        tt_scheduler_tally_init(&run->tally, threads, run->from_at, run->to_at, bench->margin_ns))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d devices", bench->devices);
    struct tt_multicore_options options = {
        .model_threads = bench->model_threads,
        .model_count = bench->models,
        .executor_count = bench->devices,
        .port_count = 1,
        .ring_capacity = RING,
        .request_limit = REQUEST_LIMIT,
        .policy = &policy,
        .models = run->models,
        .devices = tt_emulated_fleet_devices(&run->fleet),
        .client = tt_scheduler_tally_client(&run->tally),
        .rest_ns = bench->rest_ns,
        .spin_ns = bench->spin_ns,
    };
    err = tt_multicore_new(&options, &run->multicore, why);
    if (!err)
        tt_multicore_measure_from(run->multicore, run->from_at);
    return err;
}

static void run_fini(struct run *run) {
    tt_multicore_free(run->multicore);
    tt_scheduler_tally_fini(&run->tally);
    tt_emulated_fleet_fini(&run->fleet);
    tt_scheduler_load_fini(&run->load);
    tt_histogram_fini(&run->lag_ns);
    free(run->burst);
    free(run->models);
    free(run->weights);
    tt_profile_free(run->profile);
}

/* Adds the executors through a ring; a turn empties the ring when it is full. */
static void bring_up(struct run *run, int64_t now) {
    for (int32_t i = 0; i < run->bench->devices; i++)
        while (!tt_multicore_change(run->multicore, i, true))
            tt_multicore_step(run->multicore, now);
    tt_multicore_step(run->multicore, now);
}

static bool stopped(const struct run *run) { return run->stop && *run->stop; }

/* ---- in real time ---- */

static void count_offered(struct run *run, const struct tt_device_request *requests,
                          int32_t count) {
    run->offered += count;
    if (count == 0)
        return;
    if (requests[0].arrived_at >= run->from_at && requests[count - 1].arrived_at < run->to_at) {
        run->offered_in_window += count;
        return;
    }
    for (int32_t i = 0; i < count; i++)
        run->offered_in_window +=
            requests[i].arrived_at >= run->from_at && requests[i].arrived_at < run->to_at;
}

/* Submits the requests that are due. Those that find no room are submitted later, with their old
 * instants. */
static void *generator_main(void *context) {
    struct run *run = context;
    struct tt_eventcount eventcount;
    int32_t have = 0, done = 0;
    tt_eventcount_init(&eventcount);
    tt_eventcount_be_punctual();
    int64_t cpu_ns = 0; /* before the window */
    while (!stopped(run)) {
        int64_t now = tt_clock_now();
        if (cpu_ns == 0 && now >= run->from_at)
            cpu_ns = tt_clock_thread_cpu(pthread_self());
        if (done == have) {
            done = 0;
            have = tt_scheduler_load_take(&run->load, now < run->to_at ? now : run->to_at - 1,
                                          run->burst, BURST);
            if (have == 0 && tt_scheduler_load_next_at(&run->load) >= run->to_at)
                break;
            count_offered(run, run->burst, have);
            if (have > 0 && now >= run->from_at)
                tt_histogram_add(&run->lag_ns, now - run->burst[0].arrived_at);
        }
        done += tt_multicore_submit(run->multicore, 0, now, run->burst + done, have - done);
        if (done < have)
            run->ring_full++;
        if (done < have || have < BURST) {
            int64_t next_at = tt_scheduler_load_next_at(&run->load);
            tt_eventcount_sleep(&eventcount, tt_instant_max(next_at, now + GENERATOR_REST_NS));
        }
    }
    run->generator_ns = tt_clock_thread_cpu(pthread_self()) - cpu_ns;
    return NULL;
}

static void sleep_until(struct run *run, int64_t at) {
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    for (int64_t now; !stopped(run) && (now = tt_clock_now()) < at;)
        tt_eventcount_sleep(&eventcount, tt_instant_min(at, now + 50 * TT_MS));
}

/* Waits for the last answers; requests without one are lost. */
static void drain(struct run *run) {
    int64_t patience_at = tt_clock_now() + 4 * run->bench->slo_ns + 10 * TT_S;
    while (!stopped(run) && tt_scheduler_tally_answered(&run->tally) < run->offered &&
           tt_clock_now() < patience_at)
        sleep_until(run, tt_clock_now() + TT_MS);
}

static enum tt_err run_real(struct run *run, struct tt_scheduler_bench_result *out,
                            struct tt_error *why) {
    pthread_t generator;
    int64_t model_ns, rank_ns;
    enum tt_err err = tt_multicore_start(run->multicore, why);
    if (err)
        return err;
    int failed = pthread_create(&generator, NULL, generator_main, run);
    if (failed) {
        tt_multicore_stop(run->multicore);
        return tt_fail(TT_ERR_IO, why, "cannot start the generator: %s", strerror(failed));
    }
    sleep_until(run, run->from_at);
    tt_multicore_cpu(run->multicore, &model_ns, &rank_ns);
    sleep_until(run, run->to_at);
    tt_multicore_cpu(run->multicore, &out->model_cpu_ns, &out->rank_cpu_ns);
    out->model_cpu_ns -= model_ns;
    out->rank_cpu_ns -= rank_ns;
    pthread_join(generator, NULL);
    out->generator_cpu_ns = run->generator_ns;
    drain(run);
    tt_multicore_stop(run->multicore);
    return TT_OK;
}

/* ---- in virtual time ---- */

/* Runs all turns before the next request, then advances to the instant at which that request is
 * read: a scheduler that rests reads all requests of that time at once. */
static void run_virtual(struct run *run, struct tt_scheduler_bench_result *out) {
    pthread_t self = pthread_self();
    int64_t now = 0, next_at = 0, read_at = -run->bench->rest_ns, cpu_ns = 0, drawn_ns = 0;
    int32_t have = 0, done = 0;
    for (;;) {
        if (done == have) {
            int64_t before_ns = tt_clock_thread_cpu(self);
            done = 0;
            have = tt_scheduler_load_take(&run->load, run->to_at - 1, run->burst, CHUNK);
            count_offered(run, run->burst, have);
            drawn_ns += tt_clock_thread_cpu(self) - before_ns;
        }
        int64_t request_at = TT_NEVER;
        if (done < have)
            request_at = tt_instant_max(run->burst[done].arrived_at, read_at + run->bench->rest_ns);
        now = tt_instant_max(now, tt_instant_min(next_at, request_at));
        if (now == TT_NEVER || stopped(run))
            break;
        int32_t end = done;
        while (end < have && run->burst[end].arrived_at <= now)
            end++;
        if (end > done) {
            read_at = now;
            done += tt_multicore_submit(run->multicore, 0, now, run->burst + done, end - done);
        }
        if (cpu_ns == 0 && now >= run->from_at) {
            cpu_ns = tt_clock_thread_cpu(self);
            drawn_ns = 0;
        }
        next_at = tt_multicore_step(run->multicore, now);
    }
    out->model_cpu_ns = tt_clock_thread_cpu(self) - cpu_ns - drawn_ns;
    out->generator_cpu_ns = drawn_ns;
}

/* ---- results ---- */

static void collect(struct run *run, struct tt_scheduler_bench_result *out) {
    const struct tt_scheduler_bench *bench = run->bench;
    struct tt_scheduler_tally_thread sum = tt_scheduler_tally_sum(&run->tally);
    out->offered = run->offered_in_window;
    out->in_time = sum.in_time;
    out->late = sum.late;
    memcpy(out->dropped, sum.dropped, sizeof(out->dropped));
    out->interrupted = stopped(run);
    if (!out->interrupted)
        out->lost = run->offered - tt_scheduler_tally_answered(&run->tally);
    out->ring_full = run->ring_full;
    out->device_share =
        (double)sum.device_ns / (double)(bench->duration_ns + bench->warm_up_ns) / bench->devices;
    struct tt_multicore *multicore = run->multicore;
    for (int32_t t = 0; t < multicore->thread_count; t++) {
        const struct tt_model_thread_stats *stats = &multicore->model_threads[t].stats;
        out->model_turns += stats->turns;
        out->refused += stats->refused;
        tt_histogram_merge(&out->batch_rows, &stats->batch_rows);
        tt_histogram_merge(&out->queued, &stats->queued);
        tt_histogram_merge(&out->intake_ns, &stats->intake_ns);
    }
    out->rank_turns = multicore->rank_thread.stats.turns;
    out->grants = multicore->rank_thread.stats.grants;
    tt_histogram_merge(&out->late_ns, &multicore->rank_thread.stats.late_ns);
    tt_histogram_merge(&out->generator_lag_ns, &run->lag_ns);
}

enum tt_err tt_scheduler_bench_capacity(const struct tt_scheduler_bench *self, double *out_per_s,
                                        struct tt_error *why) {
    struct run run = {.bench = self};
    enum tt_err err = make_models(&run, why);
    struct tt_scenario_model *models = tt_allocate((size_t)self->models, sizeof(*models));
    struct tt_sim_device *devices = tt_allocate((size_t)self->devices, sizeof(*devices));
    if (!err) {
        for (int32_t m = 0; m < self->models; m++) {
            models[m] = (struct tt_scenario_model){
                .step_model = run.models[m],
                .weight = run.weights[m],
                .rows = 1,
            };
            models[m].step_model.slo_ns = self->slo_ns;
        }
        for (int32_t d = 0; d < self->devices; d++)
            devices[d].executors = 1;
        struct tt_scenario scenario = {.models = models,
                                       .model_count = self->models,
                                       .devices = devices,
                                       .device_count = self->devices};
        *out_per_s = tt_bound_of(&scenario).staggered_per_s;
    }
    free(models);
    free(devices);
    run_fini(&run);
    return err;
}

enum tt_err tt_scheduler_bench_run(const struct tt_scheduler_bench *self,
                                   const volatile sig_atomic_t *stop,
                                   struct tt_scheduler_bench_result *out_result,
                                   struct tt_error *why) {
    struct run run = {.bench = self, .stop = stop};
    struct tt_scheduler_bench_result out = {0};
    tt_histogram_init(&run.lag_ns);
    tt_histogram_init(&out.late_ns);
    tt_histogram_init(&out.batch_rows);
    tt_histogram_init(&out.queued);
    tt_histogram_init(&out.intake_ns);
    tt_histogram_init(&out.generator_lag_ns);
    enum tt_err err = tt_scheduler_bench_capacity(self, &out.capacity_per_s, why);
    if (!err)
        err = make_models(&run, why);
    if (!err)
        err = make_scheduler(&run, self->virtual_time ? 0 : tt_clock_now() + 20 * TT_MS, why);
    if (!err) {
        bring_up(&run, self->virtual_time ? 0 : tt_clock_now());
        if (self->virtual_time)
            run_virtual(&run, &out);
        else
            err = run_real(&run, &out, why);
    }
    if (!err)
        collect(&run, &out);
    run_fini(&run);
    if (err)
        tt_scheduler_bench_result_fini(&out);
    else
        *out_result = out;
    return err;
}

void tt_scheduler_bench_result_fini(struct tt_scheduler_bench_result *self) {
    tt_histogram_fini(&self->late_ns);
    tt_histogram_fini(&self->batch_rows);
    tt_histogram_fini(&self->queued);
    tt_histogram_fini(&self->intake_ns);
    tt_histogram_fini(&self->generator_lag_ns);
}

double tt_scheduler_bench_bad_rate(const struct tt_scheduler_bench_result *result) {
    return result->offered ? (double)(result->offered - result->in_time) / (double)result->offered
                           : 0;
}
