/* How many rows of a model are between two of its steps: the mechanism's books of it, where the
 * model has memory for so many only (`slots` of its step model, D2).
 *
 * Between two steps lies what the first has made for the second, in slots that a request keeps from
 * its first task that may end half-way until it leaves. So a RUN that does not go to the last step
 * takes slots for all of its requests that have none, and so does a YIELD, which makes its task end
 * half-way. A policy sees before either how many there are (tt_mechanism_slot_room): who finds none
 * waits in the policy's queue, where the limits of waiting requests hold, and comes in when others
 * leave. Nobody who has begun ever waits for a slot, so those who keep them do leave. A task that
 * runs to the last step wants none: whole-graph policies have nothing to do with this.
 *
 * A request of more rows than there are slots begins alone, when nobody keeps any.
 *
 * Only the mechanism calls what is here. */
#ifndef TT_CORE_SLOT_QUOTA_H
#define TT_CORE_SLOT_QUOTA_H

#include "core/mechanism.h"

/* The requests of the task keep slots from now on, those that have none yet; there is room. */
void tt_slot_quota_take(struct tt_mechanism *self, const struct tt_task *task);
/* The request is back from a task, perhaps between two steps: then it keeps slots, though there be
 * none left (a recurrent block parted without anybody's asking). */
void tt_slot_quota_settle(struct tt_mechanism *self, struct tt_request *request);
/* The request leaves. */
static inline void tt_slot_quota_give(struct tt_mechanism *self, const struct tt_request *request) {
    if (request->keeps_slots)
        self->kept_rows[request->model] -= request->rows;
}

#endif
