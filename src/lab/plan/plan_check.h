/* Checks a plan on a real server: its winner, under the load that was simulated. */
#ifndef TT_LAB_PLAN_PLAN_CHECK_H
#define TT_LAB_PLAN_PLAN_CHECK_H

#include "lab/plan/plan.h"
#include "lab/plan/plan_models.h"

/* Starts the winner's server in the trial, with `executors`, and loads it. Three windows of
 * `window_ns` have the load, or without one the predicted highest rate divided by TT_PLAN_HEADROOM;
 * the median of their goodputs counts, so that no single pause of the machine decides. (A recording
 * is played once.) Without a load it then looks for the highest rate for some seconds, to a tenth
 * at best: a rate is held if two of three windows of half that time have it, and the lowest that is
 * not held is tried twice. Sets plan->check. Errors: those of the server and
 * of `tutti load`, CANCELLED. */
TT_MUST_CHECK enum tt_err tt_plan_check_run(struct tt_plan *plan,
                                            const struct tt_plan_models *models,
                                            struct tt_plan_trial *trial, int32_t executors,
                                            int64_t window_ns, struct tt_error *why);

#endif
