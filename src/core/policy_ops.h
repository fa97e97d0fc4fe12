/* What the mechanism calls of a policy. The policies' own view, with the essay on the contract, is
 * policy/policy.h. */
#ifndef TT_CORE_POLICY_OPS_H
#define TT_CORE_POLICY_OPS_H

#include "core/mechanism.h"

enum tt_change { TT_CHANGE_ADDED, TT_CHANGE_DRAINING, TT_CHANGE_GONE };

struct tt_policy_ops {
    const char *name;
    /* Of requests of one model, priority and length. */
    bool runs_alone;        /* each by itself */
    bool runs_as_they_came; /* in order of arrival; else perhaps of deadline */
    bool whole_graphs; /* knows no request between two steps: it runs all of them, or all again */
    /* Mandatory. The request is the policy's until it RUNs or DROPs it, or hears of its end. */
    void (*arrived)(struct tt_policy *self, int64_t now, struct tt_request *request);
    /* Mandatory. Per item the request is QUEUED again (at its new step, the policy's) or LEAVING
     * (to be forgotten). After an abort all are QUEUED at their old step. By cells a request may
     * also be RUNNING still (others of its cells are in flight); LEAVING, all its subgraphs are to
     * be forgotten. */
    void (*finished)(struct tt_policy *self, int64_t now, const struct tt_task *task);
    /* Mandatory. A QUEUED request is to be taken out of the policy's queues; it is gone afterwards.
     * (A running one comes back by `finished` as LEAVING; by cells it is gone at once, and comes
     * back in `finished` once more for each cell in flight.) */
    void (*cancelled)(struct tt_policy *self, int64_t now, struct tt_request *request);
    /* Mandatory. Everything of the instant `now` has been told: answer by the mechanism's actions.
     */
    void (*decide)(struct tt_policy *self, int64_t now, struct tt_mechanism *actions);
    /* Mandatory. When `decide` should be called even if nothing happens; TT_NEVER: no need. */
    int64_t (*next_at)(const struct tt_policy *self);
    /* Optional: who has it works by cells, and every request comes with its graph. All that the
     * subgraph waits for is over: its ready cells may be run (tt_mechanism_run_add_cell) until it
     * is over or its request leaves. Comes right after `arrived` for those that wait for nothing,
     * else right before the `finished` that brought it about. */
    void (*released)(struct tt_policy *self, int64_t now, struct tt_cell_subgraph *subgraph);
    /* Optional: the most tasks that it ever has on an executor, where its depth allows more. What
     * is kept ready for each of them may then be less. */
    int32_t (*max_tasks)(const struct tt_policy *self);
    /* Optional. The request's input is on the device. */
    void (*ready)(struct tt_policy *self, int64_t now, struct tt_request *request);
    /* Optional for models (asks nothing of policies that look models up when needed), mandatory for
     * executors. */
    void (*model_changed)(struct tt_policy *self, int64_t now, int32_t model,
                          enum tt_change change);
    void (*executor_changed)(struct tt_policy *self, int64_t now, int32_t executor,
                             enum tt_change change);
    /* Mandatory. O(n) invariants; called after every simulated event. */
    void (*check)(const struct tt_policy *self);
    void (*free)(struct tt_policy *take_self);
};

#endif
