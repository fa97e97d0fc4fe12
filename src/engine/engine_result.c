#include "engine/engine_result.h"

#include "engine/gather.h"

#include <stdlib.h>

struct tt_engine_result *tt_engine_result_new(int32_t references, int32_t output_count,
                                              bool batched, int32_t rows) {
    struct tt_engine_result *self =
        calloc(1, sizeof(*self) + (size_t)output_count * sizeof(self->outputs[0]));
    if (!self)
        return NULL;
    tt_refcount_init(&self->references, references);
    self->batched = batched;
    self->rows = rows;
    self->output_count = output_count;
    return self;
}

void tt_engine_result_free(struct tt_engine_result *take_result) {
    if (!take_result)
        return;
    for (int32_t i = 0; i < take_result->output_count; i++) {
        struct tt_engine_output *output = &take_result->outputs[i];
        free(output->row_starts);
        free(output->memory);
        if (output->handle)
            take_result->dispose(take_result->context, output->handle);
    }
    free(take_result);
}

enum tt_err tt_engine_result_index_rows(struct tt_engine_result *self, int32_t index) {
    struct tt_engine_output *output = &self->outputs[index];
    size_t *starts = malloc(((size_t)self->rows + 1) * sizeof(*starts));
    if (!starts)
        return TT_ERR_NO_MEMORY;
    int64_t per_row = tt_shape_count(&output->view.shape, 1);
    size_t at = 0;
    for (int32_t row = 0; row < self->rows; row++) {
        starts[row] = at;
        bool whole = tt_gather_skip_strings(&output->view, per_row, &at);
        tt_assert(whole); /* the engine wrote these lengths */
    }
    starts[self->rows] = at;
    output->row_starts = starts;
    return TT_OK;
}

void tt_engine_result_output(const struct tt_engine_result *result, int32_t index,
                             int32_t first_row, int32_t rows, struct tt_tensor_view *out_view) {
    tt_assert(index >= 0);
    tt_assert(index < result->output_count);
    const struct tt_engine_output *output = &result->outputs[index];
    *out_view = output->view;
    if (!result->batched)
        return;
    tt_assert(first_row >= 0);
    tt_assert(rows >= 0);
    tt_assert(rows <= result->rows - first_row);
    size_t start, end;
    if (output->row_starts) {
        start = output->row_starts[first_row];
        end = output->row_starts[first_row + rows];
    } else {
        size_t row_bytes = output->view.size_bytes / (size_t)result->rows;
        start = row_bytes * (size_t)first_row;
        end = start + row_bytes * (size_t)rows;
    }
    out_view->bytes = (const char *)output->view.bytes + start;
    out_view->size_bytes = end - start;
    out_view->shape.dims[0] = rows;
}

void tt_engine_result_release(struct tt_engine_result *take_result) {
    if (tt_refcount_unref(&take_result->references))
        tt_engine_result_free(take_result);
}

void tt_engine_no_state_release(struct tt_engine_state *take_state) {
    tt_assert(take_state == NULL);
}
