/* What the mechanism calls of a policy. What a policy is stands beside it as data
 * (core/policy_traits.h). The policies' own view of the contract is policy/policy.h.
 *
 * A missing optional callback means "nothing to do", never a property of the policy: only the
 * mechanism asks whether one is there. */
#ifndef TT_CORE_POLICY_OPS_H
#define TT_CORE_POLICY_OPS_H

#include "core/mechanism.h"

enum tt_change {
    TT_CHANGE_ADDED,
    TT_CHANGE_DRAINING,
    TT_CHANGE_GONE,
    TT_CHANGE_MOVED,  /* of an executor, for observers: it is of another device. The policy gets
                         TT_CHANGE_BELIEF where delays are learnt, else nothing */
    TT_CHANGE_BELIEF, /* of a model: its latencies are other ones (core/belief.h); of an executor:
                         the delay of its messages (core/network_delay.h) */
};

struct tt_policy_ops {
    /* Mandatory. The request is the policy's until the policy RUNs or DROPs it, or until it
     * ends. */
    void (*arrived)(struct tt_policy *self, int64_t now, struct tt_request *request);
    /* Mandatory. Each item's request is QUEUED again (at its new step, the policy's) or LEAVING
     * (the policy must forget it). After an abort all are QUEUED at their old step. By cells a
     * request may also be RUNNING (other cells of it are in flight); LEAVING, the policy must
     * forget all its subgraphs. */
    void (*finished)(struct tt_policy *self, int64_t now, const struct tt_task *task);
    /* Mandatory. The policy takes a QUEUED request out of its queues; the request is gone
     * afterwards. (A running one comes back in `finished` as LEAVING. By cells a request is gone at
     * once, and comes back in `finished` once more for each cell in flight.) */
    void (*cancelled)(struct tt_policy *self, int64_t now, struct tt_request *request);
    /* Mandatory. All events of the instant `now` are known: answer by the mechanism's actions. */
    void (*decide)(struct tt_policy *self, int64_t now, struct tt_mechanism *actions);
    /* Mandatory. When to call `decide` even if nothing happens; TT_NEVER: no need. */
    int64_t (*next_at)(const struct tt_policy *self);
    /* Mandatory for TT_GRANULARITY_CELL, else NULL. Everything that the subgraph waits for has
     * ended: its ready cells may run (tt_mechanism_run_add_cell) until it is over or its request
     * leaves. Comes right after `arrived` for subgraphs that wait for nothing, else right before
     * the `finished` that released them. */
    void (*released)(struct tt_policy *self, int64_t now, struct tt_cell_subgraph *subgraph);
    /* Optional, for TT_GRANULARITY_CELL: the maximum number of tasks that it ever has on an
     * executor (default: the executor's depth). The carrier keeps memory ready for each of them. */
    int32_t (*max_tasks)(const struct tt_policy *self);
    /* Mandatory with the trait `waits_for_inputs`, else NULL. The request's input is on the device.
     */
    void (*ready)(struct tt_policy *self, int64_t now, struct tt_request *request);
    /* Optional: a policy that looks models up when it needs them can do without. A policy that
     * keeps what it computed from latencies computes it again at TT_CHANGE_BELIEF, in O(its tables)
     * and without allocating. Pointers to the model and its profiles stay valid. The change comes
     * outside of `decide`, before the event that follows; a decision comes after both. */
    void (*model_changed)(struct tt_policy *self, int64_t now, int32_t model,
                          enum tt_change change);
    /* Mandatory. TT_CHANGE_BELIEF: it stays as it is, but its messages take another time; only with
     * tt_mechanism_options.learns_delays. */
    void (*executor_changed)(struct tt_policy *self, int64_t now, int32_t executor,
                             enum tt_change change);
    /* Mandatory. O(n) invariants; called after every simulated event. */
    void (*check)(const struct tt_policy *self);
    /* Mandatory. */
    void (*free)(struct tt_policy *take_self);
};

#endif
