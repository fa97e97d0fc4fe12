/* What a scenario's models need of a policy. */
#include "lab/plan/contest.h"

enum { MOST_WORKERS = 16 };

static struct tt_policy_needs needs_of(const struct tt_scenario_model *model) {
    const struct tt_step_model *steps = &model->step_model;
    bool has_lengths = steps->whole->length_count > 1;
    struct tt_policy_needs out = {.has_trees = model->tree != TT_TREE_NONE,
                                  .has_stages = steps->step_count > 1,
                                  .mixes_shapes = has_lengths && !steps->padded,
                                  .has_lengths = has_lengths && steps->padded,
                                  .max_batch = steps->max_batch};
    out.has_cells = out.has_trees;
    for (int32_t s = 0; s < steps->step_count; s++)
        out.has_cells |= steps->steps[s].kind != TT_STEP_STATIC;
    out.has_graphs = !out.has_cells;
    return out;
}

int32_t tt_contest_candidates(const struct tt_scenario *scenario, struct tt_policy_candidate *out) {
    struct tt_policy_needs all = {0};
    /* Workers share processors, whose number is known once the server was measured. */
    bool shares =
        scenario->server.cores > 0 && !scenario->server.emulates && !scenario->server.runs_batches;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        struct tt_policy_needs needs = needs_of(&scenario->models[m]);
        needs.worker_limit = shares ? MOST_WORKERS : 0;
        tt_policy_needs_join(&all, &needs);
    }
    return tt_policy_candidates(&all, out);
}
