/* What sharing gains: DVABatch stretches whenever it may, and begins a batch whenever a buffer is
 * free (D7). Whether that helps depends on the profile, and here it is asked.
 *
 * Does a stretch pay? A batch of `held` rows has ended a stage, and `coming` rows wait. Two futures
 * are compared by the sum over all rows of when they end, counted from now: stretched   the
 * newcomers run up to here, then all go on together; apart       the batch goes on at once; the
 * newcomers are a batch of their own, which runs beside it (`beside`: another executor is there;
 * the two share the device by their mean demands, core/device.h) or after it. Neither future counts
 * who comes later.
 *
 * Does it pay to begin beside others? With n batches that demand D of the device together and a new
 * one that demands d, all of about one length: beside, the n + 1 end at max(1, D + d); after, the n
 * end at max(1, D) and the new one 1 later.
 *
 * Pure; integers only; O(steps). */
#ifndef TT_POLICY_SHARING_GAIN_H
#define TT_POLICY_SHARING_GAIN_H

#include "core/step_model.h"

#include <stdbool.h>

struct tt_stretch_case {
    const struct tt_step_model *model;
    int32_t next_step; /* the first step that the held batch has still to run */
    int32_t held, held_length;
    int32_t coming, coming_length; /* rows; held + coming <= the model's max_batch */
    bool beside;
};

/* Equal sums: it does, since the device has less to do. */
bool tt_stretch_pays(const struct tt_stretch_case *self);
/* Demands in millionths. Nothing runs: it does. */
bool tt_beside_pays(int32_t running, int64_t running_demand_ppm, int32_t demand_ppm);

#endif
