#include "engine/onnxruntime/cell_model.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { MAX_SLOTS = 1 << 18, LEAST_BATCHES = 16, LEAST_CACHED_BATCHES = 2, POOL_BYTES = 1 << 30 };

enum tt_err tt_ort_cells_make_slots(struct tt_cell_set *self, int32_t asked, struct tt_error *why) {
    size_t slot_bytes = 1, cache_bytes = 0;
    int32_t max_batch = 1;
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++)
        *(self->tensors[t].in_place ? &cache_bytes : &slot_bytes) += self->tensors[t].row_bytes;
    for (int32_t t = 0; t < self->cells->type_count; t++)
        if (self->cells->types[t].max_batch > max_batch)
            max_batch = self->cells->types[t].max_batch;
    size_t slots = asked > 0 ? (size_t)asked : POOL_BYTES / slot_bytes;
    if (asked == 0 && slots > MAX_SLOTS)
        slots = MAX_SLOTS;
    if (asked == 0 && slots < (size_t)max_batch * LEAST_BATCHES)
        slots = (size_t)max_batch * LEAST_BATCHES;
    size_t caches = cache_bytes ? POOL_BYTES / cache_bytes : 0;
    if (caches > MAX_SLOTS)
        caches = MAX_SLOTS;
    if (cache_bytes && caches < (size_t)max_batch * LEAST_CACHED_BATCHES)
        caches = (size_t)max_batch * LEAST_CACHED_BATCHES;
    self->slot_count = (int32_t)slots;
    self->cache_count = (int32_t)caches;
    self->type_of = calloc(slots, sizeof(*self->type_of));
    if (!self->type_of)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu slots", slots);
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++) {
        struct tt_cell_tensor *tensor = &self->tensors[t];
        if (tensor->row_bytes == 0)
            continue;
        /* Fresh pages are zero, a finite value, and use no memory until a slot is written. */
        size_t rows = tensor->in_place ? caches : slots;
        void *bytes = mmap(NULL, tensor->row_bytes * rows, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bytes == MAP_FAILED)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of address space for %zu slots", rows);
        tensor->bytes = bytes;
    }
    return TT_OK;
}

void tt_ort_cells_free(struct tt_cell_set *take_cells) {
    if (!take_cells)
        return;
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++) {
        struct tt_cell_tensor *tensor = &take_cells->tensors[t];
        if (tensor->bytes)
            munmap(tensor->bytes,
                   tensor->row_bytes * (size_t)(tensor->in_place ? take_cells->cache_count
                                                                 : take_cells->slot_count));
    }
    tt_cell_set_fini(take_cells);
    free(take_cells);
}
