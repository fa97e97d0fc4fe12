/* A recording's arrivals as a scenario, to simulate another policy. */
#include "lab/replay/replay.h"

#include "base/instant.h"
#include "base/text.h"
#include "core/policy_ops.h"
#include "lab/replay/replay_models.h"

#include <stdlib.h>
#include <string.h>

/* A number distinguishes models of one name (versions, or a model that was removed and added). */
static char *model_name(const struct tt_replay *replay, int32_t index) {
    const char *name = replay->models[index]->name;
    int32_t same = 1;
    for (int32_t m = 0; m < index; m++)
        same += strcmp(replay->models[m]->name, name) == 0;
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, name);
    if (same > 1)
        tt_text_printf(&text, "#%d", same);
    char *copy = text.failed ? NULL : strdup(tt_text_string(&text));
    tt_text_fini(&text);
    return copy;
}

static bool given(void *context, int64_t number, struct tt_sim_given *out_given) {
    return tt_replay_cells_given(context, number, out_given);
}

static bool fill_model(struct tt_scenario_model *out, const struct tt_replay *replay,
                       int32_t index) {
    const struct tt_step_model *from = &replay->models[index]->step_model;
    out->name = model_name(replay, index);
    out->step_model = *from;
    out->step_model.name = out->name;
    out->weight = 1;
    out->rows = 1;
    return out->name != NULL;
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

static bool fill_policy(struct tt_scenario *out, const char *policy,
                        const struct tt_option *options, int32_t option_count) {
    out->policy = strdup(policy);
    out->option_texts = calloc(2 * (size_t)option_count + 1, sizeof(*out->option_texts));
    bool good = out->policy && out->option_texts;
    for (; good && out->option_count < option_count; out->option_count++) {
        char **texts = &out->option_texts[2 * (ptrdiff_t)out->option_count];
        texts[0] = strdup(options[out->option_count].key);
        texts[1] = strdup(options[out->option_count].value);
        good = texts[0] && texts[1];
    }
    return good;
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
    scenario.models = calloc((size_t)self->model_count, sizeof(*scenario.models));
    scenario.devices = calloc((size_t)self->executors, sizeof(*scenario.devices));
    bool good = scenario.models && scenario.devices &&
                fill_policy(&scenario, policy, options, option_count);
    for (; good && scenario.model_count < self->model_count; scenario.model_count++)
        good = fill_model(&scenario.models[scenario.model_count], self, scenario.model_count);
    for (; good && scenario.device_count < self->executors; scenario.device_count++)
        scenario.devices[scenario.device_count] = (struct tt_sim_device){
            .executors = 1, .busy_until_at = self->appeared_at[scenario.device_count]};
    if (!good) {
        tt_scenario_fini(&scenario);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    enum tt_err err = fit_policy(&scenario, self, why);
    if (err) {
        tt_scenario_fini(&scenario);
        return err;
    }
    *out_scenario = scenario;
    return TT_OK;
}
