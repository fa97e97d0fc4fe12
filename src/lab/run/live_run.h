/* A scenario in real time: an open-loop generator in this process plays its arrivals into a domain
 * without a network between them, on emulated devices or on this machine's own.
 *
 * The arrivals are those of the simulator, request for request; each is handed over at its planned
 * instant, whatever became of those before it, and latencies and deadlines count from the plan. So
 * a generator that falls behind (too little processor is left for it) makes latencies worse, never
 * better, and how far it fell behind is reported.
 *
 * It ends when the last request has left. What nothing will happen to any more (a policy that waits
 * for company which never comes), or has not left a minute after the last arrival, is cancelled and
 * counted; so is everything when `stop` is raised. */
#ifndef TT_LAB_RUN_LIVE_RUN_H
#define TT_LAB_RUN_LIVE_RUN_H

#include "lab/run/scenario_run.h"

struct tt_live_run {
    const struct tt_scenario *scenario;        /* in a world in real time */
    const struct tt_scenario_outputs *outputs; /* NULL: none */
    bool check; /* every invariant, between two turns of the scheduler, after each thing played */
    const volatile sig_atomic_t *stop;
    /* Who hears of everything: one call at a time, instants from the beginning of the run. */
    struct tt_sim_observer sink;
    struct tt_sim_source source;
    enum tt_err (*made)(void *context, struct tt_mechanism *mechanism, struct tt_error *why);
    void *made_context; /* `made`, where not NULL, is called before the mechanism hears anything */
};

/* Fills in what a run leaves beside its measure. Errors: those of making the world, and INVALID
 * where a model refuses a request of the experiment. */
TT_MUST_CHECK enum tt_err tt_live_run(const struct tt_live_run *run,
                                      struct tt_scenario_result *result, struct tt_error *why);

#endif
