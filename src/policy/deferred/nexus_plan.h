/* Assigns models to devices as Nexus does ("squishy bin packing"), in integers.
 *
 * - A model with rate R gets as many devices of its own as it saturates. On those, batches of B
 *   rows follow each other, with B the largest batch for which 2 l(B) <= SLO. Each such device
 *   serves R' = B / l(B) rows per second.
 * - The rest r of the rate is a *residual*. Its batch is the largest b <= B with b / r + l(b) <=
 *   SLO, repeated every duty cycle d = b / r. If not even one row gathers in time, batches of one
 *   run every SLO - l(1).
 * - Residuals are placed in order of falling occupancy l(b) / d (ties: the model's number). A
 *   residual fits into a node if the batches of all members fit into the shorter duty cycle. A
 *   member's batch is then what gathers in that cycle (rounded up, at most B). The node that is
 *   filled most takes it (ties: smallest node). If it fits into none it gets a new node.
 *
 * Nexus would request as many devices as that needs; this cluster is fixed. So all rates are
 * multiplied by the largest common factor with which the plan needs no more nodes than there are.
 * The factor is in 1/65536ths, and is found bit by bit from the top. If no factor suffices (more
 * models than the devices can share), residuals that fit nowhere go to the least busy node.
 *
 * Given assignments (executors of the step models, a session for each) are not packed. A model's
 * rate is divided equally among its nodes. A node's duty cycle is the shortest that a session has
 * there as a residual. Sessions on nodes that do not exist are left out.
 *
 * A model without an SLO is planned as if its SLO were twice the latency of its largest batch.
 *
 * Plans reuse the same memory: only init allocates. */
#ifndef TT_POLICY_DEFERRED_NEXUS_PLAN_H
#define TT_POLICY_DEFERRED_NEXUS_PLAN_H

#include "base/heap.h"
#include "core/network_delay.h"
#include "core/step_model.h"

/* Rates are in rows per 1000 seconds. */
#define TT_NEXUS_RATE_NS INT64_C(1000000000000)

struct tt_nexus_session {
    int32_t model, node;
    int32_t batch;        /* planned rows per batch */
    int32_t next_of_node; /* -1: the last */
    int64_t rate;         /* its share of the model's (multiplied) rate */
};

struct tt_nexus_node {
    int64_t duty_ns;
    int64_t busy_ns; /* busy time in the duty cycle */
    int32_t first_session;
    bool saturated; /* reserved for one model */
};

struct tt_nexus_plan {
    struct tt_nexus_session *sessions; /* in order of creation */
    struct tt_nexus_node *nodes;
    int32_t session_count, node_count;
    int32_t model_capacity, node_capacity;
    struct tt_heap order;                      /* residuals by falling occupancy */
    int64_t *residuals;                        /* [model_capacity] rate */
    int32_t *saturated_batch;                  /* [model_capacity] B */
    struct tt_network_delay delay;             /* S4 */
    const struct tt_step_model *const *models; /* borrowed while a plan is made */
};

/* The times of messages (S4) count as part of every batch. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_nexus_plan_init(struct tt_nexus_plan *self, int32_t model_capacity,
                                             int32_t node_capacity, struct tt_network_delay delay);
void tt_nexus_plan_fini(struct tt_nexus_plan *self);
/* Plans all models that exist (models[m] != NULL) at rates[m] >= 1 on at most `node_limit` nodes.
 * If node_limit >= 1, each has at least one session afterwards, except where assignments are given.
 * These have at most model_capacity + node_capacity sessions. */
void tt_nexus_plan_make(struct tt_nexus_plan *self, const struct tt_step_model *const *models,
                        const int64_t *rates, int32_t node_limit);

#endif
