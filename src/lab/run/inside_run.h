/* Composition: what the devices of a scenario have inside (sim/sim_inside.h), for one run.
 *
 * A scheduler of whole requests sees models as single steps. They take as long as the whole, or,
 * where a device is granted several batches at once, as all of these together: so a cluster's
 * scheduler plans (fleet/fleet_models.h). Life: opened for a run, closed behind it. Implemented in
 * inside_run.c. */
#ifndef TT_LAB_RUN_INSIDE_RUN_H
#define TT_LAB_RUN_INSIDE_RUN_H

#include "lab/scenario/scenario.h"

struct tt_inside_run {
    const struct tt_scenario *scenario;
    struct tt_sim_inside_options options;
    struct tt_sim_model *models; /* [model_count]: whole requests */
    struct tt_step_model *step_models;
    struct tt_step *steps;
    struct tt_profile **profiles;
};

/* `models`: with all their steps; borrowed. The scenario has a policy inside. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_inside_run_open(struct tt_inside_run *self,
                                             const struct tt_scenario *scenario,
                                             const struct tt_sim_model *models,
                                             struct tt_error *why);
/* Accepts one that is all zero. */
void tt_inside_run_close(struct tt_inside_run *self);

#endif
