/* Computes whether sharing the device pays (D7). As published, DVABatch stretches whenever it may,
 * and begins a batch whenever a buffer is free. Whether that helps depends on the profile.
 *
 * Stretching. A batch of `held` rows has ended a stage, and `coming` rows wait. Two futures are
 * compared by the sum over all rows of their end times, counted from now. Neither counts further
 * arrivals.
 * - stretched: the newcomers run up to this stage, then all rows continue together.
 * - apart: the batch continues at once, and the newcomers are a batch of their own. With `beside`
 *   (their next stages have different idle executors) that batch runs at the same time, and the two
 *   share the device by their mean demands (core/device.h). Otherwise it runs afterwards.
 *
 * Beginning beside others. The n running batches demand D of the device together; a new one demands
 * d. All have about the same length, which is the unit of time here. Beside: all n + 1 end at
 * max(1, D + d). Afterwards: the n end at max(1, D), and the new one 1 later.
 *
 * Pure; integers only; O(steps). */
#ifndef TT_POLICY_SHARING_GAIN_H
#define TT_POLICY_SHARING_GAIN_H

#include "core/step_model.h"

#include <stdbool.h>

struct tt_stretch_case {
    const struct tt_step_model *model;
    int32_t next_step; /* the next step of the held batch */
    int32_t held, held_length;
    int32_t coming, coming_length; /* rows; held + coming <= the model's max_batch */
    bool beside;
};

/* True if stretching pays. With equal sums it does, because the device has less work. */
bool tt_stretch_pays(const struct tt_stretch_case *self);
/* True if beginning beside others pays. Demands in millionths of the device. True if nothing runs.
 */
bool tt_beside_pays(int32_t running, int64_t running_demand_ppm, int32_t demand_ppm);
/* How many batches of the demand run at once on a device of so many executors if each begins only
 * where that pays; at least one. */
int32_t tt_beside_count(int32_t executors, int32_t demand_ppm);

#endif
