#include "engine/onnxruntime/ort_trial.h"

#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_tensor.h"
#include "engine/synthetic_input.h"

void tt_ort_trial_drop(const struct tt_ort_model *model, OrtValue **values) {
    for (int32_t t = 0; t < model->tensor_count; t++) {
        if (values[t])
            model->library->api->ReleaseValue(values[t]);
        values[t] = NULL;
    }
}

static enum tt_err run_step(const struct tt_ort_model *model, OrtSession *session, int32_t index,
                            OrtValue **values, struct tt_error *why) {
    const struct tt_ort_step *step = &model->steps[index];
    const OrtValue *inputs[TT_MAX_TENSORS];
    OrtValue *outputs[TT_MAX_TENSORS] = {NULL};
    if (step->input_count > TT_MAX_TENSORS || step->output_count > TT_MAX_TENSORS)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "step %d reads %d tensors and makes %d; a device runs steps of at most %d",
                       index, step->input_count, step->output_count, TT_MAX_TENSORS);
    for (int32_t i = 0; i < step->input_count; i++)
        inputs[i] = values[step->inputs[i]];
    enum tt_err err =
        tt_ort_check(model->library,
                     model->library->api->Run(session, NULL, step->input_names, inputs,
                                              (size_t)step->input_count, step->output_names,
                                              (size_t)step->output_count, outputs),
                     why);
    for (int32_t i = 0; i < step->output_count; i++)
        values[step->outputs[i]] = outputs[i];
    return err;
}

enum tt_err tt_ort_trial_run_exit(const struct tt_ort_model *model, const struct tt_ort_exit *exit,
                                  OrtSession *session, OrtValue *const *values,
                                  OrtValue **out_values, struct tt_error *why) {
    const struct tt_signature *graph = exit->graph;
    const OrtValue *inputs[TT_MAX_TENSORS];
    for (int32_t i = 0; i < graph->input_count; i++)
        inputs[i] = values[exit->inputs[i]];
    return tt_ort_check(model->library,
                        model->library->api->Run(session, NULL, exit->input_names, inputs,
                                                 (size_t)graph->input_count, exit->output_names,
                                                 (size_t)graph->output_count, out_values),
                        why);
}

enum tt_err tt_ort_trial_run(const struct tt_ort_model *model, OrtSession *const *sessions,
                             const struct tt_signature *signature, int32_t rows, OrtValue **values,
                             struct tt_error *why) {
    struct tt_synthetic_input zeros;
    enum tt_err err =
        tt_synthetic_input_init(&zeros, signature, 0, rows, 1, TT_SYNTHETIC_INPUT_ZEROS, why);
    if (err)
        return err;
    for (int32_t i = 0; !err && i < signature->input_count; i++)
        err = tt_ort_value_new(model->library, signature->inputs[i].dtype, &zeros.views[i],
                               &values[i], why);
    for (int32_t s = 0; !err && s < model->step_count; s++)
        err = run_step(model, sessions[s], s, values, why);
    tt_synthetic_input_fini(&zeros);
    return err;
}
