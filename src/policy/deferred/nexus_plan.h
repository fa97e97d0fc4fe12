/* Which models run on which device, as Nexus plans it ("squishy bin packing"), in integers.
 *
 * A model with rate R gets as many devices of its own as it saturates: there a batch of B, the
 * largest with 2 l(B) <= SLO, follows on the next, R' = B / l(B) rows per second each. What is
 * left, r, is a *residual*: the largest batch b <= B with b / r + l(b) <= SLO, repeated every duty
 * cycle d = b / r (batches of one every SLO - l(1) when not even one row gathers in time).
 * Residuals, in order of falling occupancy l(b) / d (ties: model's number), are merged into a node
 * if its members' batches, what gathers in the shorter duty cycle (rounded up, at most B), fit into
 * that cycle; the node that gets fullest takes it (ties: smallest node), else a new node.
 *
 * Nexus would ask for as many devices as that takes; our cluster is fixed. So all rates are
 * multiplied by the largest common factor, in 1/65536ths, found bit by bit from the top, at which
 * the plan needs no more nodes than there are. When no factor will do (more models than devices can
 * be shared among) the residuals that fit nowhere go to the node that is least full. A model
 * without a promise is planned as if its SLO were twice the latency of its largest batch.
 *
 * A plan is made over and over in the same memory; nothing allocates after init. */
#ifndef TT_POLICY_DEFERRED_NEXUS_PLAN_H
#define TT_POLICY_DEFERRED_NEXUS_PLAN_H

#include "base/heap.h"
#include "core/step_model.h"

/* Rates are in rows per 1000 seconds. */
#define TT_NEXUS_RATE_NS INT64_C(1000000000000)

struct tt_nexus_session {
    int32_t model, node;
    int32_t batch;        /* rows that it is expected to run at a time */
    int32_t next_of_node; /* -1: the last */
    int64_t rate;         /* its share of the model's (multiplied) rate */
};

struct tt_nexus_node {
    int64_t duty_ns;
    int64_t busy_ns; /* of the duty cycle */
    int32_t first_session;
    bool saturated; /* one model's own; takes nobody else */
};

struct tt_nexus_plan {
    struct tt_nexus_session *sessions; /* in order of making */
    struct tt_nexus_node *nodes;
    int32_t session_count, node_count;
    int32_t model_capacity, node_capacity;
    struct tt_heap order;     /* residuals by falling occupancy */
    int64_t *residuals;       /* [model_capacity] rate */
    int32_t *saturated_batch; /* [model_capacity] B */
    int64_t d_ctrl_ns, d_data_ns;
    const struct tt_step_model *const *models; /* while a plan is made */
};

/* The messages' times (S4) count as part of every batch. */
TT_MUST_CHECK enum tt_err tt_nexus_plan_init(struct tt_nexus_plan *self, int32_t model_capacity,
                                             int32_t node_capacity, int64_t d_ctrl_ns,
                                             int64_t d_data_ns);
void tt_nexus_plan_fini(struct tt_nexus_plan *self);
/* Plans all models that exist (models[m] != NULL) at rates[m] >= 1 on at most `node_limit` nodes.
 * Each of them has at least one session afterwards, if node_limit >= 1. */
void tt_nexus_plan_make(struct tt_nexus_plan *self, const struct tt_step_model *const *models,
                        const int64_t *rates, int32_t node_limit);

#endif
