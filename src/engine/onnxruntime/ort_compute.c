#include "engine/onnxruntime/ort_compute.h"

#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_model.h"
#include "engine/onnxruntime/ort_tensor.h"

/* Values over the rows of each tensor; *out_count counts those made. */
static enum tt_err wrap(const struct tt_ort_library *library, const struct tt_tensor_spec *specs,
                        int32_t count, int32_t rows, const void *const *bytes, OrtValue **values,
                        int32_t *out_count, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (*out_count = 0; !err && *out_count < count; *out_count += !err) {
        const struct tt_tensor_spec *spec = &specs[*out_count];
        struct tt_tensor_view view = {.bytes = bytes[*out_count],
                                      .size_bytes = tt_tensor_row_bytes(spec) * (size_t)rows,
                                      .shape = spec->shape};
        view.shape.dims[0] = rows;
        err = tt_ort_value_new(library, spec->dtype, &view, &values[*out_count], why);
    }
    return err;
}

enum tt_err tt_ort_compute(struct tt_engine_model *model, const struct tt_signature *signature,
                           int32_t rows, const void *const *in, void *const *out,
                           struct tt_error *why) {
    const struct tt_ort_model *self = TT_CONTAINER_OF(model, struct tt_ort_model, model);
    const struct tt_ort_step *step = &self->steps[0];
    const OrtApi *api = self->library->api;
    tt_assert(self->step_count == 1 && !self->cells);
    OrtValue *inputs[TT_MAX_TENSORS], *outputs[TT_MAX_TENSORS];
    int32_t input_count, output_count = 0;
    enum tt_err err = wrap(self->library, signature->inputs, signature->input_count, rows, in,
                           inputs, &input_count, why);
    if (!err)
        err = wrap(self->library, signature->outputs, signature->output_count, rows,
                   (const void *const *)out, outputs, &output_count, why);
    if (!err)
        err = tt_ort_check(self->library,
                           api->Run(tt_ort_step_session(self, 0, 0), NULL, step->input_names,
                                    (const OrtValue *const *)inputs, (size_t)input_count,
                                    step->output_names, (size_t)output_count, outputs),
                           why);
    for (int32_t i = 0; i < input_count; i++)
        api->ReleaseValue(inputs[i]);
    for (int32_t i = 0; i < output_count; i++)
        api->ReleaseValue(outputs[i]);
    return err;
}
