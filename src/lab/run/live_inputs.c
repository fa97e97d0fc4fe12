#include "lab/run/live_inputs.h"

#include "base/prng.h"
#include "serve/inference.h"

#include <string.h>

enum { BANK_ROWS = 16 };

static int32_t bank_rows(const struct tt_signature *signature) {
    return signature->batched ? BANK_ROWS : 1;
}

enum tt_err tt_live_inputs_init(struct tt_live_inputs *self, const struct tt_signature *signature,
                                int32_t length, enum tt_synthetic_input_kind kind,
                                struct tt_error *why) {
    struct tt_live_inputs made = {
        .signature = signature, .kind = kind, .length = length > 0 ? length : 1};
    enum tt_err err = tt_synthetic_input_init(&made.bank, signature, 0, bank_rows(signature),
                                              made.length, kind, why);
    if (!err)
        *self = made;
    return err;
}

/* Writes words of the vocabulary into input `i`. */
static void draw_words(struct tt_live_inputs *self, int32_t i, int64_t below) {
    const struct tt_tensor_view *view = &self->bank.views[i];
    bool is_wide = self->signature->inputs[i].dtype == TT_DTYPE_INT64;
    if (!is_wide && self->signature->inputs[i].dtype != TT_DTYPE_INT32)
        return;
    size_t width = is_wide ? sizeof(int64_t) : sizeof(int32_t);
    struct tt_prng prng;
    tt_prng_init(&prng, 1, (uint64_t)i);
    for (size_t at = 0; at + width <= view->size_bytes; at += width) {
        int64_t word = (int64_t)tt_prng_below(&prng, (uint64_t)below);
        int32_t narrow = (int32_t)word;
        memcpy((char *)view->bytes + at, is_wide ? (void *)&word : (void *)&narrow, width);
    }
}

void tt_live_inputs_speak(struct tt_live_inputs *self, const struct tt_cells *cells) {
    self->cells = cells;
    for (int32_t t = 0; t < cells->type_count; t++)
        for (int32_t r = 0; r < cells->types[t].read_count; r++)
            if (cells->types[t].reads[r].below > 0)
                draw_words(self, cells->types[t].reads[r].from, cells->types[t].reads[r].below);
}

void tt_live_inputs_fini(struct tt_live_inputs *self) {
    tt_synthetic_input_fini(&self->bank);
    *self = (struct tt_live_inputs){0};
}

/* The number of elements of one row of the input. */
static int64_t row_elements(const struct tt_signature *signature, const struct tt_shape *shape) {
    return tt_shape_count(shape, signature->batched ? 1 : 0);
}

static size_t element_bytes(const struct tt_live_inputs *self, int32_t input) {
    const struct tt_tensor_view *view = &self->bank.views[input];
    int64_t count = tt_shape_count(&view->shape, 0);
    return count > 0 ? view->size_bytes / (size_t)count : 0;
}

/* The elements of a request of so many rounds. Too many rounds have more than max_length. */
static int32_t elements_of(const struct tt_cells *cells, int32_t rounds) {
    int32_t most = tt_cells_rounds(cells, cells->max_length);
    return rounds < most ? rounds * cells->types[0].elements : cells->max_length + (rounds - most);
}

enum tt_err tt_live_inputs_shape(struct tt_live_inputs *self, int32_t rows, int32_t length,
                                 struct tt_inference_shape *shapes, size_t *sizes_bytes,
                                 struct tt_error *why) {
    length = length > 0 ? length : 1;
    if (self->cells)
        length = elements_of(self->cells, length);
    if (length > self->length) {
        struct tt_live_inputs longer;
        enum tt_err err =
            tt_live_inputs_init(&longer, self->signature, 2 * length, self->kind, why);
        if (err)
            return err;
        if (self->cells)
            tt_live_inputs_speak(&longer, self->cells);
        tt_live_inputs_fini(self);
        *self = longer;
    }
    for (int32_t i = 0; i < self->signature->input_count; i++) {
        struct tt_shape shape = self->signature->inputs[i].shape;
        if (self->signature->batched)
            shape.dims[0] = rows;
        for (int32_t d = 0; d < shape.rank; d++)
            if (shape.dims[d] < 0)
                shape.dims[d] = length;
        shapes[i] = (struct tt_inference_shape){.input = i, .shape = shape};
        sizes_bytes[i] = (size_t)tt_shape_count(&shape, 0) * element_bytes(self, i);
    }
    return TT_OK;
}

void tt_live_inputs_fill(const struct tt_live_inputs *self, struct tt_inference *inference,
                         int32_t rows, uint64_t number) {
    int32_t kept = bank_rows(self->signature);
    for (int32_t i = 0; i < self->signature->input_count; i++) {
        size_t size_bytes;
        char *to = tt_inference_input(inference, i, &size_bytes);
        const struct tt_tensor_view *view = &self->bank.views[i];
        size_t from_bytes =
            (size_t)row_elements(self->signature, &view->shape) * element_bytes(self, i);
        size_t row_bytes = size_bytes / (size_t)rows;
        for (int32_t r = 0; r < rows; r++) {
            size_t row = (size_t)((number + (uint64_t)r) % (uint64_t)kept);
            memcpy(to + (size_t)r * row_bytes, (const char *)view->bytes + row * from_bytes,
                   row_bytes);
        }
    }
}

void tt_live_inputs_fill_with(struct tt_inference *inference, int32_t value) {
    size_t size_bytes;
    char *to = tt_inference_input(inference, 0, &size_bytes);
    for (size_t at = 0; at + sizeof(value) <= size_bytes; at += sizeof(value))
        memcpy(to + at, &value, sizeof(value));
}
