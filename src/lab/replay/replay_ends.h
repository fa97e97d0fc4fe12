/* How a recorded task ended. The task that the replayed policy started gets the outcome and the
 * fates of the recording, unless such a task cannot end so; the policy may then be notified.
 *
 * A recorded end also has facts for simulations of other policies: where a request left or which
 * steps it skipped (D8), and where its open-ended chains end. And it has the run times for the
 * figures of the recorded run. Nothing is compared here: an end is an event, not an answer. */
#ifndef TT_LAB_REPLAY_REPLAY_ENDS_H
#define TT_LAB_REPLAY_REPLAY_ENDS_H

#include "lab/replay/replay.h"
#include "lab/replay/replay_requests.h"

/* Where it is noted; all borrowed. */
struct tt_replay_ends {
    struct tt_replay *replay;
    const struct tt_mechanism *mechanism; /* it has the task, which is still on its executor */
    struct tt_replay_requests *live;
    const int32_t *model_of; /* [model_capacity]: the model's number in the replay */
};

/* False: the task cannot have ended so. Some of its items may have fates then, and nothing else was
 * noted: the replay must end. */
TT_MUST_CHECK bool tt_replay_ends_take(const struct tt_replay_ends *self,
                                       const struct tt_recorded_event *event, struct tt_task *task);

#endif
