/* How a recorded task ended. The task that the replayed policy began is given the outcome and the
 * fates that the recording tells of it, unless it is one that cannot end so; then the policy may be
 * told. Beyond what a policy is told, an end says what another policy would have met: where a
 * request left or which steps it passed over (D8), and where its open-ended chains end; and when
 * the task ran, which the figures of the recorded reality are made of. Nothing is compared here: an
 * end is news from outside, no answer. */
#ifndef TT_LAB_REPLAY_REPLAY_ENDS_H
#define TT_LAB_REPLAY_REPLAY_ENDS_H

#include "lab/replay/replay.h"
#include "lab/replay/replay_requests.h"

/* What it is noted in; all borrowed. */
struct tt_replay_ends {
    struct tt_replay *replay;
    const struct tt_mechanism *mechanism; /* the task is one of its own, still with its executor */
    struct tt_replay_requests *live;
    const int32_t *model_of; /* [model_capacity]: the model's number in the replay */
};

/* False: the task cannot have ended so. Some of its items may have fates then, and nothing else of
 * it is said: the replay is over. */
TT_MUST_CHECK bool tt_replay_ends_take(const struct tt_replay_ends *self,
                                       const struct tt_recorded_event *event, struct tt_task *task);

#endif
