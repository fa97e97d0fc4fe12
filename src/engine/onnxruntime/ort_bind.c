#include "engine/onnxruntime/ort_steps.h"
#include "engine/onnxruntime/ort_tensor.h"

enum tt_err tt_ort_run_gather(struct tt_ort_run *run, int32_t tensor,
                              struct tt_tensor_view *out_view, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_carried *carried = &model->tensors[tensor];
    struct tt_ort_scratch *scratch = run->scratch;
    enum tt_err err;
    if (carried->producer < 0) {
        err = tt_gather_input(&model->signature, tensor, run->members, run->count, run->length,
                              &scratch->buffers[tensor], &run->task->gathered_bytes, out_view);
    } else {
        for (int32_t i = 0; i < run->count; i++) {
            scratch->views[i] = tt_slots_view(run->members[i]->state, tensor);
            tt_assert(scratch->views[i]->bytes != NULL);
        }
        err = tt_gather_views(scratch->views, run->count, &scratch->buffers[tensor],
                              &run->task->gathered_bytes, out_view);
    }
    if (err == TT_ERR_INVALID)
        return tt_fail(err, why, "requests whose '%s' differ in shape cannot be in one batch",
                       carried->name);
    return err ? tt_fail(err, why, "out of memory for '%s' of a batch", carried->name) : TT_OK;
}

enum tt_err tt_ort_run_bind(struct tt_ort_run *run, int32_t tensor, struct tt_error *why) {
    if (run->scratch->values[tensor])
        return TT_OK;
    const struct tt_ort_model *model = tt_ort_run_model(run);
    struct tt_tensor_view view;
    enum tt_err err = tt_ort_run_gather(run, tensor, &view, why);
    return err ? err
               : tt_ort_value_new(model->library, model->tensors[tensor].dtype, &view,
                                  &run->scratch->values[tensor], why);
}
