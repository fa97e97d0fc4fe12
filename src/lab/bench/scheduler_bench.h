/* Benchmark of the scheduler alone under an open-loop load: the number of requests per second that
 * it schedules in time, and the CPU time of each (S6).
 *
 * The devices are emulated (multicore/emulated_fleet.h) and cost almost nothing. The load generator
 * runs on a thread of its own; its CPU time is counted separately. A run fails if it loses a
 * request, or if more than 1 % miss their deadlines at a rate that the devices could sustain: a
 * scheduler that drops requests is not fast.
 *
 * In virtual time the turns of the same threads run in sequence on one thread, as fast as possible,
 * on a machine that is always punctual. Decisions and instructions are then equal in every run,
 * whatever else uses the processor.
 *
 * The path of a request costs about 100 ns in all. So neither lab/run, which goes through the
 * server's ports, nor lab/scenario/measure.h (9 to 13 ns per request in histograms) is used here.
 */
#ifndef TT_LAB_BENCH_SCHEDULER_BENCH_H
#define TT_LAB_BENCH_SCHEDULER_BENCH_H

#include "base/histogram.h"
#include "core/mechanism.h"
#include "policy/policy.h"

#include <signal.h>

struct tt_scheduler_bench {
    int32_t models, devices;
    int32_t model_threads; /* 0: everything on one thread */
    int32_t max_batch;
    int64_t alpha_ns, beta_ns, slo_ns;
    bool zipf; /* popularity: exponent 0.9; else equal */
    int64_t rate_per_s;
    int64_t warm_up_ns, duration_ns; /* only duration_ns is measured */
    int64_t margin_ns;               /* the scheduler's deadlines are this much earlier */
    int64_t rest_ns, spin_ns;        /* multicore/multicore.h */
    bool virtual_time;
    uint64_t seed;
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
};

struct tt_scheduler_bench_result {
    int64_t offered, in_time, late; /* of the measured window */
    int64_t dropped[TT_DROP_WITHDRAWN + 1];
    int64_t lost;      /* never answered: a bug */
    int64_t ring_full; /* submissions that found too little room */
    double capacity_per_s;
    double device_share; /* the used share of the devices' time */
    int64_t model_cpu_ns,
        rank_cpu_ns; /* in the window; in virtual time all of it counts as the models' */
    int64_t generator_cpu_ns;
    int64_t model_turns, rank_turns, grants, refused;
    struct tt_histogram late_ns, batch_rows, queued, intake_ns, generator_lag_ns;
    bool interrupted;
};

/* The rate that the devices could sustain with even arrivals (lab/closed_form/bound.h). */
TT_MUST_CHECK enum tt_err tt_scheduler_bench_capacity(const struct tt_scheduler_bench *self,
                                                      double *out_per_s, struct tt_error *why);
/* Runs it once. `stop` (may be NULL) ends it early when it is not 0. */
TT_MUST_CHECK enum tt_err tt_scheduler_bench_run(const struct tt_scheduler_bench *self,
                                                 const volatile sig_atomic_t *stop,
                                                 struct tt_scheduler_bench_result *out_result,
                                                 struct tt_error *why);
void tt_scheduler_bench_result_fini(struct tt_scheduler_bench_result *self);

/* The share of offered requests that were late, dropped or lost. */
double tt_scheduler_bench_bad_rate(const struct tt_scheduler_bench_result *result);

#endif
