/* A scenario on a cluster of processes of this machine (lab/processes): a scheduler, frontends, and
 * backends whose devices are emulated. An open-loop generator in this process plays the arrivals
 * through the frontends' HTTP interface.
 *
 * The arrivals are those of the other worlds, request for request. Latencies and deadlines count
 * from the planned instant, at the client. Of each objective the scenario's `reply_ns` is kept for
 * the way to the frontend and back: the cluster gets the rest. How requests ended is what the
 * client saw; batches and waiting times are those of the scheduler's recording (cluster_batches.h).
 *
 * It ends when the last request has been answered, and ends all processes, also after an error,
 * when `stop` is set, and when a process dies. Requests without an answer a minute after the last
 * arrival are cancelled and counted. Implemented in cluster_run.c. */
#ifndef TT_LAB_RUN_CLUSTER_RUN_H
#define TT_LAB_RUN_CLUSTER_RUN_H

#include "lab/run/live_run.h"

/* As tt_live_run(). Errors: those of lab/processes/process_cluster.h; UNSUPPORTED: `check`, or a
 * trace is asked for. */
TT_MUST_CHECK enum tt_err tt_cluster_run(const struct tt_live_run *run,
                                         struct tt_scenario_result *result, struct tt_error *why);

#endif
