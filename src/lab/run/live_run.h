/* A scenario in real time: an open-loop generator in this process plays its arrivals into a domain,
 * without a network between them, on emulated devices or on this machine.
 *
 * The arrivals are those of the simulator, request for request. Each is submitted at its planned
 * instant, whether earlier ones have ended or not; latencies and deadlines count from the plan. A
 * generator that falls behind therefore increases latencies and never lowers them, and its lag is
 * reported.
 *
 * It ends when the last request has left. Requests for which nothing more will happen (a policy
 * that waits for more requests), and those still there a minute after the last arrival, are
 * cancelled and counted; so are all when `stop` is set. */
#ifndef TT_LAB_RUN_LIVE_RUN_H
#define TT_LAB_RUN_LIVE_RUN_H

#include "lab/run/scenario_run.h"

struct tt_live_run {
    const struct tt_scenario *scenario;        /* its world is in real time */
    const struct tt_scenario_outputs *outputs; /* NULL: none */
    bool check; /* check every invariant between two turns of the scheduler */
    const volatile sig_atomic_t *stop;
    /* Receives every event: one call at a time, instants from the beginning of the run. */
    struct tt_sim_observer sink;
    struct tt_sim_source source;
    enum tt_err (*made)(void *context, struct tt_mechanism *mechanism, struct tt_error *why);
    void *made_context; /* `made` (may be NULL) is called before the mechanism's first event */
    /* World CLUSTER: an executed request waited so long; the context is the sink's. */
    void (*waited)(void *context, int32_t model, int64_t arrived_at, int64_t wait_ns);
};

/* For the players of a run. True: it is to end, by `stop`, or because `bad` requests are beyond the
 * outputs' limit; `result` says which. */
bool tt_live_run_is_stopped(const struct tt_live_run *run, int64_t bad,
                            struct tt_scenario_result *result);
/* Reports to the outputs how much of the run is over. */
void tt_live_run_show(const struct tt_live_run *run, int64_t played_ns);

/* Fills in everything of `result` but the measure. Errors: those of making the world; INVALID if a
 * model rejects a request of the experiment. */
TT_MUST_CHECK enum tt_err tt_live_run(const struct tt_live_run *run,
                                      struct tt_scenario_result *result, struct tt_error *why);

#endif
