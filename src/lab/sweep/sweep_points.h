/* The points of an experiment's sweeps: all combinations of their values, the last sweep changing
 * fastest. Parameters that change together, "a,b" with the value "1,2", are split at the commas.
 * Nothing here runs anything. */
#ifndef TT_LAB_SWEEP_SWEEP_POINTS_H
#define TT_LAB_SWEEP_SWEEP_POINTS_H

#include "lab/experiment/experiment.h"

#include <jansson.h>

/* -1: more than 10^6. */
int32_t tt_sweep_points_count(const Tutti__Experiment *message);
/* Sets the values of a point, and builds its scenario, which the caller ends. INVALID: a value does
 * not match its parameter, or is not valid; the errors of tt_experiment_build. */
TT_MUST_CHECK enum tt_err tt_sweep_points_build(struct tt_experiment *experiment, int32_t point,
                                                struct tt_scenario *out_scenario,
                                                struct tt_error *why);
/* The values of a point, from parameter to text; a new reference, NULL: no memory. */
json_t *tt_sweep_points_values(const Tutti__Experiment *message, int32_t point);

#endif
