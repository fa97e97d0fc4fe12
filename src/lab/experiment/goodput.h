/* The highest rate at which every model's bad rate stays within the limit, by bisection.
 *
 * Doubling or halving from the scenario's own rate, or steps of 15 % from the staggered bound
 * (bound.h), find one rate that is good and one that is not; the gap is halved until it is at most
 * precision * (the bad one). A run whose number of requests is limited ends as soon as more than
 * the allowed share of all of them was bad: some model's rate is above the limit then, whatever the
 * rest brings, so this changes no result. A bad rate measured over n
 * requests of one model is uncertain by about sqrt(0.01 * 0.99 / n), and near the limit not quite
 * monotone, so the result says how many requests stood behind it. */
#ifndef TT_LAB_EXPERIMENT_GOODPUT_H
#define TT_LAB_EXPERIMENT_GOODPUT_H

#include "lab/scenario/scenario.h"

#include <signal.h>

struct tt_goodput_options {
    double bad_rate;  /* 0.01 */
    double precision; /* 0.005 */
    bool from_bound;  /* where there is a staggered bound */
};

struct tt_goodput {
    int64_t rate;          /* highest that was good, in millionths; 0: none was */
    int64_t bad_rate_rate; /* lowest that was not, in millionths */
    double worst_bad_rate; /* of a model, at `rate` */
    double total_bad_rate;
    int64_t requests;           /* counted at `rate` */
    int64_t requests_per_model; /* of the model with the fewest */
    double median_batch;
    int32_t runs;
    bool interrupted;
};

/* The scenario's load must be drawn from a rate (no file, segments or steps). */
TT_MUST_CHECK enum tt_err tt_goodput_search(const struct tt_scenario *scenario,
                                            const struct tt_goodput_options *options,
                                            const volatile sig_atomic_t *stop,
                                            struct tt_goodput *out_goodput, struct tt_error *why);

#endif
