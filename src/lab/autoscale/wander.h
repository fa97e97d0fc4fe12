/* Rates of models that change as those of services do, minute by minute: a daily wave with a phase
 * of its own, a slow random walk around it, and jumps that last for a while.
 *
 * It is written down before anything runs, so two systems meet the same rates. The same options
 * give the same rates. Implemented in wander.c. */
#ifndef TT_LAB_AUTOSCALE_WANDER_H
#define TT_LAB_AUTOSCALE_WANDER_H

#include <stdint.h>

struct tt_wander_options {
    int32_t model_count, step_count;
    double step_s;
    double jumps_per_day; /* of each model, on average; a jump multiplies its rate by 1.5 .. 3 */
    uint64_t seed;
};

/* [step_count][model_count] factors around 1, above 0; the caller frees them. */
double *tt_wander_new(const struct tt_wander_options *options);

#endif
