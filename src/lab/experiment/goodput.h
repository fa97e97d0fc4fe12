/* The highest rate at which every model's bad rate stays within the limit, by bisection.
 *
 * Doubling or halving from the scenario's own rate, or steps of 15 % from the staggered bound
 * (lab/closed_form/bound.h), find one good and one bad rate. The gap is halved until it is at most
 * precision * (the bad rate). In virtual time a run ends as soon as it cannot be good any more
 * (lab/run/bad_share.h), and all runs share their random numbers (lab/load/kept_gaps.h), perhaps
 * with other searches (lab/load/shared_gaps.h): none of this changes the result. In real time the
 * first is done for a limited number of requests.
 *
 * In real time a run at a low rate has few requests, and lasts as long as any. The search for a
 * good rate gives up where one bad request is above the limit: `rate` is 0 then.
 *
 * A bad rate measured over n requests of one model is uncertain by about sqrt(0.01 * 0.99 / n), and
 * not quite monotone near the limit, so the result includes the number of requests. */
#ifndef TT_LAB_EXPERIMENT_GOODPUT_H
#define TT_LAB_EXPERIMENT_GOODPUT_H

#include "lab/load/shared_gaps.h"
#include "lab/scenario/scenario.h"

#include <signal.h>

struct tt_goodput_options {
    double bad_rate;  /* 0.01 */
    double precision; /* 0.005 */
    bool from_bound;  /* begin at the staggered bound if there is one */
    /* In a child process of job `job`: the gaps that others have drawn; NULL: none. Borrowed. */
    struct tt_shared_gaps *shared_gaps;
    int32_t job;
};

struct tt_goodput {
    int64_t rate;          /* the highest good rate, in millionths; 0: none */
    int64_t bad_rate_rate; /* the lowest bad rate, in millionths */
    double worst_bad_rate; /* of a model, at `rate` */
    double total_bad_rate;
    int64_t requests;           /* counted at `rate` */
    int64_t requests_per_model; /* the minimum over the models */
    double median_batch;
    int32_t runs;
    bool interrupted;
    bool doubtful; /* in real time: at `rate` the load generator fell behind */
};

/* What one run at one rate gave. */
struct tt_goodput_run {
    bool good; /* every model's bad rate is within the limit */
    bool interrupted;
    bool doubtful; /* in real time: the load generator fell behind */
    bool too_few;  /* in real time, of a bad run: one bad request of so few is above the limit */
    /* Of a good run: */
    double worst_bad_rate, total_bad_rate;
    int64_t requests, requests_per_model;
    double median_batch;
};

/* How a rate is tried. `run` may try a rate more than once; its errors end the search. */
struct tt_goodput_probe {
    void *context;
    enum tt_err (*run)(void *context, int64_t rate, struct tt_goodput_run *out_run,
                       struct tt_error *why);
};

/* The search by any probe; of the scenario it reads where to begin. INVALID: its load is not drawn
 * from one rate, but from a file, segments or steps. */
TT_MUST_CHECK enum tt_err tt_goodput_search_by(const struct tt_scenario *scenario,
                                               const struct tt_goodput_options *options,
                                               const struct tt_goodput_probe *probe,
                                               struct tt_goodput *out_goodput,
                                               struct tt_error *why);
/* The search by runs of the scenario in its world. */
TT_MUST_CHECK enum tt_err tt_goodput_search(const struct tt_scenario *scenario,
                                            const struct tt_goodput_options *options,
                                            const volatile sig_atomic_t *stop,
                                            struct tt_goodput *out_goodput, struct tt_error *why);

#endif
