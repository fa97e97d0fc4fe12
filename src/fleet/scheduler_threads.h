/* The policy of a scheduler of a cluster: `deferred`, on the node's thread or on threads of its own
 * (multicore/threaded_policy.h).
 *
 * With threads, tickets go to the model threads as metadata, and batches come back to the node's
 * thread, which sends them as grants. Each pool has as many threads. They wake the node when they
 * have decided something; the scheduler's role then looks (tt_scheduler_role_decided).
 *
 * A scheduler that steps down ends its threads and starts others. If the system refuses them then,
 * it goes on without, and logs so: a spare without threads is better than none.
 *
 * With a recorder each pool is recorded as a domain of its own, anew after each step down, so that
 * `tutti replay` repeats what it decided. Implemented in scheduler_threads.c. */
#ifndef TT_FLEET_SCHEDULER_THREADS_H
#define TT_FLEET_SCHEDULER_THREADS_H

#include "cluster/scheduler_role.h"

#define TT_CLUSTER_POLICY "deferred"

struct tt_log;
struct tt_recorder;
struct tt_recorded_pool;

struct tt_scheduler_threads {
    int32_t count; /* of each pool; of several, one ranks; 0: the node's thread decides */
    void *node;    /* what `wake` gets */
    void (*wake)(void *node);
    struct tt_log *log;
    struct tt_recorder *recorder;      /* NULL: none */
    struct tt_recorded_pool *recorded; /* the pools that are */
    struct tt_scheduler_policy policy;
};

/* All borrowed until the role has ended. `wake` may be called on any thread. */
void tt_scheduler_threads_init(struct tt_scheduler_threads *self, int32_t count,
                               void (*wake)(void *node), void *node, struct tt_log *log,
                               struct tt_recorder *recorder);

#endif
