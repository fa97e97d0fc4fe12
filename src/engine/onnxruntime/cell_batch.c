#include "engine/onnxruntime/cell_batch.h"

#include "engine/onnxruntime/ort_check.h"

#include <stdlib.h>

enum { ALIGNMENT_BYTES = 64 };

void tt_cell_scratch_fini(struct tt_cell_scratch *self) {
    for (int32_t i = 0; i < TT_MAX_TENSORS; i++) {
        tt_gather_buffer_fini(&self->inputs[i]);
        tt_gather_buffer_fini(&self->outputs[i]);
    }
    tt_ort_values_fini(&self->values);
    free(self->rows);
    free(self->movers);
    free(self->cells);
    *self = (struct tt_cell_scratch){0};
}

void *tt_cell_scratch_room(struct tt_gather_buffer *buffer, size_t bytes) {
    if (bytes <= buffer->capacity_bytes)
        return buffer->bytes;
    size_t capacity = (bytes * 2 + ALIGNMENT_BYTES - 1) & ~(size_t)(ALIGNMENT_BYTES - 1);
    void *fresh = aligned_alloc(ALIGNMENT_BYTES, capacity);
    if (!fresh)
        return NULL;
    free(buffer->bytes);
    *buffer = (struct tt_gather_buffer){.bytes = fresh, .capacity_bytes = capacity};
    return fresh;
}

enum tt_err tt_cell_batch_call(const struct tt_cell_batch *self, struct tt_error *why) {
    const struct tt_ort_library *library = self->model->library;
    const struct tt_ort_step *step = &self->model->steps[self->type];
    return tt_ort_check(library,
                        library->api->Run(step->session, self->run_options, step->input_names,
                                          self->scratch->bound_inputs, (size_t)step->input_count,
                                          step->output_names, (size_t)step->output_count,
                                          self->scratch->bound_outputs),
                        why);
}
