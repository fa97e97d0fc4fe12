#include "engine/onnxruntime/cell_batch.h"

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
