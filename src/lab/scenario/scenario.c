#include "lab/scenario/scenario.h"

#include <stdlib.h>

const char *tt_world_name(enum tt_world world) {
    static const char *const names[] = {"simulated", "emulated", "real", "cluster", "recorded"};
    return names[world];
}

static void free_texts(char **take_texts, int32_t pairs) {
    for (int32_t i = 0; take_texts && i < 2 * pairs; i++)
        free(take_texts[i]);
    free(take_texts);
}

void tt_scenario_fini(struct tt_scenario *self) {
    for (int32_t m = 0; self->models && m < self->model_count; m++) {
        struct tt_scenario_model *model = &self->models[m];
        bool shared = model->step_model.step_count == 1 && model->profiles &&
                      model->step_model.whole == model->profiles[0];
        if (!shared && model->profiles)
            tt_profile_free((struct tt_profile *)model->step_model.whole);
        for (int32_t s = 0; model->profiles && s < model->step_model.step_count; s++)
            tt_profile_free(model->profiles[s]);
        for (int32_t s = 0; model->steps && s < model->step_model.step_count; s++)
            free((char *)model->steps[s].name);
        free(model->profiles);
        free(model->steps);
        free(model->quantiles);
        free(model->preferred);
        free(model->executors);
        free(model->lengths);
        free(model->name);
        free(model->source);
    }
    free(self->models);
    free(self->repository);
    free(self->devices);
    free(self->segments);
    free(self->perturbations);
    free(self->arrivals_path);
    free(self->policy);
    free_texts(self->option_texts, self->option_count);
    free(self->inside.policy);
    free_texts(self->inside.option_texts, self->inside.option_count);
    *self = (struct tt_scenario){0};
}
