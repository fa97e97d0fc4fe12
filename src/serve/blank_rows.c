#include "serve/blank_rows.h"

#include "serve/input_ring.h"

#include <stdlib.h>

void tt_blank_rows_fini(struct tt_blank_rows *self) {
    for (int32_t i = 0; i < TT_MAX_TENSORS; i++)
        free(self->bytes[i]);
    *self = (struct tt_blank_rows){{0}};
}

static size_t row_bytes(const struct tt_tensor_spec *spec) {
    return (size_t)tt_shape_count(&spec->shape, 1) * tt_dtype_bytes(spec->dtype);
}

static bool make(struct tt_blank_rows *self, const struct tt_signature *signature) {
    if (!tt_input_ring_fits(signature))
        return false;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_tensor_spec *spec = &signature->inputs[i];
        if (!self->bytes[i])
            self->bytes[i] = calloc((size_t)signature->max_batch, row_bytes(spec));
        if (!self->bytes[i])
            return false;
    }
    return true;
}

bool tt_blank_rows_member(struct tt_blank_rows *self, const struct tt_signature *signature,
                          int32_t rows, struct tt_tensor_view *out_views,
                          struct tt_engine_member *out_member) {
    tt_assert(rows >= 1 && rows <= signature->max_batch);
    if (!make(self, signature))
        return false;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_tensor_spec *spec = &signature->inputs[i];
        out_views[i] = (struct tt_tensor_view){.bytes = self->bytes[i],
                                               .size_bytes = (size_t)rows * row_bytes(spec),
                                               .shape = spec->shape};
        out_views[i].shape.dims[0] = rows;
    }
    *out_member = (struct tt_engine_member){.rows = rows, .inputs = out_views};
    return true;
}
