#include "profile/profile_builder.h"

#include "base/array.h"
#include "base/instant.h"

#include <stdlib.h>

void tt_profile_builder_add(struct tt_profile_builder *self, struct tt_profile_point point) {
    if (!TT_ARRAY_RESERVE(self->points, &self->capacity, self->count + 1)) {
        self->failed = true;
        return;
    }
    tt_assert(self->count < self->capacity);
    self->points[self->count++] = point;
    if (point.batch > self->largest_batch)
        self->largest_batch = point.batch;
}

enum tt_err tt_profile_builder_finish(struct tt_profile_builder *self, int32_t max_batch,
                                      struct tt_profile **out_profile, struct tt_error *why) {
    enum tt_err err = self->failed
                          ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile")
                          : tt_profile_new_points(self->points, self->count,
                                                  max_batch > 0 ? max_batch : self->largest_batch,
                                                  out_profile, why);
    if (!err)
        tt_profile_check(*out_profile);
    free(self->points);
    *self = (struct tt_profile_builder){0};
    return err;
}

enum tt_err tt_profile_from_calibration(const struct tt_calibration_point *points, int32_t count,
                                        int32_t step, int32_t max_batch,
                                        struct tt_profile **out_profile, struct tt_error *why) {
    struct tt_profile_builder builder = {0};
    tt_assert(step >= TT_CALIBRATION_WHOLE);
    for (int32_t i = 0; i < count; i++)
        if (points[i].step == step)
            tt_profile_builder_add(&builder,
                                   (struct tt_profile_point){.length = points[i].length,
                                                             .batch = points[i].batch,
                                                             .latency_ns = points[i].median_ns,
                                                             .demand_ppm = points[i].demand_ppm});
    return tt_profile_builder_finish(&builder, max_batch, out_profile, why);
}

/* ---- the whole of a model in steps ---- */

/* `batch` rows of a cell: full batches one after the other, then the rest. */
static __int128 cell_latency(const struct tt_profile *step, int32_t batch) {
    int32_t most = step->max_batch, rest = batch % most;
    return (__int128)(batch / most) * tt_profile_latency(step, most, 0) +
           (rest ? tt_profile_latency(step, rest, 0) : 0);
}

static struct tt_profile_point sum_steps(const struct tt_whole_profile *model, int32_t batch,
                                         int32_t length) {
    struct tt_profile_point point = {.length = length, .batch = batch};
    __int128 work = 0, sum_ns = 0;
    bool knows_demand = false;
    for (int32_t s = 0; s < model->step_count; s++) {
        const struct tt_profile *step = model->steps[s];
        int64_t times = model->times(model->context, s, length);
        tt_assert(times >= 0);
        __int128 took_ns =
            model->is_cells ? cell_latency(step, batch) : tt_profile_latency(step, batch, length);
        sum_ns += took_ns * times;
        knows_demand = knows_demand || (!model->is_cells && step->knows_demand);
        if (!model->is_cells)
            work += took_ns * times * tt_profile_demand(step, batch, length);
    }
    tt_assert(sum_ns > 0); /* some step runs */
    if (knows_demand)
        point.demand_ppm = (int32_t)((work + sum_ns - 1) / sum_ns);
    point.latency_ns = sum_ns < TT_NEVER ? (int64_t)sum_ns : TT_NEVER; /* too long: refused */
    return point;
}

enum tt_err tt_whole_profile_sum(const struct tt_whole_profile *model,
                                 struct tt_profile **out_profile, struct tt_error *why) {
    int32_t max_batch = model->max_batch > 0 ? model->max_batch : TT_PROFILE_MAX_BATCH;
    tt_assert(model->step_count >= 1);
    tt_assert(model->length_count >= 1);
    for (int32_t s = 0; s < model->step_count && model->max_batch == 0; s++)
        if (model->steps[s]->max_batch < max_batch)
            max_batch = model->steps[s]->max_batch;
    struct tt_profile_builder builder = {0};
    for (int32_t l = 0; l < model->length_count; l++)
        for (int32_t batch = 1; batch <= max_batch; batch++)
            tt_profile_builder_add(&builder, sum_steps(model, batch, model->lengths[l]));
    return tt_profile_builder_finish(&builder, max_batch, out_profile, why);
}
