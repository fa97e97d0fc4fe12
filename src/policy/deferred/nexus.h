/* S5: Nexus, as section 2.2 of the Symphony paper describes it (a baseline). Where that is silent,
 * it works as follows.
 *
 * Planning. Every `epoch` (10 s) the models are assigned to executors, from the rates of the epoch
 * before; nexus_plan.h states how they are packed. Before the first epoch has passed all rates
 * count as equal. A model that was added later counts with the mean of the others. When models or
 * executors change, the plan is made again at once from the known rates. If the models say which
 * executors serve them, these do, and the plan sets the batches only. Node i of the plan is the
 * i-th executor that is up, by number. Loading a model costs nothing. There is no timer for an
 * epoch: its end is noticed at the next event.
 *
 * Life of a request:
 * - An arrival belongs to frontend (number mod `frontends`). Each frontend distributes its requests
 *   of a model to the executors that the plan gives the model, in proportion to their planned
 *   rates. The method is smooth weighted round robin; ties go to the session created first.
 * It sees neither queues nor other frontends, so several frontends reduce goodput somewhat.
 * - The request waits in the queue of its session (model on executor), in order of deadline, until
 *   the next plan. The plan distributes all waiting requests again.
 * - An idle executor serves its sessions in turn, without waiting: the next with requests after the
 *   one served last. The batch has at most the planned size.
 * - Sliding-window drop: heads are dropped until the planned batch, or the whole queue if it is
 *   smaller, starts with a head that is in time in it. The reason is "early", or "deadline" if the
 *   head was hopeless.
 * - Requests without a session (no executor is up) wait in one queue per model, and are dropped
 *   when they are hopeless.
 *
 * Rates, shares and credits are integers.
 *
 * Cost: an arrival O(executors of its model), a batch O(b + drops b), a plan O(47 (M + G) M), for M
 * models and G executors. */
#ifndef TT_POLICY_DEFERRED_NEXUS_H
#define TT_POLICY_DEFERRED_NEXUS_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_nexus_kind;

#endif
