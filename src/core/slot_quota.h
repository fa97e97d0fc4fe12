/* How many rows of a model stand between two of its steps. The mechanism keeps this count for
 * models with a limited memory for them (`slots` of the step model, D2).
 *
 * Between two steps the results of the first step wait for the second. They lie in slots. A request
 * keeps its slots from its first task that may end half-way until it leaves.
 * - A RUN that ends before the last step takes slots for all of its requests that have none. So
 *   does a YIELD, which makes its task end half-way.
 * - Before either, the policy asks for the free slots (tt_mechanism_slot_room). A request that
 *   finds none waits in the policy's queue, under the limits for waiting requests.
 * - A request that has begun never waits for a slot. So the requests that keep slots do leave.
 * - A task that runs to the last step needs no slots. Whole-graph policies never use this module.
 * - A request with more rows than there are slots begins alone, when no request keeps any.
 *
 * Only the mechanism calls these functions. */
#ifndef TT_CORE_SLOT_QUOTA_H
#define TT_CORE_SLOT_QUOTA_H

#include "core/mechanism.h"

/* From now on all requests of the task keep slots. Takes slots for those that have none; there must
 * be room. */
void tt_slot_quota_take(struct tt_mechanism *self, const struct tt_task *task);
/* Called when the request is back from a task. If it stands between two steps, it keeps slots, even
 * if none are left (a recurrent block may diverge unasked). */
static inline void tt_slot_quota_settle(struct tt_mechanism *self, struct tt_request *request) {
    if (request->state != TT_REQUEST_QUEUED || request->keeps_slots || request->step == 0 ||
        self->models[request->model]->slots == 0)
        return;
    request->keeps_slots = true;
    self->kept_rows[request->model] += request->rows;
}
/* The request leaves. */
static inline void tt_slot_quota_give(struct tt_mechanism *self, const struct tt_request *request) {
    if (!request->keeps_slots)
        return;
    self->kept_rows[request->model] -= request->rows;
    tt_assert(self->kept_rows[request->model] >= 0);
}

#endif
