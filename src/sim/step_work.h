/* How much work a step is for a batch: the profile's latency for the longest input of the batch, or
 * for the length that the policy pads to, with the jitter of a real device if requested. Draws one
 * random number per call with jitter, none without. */
#ifndef TT_SIM_STEP_WORK_H
#define TT_SIM_STEP_WORK_H

#include "base/prng.h"
#include "core/profile.h"
#include "core/task.h"

/* In ns, at least 1; times (1 + j), j uniform in -jitter .. +jitter permille. */
int64_t tt_step_work(const struct tt_profile *profile, const struct tt_task *task,
                     int32_t jitter_permille, struct tt_prng *prng);
/* The share of the device that it occupies meanwhile, in millionths. */
int32_t tt_step_demand(const struct tt_profile *profile, const struct tt_task *task);

#endif
