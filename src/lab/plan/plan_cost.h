/* What a server costs on this machine beside its models (lab/scenario/server_cost.h), measured of a
 * real server under four loads: one client, enough clients to fill batches, requests at random
 * instants at a share of the rate that those clients reached, and requests that are all rejected.
 *
 * A thread that works in turns needs less time per request the more it finds in each. So its time
 * per turn and per request follow from two of the loads, which differ in turns per request.
 *
 * The processor time of its threads is what the system accounts, so other programs on the machine
 * hardly change it. The run times of batches come from a recording of the second and the third. */
#ifndef TT_LAB_PLAN_PLAN_COST_H
#define TT_LAB_PLAN_PLAN_COST_H

#include "lab/plan/plan_trial.h"
#include "lab/scenario/scenario.h"

struct tt_plan_cost_options {
    const char *experiment; /* a file for `tutti load --load`: models without objectives */
    const struct tt_scenario *scenario;
    int32_t executors;
    int64_t second_ns;  /* how long each loop lasts, at least */
    bool on_processors; /* some model computes there; else all are emulated */
};

/* Starts and stops the server of the trial, whose repository is ready. Errors: those of the server
 * and of `tutti load`, CANCELLED. */
TT_MUST_CHECK enum tt_err tt_plan_cost_measure(struct tt_plan_trial *trial,
                                               const struct tt_plan_cost_options *options,
                                               struct tt_server_cost *out_cost,
                                               struct tt_error *why);

#endif
