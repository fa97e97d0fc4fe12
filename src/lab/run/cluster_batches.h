/* What the recording of a cluster's scheduler says of a run: its batches and how long requests
 * waited, as a simulation would report them.
 *
 * A batch lasts from the start of its grant, or the end of the batch before it on the device, until
 * the report of its end has come; so it has the way of messages and tensors in it. A request waits
 * from its arrival at the scheduler until its batch starts. Requests have the numbers in which they
 * came to the scheduler. Batches of backends that were lost are left out.
 *
 * Implemented in cluster_batches.c. */
#ifndef TT_LAB_RUN_CLUSTER_BATCHES_H
#define TT_LAB_RUN_CLUSTER_BATCHES_H

#include "lab/run/live_run.h"

struct tt_cluster_batches {
    const struct tt_live_run *run; /* its sink gets the steps, its `waited` the requests */
    int64_t epoch_at;              /* the beginning of the run, on the monotonic clock */
    struct tt_histogram run_ppm;   /* out: times relative to the profile */
    int64_t count;                 /* out: batches */
};

/* Errors: those of the file; UNAVAILABLE: it does not have all events. */
TT_MUST_CHECK enum tt_err tt_cluster_batches_read(struct tt_cluster_batches *self, const char *path,
                                                  struct tt_error *why);

#endif
