#include "lab/run/inside_run.h"

#include "lab/scenario/allocate.h"

#include <stdlib.h>

static enum tt_err create_policy(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why) {
    const struct tt_scenario_inside *inside = context;
    struct tt_option options[TT_MAX_OPTIONS];
    for (ptrdiff_t i = 0; i < inside->option_count; i++)
        options[i] = (struct tt_option){.key = inside->option_texts[2 * i],
                                        .value = inside->option_texts[2 * i + 1]};
    const struct tt_policy_setup setup = {
        .domain = mechanism, .options = options, .option_count = inside->option_count};
    return tt_policy_create(mechanism, inside->policy, &setup, why);
}

/* Batches that a device is granted at once: the most of all devices, as in a cluster. */
static int32_t grants_of(const struct tt_scenario *scenario) {
    int32_t most = 1;
    for (int32_t d = 0; d < scenario->device_count; d++)
        most = scenario->devices[d].executors > most ? scenario->devices[d].executors : most;
    return most;
}

static enum tt_err make_whole(struct tt_inside_run *self, int32_t m, int32_t grants,
                              struct tt_error *why) {
    const struct tt_step_model *from = &self->scenario->models[m].step_model;
    enum tt_err err = tt_profile_new_shared(from->whole, grants, &self->profiles[m], why);
    if (err)
        return err;
    self->steps[m] = (struct tt_step){.name = "whole", .profile = self->profiles[m]};
    self->step_models[m] = *from;
    self->step_models[m].step_count = 1;
    self->step_models[m].steps = &self->steps[m];
    self->step_models[m].whole = self->profiles[m];
    self->step_models[m].output_quantiles = NULL;
    self->step_models[m].tokens = (struct tt_token_slo){0};
    self->step_models[m].slots = 0;
    self->models[m] = (struct tt_sim_model){.step_model = &self->step_models[m]};
    return TT_OK;
}

enum tt_err tt_inside_run_open(struct tt_inside_run *self, const struct tt_scenario *scenario,
                               const struct tt_sim_model *models, struct tt_error *why) {
    size_t count = (size_t)scenario->model_count;
    *self = (struct tt_inside_run){
        .scenario = scenario,
        .options = {.models = models,
                    .executors = scenario->inside.executors,
                    .depth = scenario->inside.depth,
                    .create_policy = create_policy,
                    .create_context = (void *)&scenario->inside},
        .models = tt_allocate(count, sizeof(*self->models)),
        .step_models = tt_allocate(count, sizeof(*self->step_models)),
        .steps = tt_allocate(count, sizeof(*self->steps)),
        .profiles = tt_allocate(count, sizeof(struct tt_profile *)),
    };
    int32_t grants = grants_of(scenario);
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < scenario->model_count; m++)
        err = make_whole(self, m, grants, why);
    if (err)
        tt_inside_run_close(self);
    return err;
}

void tt_inside_run_close(struct tt_inside_run *self) {
    for (int32_t m = 0; self->profiles && m < self->scenario->model_count; m++)
        tt_profile_free(self->profiles[m]);
    free(self->models);
    free(self->step_models);
    free(self->steps);
    free(self->profiles);
    *self = (struct tt_inside_run){0};
}
