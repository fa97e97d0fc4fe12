#include "lab/experiment/experiment_build.h"
#include "lab/run/live_models.h"
#include "serve/domain.h"

/* Rejects features that only virtual time has. */
static enum tt_err check_timing(const struct tt_experiment *self,
                                const struct tt_scenario *scenario, struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    const char *world = tt_world_name(scenario->world);
    if (scenario->inside.policy && scenario->world != TT_WORLD_CLUSTER)
        return tt_experiment_wrong(self, message->inside, NULL, why,
                                   "devices have a policy inside where a scheduler comes before "
                                   "them, in the simulated and the cluster world; leave `inside` "
                                   "out to run in the %s world",
                                   world);
    bool has_delays = scenario->d_ctrl_ns > 0 && scenario->world != TT_WORLD_CLUSTER;
    if (has_delays || scenario->d_data_ns > 0)
        return tt_experiment_wrong(self, message->network, NULL, why,
                                   "network delays are simulated only; leave `network` out to run "
                                   "in the %s world",
                                   world);
    int32_t executors = 0;
    for (int32_t d = 0; d < scenario->device_count; d++) {
        executors += scenario->devices[d].executors;
        if (scenario->devices[d].busy_until_at > 0)
            return tt_experiment_wrong(self, message->device[0], NULL, why,
                                       "busy_until_ms is simulated only; leave it out to run in "
                                       "the %s world",
                                       world);
    }
    if (executors > TT_DOMAIN_MAX_EXECUTORS)
        return tt_experiment_wrong(self, message->device[0], "count", why,
                                   "%d executors; in the %s world each is a thread, and there are "
                                   "at most %d",
                                   executors, world, TT_DOMAIN_MAX_EXECUTORS);
    return TT_OK;
}

static enum tt_err check_models(const struct tt_experiment *self,
                                const struct tt_scenario *scenario, struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    const char *world = tt_world_name(scenario->world);
    char names[256];
    bool by_cells = tt_policy_is_by_cells(tt_policy_find(scenario->policy));
    if (scenario->model_count > TT_DOMAIN_MAX_MODELS)
        return tt_experiment_wrong(self, message, "model", why,
                                   "%d models; in the %s world there are at most %d",
                                   scenario->model_count, world, TT_DOMAIN_MAX_MODELS);
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        if (model->step_model.max_batch > TT_DOMAIN_MAX_BATCH)
            return tt_experiment_wrong(self, message, "model", why,
                                       "model '%s': max_batch is %d; in the %s world it is at most "
                                       "%d",
                                       model->name, model->step_model.max_batch, world,
                                       TT_DOMAIN_MAX_BATCH);
        if (model->tree != TT_TREE_NONE && !by_cells)
            return tt_experiment_wrong(self, message, "policy", why,
                                       "the requests of model '%s' are trees: only policies that "
                                       "work by cells (%s) run them, %s does not",
                                       model->name,
                                       tt_policy_names(tt_policy_is_by_cells, names, sizeof(names)),
                                       scenario->policy);
        if (model->rows > 1 && tt_live_models_is_of_cells(scenario, model))
            return tt_experiment_wrong(self, message, "model", why,
                                       "model '%s': rows is %d; requests to cells have one row in "
                                       "the %s world",
                                       model->name, model->rows, world);
        if (scenario->world == TT_WORLD_REAL && by_cells &&
            !tt_live_models_is_of_cells(scenario, model))
            return tt_experiment_wrong(self, message, "policy", why,
                                       "policy %s works by cells, and model '%s' has none; its "
                                       "static steps are cells in the other worlds only",
                                       scenario->policy, model->name);
        if (scenario->world == TT_WORLD_REAL && !model->source)
            return tt_experiment_wrong(self, message, "model", why,
                                       "model '%s' has a profile of its own; in the real world "
                                       "models come from the repository: leave profile, "
                                       "profile_file, step and step_file out",
                                       model->name);
    }
    return TT_OK;
}

enum tt_err tt_experiment_check_world(const struct tt_experiment *self,
                                      const struct tt_scenario *scenario, struct tt_error *why) {
    if (scenario->world == TT_WORLD_SIMULATED)
        return TT_OK;
    if (scenario->world == TT_WORLD_REAL && !scenario->repository)
        return tt_experiment_wrong(self, self->message, "world", why,
                                   "the real world needs models; add repository: \"DIR\" (a model "
                                   "repository, relative to this file)");
    enum tt_err err = check_timing(self, scenario, why);
    return err ? err : check_models(self, scenario, why);
}
