#include "lab/replay/replay_models.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

/* Extends a row of the table: larger batches are several of the largest, and the rest. */
static void widen_row(int64_t *latency, int32_t *demand, const struct tt_profile *from, int32_t row,
                      int32_t max_batch) {
    const int64_t *known = from->latency_ns + (ptrdiff_t)row * (from->max_batch + 1);
    const int32_t *occupied = from->demand_ppm + (ptrdiff_t)row * (from->max_batch + 1);
    for (int32_t b = 1; b <= max_batch; b++) {
        int32_t most = from->max_batch;
        latency[b] = tt_instant_add(b / most * known[most], known[b % most]);
        demand[b] = occupied[b < most ? b : most];
    }
}

static enum tt_err widen(const struct tt_profile *from, int32_t max_batch,
                         struct tt_profile **out_profile, struct tt_error *why) {
    size_t row = (size_t)max_batch + 1, cells = row * (size_t)from->length_count;
    struct tt_profile table = *from;
    table.max_batch = max_batch;
    table.latency_ns = tt_allocate(cells, sizeof(*table.latency_ns));
    table.demand_ppm = tt_allocate(cells, sizeof(*table.demand_ppm));
    for (int32_t l = 0; l < from->length_count; l++)
        widen_row(table.latency_ns + (size_t)l * row, table.demand_ppm + (size_t)l * row, from, l,
                  max_batch);
    enum tt_err err = tt_profile_new_table(&table, out_profile, why);
    free(table.latency_ns);
    free(table.demand_ppm);
    return err;
}

const char *tt_replay_models_refuse(const struct tt_record_model *model,
                                    const struct tt_mechanism_options *limits, bool by_cells) {
    const struct tt_step_model *known = &model->step_model;
    if (known->max_batch > limits->max_batch)
        return "a model with a larger batch than its domain allows";
    for (int32_t s = 0; by_cells && s < known->step_count; s++)
        if (known->steps[s].profile->max_batch > limits->max_batch)
            return "a type of cells with a larger batch than its domain allows";
    if (known->rules && !limits->has_rules)
        return "a model with queue rules in a domain without";
    return NULL;
}

enum tt_err tt_replay_models_widen(struct tt_record_model *model, struct tt_error *why) {
    struct tt_step_model *known = &model->step_model;
    struct tt_step *steps = (struct tt_step *)known->steps; /* owned by the recording, not const */
    for (int32_t s = 0; s < known->step_count; s++) {
        const struct tt_profile *profile = steps[s].profile;
        if (profile->max_batch >= known->max_batch)
            continue;
        struct tt_profile *wide;
        enum tt_err err = widen(profile, known->max_batch, &wide, why);
        if (err)
            return err;
        tt_profile_free((struct tt_profile *)profile);
        steps[s].profile = wide;
    }
    return TT_OK;
}

/* The expected output length if the recording has none: the longest possible. */
static int32_t *quantiles_of(int32_t longest) {
    int32_t *quantiles = tt_allocate(TT_QUANTILES, sizeof(*quantiles));
    for (int32_t q = 0; q < TT_QUANTILES; q++)
        quantiles[q] = longest;
    return quantiles;
}

enum tt_err tt_replay_models_by_steps(struct tt_scenario_model *model, int32_t number,
                                      const struct tt_replay_cells *cells, struct tt_error *why) {
    enum tt_replay_form form = tt_replay_cells_form(cells, number);
    if (form == TT_REPLAY_NO_CELLS)
        return TT_OK;
    if (form == TT_REPLAY_GRAPHS)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "requests to model '%s' are trees, or other graphs of cells: only policies "
                       "that work by cells (cellular) can run them",
                       model->name);
    struct tt_step_model *steps = &model->step_model;
    const struct tt_step *recorded = steps->steps;
    model->steps = tt_allocate((size_t)steps->step_count, sizeof(*model->steps));
    model->quantiles = quantiles_of(tt_replay_cells_longest(cells, number));
    for (int32_t s = 0; s < steps->step_count; s++) {
        model->steps[s] = recorded[s];
        model->steps[s].kind = tt_replay_cells_kind(cells, number, s);
        model->steps[s].name = tt_copy_text(recorded[s].name);
        if (model->steps[s].kind == TT_STEP_DECODER && !steps->output_quantiles)
            steps->output_quantiles = model->quantiles;
    }
    steps->steps = model->steps;
    steps->max_batch = tt_step_max_rows(steps, 0, steps->step_count - 1);
    while (steps->preferred_count > 0 &&
           steps->preferred[steps->preferred_count - 1] > steps->max_batch)
        steps->preferred_count--;
    return TT_OK;
}
