/* Which policies can run a scenario's models, by their traits. */
#include "lab/plan/contest.h"

/* What the models of a scenario have in common. */
struct needs {
    bool has_cells; /* a step runs more than once per request, or requests are trees */
    bool has_stages;
    bool mixes_shapes; /* requests differ in length, and nothing pads them */
    bool is_pooled;    /* inputs have slots on the device */
};

static struct needs needs_of(const struct tt_scenario *scenario) {
    struct needs out = {.is_pooled = scenario->devices[0].pool_slots > 0};
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        const struct tt_step_model *steps = &model->step_model;
        out.has_cells |= model->tree != TT_TREE_NONE;
        for (int32_t s = 0; s < steps->step_count; s++)
            out.has_cells |= steps->steps[s].kind != TT_STEP_STATIC;
        out.has_stages |= steps->step_count > 1;
        out.mixes_shapes |= steps->whole->length_count > 1 && !steps->padded;
    }
    return out;
}

static bool has_trees(const struct tt_scenario *scenario) {
    for (int32_t m = 0; m < scenario->model_count; m++)
        if (scenario->models[m].tree != TT_TREE_NONE)
            return true;
    return false;
}

static bool can_run(const struct tt_policy_kind *kind, const struct tt_scenario *scenario,
                    const struct needs *needs) {
    const struct tt_policy_traits *traits = &kind->traits;
    switch (traits->granularity) {
    case TT_GRANULARITY_GRAPH:
        if (has_trees(scenario))
            return false;
        break;
    case TT_GRANULARITY_STAGE:
    case TT_GRANULARITY_NODE:
        /* A model of one step gives them no boundary to act at: they would be the window of 0. */
        if (has_trees(scenario) || !needs->has_stages)
            return false;
        if (traits->granularity == TT_GRANULARITY_STAGE && needs->has_cells)
            return false;
        break;
    case TT_GRANULARITY_CELL:
        if (!needs->has_cells)
            return false;
        break;
    }
    if (traits->waits_for_inputs && !needs->is_pooled)
        return false;
    bool needs_shapes = needs->mixes_shapes && !traits->runs_alone && !needs->has_cells;
    return !needs_shapes || kind->serving.same_shape.key;
}

/* The number that orders policies from the simplest on. */
static int32_t complexity(const struct tt_policy_kind *kind) {
    const struct tt_policy_traits *traits = &kind->traits;
    int32_t out = traits->runs_alone ? 0 : traits->runs_as_they_came ? 1000 : 2000;
    out += 4000 * (int32_t)traits->granularity + 1000 * traits->needs_profiles;
    out += 1000 * (traits->waits_for_inputs + traits->stage_per_executor);
    return out + kind->option_count;
}

static void fill(struct tt_contest_candidate *out, const struct tt_policy_kind *kind,
                 bool mixes_shapes) {
    const struct tt_policy_serving *serving = &kind->serving;
    *out = (struct tt_contest_candidate){.policy = kind};
    tt_assert(serving->default_count < TT_CONTEST_MAX_OPTIONS);
    for (int32_t i = 0; i < serving->default_count; i++)
        out->options[out->option_count++] = serving->defaults[i];
    const char *shape = serving->same_shape.key;
    if (mixes_shapes && shape && !tt_options_value(shape, out->options, out->option_count))
        out->options[out->option_count++] = serving->same_shape;
}

int32_t tt_contest_candidates(const struct tt_scenario *scenario,
                              struct tt_contest_candidate *out) {
    struct needs needs = needs_of(scenario);
    bool mixes = needs.mixes_shapes && !needs.has_cells;
    int32_t count = 0;
    for (int32_t p = 0; p < tt_policy_count() && count < TT_CONTEST_MAX_CANDIDATES; p++) {
        const struct tt_policy_kind *kind = tt_policy_at(p);
        if (!can_run(kind, scenario, &needs))
            continue;
        int32_t at = count++;
        for (; at > 0 && complexity(out[at - 1].policy) > complexity(kind); at--)
            out[at] = out[at - 1];
        fill(&out[at], kind, mixes);
    }
    return count;
}
