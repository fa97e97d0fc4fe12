#include "engine/onnxruntime/cell_step.h"
#include "engine/onnxruntime/cell_mixed.h"
#include "engine/onnxruntime/ort_check.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/line.h"
#include "engine/cache_rows.h"
#include "engine/cell_elements.h"

#include <stdlib.h>
#include <string.h>

static bool ensure_rows(struct tt_cell_scratch *self, int32_t count) {
    return TT_ARRAY_RESERVE(self->rows, &self->row_capacity, count) &&
           TT_ARRAY_RESERVE(self->movers, &self->mover_capacity, count);
}

/* ---- binding ---- */

static const struct tt_cell_plan *plan_of(const struct tt_cell_batch *batch) {
    return &batch->model->cells->plans[batch->type];
}

/* C6: the slots of a batch, if they are adjacent. */
struct places {
    int32_t read; /* the first slot that the cells read as their first source, after moves in; -1:
                     not adjacent */
    int32_t written;     /* the first slot that they write, before moves out; -1: not adjacent */
    int32_t mover_count; /* length of scratch->movers: cells that move in or out */
};

static struct places places_of(const struct tt_cell_batch *batch) {
    struct places places = {0};
    const struct tt_engine_cell *cell = batch->cells;
    int32_t first_read = 0, first_written = 0, count = batch->count;
    bool reads_range = true, writes_range = true;
    tt_line_fetch_all(cell, (size_t)count * sizeof(*cell));
    for (int32_t i = 0; i < count; i++, cell++) {
        tt_line_fetch(cell->inputs); /* find_elements reads them */
        int32_t read = cell->sources[0], written = cell->slot;
        if (cell->moves_in || cell->moves_out) {
            read = cell->moves_in ? cell->staging_slot : read;
            written = cell->moves_out ? cell->exit : written;
            batch->scratch->movers[places.mover_count++] = i;
        }
        if (i == 0) {
            first_read = read;
            first_written = written;
        }
        reads_range &= read == first_read + i;
        writes_range &= written == first_written + i;
    }
    places.read = reads_range && first_read >= 0 ? first_read : -1;
    places.written = writes_range ? first_written : -1;
    return places;
}

/* Returns the adjacent rows in place, after copying the few that move in. */
static const void *move_few(const struct tt_cell_batch *batch, const struct tt_cell_input *input,
                            const struct places *places) {
    const struct tt_cell_tensor *tensor = &batch->model->cells->tensors[input->state];
    size_t moved = 0;
    for (int32_t m = 0; m < places->mover_count; m++) {
        const struct tt_engine_cell *cell = &batch->cells[batch->scratch->movers[m]];
        if (!cell->moves_in)
            continue;
        int32_t source = cell->sources[0];
        memcpy(tt_cell_row(tensor, cell->staging_slot),
               source < 0 ? input->initial : tt_cell_row(tensor, source), input->row_bytes);
        moved += input->row_bytes;
    }
    batch->task->gathered_bytes += (int64_t)moved;
    batch->task->spared_bytes += (int64_t)(input->row_bytes * (size_t)batch->count - moved);
    return tt_cell_row(tensor, places->read);
}

/* ---- caches ---- */

/* The rows of the batch's caches, which are adjacent. */
static char *cache_rows(const struct tt_cell_batch *batch, const struct tt_cell_tensor *tensor) {
    return tt_cell_row(tensor, batch->cells[0].cache);
}

/* Copies the caches that move to their new rows, and gives new ones their initial values. Returns
 * the batch's rows. */
static const void *settle_caches(const struct tt_cell_batch *batch,
                                 const struct tt_cell_input *input) {
    const struct tt_cell_tensor *tensor = &batch->model->cells->tensors[input->state];
    size_t moved = 0;
    for (int32_t i = 0; i < batch->count; i++) {
        const struct tt_engine_cell *cell = &batch->cells[i];
        tt_assert(cell->cache == batch->cells[0].cache + i);
        if (cell->cache == cell->cache_from)
            continue;
        char *row = tt_cell_row(tensor, cell->cache);
        if (cell->cache_from >= 0)
            tt_cache_row_copy(row, tt_cell_row(tensor, cell->cache_from), input->row_bytes);
        else if (input->is_zero)
            tt_cache_row_clear(row, input->row_bytes);
        else
            memcpy(row, input->initial, input->row_bytes);
        moved += input->row_bytes;
    }
    batch->task->gathered_bytes += (int64_t)moved;
    batch->task->spared_bytes += (int64_t)(input->row_bytes * (size_t)batch->count - moved);
    return cache_rows(batch, tensor);
}

/* The number of cells from `at` on that are one run: their caches, if they have any, are adjacent.
 */
static int32_t run_length(const struct tt_cell_batch *batch, int32_t at) {
    const struct tt_cell_plan *plan = &batch->model->cells->plans[batch->type];
    const struct tt_engine_cell *cells = batch->cells + at;
    int32_t most = batch->count - at < plan->max_batch ? batch->count - at : plan->max_batch;
    int32_t length = plan->has_cache ? 1 : most;
    while (length < most && cells[length].cache == cells[0].cache + length)
        length++;
    return length;
}

/* ---- states and elements ---- */

/* Finds the rows of a state input: in slots, or the initial row. */
static void find_states(const struct tt_cell_batch *batch, const struct tt_cell_input *input) {
    const struct tt_cell_set *cells = batch->model->cells;
    const struct tt_cell_tensor *tensor = &cells->tensors[input->state];
    const char **rows = batch->scratch->rows;
    for (int32_t i = 0; i < batch->count; i++) {
        int32_t slot = batch->cells[i].sources[input->source];
        bool absent = slot < 0 || (input->lacking && (input->lacking >> cells->type_of[slot] & 1));
        rows[i] = absent ? input->initial : tt_cell_row(tensor, slot);
    }
}

/* Finds the rows of elements: in the request, or, if filled up, where as_one() would copy them. */
static enum tt_err find_elements(const struct tt_cell_batch *batch,
                                 const struct tt_cell_input *input, struct tt_gather_buffer *buffer,
                                 struct tt_error *why) {
    const char **rows = batch->scratch->rows;
    const struct tt_engine_cell *cell = batch->cells;
    size_t row_bytes = input->row_bytes, found;
    for (int32_t i = 0, count = batch->count; i < count; i++, cell++) {
        rows[i] = tt_cell_elements(cell, input, &found);
        if (!rows[i])
            return tt_fail(TT_ERR_INVALID, why,
                           "the request has no element %d for input '%s' of a cell", cell->element,
                           input->name);
        tt_line_fetch(rows[i]);
        if (found == row_bytes)
            continue;
        char *filled = tt_cell_scratch_room(buffer, row_bytes * (size_t)count);
        if (!filled)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of cells");
        filled += row_bytes * (size_t)i;
        tt_cell_elements_copy(input, rows[i], found, filled);
        rows[i] = filled;
    }
    return TT_OK;
}

/* The common size is that of a token. */
static void copy_row(char *to, const char *from, size_t bytes) {
    if (bytes == sizeof(int64_t))
        memcpy(to, from, sizeof(int64_t));
    else
        memcpy(to, from, bytes);
}

/* Elements of at most this size are copied even if they are adjacent: in place their address would
 * be that of another request each time, and making a value for it costs more (ort_values.h). */
enum { MAX_COPIED_ELEMENTS = 1024 };

/* C6: the rows as one block: in place if they are adjacent or all the initial row, else copied. */
static const void *as_one(const struct tt_cell_batch *batch, const struct tt_cell_input *input,
                          struct tt_gather_buffer *buffer) {
    const char *const *rows = batch->scratch->rows;
    size_t row_bytes = input->row_bytes, bytes = row_bytes * (size_t)batch->count;
    bool fresh = input->initial && rows[0] == input->initial;
    bool adjacent = !fresh;
    for (int32_t i = 1; i < batch->count && (fresh || adjacent); i++) {
        fresh &= rows[i] == input->initial;
        adjacent &= rows[i] == rows[0] + row_bytes * (size_t)i;
    }
    bool stays = input->state >= 0 || bytes > MAX_COPIED_ELEMENTS;
    if (fresh || (adjacent && stays)) {
        batch->task->spared_bytes += input->initial ? (int64_t)bytes : 0;
        return rows[0];
    }
    char *to = tt_cell_scratch_room(buffer, bytes);
    if (!to)
        return NULL;
    for (int32_t i = 0; i < batch->count; i++)
        if (rows[i] != to + row_bytes * (size_t)i) /* else filled up there */
            copy_row(to + row_bytes * (size_t)i, rows[i], row_bytes);
    batch->task->gathered_bytes += adjacent ? 0 : (int64_t)bytes;
    return to;
}

static enum tt_err bind(const struct tt_cell_batch *batch, enum tt_dtype dtype,
                        const struct tt_shape *shape, const void *bytes, size_t size_bytes,
                        OrtValue **out_value, struct tt_error *why) {
    struct tt_tensor_view view = {.bytes = bytes, .size_bytes = size_bytes, .shape = *shape};
    view.shape.dims[0] = batch->count;
    return tt_ort_values_find(&batch->scratch->values, batch->model->library, dtype, &view,
                              out_value, why);
}

static enum tt_err find_rows(const struct tt_cell_batch *batch, const struct tt_cell_input *input,
                             struct tt_gather_buffer *buffer, struct tt_error *why) {
    if (input->state < 0)
        return find_elements(batch, input, buffer, why);
    find_states(batch, input);
    return TT_OK;
}

static enum tt_err bind_inputs(const struct tt_cell_batch *batch, const struct places *places,
                               struct tt_error *why) {
    const struct tt_cell_plan *plan = plan_of(batch);
    for (int32_t i = 0; i < plan->input_count; i++) {
        const struct tt_cell_input *input = &plan->inputs[i];
        bool in_place = input->state >= 0 && batch->model->cells->tensors[input->state].in_place;
        bool is_range =
            places->read >= 0 && input->state >= 0 && input->source == 0 && !input->lacking;
        enum tt_err err =
            is_range || in_place ? TT_OK : find_rows(batch, input, &batch->scratch->inputs[i], why);
        if (err)
            return err;
        const void *bytes = in_place   ? settle_caches(batch, input)
                            : is_range ? move_few(batch, input, places)
                                       : as_one(batch, input, &batch->scratch->inputs[i]);
        if (!bytes)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of cells");
        OrtValue *value = NULL;
        err = bind(batch, input->dtype, &input->shape, bytes,
                   input->row_bytes * (size_t)batch->count, &value, why);
        batch->scratch->bound_inputs[i] = value;
        if (err)
            return err;
    }
    return TT_OK;
}

static enum tt_err bind_outputs(const struct tt_cell_batch *batch, const struct places *places,
                                struct tt_error *why) {
    const struct tt_cell_plan *plan = plan_of(batch);
    for (int32_t o = 0; o < plan->output_count; o++) {
        const struct tt_cell_tensor *tensor =
            &batch->model->cells->tensors[plan->outputs[o].tensor];
        size_t bytes = tensor->row_bytes * (size_t)batch->count;
        void *to = tensor->in_place ? cache_rows(batch, tensor)
                   : places->written >= 0
                       ? tt_cell_row(tensor, places->written)
                       : tt_cell_scratch_room(&batch->scratch->outputs[o], bytes);
        if (!to)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of cells");
        enum tt_err err = bind(batch, tensor->dtype, &tensor->shape, to, bytes,
                               &batch->scratch->bound_outputs[o], why);
        if (err)
            return err;
    }
    return TT_OK;
}

/* ---- putting down ---- */

/* Copies an output to the cells' slots. A run that wrote in place copies only for cells that move
 * out. */
static void put_down_output(const struct tt_cell_batch *batch, const struct places *places,
                            const struct tt_cell_output *output, const char *elsewhere) {
    const struct tt_cell_tensor *tensor = &batch->model->cells->tensors[output->tensor];
    bool in_place = places->written >= 0;
    int32_t count = in_place ? places->mover_count : batch->count;
    for (int32_t k = 0; k < count; k++) {
        int32_t i = in_place ? batch->scratch->movers[k] : k;
        const struct tt_engine_cell *cell = &batch->cells[i];
        if (in_place && (!cell->moves_out || (!cell->is_read && !output->is_told)))
            continue;
        memcpy(tt_cell_row(tensor, cell->slot),
               in_place ? tt_cell_row(tensor, cell->exit)
                        : elsewhere + tensor->row_bytes * (size_t)i,
               tensor->row_bytes);
        batch->task->gathered_bytes += (int64_t)tensor->row_bytes;
    }
}

static void put_down(const struct tt_cell_batch *batch, const struct places *places) {
    const struct tt_cell_set *cells = batch->model->cells;
    const struct tt_cell_plan *plan = plan_of(batch);
    for (int32_t o = 0; o < plan->output_count; o++) {
        const struct tt_cell_output *output = &plan->outputs[o];
        const struct tt_cell_tensor *tensor = &cells->tensors[output->tensor];
        if (tensor->in_place)
            continue;
        put_down_output(batch, places, output, batch->scratch->outputs[o].bytes);
        for (int32_t c = 0; c < output->copy_count; c++)
            for (int32_t i = 0; i < batch->count; i++)
                memcpy(tt_cell_row(&cells->tensors[output->copies[c]], batch->cells[i].slot),
                       tt_cell_row(tensor, batch->cells[i].slot), tensor->row_bytes);
    }
    if (places->written >= 0)
        memset(&cells->type_of[places->written], batch->type, (size_t)batch->count);
    for (int32_t k = 0; k < (places->written >= 0 ? places->mover_count : batch->count); k++) {
        int32_t i = places->written >= 0 ? batch->scratch->movers[k] : k;
        cells->type_of[batch->cells[i].slot] = (uint8_t)batch->type;
    }
    for (int32_t i = 0; plan->emits_integer && i < batch->count; i++)
        batch->cells[i].emitted =
            tt_cell_integer(&cells->tensors[plan->emit], batch->cells[i].slot);
}

enum tt_err tt_cell_step_run(struct tt_cell_batch *batch, struct tt_error *why) {
    struct tt_cell_scratch *scratch = batch->scratch;
    tt_assert(batch->count <= plan_of(batch)->max_batch);
    if (!ensure_rows(scratch, batch->count))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of cells");
    int64_t began_at = tt_clock_now();
    struct places places = places_of(batch);
    enum tt_err err = bind_inputs(batch, &places, why);
    if (!err)
        err = bind_outputs(batch, &places, why);
    int64_t bound_at = tt_clock_now();
    if (!err)
        err = tt_cell_batch_call(batch, why);
    batch->task->input_ns += bound_at - began_at;
    batch->task->infer_ns += tt_clock_now() - bound_at;
    batch->task->cell_count += batch->count;
    if (!err)
        put_down(batch, &places);
    tt_ort_values_settle(&scratch->values);
    return err;
}

/* ---- each ---- */

static void clear_slot(const struct tt_cell_batch *batch, int32_t slot) {
    const struct tt_cell_set *cells = batch->model->cells;
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++)
        if (tt_cell_tensor_has_slots(&cells->tensors[t]))
            memset(tt_cell_row(&cells->tensors[t], slot), 0, cells->tensors[t].row_bytes);
    cells->type_of[slot] = (uint8_t)batch->type;
}

static enum tt_err run_batch(struct tt_cell_batch *batch, struct tt_error *why) {
    return batch->task->is_mixed ? tt_cell_mixed_run(batch, why) : tt_cell_step_run(batch, why);
}

static void run_apart(struct tt_cell_batch *batch) {
    for (int32_t i = 0; i < batch->count; i++) {
        struct tt_engine_cell *cell = &batch->cells[i];
        struct tt_cell_batch alone = *batch;
        alone.cells = cell;
        alone.count = 1;
        cell->err = run_batch(&alone, cell->why);
        if (!cell->err)
            continue;
        cell->emitted = 0;
        if (batch->task->is_mixed) /* cells queued after it must read finite values */
            tt_cell_mixed_clear(cell);
        else
            clear_slot(batch, cell->slot);
    }
}

static void run_part(struct tt_cell_batch *batch) {
    enum tt_err err = TT_ERR_INTERNAL;
    struct tt_error why;
    if (batch->count > 1)
        err = run_batch(batch, &why);
    if (err)
        run_apart(batch);
}

void tt_cell_step_run_each(const struct tt_cell_batch *batch) {
    for (int32_t at = 0, length; at < batch->count; at += length) {
        length = run_length(batch, at);
        struct tt_cell_batch part = *batch;
        part.cells += at;
        part.count = length;
        batch->task->run_count++;
        run_part(&part);
    }
}
