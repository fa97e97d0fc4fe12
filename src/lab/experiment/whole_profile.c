#include "lab/experiment/whole_profile.h"

#include <stdlib.h>
#include <string.h>

/* How often a request of `length` runs the step; outputs as nine in ten are at most long. */
static int64_t times_run(const struct tt_scenario_model *model, int32_t step, int32_t length) {
    enum tt_step_kind kind = model->steps[step].kind;
    int64_t times = kind == TT_STEP_ENCODER ? length : 1;
    if (kind == TT_STEP_DECODER)
        times = model->lengths->output[90];
    if (model->tree != TT_TREE_NONE)
        times = step == 0 ? length : length - 1;
    return times > 1 ? times : 1;
}

bool tt_whole_profile_walks_input(const struct tt_scenario_model *model) {
    bool encodes = model->tree != TT_TREE_NONE;
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        encodes = encodes || model->steps[s].kind == TT_STEP_ENCODER;
    return encodes;
}

/* For which input lengths the whole is to be known: those of the steps, or with encoder steps those
 * of the distribution. */
static int32_t lengths_of_whole(const struct tt_scenario_model *model,
                                const struct tt_profile *step, int32_t *lengths) {
    int32_t count = 0;
    if (!tt_whole_profile_walks_input(model)) {
        memcpy(lengths, step->lengths, (size_t)step->length_count * sizeof(*lengths));
        return step->length_count;
    }
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        if (count == 0 || model->lengths->input[p] > lengths[count - 1])
            lengths[count++] = model->lengths->input[p];
    return count;
}

enum tt_err tt_whole_profile_sum(const struct tt_scenario_model *model,
                                 struct tt_profile **out_profile, struct tt_error *why) {
    int32_t steps = model->step_model.step_count, max_batch = TT_PROFILE_MAX_BATCH;
    const struct tt_profile *longest = model->profiles[0];
    for (int32_t s = 0; s < steps; s++) {
        if (model->profiles[s]->max_batch < max_batch)
            max_batch = model->profiles[s]->max_batch;
        if (model->profiles[s]->length_count > longest->length_count)
            longest = model->profiles[s];
    }
    int32_t most = longest->length_count > TT_QUANTILES ? longest->length_count : TT_QUANTILES;
    int32_t *lengths = calloc((size_t)most, sizeof(*lengths));
    int32_t length_count = lengths ? lengths_of_whole(model, longest, lengths) : 0;
    size_t count = (size_t)max_batch * (size_t)length_count;
    struct tt_profile_point *points = calloc(count + 1, sizeof(*points));
    if (!points || !lengths) {
        free(points);
        free(lengths);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the profile of %s", model->name);
    }
    size_t at = 0;
    for (int32_t row = 0; row < length_count; row++)
        for (int32_t batch = 1; batch <= max_batch; batch++) {
            struct tt_profile_point *point = &points[at++];
            *point = (struct tt_profile_point){.length = lengths[row], .batch = batch};
            __int128 work = 0;
            for (int32_t s = 0; s < steps; s++) {
                const struct tt_profile *step = model->profiles[s];
                int64_t takes_ns = tt_profile_latency(step, batch, point->length) *
                                   times_run(model, s, point->length);
                point->latency_ns += takes_ns;
                work += (__int128)takes_ns * tt_profile_demand(step, batch, point->length);
            }
            point->demand_ppm = (int32_t)((work + point->latency_ns - 1) / point->latency_ns);
        }
    enum tt_err err = tt_profile_new_points(points, (int32_t)count, max_batch, out_profile, why);
    free(points);
    free(lengths);
    return err;
}
