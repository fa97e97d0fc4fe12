#include "engine/synthetic_input.h"

#include "base/prng.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { HALF_ONE = 0x3c00, BFLOAT_ONE = 0x3f80 };

static void put_number(struct tt_text *to, enum tt_dtype dtype, struct tt_prng *random,
                       enum tt_synthetic_input_kind kind, bool first) {
    uint64_t draw = tt_prng_next(random);
    if (kind == TT_SYNTHETIC_INPUT_ZEROS) {
        uint64_t zero = 0;
        tt_text_append(to, &zero, dtype == TT_DTYPE_BYTES ? 4 : tt_dtype_bytes(dtype));
        return;
    }
    bool ones = kind == TT_SYNTHETIC_INPUT_ONES;
    /* The first element is never 0: a mask that masks everything is not a valid input. */
    uint64_t integer = ones || first || draw >> 63;
    double real = ones ? 1.0 : (double)(int64_t)draw / 9223372036854775808.0;
    float single = (float)real;
    /* Powers of two as halves: 1, 0.5, 0.25, 0.125, of either sign. */
    uint16_t half =
        (uint16_t)(HALF_ONE - (ones ? 0 : (draw >> 60 & 3) << 10) + (ones ? 0 : draw >> 63 << 15));
    uint16_t brain =
        (uint16_t)(BFLOAT_ONE - (ones ? 0 : (draw >> 60 & 3) << 7) + (ones ? 0 : draw >> 63 << 15));
    const unsigned char string[5] = {1, 0, 0, 0, (unsigned char)('0' + integer)};
    if (dtype == TT_DTYPE_FP32)
        tt_text_append(to, &single, sizeof(single));
    else if (dtype == TT_DTYPE_FP64)
        tt_text_append(to, &real, sizeof(real));
    else if (dtype == TT_DTYPE_FP16)
        tt_text_append(to, &half, sizeof(half));
    else if (dtype == TT_DTYPE_BF16)
        tt_text_append(to, &brain, sizeof(brain));
    else if (dtype == TT_DTYPE_BYTES)
        tt_text_append(to, string, sizeof(string));
    else /* little endian: the low bytes of an integer */
        tt_text_append(to, &integer, tt_dtype_bytes(dtype));
}

static enum tt_err make_input(struct tt_tensor_view *view, const struct tt_tensor_spec *spec,
                              int32_t input, int32_t first, int32_t rows,
                              enum tt_synthetic_input_kind kind, struct tt_error *why) {
    enum { MAX_ELEMENTS = 1 << 28 };
    int64_t count = tt_shape_count(&view->shape, 0);
    if (count < 0 || count > MAX_ELEMENTS)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' is too large for a trial run", spec->name);
    struct tt_text text;
    tt_text_init(&text);
    tt_text_reserve(&text, 8);
    int64_t per_row = count / rows;
    for (int32_t row = 0; row < rows; row++) {
        struct tt_prng random;
        tt_prng_init(&random, (uint64_t)(first + row) + 1, (uint64_t)input);
        for (int64_t i = 0; i < per_row; i++)
            put_number(&text, spec->dtype, &random, kind, i == 0);
    }
    if (text.failed) {
        tt_text_fini(&text);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for input '%s'", spec->name);
    }
    view->bytes = text.bytes;
    view->size_bytes = text.length;
    return TT_OK;
}

enum tt_err tt_synthetic_input_init(struct tt_synthetic_input *self,
                                    const struct tt_signature *signature, int32_t first,
                                    int32_t rows, int32_t length, enum tt_synthetic_input_kind kind,
                                    struct tt_error *why) {
    *self = (struct tt_synthetic_input){.rows = rows};
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < signature->input_count; i++) {
        struct tt_tensor_view *view = &self->views[i];
        view->shape = signature->inputs[i].shape;
        for (int32_t d = 0; d < view->shape.rank; d++)
            if (view->shape.dims[d] < 0)
                view->shape.dims[d] = length;
        if (signature->batched)
            view->shape.dims[0] = rows;
        err = make_input(view, &signature->inputs[i], i, first, rows, kind, why);
    }
    if (err)
        tt_synthetic_input_fini(self);
    return err;
}

void tt_synthetic_input_fini(struct tt_synthetic_input *self) {
    for (int32_t i = 0; i < TT_MAX_TENSORS; i++)
        free((void *)self->views[i].bytes);
    *self = (struct tt_synthetic_input){0};
}
