/* A recording's arrivals as a scenario, to simulate another policy. */
#include "lab/replay/replay.h"

#include "base/instant.h"
#include "lab/replay/replay_models.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

/* A number distinguishes models of one name (versions, or a model that was removed and added). */
static char *model_name(const struct tt_replay *replay, int32_t index) {
    const char *name = replay->models[index]->name;
    int32_t same = 1;
    for (int32_t m = 0; m < index; m++)
        same += strcmp(replay->models[m]->name, name) == 0;
    return same > 1 ? tt_format_text("%s#%d", name, same) : tt_copy_text(name);
}

static bool given(void *context, int64_t number, struct tt_sim_given *out_given) {
    return tt_replay_cells_given(context, number, out_given);
}

static void fill_model(struct tt_scenario_model *out, const struct tt_replay *replay,
                       int32_t index) {
    const struct tt_step_model *from = &replay->models[index]->step_model;
    out->name = model_name(replay, index);
    out->step_model = *from;
    out->step_model.name = out->name;
    out->weight = 1;
    out->rows = 1;
}

/* Requests have the recorded cells. If the policy works by steps, the models must have requests
 * that are rows. */
static enum tt_err fit_policy(struct tt_scenario *out, struct tt_replay *replay,
                              struct tt_error *why) {
    const struct tt_policy_kind *kind = tt_policy_find(out->policy);
    out->given = given;
    out->given_context = &replay->cells;
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < out->model_count && kind && !tt_policy_is_by_cells(kind); m++)
        err = tt_replay_models_by_steps(&out->models[m], m, &replay->cells, why);
    return err;
}

static void fill_policy(struct tt_scenario *out, const char *policy,
                        const struct tt_option *options, int32_t option_count) {
    out->policy = tt_copy_text(policy);
    out->option_texts = tt_allocate(2 * (size_t)option_count, sizeof(*out->option_texts));
    for (; out->option_count < option_count; out->option_count++) {
        char **texts = &out->option_texts[2 * (ptrdiff_t)out->option_count];
        texts[0] = tt_copy_text(options[out->option_count].key);
        texts[1] = tt_copy_text(options[out->option_count].value);
    }
}

enum tt_err tt_replay_scenario(struct tt_replay *self, const char *policy,
                               const struct tt_option *options, int32_t option_count,
                               struct tt_scenario *out_scenario, struct tt_error *why) {
    if (self->arrival_count == 0 || self->executors == 0)
        return tt_fail(TT_ERR_INVALID, why, "%s: domain %d has no %s to simulate", self->path,
                       self->stream, self->executors ? "requests" : "executors");
    if (option_count > TT_MAX_OPTIONS)
        return tt_fail(TT_ERR_INVALID, why, "a policy takes at most %d options", TT_MAX_OPTIONS);
    if (!policy) {
        policy = self->domain->policy;
        options = self->domain->options;
        option_count = self->domain->option_count;
    }
    struct tt_scenario scenario = {.arrivals = self->arrivals,
                                   .arrival_count = self->arrival_count,
                                   .depth = self->domain->limits.depth,
                                   .d_ctrl_ns = self->domain->d_ctrl_ns,
                                   .d_data_ns = self->domain->d_data_ns,
                                   .duration_ns = TT_NEVER};
    scenario.models = tt_allocate((size_t)self->model_count, sizeof(*scenario.models));
    scenario.devices = tt_allocate((size_t)self->executors, sizeof(*scenario.devices));
    fill_policy(&scenario, policy, options, option_count);
    for (; scenario.model_count < self->model_count; scenario.model_count++)
        fill_model(&scenario.models[scenario.model_count], self, scenario.model_count);
    for (; scenario.device_count < self->executors; scenario.device_count++)
        scenario.devices[scenario.device_count] = (struct tt_sim_device){
            .executors = 1, .busy_until_at = self->appeared_at[scenario.device_count]};
    enum tt_err err = fit_policy(&scenario, self, why);
    if (err) {
        tt_scenario_fini(&scenario);
        return err;
    }
    *out_scenario = scenario;
    return TT_OK;
}
