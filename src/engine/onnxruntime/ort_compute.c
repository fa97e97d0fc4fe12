#include "engine/onnxruntime/ort_compute.h"

#include "engine/cell_set.h"
#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_tensor.h"
#include "engine/onnxruntime/ort_trial.h"

#include <stdlib.h>
#include <string.h>

static const struct tt_ort_model *model_of(struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct tt_ort_model, model);
}

/* ---- what steps read and make ---- */

static enum tt_err copy_steps(const struct tt_ort_model *model, struct tt_dataflow *flow) {
    enum tt_err err =
        tt_dataflow_init(flow, model->step_count, model->tensor_count + model->exits.value_count);
    for (int32_t s = 0; !err && s < model->step_count; s++) {
        const struct tt_ort_step *step = &model->steps[s];
        err = tt_dataflow_step_init(&flow->steps[s], step->input_count, step->output_count);
        for (int32_t i = 0; !err && i < step->input_count; i++)
            flow->steps[s].inputs[i] = step->inputs[i];
        for (int32_t i = 0; !err && i < step->output_count; i++)
            flow->steps[s].outputs[i] = step->outputs[i];
    }
    for (int32_t t = 0; !err && t < model->tensor_count; t++) {
        const struct tt_ort_carried *carried = &model->tensors[t];
        flow->tensors[t] = (struct tt_dataflow_tensor){
            .dtype = carried->dtype, .producer = carried->producer, .last_use = carried->last_use};
    }
    memcpy(flow->outputs, model->outputs, sizeof(flow->outputs));
    return err;
}

static void set_shape(struct tt_dataflow_tensor *tensor, const struct tt_tensor_spec *spec) {
    tensor->shape = spec->shape;
    tensor->row_bytes = tt_tensor_row_bytes(spec);
}

/* ---- exits ---- */

/* The tensor of the dataflow that is an output of an exit's graph: they follow the model's. */
static int32_t value_of(const struct tt_ort_model *model, const struct tt_ort_exit *exit,
                        int32_t output) {
    return model->tensor_count + exit->first_value + output;
}

static enum tt_err copy_exit(const struct tt_ort_model *model, const struct tt_ort_exit *from,
                             struct tt_dataflow *flow, struct tt_dataflow_exit *to) {
    int32_t inputs = from->graph ? from->graph->input_count : 0;
    int32_t outputs = from->graph ? from->graph->output_count : 0;
    to->step = from->step;
    to->to = from->to;
    to->moved = from->moved;
    to->since = from->since;
    to->less_than = from->less_than;
    if (from->condition >= 0)
        to->condition = value_of(model, from, from->condition);
    to->gives = calloc((size_t)from->give_count + 1, sizeof(*to->gives));
    enum tt_err err =
        to->gives ? tt_dataflow_step_init(&to->test, inputs, outputs) : TT_ERR_NO_MEMORY;
    for (int32_t i = 0; !err && i < inputs; i++)
        to->test.inputs[i] = from->inputs[i];
    for (int32_t o = 0; !err && o < outputs; o++) {
        int32_t value = value_of(model, from, o);
        to->test.outputs[o] = value;
        flow->tensors[value] = (struct tt_dataflow_tensor){
            .dtype = from->graph->outputs[o].dtype, .producer = from->step, .last_use = from->step};
    }
    for (int32_t g = 0; !err && g < from->give_count; g++) {
        const struct tt_ort_give *give = &from->gives[g];
        to->gives[to->give_count++] = (struct tt_dataflow_give){
            .tensor = give->tensor,
            .from = give->output >= 0 ? value_of(model, from, give->output) : give->from};
    }
    return err;
}

static enum tt_err copy_exits(const struct tt_ort_model *model, struct tt_dataflow *flow) {
    enum tt_err err = tt_dataflow_exits_init(flow, model->exits.count);
    for (int32_t e = 0; !err && e < model->exits.count; e++)
        err = copy_exit(model, &model->exits.exits[e], flow, &flow->exits[e]);
    if (!err)
        tt_dataflow_keep_for_exits(flow);
    return err;
}

/* ---- sizes ---- */

/* What the runtime made of `rows` rows. */
static enum tt_err read_shape(const struct tt_ort_model *model, const char *name, OrtValue *value,
                              int32_t rows, struct tt_dataflow_tensor *tensor,
                              struct tt_error *why) {
    struct tt_tensor_view view;
    char text[256];
    if (tensor->dtype == TT_DTYPE_BYTES)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "tensor '%s' between two stages holds strings, which a device does not keep",
                       name);
    enum tt_err err = tt_ort_value_view(model->library, tensor->dtype, value, &view, why);
    if (err)
        return err;
    if (view.shape.rank < 1 || view.shape.dims[0] != rows || view.size_bytes == 0)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "tensor '%s' between two stages has shape %s for %d rows; a device keeps "
                       "tensors whose first dimension is the rows",
                       name, tt_shape_print(&view.shape, text, sizeof(text)), rows);
    tensor->shape = view.shape;
    tensor->shape.dims[0] = -1;
    tensor->row_bytes = view.size_bytes / (size_t)rows;
    return TT_OK;
}

/* The rows of a condition have a value each, and what takes the place of a tensor has its size. */
static enum tt_err check_exit(const struct tt_ort_model *model, const struct tt_dataflow *flow,
                              const struct tt_dataflow_exit *exit, struct tt_error *why) {
    const struct tt_dataflow_tensor *tensors = flow->tensors;
    int32_t condition = exit->condition;
    if (condition >= 0 && tensors[condition].row_bytes != tt_dtype_bytes(tensors[condition].dtype))
        return tt_fail(TT_ERR_INVALID, why,
                       "its condition has %zu values per row; it must have one",
                       tensors[condition].row_bytes / tt_dtype_bytes(tensors[condition].dtype));
    if (condition < 0 && tensors[exit->moved].row_bytes != tensors[exit->since].row_bytes)
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s' and '%s' differ in size per row: the condition `moved` needs tensors "
                       "of equal size",
                       model->tensors[exit->moved].name, model->tensors[exit->since].name);
    for (int32_t g = 0; g < exit->give_count; g++) {
        const struct tt_dataflow_give *give = &exit->gives[g];
        size_t has = tensors[give->from].row_bytes, wants = tensors[give->tensor].row_bytes;
        if (has != wants)
            return tt_fail(TT_ERR_INVALID, why,
                           "what it gives as '%s' has %zu bytes per row; it must have %zu",
                           model->tensors[give->tensor].name, has, wants);
    }
    return TT_OK;
}

static enum tt_err find_exit_shapes(const struct tt_ort_model *model, OrtValue *const *values,
                                    int32_t rows, const struct tt_ort_exit *exit,
                                    struct tt_dataflow *flow, struct tt_error *why) {
    OrtValue *made[TT_MAX_TENSORS] = {NULL};
    enum tt_err err = tt_ort_trial_run_exit(model, exit, exit->session, values, made, why);
    for (int32_t o = 0; o < exit->graph->output_count; o++) {
        if (!err)
            err = read_shape(model, exit->output_names[o], made[o], rows,
                             &flow->tensors[value_of(model, exit, o)], why);
        if (made[o])
            model->library->api->ReleaseValue(made[o]);
    }
    return err;
}

static enum tt_err find_exits_shapes(const struct tt_ort_model *model, OrtValue *const *values,
                                     int32_t rows, struct tt_dataflow *flow, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < model->exits.count; e++) {
        const struct tt_ort_exit *exit = &model->exits.exits[e];
        if (exit->session)
            err = find_exit_shapes(model, values, rows, exit, flow, why);
        if (!err)
            err = check_exit(model, flow, &flow->exits[e], why);
        if (err)
            (void)tt_fail_in(err, why, "the exit after stage %d", exit->step);
    }
    return err;
}

/* The graph may leave sizes open that follow from those of the inputs. */
static enum tt_err find_shapes(const struct tt_ort_model *model,
                               const struct tt_signature *signature, struct tt_dataflow *flow,
                               struct tt_error *why) {
    int32_t rows = signature->max_batch > 1 ? 2 : 1;
    OrtValue **values = calloc((size_t)model->tensor_count + 1, sizeof(OrtValue *));
    OrtSession **sessions = calloc((size_t)model->step_count, sizeof(OrtSession *));
    enum tt_err err =
        values && sessions ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    for (int32_t s = 0; !err && s < model->step_count; s++)
        sessions[s] = tt_ort_step_session(model, s, 0);
    if (!err) {
        err = tt_ort_trial_run(model, sessions, signature, rows, values, why);
        for (int32_t t = signature->input_count; !err && t < model->tensor_count; t++)
            err =
                read_shape(model, model->tensors[t].name, values[t], rows, &flow->tensors[t], why);
        if (!err)
            err = find_exits_shapes(model, values, rows, flow, why);
        tt_ort_trial_drop(model, values);
    }
    free(values);
    free(sessions);
    return err;
}

/* Each type reads and makes tensors of its own. */
static enum tt_err lay_out_cells(const struct tt_cell_set *cells, struct tt_dataflow *flow) {
    int32_t types = cells->cells->type_count, tensors = 0;
    for (int32_t t = 0; t < types; t++)
        tensors += cells->plans[t].input_count + cells->plans[t].output_count;
    enum tt_err err = tt_dataflow_init(flow, types, tensors);
    for (int32_t t = 0, at = 0; !err && t < types; t++) {
        const struct tt_cell_plan *plan = &cells->plans[t];
        struct tt_dataflow_step *step = &flow->steps[t];
        err = tt_dataflow_step_init(step, plan->input_count, plan->output_count);
        for (int32_t i = 0; !err && i < plan->input_count; i++, at++) {
            const struct tt_cell_input *input = &plan->inputs[i];
            flow->tensors[at] = (struct tt_dataflow_tensor){
                .dtype = input->dtype, .shape = input->shape, .row_bytes = input->row_bytes};
            step->inputs[i] = at;
        }
        for (int32_t o = 0; !err && o < plan->output_count; o++, at++) {
            const struct tt_cell_tensor *tensor = &cells->tensors[plan->outputs[o].tensor];
            flow->tensors[at] = (struct tt_dataflow_tensor){
                .dtype = tensor->dtype, .shape = tensor->shape, .row_bytes = tensor->row_bytes};
            step->outputs[o] = at;
        }
    }
    if (err)
        tt_dataflow_fini(flow);
    return err;
}

enum tt_err tt_ort_lay_out(struct tt_engine_model *engine_model,
                           const struct tt_signature *signature, struct tt_dataflow *out_dataflow,
                           struct tt_error *why) {
    const struct tt_ort_model *model = model_of(engine_model);
    if (model->cells && lay_out_cells(model->cells, out_dataflow))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model of cells");
    if (model->cells)
        return TT_OK;
    enum tt_err err = copy_steps(model, out_dataflow);
    if (!err)
        err = copy_exits(model, out_dataflow);
    if (err)
        (void)tt_fail(err, why, "out of memory for a model of %d steps", model->step_count);
    for (int32_t i = 0; !err && i < signature->input_count; i++)
        set_shape(&out_dataflow->tensors[i], &signature->inputs[i]);
    if (!err && model->step_count > 1)
        err = find_shapes(model, signature, out_dataflow, why);
    for (int32_t i = 0; !err && i < signature->output_count; i++)
        set_shape(&out_dataflow->tensors[model->outputs[i]], &signature->outputs[i]);
    if (err)
        tt_dataflow_fini(out_dataflow);
    return err;
}

/* ---- runs ---- */

/* Values over the rows of each tensor; *out_count counts those made. */
static enum tt_err wrap(const struct tt_ort_library *library, const struct tt_dataflow *flow,
                        const int32_t *tensors, int32_t count, int32_t rows,
                        const void *const *bytes, OrtValue **values, int32_t *out_count,
                        struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (*out_count = 0; !err && *out_count < count; *out_count += !err) {
        const struct tt_dataflow_tensor *tensor = &flow->tensors[tensors[*out_count]];
        struct tt_tensor_view view = {.bytes = bytes[*out_count],
                                      .size_bytes = tensor->row_bytes * (size_t)rows,
                                      .shape = tensor->shape};
        view.shape.dims[0] = rows;
        err = tt_ort_value_new(library, tensor->dtype, &view, &values[*out_count], why);
    }
    return err;
}

enum tt_err tt_ort_compute(struct tt_engine_model *engine_model, const struct tt_dataflow *dataflow,
                           int32_t index, int32_t rows, const void *const *in, void *const *out,
                           struct tt_error *why) {
    const struct tt_ort_model *model = model_of(engine_model);
    const struct tt_ort_library *library = model->library;
    const struct tt_dataflow_step *flow = tt_dataflow_run(dataflow, index);
    const struct tt_ort_call call = tt_ort_call_of(model, index);
    OrtValue *inputs[TT_MAX_TENSORS], *outputs[TT_MAX_TENSORS];
    int32_t input_count, output_count = 0;
    enum tt_err err = wrap(library, dataflow, flow->inputs, flow->input_count, rows, in, inputs,
                           &input_count, why);
    if (!err)
        err = wrap(library, dataflow, flow->outputs, flow->output_count, rows,
                   (const void *const *)out, outputs, &output_count, why);
    if (!err)
        err = tt_ort_check(library,
                           library->api->Run(call.session, NULL, call.input_names,
                                             (const OrtValue *const *)inputs, (size_t)input_count,
                                             call.output_names, (size_t)output_count, outputs),
                           why);
    for (int32_t i = 0; i < input_count; i++)
        library->api->ReleaseValue(inputs[i]);
    for (int32_t i = 0; i < output_count; i++)
        library->api->ReleaseValue(outputs[i]);
    return err;
}
