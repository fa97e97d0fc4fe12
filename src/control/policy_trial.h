/* A trial: how well a policy would have served given requests, in virtual time (sim/simulation.h).
 *
 * The models' steps take as long as their profiles say, and the policy has the candidate's options.
 * Executors that compute share the processors: with more tasks than processors, all slow down.
 * Workers have an executor each and a ring of inputs. Emulated executors share devices as their
 * configuration says. A batch that is aborted occupies its executor for the duration of the longest
 * batch. Same input, same result. The server's own work per request is not in it, so trials compare
 * policies and predict no absolute figures.
 *
 * It prints nothing, and a lack of memory is an error. Implemented in policy_trial.c. */
#ifndef TT_CONTROL_POLICY_TRIAL_H
#define TT_CONTROL_POLICY_TRIAL_H

#include "control/auto_decision.h"
#include "policy/auto_policy.h"
#include "sim/simulation.h"

/* Borrowed during the trial. */
struct tt_policy_trial {
    const struct tt_step_model *const *models; /* [model_count] */
    int32_t model_count;
    struct tt_auto_devices devices;
    const struct tt_policy_candidate *candidate;
    int32_t depth;                         /* tasks queued on an executor at once */
    const struct tt_sim_arrival *arrivals; /* in order of time */
    int32_t arrival_count;
    /* Asked now and then; false ends the trial. */
    bool (*may_continue)(void *context);
    void *context;
};

/* Errors: CANCELLED (may_continue), those of the policy and of the simulation. */
TT_MUST_CHECK enum tt_err tt_policy_trial_run(const struct tt_policy_trial *self,
                                              struct tt_auto_half *out_half, struct tt_error *why);

#endif
