/* The load that a fleet follows (autoscale.h): the rates of every step, how many devices they need
 * if they are known, and how few suffice in simulations of fixed fleets.
 *
 * Life: _init draws the rates; _fini. Nothing changes them in between. Running out of memory ends
 * the process. Implemented in autoscale_load.c. */
#ifndef TT_LAB_AUTOSCALE_AUTOSCALE_LOAD_H
#define TT_LAB_AUTOSCALE_AUTOSCALE_LOAD_H

#include "lab/autoscale/autoscale.h"
#include "scale/devices_wanted.h"

struct tt_autoscale_load {
    const struct tt_autoscale_options *options;
    struct tt_devices_model *models; /* [model_count]; with the rates of the latest _demand */
    double *rates;                   /* [step_count][model_count] */
    int32_t *needs;                  /* [step_count] */
};

/* `options` must outlive it. */
void tt_autoscale_load_init(struct tt_autoscale_load *self,
                            const struct tt_autoscale_options *options);
void tt_autoscale_load_fini(struct tt_autoscale_load *self); /* also on zeroed memory */
/* Requests per second of each model. */
const double *tt_autoscale_load_rates(const struct tt_autoscale_load *self, int32_t step);
double tt_autoscale_load_sum(const struct tt_autoscale_load *self, const double *per_s);
/* What advice reads, with these rates; valid until the next call. */
struct tt_devices_load tt_autoscale_load_demand(struct tt_autoscale_load *self,
                                                const double *per_s);
/* The need rose by a jump in this step or in one of the `steps` - 1 before it. */
bool tt_autoscale_load_is_settling(const struct tt_autoscale_load *self, int32_t step,
                                   int32_t steps);
/* The fewest devices on which at most 1 % of the requests of a step are bad. Errors: those of the
 * policy. */
TT_MUST_CHECK enum tt_err tt_autoscale_load_fewest(const struct tt_autoscale_load *self,
                                                   int32_t step, int32_t *out_fewest,
                                                   struct tt_error *why);

#endif
