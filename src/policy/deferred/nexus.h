/* S5: Nexus, as section 2.2 of the Symphony paper describes it (baseline S5), with what that leaves
 * open filled in as follows.
 *
 * Every `epoch` (10 s) the models are assigned to executors from the rates seen in the epoch
 * before; nexus_plan.h says how they are packed. Before the first epoch has passed all rates count
 * as equal, and a model that came later counts as the mean of the others. When models or executors
 * come or go the plan is made again at once, from the rates known. Node i of the plan is the i-th
 * executor that is up, by id; loading a model costs nothing. There is no timer for it: an epoch
 * that is over is noticed at the next event.
 *
 * An arrival belongs to frontend (number mod `frontends`). Each frontend for itself deals its
 * requests of a model to the executors that the plan gives the model, in proportion to their
 * planned rates (smooth weighted round robin; ties: the session made first), blind to queues and to
 * the other frontends; several frontends therefore lose some goodput. A request waits in the queue
 * of its session (model on executor), in order of deadline, and stays there until the next plan,
 * which deals all waiting requests again.
 *
 * An executor that is idle serves its sessions by turns, the next that has requests after the one
 * served last, without waiting. The batch is at most the planned size. Sliding-window drop: heads
 * are given up until the planned batch, or all that is there if less, starting with the head is in
 * time for the head's deadline (drop reason early, or deadline when the head would have been late
 * even alone).
 *
 * Requests for which there is no session (no executor is up) wait in one queue per model and are
 * dropped when lost. The rates, shares and credits are integers.
 *
 * An arrival costs O(executors of its model), a batch O(b + drops b), a plan O(47 (M + G) M). */
#ifndef TT_POLICY_DEFERRED_NEXUS_H
#define TT_POLICY_DEFERRED_NEXUS_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_nexus_kind;

#endif
