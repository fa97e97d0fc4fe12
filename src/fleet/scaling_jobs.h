/* Work of scaling (fleet/scaling_service.h) that blocks, on threads of the loop's pool: advice by
 * pool, drains of backends, calls of the provider and looks at what it runs.
 *
 * A job has copies of all that it reads. It is made and ended on the node's thread: _new -> _start
 * -> the work -> `done` with the job, which is freed after that. An owner that goes first calls
 * _abandon: then `done` is not called, and a call is given up soon.
 *
 * A provider is called only after `confirm`: more than half of the nodes that the scheduler has
 * reached and not seen end answer that they obey its epoch. Implemented in scaling_jobs.c. */
#ifndef TT_FLEET_SCALING_JOBS_H
#define TT_FLEET_SCALING_JOBS_H

#include "actuate/scale_provider.h"
#include "fleet/cluster_demand.h"
#include "fleet/fleet_node.h"

struct tt_scaling_job;
typedef void tt_scaling_done_fn(void *owner, struct tt_scaling_job *job);

enum tt_scaling_work { TT_SCALING_ADVICE, TT_SCALING_DRAIN, TT_SCALING_CALL, TT_SCALING_LOOK };

struct tt_scaling_job {
    /* Set before _start: */
    enum tt_scaling_work work;
    struct tt_fleet_node *node;
    int32_t pool;
    uint64_t epoch;
    uint16_t drained; /* DRAIN: the node */
    /* ADVICE: */
    struct tt_demand_copy demand;
    uint16_t *homes;               /* [model_count] */
    struct tt_pool_advice *advice; /* [pool_count]; with the answers */
    int32_t pool_count;
    /* CALL, LOOK: */
    const struct tt_scale_provider *provider;
    struct tt_scale_request request; /* names: the job's */
    uint16_t *voters;                /* [voter_count] */
    int32_t voter_count;
    uint64_t serial;
    /* The outcome: */
    enum tt_err err;
    struct tt_error why;
    int32_t found;
    /* The module's own: */
    uv_work_t uv;
    struct tt_flag stopping;
    void *owner; /* NULL: abandoned */
    tt_scaling_done_fn *done;
    struct tt_scaling_job *next; /* the owner's, before _start */
};

/* NULL: out of memory. */
struct tt_scaling_job *tt_scaling_job_new(enum tt_scaling_work work, struct tt_fleet_node *node,
                                          void *owner, tt_scaling_done_fn *done);
/* A job that was not started. NULL-safe. */
void tt_scaling_job_free(struct tt_scaling_job *take_job);
/* `done` follows, also if no thread can be had. */
void tt_scaling_job_start(struct tt_scaling_job *take_job);
void tt_scaling_job_abandon(struct tt_scaling_job *self);

#endif
