#include "serve/inference_shape.h"

#include "serve/served_model_state.h"

static enum tt_err check_shapes(const struct tt_served_model *model,
                                const struct tt_inference_shape *shapes, int32_t count,
                                int32_t *out_rows, struct tt_error *why) {
    const struct tt_signature *signature = model->signature;
    tt_assert(count == signature->input_count);
    int64_t rows = 1;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_tensor_spec *spec = &signature->inputs[shapes[i].input];
        const struct tt_shape *shape = &shapes[i].shape;
        char found[200], wanted[200];
        if (!tt_shape_fits(shape, &spec->shape, signature->batched))
            return tt_fail(TT_ERR_INVALID, why,
                           "unexpected shape for input '%s' for model '%s': expected %s, got %s",
                           spec->name, model->name,
                           tt_shape_print(&spec->shape, wanted, sizeof(wanted)),
                           tt_shape_print(shape, found, sizeof(found)));
        if (!signature->batched)
            continue;
        if (shape->dims[0] < 1 || shape->dims[0] > signature->max_batch)
            return tt_fail(TT_ERR_INVALID, why,
                           "inference request batch-size must be 1 to %d for '%s'; input '%s' has "
                           "shape %s",
                           signature->max_batch, model->name, spec->name,
                           tt_shape_print(shape, found, sizeof(found)));
        if (i > 0 && shape->dims[0] != rows)
            return tt_fail(TT_ERR_INVALID, why,
                           "inputs of one request must have the same batch-size for model '%s': "
                           "input '%s' has %lld rows, input '%s' has %lld",
                           model->name, signature->inputs[shapes[0].input].name, (long long)rows,
                           spec->name, (long long)shape->dims[0]);
        rows = shape->dims[0];
    }
    *out_rows = (int32_t)rows;
    return TT_OK;
}

/* The length to pad to, of the longest input; -1: beyond any tensor. */
static int32_t longest(const struct tt_signature *signature,
                       const struct tt_inference_shape *shapes) {
    int64_t length = 0;
    for (int32_t k = 0; k < signature->input_count; k++) {
        const struct tt_shape *spec = &signature->inputs[shapes[k].input].shape;
        if (spec->rank > 1 && spec->dims[1] < 0 && shapes[k].shape.dims[1] > length)
            length = shapes[k].shape.dims[1];
    }
    return length <= INT32_MAX ? (int32_t)length : -1;
}

/* What _check() returns as the length where inputs are not padded. */
static int32_t shape_key(const struct tt_signature *signature,
                         const struct tt_inference_shape *shapes) {
    const struct tt_shape *by_input[TT_MAX_TENSORS];
    for (int32_t k = 0; k < signature->input_count; k++)
        by_input[shapes[k].input] = &shapes[k].shape;
    int64_t only = -1;
    bool several = false;
    uint64_t mixed = 0;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_shape *spec = &signature->inputs[i].shape;
        for (int32_t d = signature->batched ? 1 : 0; d < spec->rank; d++) {
            if (spec->dims[d] >= 0)
                continue;
            int64_t value = by_input[i]->dims[d];
            several |= only >= 0 && value != only;
            only = value;
            mixed = (mixed ^ (uint64_t)value) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
            mixed ^= mixed >> 32;
        }
    }
    if (only < 0)
        return 0;
    if (!several && only < (1 << 30))
        return (int32_t)only;
    return (int32_t)((mixed & 0x3fffffffu) | 0x40000000u);
}

static enum tt_err raise_to_class(const struct tt_served_model *model, int32_t *length,
                                  struct tt_error *why) {
    if ((!model->pad && !model->cells) || model->class_count == 0)
        return TT_OK;
    for (int32_t i = 0; i < model->class_count; i++) {
        if (*length <= model->classes[i]) {
            *length = model->classes[i];
            return TT_OK;
        }
    }
    return tt_fail(TT_ERR_INVALID, why,
                   "input of length %d is longer than model '%s' takes: at most %d", *length,
                   model->name, model->classes[model->class_count - 1]);
}

enum tt_err tt_inference_shape_class(const struct tt_served_model *model, int32_t *length,
                                     struct tt_error *why) {
    const struct tt_cells *cells = model->cells ? model->cells->cells : model->described;
    enum tt_err err = raise_to_class(model, length, why);
    if (!err && cells)
        *length = tt_cells_rounds(cells, *length);
    return err;
}

enum tt_err tt_inference_shape_check(const struct tt_served_model *model,
                                     const struct tt_inference_shape *shapes, int32_t count,
                                     int32_t *out_rows, int32_t *out_length, struct tt_error *why) {
    enum tt_err err = check_shapes(model, shapes, count, out_rows, why);
    if (err)
        return err;
    *out_length =
        model->pad ? longest(model->signature, shapes) : shape_key(model->signature, shapes);
    if (*out_length < 0)
        return tt_fail(TT_ERR_INVALID, why, "an input of model '%s' is too long", model->name);
    return tt_inference_shape_class(model, out_length, why);
}
