#include "engine/onnxruntime/cell_mixed.h"

#include "base/clock.h"
#include "engine/cell_elements.h"
#include "engine/onnxruntime/ort_check.h"

#include <string.h>

static struct tt_cell_set *home_of(const struct tt_engine_cell *cell) {
    return TT_CONTAINER_OF(cell->home, struct tt_ort_model, model)->cells;
}

static size_t out_bytes(const struct tt_cell_set *set, const struct tt_cell_plan *plan, int32_t o) {
    return set->tensors[plan->outputs[o].tensor].row_bytes;
}

/* Copies the row that the cell reads as input `i`; false: its request has no such element. */
static bool copy_read(const struct tt_engine_cell *cell, int32_t i, char *to) {
    const struct tt_cell_set *set = home_of(cell);
    const struct tt_cell_input *input = &set->plans[cell->home_type].inputs[i];
    if (input->state < 0) {
        size_t found;
        const char *from = tt_cell_elements(cell, input, &found);
        if (from)
            tt_cell_elements_copy(input, from, found, to);
        return from != NULL;
    }
    int32_t slot = cell->sources[input->source];
    bool absent = slot < 0 || (input->lacking >> set->type_of[slot] & 1);
    memcpy(to, absent ? input->initial : tt_cell_row(&set->tensors[input->state], slot),
           input->row_bytes);
    return true;
}

static enum tt_err gather(const struct tt_cell_batch *batch, const struct tt_cell_plan *plan,
                          const void **in, struct tt_error *why) {
    for (int32_t i = 0; i < plan->input_count; i++) {
        size_t bytes = plan->inputs[i].row_bytes;
        char *to = tt_cell_scratch_room(&batch->scratch->inputs[i], bytes * (size_t)batch->count);
        if (!to)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of cells");
        in[i] = to;
        for (int32_t k = 0; k < batch->count; k++, to += bytes)
            if (!copy_read(&batch->cells[k], i, to))
                return tt_fail(TT_ERR_INVALID, why,
                               "the request has no element %d for input '%s' of a cell",
                               batch->cells[k].element, plan->inputs[i].name);
        batch->task->gathered_bytes += (int64_t)(bytes * (size_t)batch->count);
    }
    return TT_OK;
}

/* Copies its outputs to its slot, and to the further states that hold them. */
static void put_down(const struct tt_cell_batch *batch, int32_t k, void *const *out) {
    struct tt_engine_cell *cell = &batch->cells[k];
    struct tt_cell_set *set = home_of(cell);
    const struct tt_cell_plan *plan = &set->plans[cell->home_type];
    for (int32_t o = 0; o < plan->output_count; o++) {
        const struct tt_cell_output *output = &plan->outputs[o];
        size_t bytes = out_bytes(set, plan, o);
        const char *from = (const char *)out[o] + bytes * (size_t)k;
        memcpy(tt_cell_row(&set->tensors[output->tensor], cell->slot), from, bytes);
        for (int32_t c = 0; c < output->copy_count; c++)
            memcpy(tt_cell_row(&set->tensors[output->copies[c]], cell->slot), from, bytes);
        batch->task->gathered_bytes += (int64_t)bytes;
    }
    set->type_of[cell->slot] = (uint8_t)cell->home_type;
    if (plan->emits_integer)
        cell->emitted = tt_cell_integer(&set->tensors[plan->emit], cell->slot);
}

static enum tt_err make_room(const struct tt_cell_batch *batch, const struct tt_cell_plan *plan,
                             void **out, struct tt_error *why) {
    for (int32_t o = 0; o < plan->output_count; o++) {
        size_t bytes = out_bytes(batch->model->cells, plan, o) * (size_t)batch->count;
        out[o] = tt_cell_scratch_room(&batch->scratch->outputs[o], bytes);
        if (!out[o])
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of cells");
    }
    return TT_OK;
}

static enum tt_err bind(const struct tt_cell_batch *batch, enum tt_dtype dtype,
                        const struct tt_shape *shape, size_t row_bytes, const void *bytes,
                        OrtValue **out_value, struct tt_error *why) {
    struct tt_tensor_view view = {
        .bytes = bytes, .size_bytes = row_bytes * (size_t)batch->count, .shape = *shape};
    view.shape.dims[0] = batch->count;
    return tt_ort_values_find(&batch->scratch->values, batch->model->library, dtype, &view,
                              out_value, why);
}

static enum tt_err run(const struct tt_cell_batch *batch, const struct tt_cell_plan *plan,
                       const void *const *in, void *const *out, struct tt_error *why) {
    struct tt_cell_scratch *scratch = batch->scratch;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < plan->input_count; i++) {
        const struct tt_cell_input *input = &plan->inputs[i];
        OrtValue *value = NULL;
        err = bind(batch, input->dtype, &input->shape, input->row_bytes, in[i], &value, why);
        scratch->bound_inputs[i] = value;
    }
    for (int32_t o = 0; !err && o < plan->output_count; o++) {
        const struct tt_cell_tensor *tensor =
            &batch->model->cells->tensors[plan->outputs[o].tensor];
        err = bind(batch, tensor->dtype, &tensor->shape, tensor->row_bytes, out[o],
                   &scratch->bound_outputs[o], why);
    }
    if (!err)
        err = tt_cell_batch_call(batch, why);
    tt_ort_values_settle(&scratch->values);
    return err;
}

enum tt_err tt_cell_mixed_run(const struct tt_cell_batch *batch, struct tt_error *why) {
    const struct tt_cell_plan *plan = &batch->model->cells->plans[batch->type];
    const void *in[TT_MAX_TENSORS];
    void *out[TT_MAX_TENSORS];
    int64_t began_at = tt_clock_now();
    enum tt_err err = gather(batch, plan, in, why);
    if (!err)
        err = make_room(batch, plan, out, why);
    int64_t gathered_at = tt_clock_now();
    if (!err)
        err = run(batch, plan, in, out, why);
    batch->task->input_ns += gathered_at - began_at;
    batch->task->infer_ns += tt_clock_now() - gathered_at;
    batch->task->cell_count += batch->count;
    for (int32_t k = 0; !err && k < batch->count; k++)
        put_down(batch, k, out);
    return err;
}

void tt_cell_mixed_clear(const struct tt_engine_cell *cell) {
    struct tt_cell_set *set = home_of(cell);
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++)
        if (tt_cell_tensor_has_slots(&set->tensors[t]))
            memset(tt_cell_row(&set->tensors[t], cell->slot), 0, set->tensors[t].row_bytes);
    set->type_of[cell->slot] = (uint8_t)cell->home_type;
}
