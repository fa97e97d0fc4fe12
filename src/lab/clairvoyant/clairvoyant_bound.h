/* How many requests of a known load any scheduler can answer in time: a proved upper bound.
 *
 * For prices of the devices' time, batch_partition.h bounds from below what n requests of a model
 * cost, and all time of all devices costs D * (integral of the price).
 *   - Most: no schedule has so many requests in time that they cost more.
 *   - Wanted: no schedule serves wanted[m] requests of each model m in time if they cost more.
 * Both hold for any prices, so each round is a proof of its own, in whole numbers. Good prices make
 * it sharp: they are high where the devices are in demand. Each round multiplies them by
 * exp(step * (load / devices - 1)), where the load is that of the cheapest batches (mirror ascent
 * of a concave function), beginning with equal prices. A round that proves less shortens the step,
 * any other lengthens it. It ends early when rounds gain nothing. The prices come from floats,
 * which can only cost sharpness.
 *
 * What it leaves open: each model is bounded apart, and only on average over the prices do the
 * batches fit on the devices. A schedule that reaches the bound need not exist.
 *
 * Life: tt_clairvoyant_bound is one call that allocates, computes and frees. */
#ifndef TT_LAB_CLAIRVOYANT_CLAIRVOYANT_BOUND_H
#define TT_LAB_CLAIRVOYANT_CLAIRVOYANT_BOUND_H

#include "lab/clairvoyant/clairvoyant_case.h"

#include <signal.h>

enum { TT_CLAIRVOYANT_ROUNDS = 100 };

struct tt_clairvoyant_options {
    int32_t rounds;                    /* at most; >= 1; TT_CLAIRVOYANT_ROUNDS */
    const int64_t *wanted;             /* [model_count]; NULL: bound their number */
    const volatile sig_atomic_t *stop; /* ends it after the running round; NULL: never */
    /* Called after each round on the caller's thread, with `all` at the end; may be NULL. */
    void (*progress)(void *context, int32_t finished, int32_t all);
    void *progress_context;
};

struct tt_clairvoyant_bound {
    int64_t requests; /* of the case */
    int64_t most;     /* no schedule serves more in time; `requests`: nothing is proved */
    bool impossible;  /* no schedule serves what is wanted; never without `wanted` */
    double
        load; /* what the wanted (or most + 1) requests cost, of all time: above 1 it is proved */
    int32_t rounds; /* that were run */
    bool interrupted;
};

/* INVALID: the case lasts longer than TT_DEVICE_PRICES_MAX_NS. */
TT_MUST_CHECK enum tt_err tt_clairvoyant_bound(const struct tt_clairvoyant_case *given,
                                               const struct tt_clairvoyant_options *options,
                                               struct tt_clairvoyant_bound *out_bound,
                                               struct tt_error *why);

#endif
