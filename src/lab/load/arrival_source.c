#include "lab/load/arrival_source.h"

#include "lab/scenario/allocate.h"

#include <stdlib.h>

static enum tt_err open_file(struct tt_arrival_source *self, const struct tt_scenario *s,
                             struct tt_error *why) {
    struct tt_arrival_file_model *models = tt_allocate((size_t)s->model_count, sizeof(*models));
    for (int32_t m = 0; m < s->model_count; m++)
        models[m] = (struct tt_arrival_file_model){.name = s->models[m].name,
                                                   .slo_ns = s->models[m].step_model.slo_ns,
                                                   .rows = s->models[m].rows,
                                                   .length = s->models[m].length,
                                                   .output_length = s->models[m].output_length,
                                                   .max_batch = s->models[m].step_model.max_batch,
                                                   .step_count = s->models[m].step_model.step_count,
                                                   .step_model = &s->models[m].step_model,
                                                   .tree = s->models[m].tree};
    enum tt_err err =
        tt_arrival_file_read(s->arrivals_path, models, s->model_count, &self->file, why);
    free(models);
    return err;
}

static void open_drawn(struct tt_arrival_source *self, const struct tt_scenario *s) {
    struct tt_arrivals_model *models = tt_allocate((size_t)s->model_count, sizeof(*models));
    for (int32_t m = 0; m < s->model_count; m++)
        models[m] = (struct tt_arrivals_model){.name = s->models[m].name,
                                               .weight = s->models[m].weight,
                                               .slo_ns = s->models[m].step_model.slo_ns,
                                               .rows = s->models[m].rows,
                                               .length = s->models[m].length,
                                               .output_length = s->models[m].output_length,
                                               .lengths = s->models[m].lengths};
    struct tt_arrivals_options options = {.models = models,
                                          .model_count = s->model_count,
                                          .process = s->process,
                                          .shape_ppm = s->shape_ppm,
                                          .rate = s->rate,
                                          .interval_ns = s->interval_ns,
                                          .segments = s->segments,
                                          .segment_count = s->segment_count,
                                          .step_rate = s->step_rate,
                                          .step_every = s->step_every,
                                          .step_maximum = s->step_maximum,
                                          .duration_ns = s->duration_ns,
                                          .request_limit = s->request_limit,
                                          .seed = s->seed,
                                          .kept_gaps = s->kept_gaps};
    self->arrivals = tt_arrivals_new(&options);
    free(models);
}

enum tt_err tt_arrival_source_open(struct tt_arrival_source *self,
                                   const struct tt_scenario *scenario, struct tt_error *why) {
    struct tt_arrival_source source = {0};
    enum tt_err err = TT_OK;
    if (scenario->arrivals)
        source.kept = scenario;
    else if (scenario->arrivals_path)
        err = open_file(&source, scenario, why);
    else
        open_drawn(&source, scenario);
    if (!err)
        *self = source;
    return err;
}

void tt_arrival_source_close(struct tt_arrival_source *self) {
    tt_arrivals_free(self->arrivals);
    tt_arrival_file_fini(&self->file);
    *self = (struct tt_arrival_source){0};
}

bool tt_arrival_source_next(void *context, struct tt_sim_arrival *out_arrival) {
    struct tt_arrival_source *self = context;
    if (self->kept) {
        if (self->position == self->kept->arrival_count)
            return false;
        *out_arrival = self->kept->arrivals[self->position++];
        return true;
    }
    return self->arrivals ? tt_arrivals_next(self->arrivals, out_arrival)
                          : tt_arrival_file_next(&self->file, out_arrival);
}

bool tt_arrival_source_given(void *context, int64_t number, struct tt_sim_given *out_given) {
    const struct tt_arrival_source *self = context;
    return self->kept && self->kept->given &&
           self->kept->given(self->kept->given_context, number, out_given);
}
