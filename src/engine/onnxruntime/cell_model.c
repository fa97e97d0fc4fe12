#include "engine/onnxruntime/cell_model.h"

#include "engine/onnxruntime/ort_shared.h"

#include <stdlib.h>

static enum tt_err make_session(const struct tt_ort_library *library,
                                const struct tt_cell_type *type, const struct tt_cell_plan *plan,
                                struct tt_ort_step *step, struct tt_error *why) {
    enum tt_err err = tt_ort_shared_take(library, type->digest, type->path, &step->session, why);
    step->input_names = calloc((size_t)plan->input_count + 1, sizeof(*step->input_names));
    step->output_names = calloc((size_t)plan->output_count + 1, sizeof(*step->output_names));
    if (!err && (!step->input_names || !step->output_names))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (err)
        return err;
    step->input_count = plan->input_count;
    step->output_count = plan->output_count;
    for (int32_t i = 0; i < plan->input_count; i++)
        step->input_names[i] = plan->inputs[i].name;
    for (int32_t i = 0; i < plan->output_count; i++)
        step->output_names[i] = plan->outputs[i].name;
    return TT_OK;
}

enum tt_err tt_ort_model_new_cells(const struct tt_ort_library *library,
                                   const struct tt_ort_cells_options *options,
                                   struct tt_ort_model **out_model, struct tt_error *why) {
    const struct tt_cells *cells = options->cells;
    size_t types = (size_t)cells->type_count;
    struct tt_ort_model *self = calloc(1, sizeof(*self));
    struct tt_cell_set *made = calloc(1, sizeof(*made) + types * sizeof(made->plans[0]));
    struct tt_ort_step *steps = calloc(types, sizeof(*steps));
    if (!self || !made || !steps) {
        free(self);
        free(made);
        free(steps);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    made->cells = cells;
    self->library = library;
    self->cells = made;
    self->steps = steps;
    self->step_count = cells->type_count;
    self->signature = cells->signature;
    tt_slots_init(&self->slots, true, 0, 0);
    enum tt_err err = tt_cell_set_plan(made, why);
    if (!err)
        err = tt_ort_cells_make_slots(made, options->slot_count, why);
    for (int32_t t = 0; !err && t < cells->type_count; t++) {
        err = make_session(library, &cells->types[t], &made->plans[t], &steps[t], why);
        if (err)
            err = tt_fail_in(err, why, "cell '%s'", cells->types[t].name);
    }
    if (err) {
        tt_ort_model_free(self);
        return err;
    }
    *out_model = self;
    return TT_OK;
}
