#include "engine/cell_answer.h"

#include "base/array.h"
#include "engine/cell_set.h"
#include "engine/engine_result.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_cell_answer_emit(struct tt_cell_answer *self, const struct tt_cell_set *cells,
                                int32_t slot, int32_t most) {
    int32_t emit = cells->plans[cells->type_of[slot]].emit;
    if (emit < 0)
        return TT_OK;
    const struct tt_cell_tensor *tensor = &cells->tensors[emit];
    if (self->count == self->capacity) {
        int32_t capacity = self->capacity ? self->capacity * 2 : most < 16 ? most : 16;
        char *emitted = realloc(self->emitted, tensor->row_bytes * (size_t)capacity);
        if (!emitted)
            return TT_ERR_NO_MEMORY;
        self->emitted = emitted;
        self->capacity = capacity;
    }
    memcpy(self->emitted + tensor->row_bytes * (size_t)self->count++, tt_cell_row(tensor, slot),
           tensor->row_bytes);
    return TT_OK;
}

/* Makes an output of shape [1, ...] from the slot's row. */
static bool copy_row(struct tt_engine_output *output, const struct tt_cell_tensor *tensor,
                     int32_t slot) {
    output->memory = malloc(tensor->row_bytes);
    if (!output->memory)
        return false;
    memcpy(output->memory, tt_cell_row(tensor, slot), tensor->row_bytes);
    output->view = (struct tt_tensor_view){
        .bytes = output->memory, .size_bytes = tensor->row_bytes, .shape = tensor->shape};
    output->view.shape.dims[0] = 1;
    return true;
}

/* Makes an output of shape [1, count, ...] from the emitted rows, without a copy. */
static void hand_over(struct tt_cell_answer *self, struct tt_engine_output *output,
                      const struct tt_cell_tensor *tensor, const struct tt_shape *shown) {
    output->memory = self->emitted;
    output->view = (struct tt_tensor_view){.bytes = self->emitted,
                                           .size_bytes = tensor->row_bytes * (size_t)self->count,
                                           .shape = *shown};
    output->view.shape.dims[0] = 1;
    output->view.shape.dims[1] = self->count;
    *self = (struct tt_cell_answer){0};
}

enum tt_err tt_cell_answer_finish(struct tt_cell_answer *self, const struct tt_cell_set *cells,
                                  int32_t slot, struct tt_engine_result **out_result) {
    const struct tt_cell_plan *plan = &cells->plans[cells->type_of[slot]];
    int32_t count = cells->cells->signature.output_count;
    struct tt_engine_result *result = tt_engine_result_new(1, count, true, 1);
    if (!result)
        return TT_ERR_NO_MEMORY;
    for (int32_t k = 0; k < count; k++) {
        tt_assert(plan->answers[k] >= 0);
        const struct tt_cell_tensor *tensor = &cells->tensors[plan->answers[k]];
        if (tt_cells_is_emitted(cells->cells, k)) {
            hand_over(self, &result->outputs[k], tensor, &cells->cells->signature.outputs[k].shape);
        } else if (!copy_row(&result->outputs[k], tensor, slot)) {
            tt_engine_result_free(result);
            return TT_ERR_NO_MEMORY;
        }
    }
    *out_result = result;
    return TT_OK;
}
