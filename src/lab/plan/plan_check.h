/* Checks a plan on a real server: its winner, under the load that was simulated. */
#ifndef TT_LAB_PLAN_PLAN_CHECK_H
#define TT_LAB_PLAN_PLAN_CHECK_H

#include "lab/plan/plan.h"
#include "lab/plan/plan_models.h"

/* Starts the winner's server in the trial, with `executors`, and loads it for `second_ns` per
 * attempt. With a load: once with it. Without: at the predicted highest rate, then at others until
 * the real one is known to about a tenth. Sets plan->check. Errors: those of the server and of
 * `tutti load`, CANCELLED. */
TT_MUST_CHECK enum tt_err tt_plan_check_run(struct tt_plan *plan,
                                            const struct tt_plan_models *models,
                                            struct tt_plan_trial *trial, int32_t executors,
                                            int64_t second_ns, struct tt_error *why);

#endif
