/* The submitting thread's part of a task of cells (engine/streams/stream_cells.h): where its rows
 * are, and which copies on the device make them adjacent. No device is asked and nothing is
 * allocated. */
#include "base/array.h"
#include "core/profile.h"
#include "engine/cell_elements.h"
#include "engine/streams/stream_cells.h"

#include <string.h>

/* A task that is being resolved. */
struct resolving {
    struct tt_stream_place *place;
    struct tt_stream_cells *cells;
    struct tt_stream_cell_work *work;
    struct tt_engine_task *task;
    struct tt_engine_cell *cell; /* the first one */
    int32_t count, type;
    const struct tt_cell_plan *plan;
    const struct tt_stream_cell_offsets *offsets;
    /* C6: the first slot that the cells read, after moves in, and write, before moves out; -1: they
     * are not adjacent. */
    int32_t read, written;
};

/* C1: the model whose slots the cell has, and its plan there. */
static struct tt_stream_cells *home_of(const struct resolving *self, int32_t cell) {
    if (!self->task->is_mixed)
        return self->cells;
    return TT_CONTAINER_OF(self->cell[cell].home, struct tt_stream_model, model)->cells;
}

static const struct tt_cell_plan *plan_of(const struct resolving *self, int32_t cell) {
    if (!self->task->is_mixed)
        return self->plan;
    return &home_of(self, cell)->set->plans[self->cell[cell].home_type];
}

/* One more copy; it joins the last one if both go on from there. Rows of something else may follow
 * these, too, but in other memory, and a GPU's driver refuses a copy from one to the next. */
static void add_copy(struct tt_stream_copies *copies, const void *of, uint64_t to, uint64_t from,
                     size_t bytes) {
    struct tt_stream_copy *last =
        copies->count > 0 && copies->of == of ? &copies->copies[copies->count - 1] : NULL;
    copies->of = of;
    if (last && to == last->to + last->bytes && from == last->from + last->bytes)
        last->bytes += bytes;
    else
        copies->copies[copies->count++] =
            (struct tt_stream_copy){.to = to, .from = from, .bytes = bytes};
}

static void find_adjacent(struct resolving *self) {
    int32_t first_read = 0, first_written = 0;
    bool reads_range = true, writes_range = true;
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_engine_cell *cell = &self->cell[i];
        int32_t read = cell->moves_in ? cell->staging_slot : cell->sources[0];
        int32_t written = cell->moves_out ? cell->exit : cell->slot;
        first_read = i == 0 ? read : first_read;
        first_written = i == 0 ? written : first_written;
        reads_range &= read == first_read + i;
        writes_range &= written == first_written + i;
    }
    bool is_one = !self->task->is_mixed;
    self->read = is_one && reads_range && first_read >= 0 ? first_read : -1;
    self->written = is_one && writes_range ? first_written : -1;
}

/* ---- what it reads ---- */

/* The row that the cell reads: a slot's, or an initial one. Those of neighbours are adjacent. */
static uint64_t row_read(const struct resolving *self, int32_t i, int32_t cell) {
    const struct tt_stream_cells *home = home_of(self, cell);
    const struct tt_cell_input *input = &plan_of(self, cell)->inputs[i];
    int32_t slot = self->cell[cell].sources[input->source];
    if (slot < 0 || (input->lacking >> home->set->type_of[slot] & 1))
        return self->cells->initial[self->type][i] + input->row_bytes * (uint64_t)cell;
    return tt_stream_cells_row(home, input->state, slot);
}

/* The few cells that move in are copied to where the range has a place for them. */
static void read_range(struct resolving *self, int32_t i) {
    const struct tt_cell_input *input = &self->plan->inputs[i];
    size_t bytes = input->row_bytes, moved = 0;
    for (int32_t k = 0; k < self->count; k++) {
        const struct tt_engine_cell *cell = &self->cell[k];
        if (!cell->moves_in)
            continue;
        add_copy(&self->work->gathers, input,
                 tt_stream_cells_row(self->cells, input->state, cell->staging_slot),
                 row_read(self, i, k), bytes);
        moved += bytes;
    }
    self->task->gathered_bytes += (int64_t)moved;
    self->task->spared_bytes += (int64_t)(bytes * (size_t)self->count - moved);
    self->work->in[i] = tt_stream_cells_row(self->cells, input->state, self->read);
}

static void read_state(struct resolving *self, int32_t i) {
    const struct tt_cell_input *input = &self->plan->inputs[i];
    size_t bytes = input->row_bytes * (size_t)self->count;
    uint64_t first = row_read(self, i, 0);
    bool adjacent = true;
    for (int32_t k = 1; adjacent && k < self->count; k++)
        adjacent = home_of(self, k) == home_of(self, 0) &&
                   row_read(self, i, k) == first + input->row_bytes * (uint64_t)k;
    if (adjacent) {
        self->task->spared_bytes += (int64_t)bytes;
        self->work->in[i] = first;
        return;
    }
    self->work->in[i] = self->work->arena + self->offsets->inputs[i];
    for (int32_t k = 0; k < self->count; k++)
        add_copy(&self->work->gathers, &plan_of(self, k)->inputs[i],
                 self->work->in[i] + input->row_bytes * (uint64_t)k, row_read(self, i, k),
                 input->row_bytes);
    self->task->gathered_bytes += (int64_t)bytes;
}

/* Requests' elements, to pinned memory. A cell without one fails, and is computed with zeros. */
static void stage_elements(struct resolving *self, int32_t i) {
    const struct tt_cell_input *input = &self->plan->inputs[i];
    size_t bytes = input->row_bytes;
    char *to = self->work->pinned + self->offsets->inputs[i];
    for (int32_t k = 0; k < self->count; k++, to += bytes) {
        struct tt_engine_cell *cell = &self->cell[k];
        size_t found;
        const char *from = tt_cell_elements(cell, input, &found);
        if (from)
            tt_cell_elements_copy(input, from, found, to);
        else
            memset(to, 0, bytes);
        if (!from && !cell->err)
            cell->err = tt_fail(TT_ERR_INVALID, cell->why,
                                "the request has no element %d for input '%s' of a cell",
                                cell->element, input->name);
    }
    self->work->in[i] = self->work->arena + self->offsets->inputs[i];
    self->task->gathered_bytes += (int64_t)(bytes * (size_t)self->count);
}

static void find_inputs(struct resolving *self) {
    for (int32_t i = 0; i < self->plan->input_count; i++) {
        const struct tt_cell_input *input = &self->plan->inputs[i];
        if (input->state < 0)
            stage_elements(self, i);
        else if (self->read >= 0 && input->source == 0 && !input->lacking)
            read_range(self, i);
        else
            read_state(self, i);
    }
}

/* ---- what it writes ---- */

static void scatter(struct resolving *self, int32_t o) {
    const struct tt_cell_output *output = &self->plan->outputs[o];
    size_t bytes = self->cells->set->tensors[output->tensor].row_bytes;
    bool in_place = self->written >= 0;
    for (int32_t k = 0; k < self->count; k++) {
        const struct tt_engine_cell *cell = &self->cell[k];
        if (in_place && (!cell->moves_out || (!cell->is_read && !output->is_told)))
            continue;
        const struct tt_cell_output *own = &plan_of(self, k)->outputs[o];
        add_copy(&self->work->scatters, own,
                 tt_stream_cells_row(home_of(self, k), own->tensor, cell->slot),
                 self->work->out[o] + bytes * (uint64_t)k, bytes);
        self->task->gathered_bytes += (int64_t)bytes;
    }
}

/* Rows that answers hold: what a cell emits, and the answer of the last one. */
static void tell(struct resolving *self, int32_t o) {
    for (int32_t k = 0; k < self->count; k++) {
        const struct tt_engine_cell *cell = &self->cell[k];
        const struct tt_cell_plan *plan = plan_of(self, k);
        const struct tt_cell_output *output = &plan->outputs[o];
        const struct tt_stream_cells *home = home_of(self, k);
        const struct tt_cell_tensor *tensor = &home->set->tensors[output->tensor];
        bool tells_all = plan->emits_integer && plan->emit == output->tensor;
        if (output->is_told && (tells_all || cell->is_answer))
            add_copy(&self->work->told, output, (uintptr_t)tt_cell_row(tensor, cell->slot),
                     tt_stream_cells_row(home, output->tensor, cell->slot), tensor->row_bytes);
    }
}

/* Further states that hold an output. */
static void copy_states(struct resolving *self, int32_t o) {
    const struct tt_cell_output *output = &self->plan->outputs[o];
    size_t bytes = self->cells->set->tensors[output->tensor].row_bytes;
    for (int32_t c = 0; c < output->copy_count; c++)
        for (int32_t k = 0; k < self->count; k++) {
            const struct tt_stream_cells *home = home_of(self, k);
            const struct tt_cell_output *own = &plan_of(self, k)->outputs[o];
            add_copy(&self->work->scatters, &own->copies[c],
                     tt_stream_cells_row(home, own->copies[c], self->cell[k].slot),
                     tt_stream_cells_row(home, own->tensor, self->cell[k].slot), bytes);
        }
}

static void find_outputs(struct resolving *self) {
    for (int32_t o = 0; o < self->plan->output_count; o++) {
        const struct tt_cell_output *output = &self->plan->outputs[o];
        self->work->out[o] = self->written >= 0
                                 ? tt_stream_cells_row(self->cells, output->tensor, self->written)
                                 : self->work->arena + self->offsets->outputs[o];
        scatter(self, o);
        tell(self, o);
    }
    for (int32_t o = 0; o < self->plan->output_count; o++)
        copy_states(self, o);
}

/* ---- which tasks it comes after ---- */

/* Of each other executor the newest task whose results it reads, unless that is known to be over.
 */
static void come_after(struct resolving *self, const struct tt_stream_cell_writer *writer) {
    struct tt_stream_place *place = writer->place;
    if (!place || place->turn != writer->turn || tt_flag_is_raised(&place->has_ended))
        return;
    int32_t executor = place->async.head.executor;
    if (executor == self->place->async.head.executor)
        return;
    int32_t i = 0, count = self->place->async.after_count;
    while (i < count && self->work->writers[i]->head.executor != executor)
        i++;
    if (i == count)
        self->place->async.after_count++;
    else if (self->work->writers[i]->number >= place->async.number)
        return;
    self->work->writers[i] = &place->async;
}

static void note_slots(struct resolving *self) {
    for (int32_t k = 0; k < self->count; k++)
        for (int32_t q = 0; q < self->plan->arity; q++)
            if (self->cell[k].sources[q] >= 0)
                come_after(self, &home_of(self, k)->writers[self->cell[k].sources[q]]);
    const struct tt_stream_cell_writer writer = {self->place, self->place->turn};
    for (int32_t k = 0; k < self->count; k++) {
        const struct tt_engine_cell *cell = &self->cell[k];
        const int32_t slots[] = {cell->slot, cell->moves_out ? cell->exit : cell->slot};
        struct tt_stream_cells *home = home_of(self, k);
        int32_t type = self->task->is_mixed ? cell->home_type : self->type;
        for (size_t s = 0; s < TT_COUNT(slots); s++) {
            home->set->type_of[slots[s]] = (uint8_t)type;
            home->writers[slots[s]] = writer;
        }
    }
}

/* ---- for the order checker ---- */

static int32_t list_copies(const struct tt_stream_copies *copies, struct tt_async_range *ranges) {
    for (int32_t i = 0; i < copies->count; i++) {
        const struct tt_stream_copy *copy = &copies->copies[i];
        *ranges++ = (struct tt_async_range){copy->from, copy->bytes, false};
        *ranges++ = (struct tt_async_range){copy->to, copy->bytes, true};
    }
    return 2 * copies->count;
}

static void list_memory(struct resolving *self) {
    struct tt_async_range *ranges = self->work->ranges;
    int32_t count = 0;
    if (!ranges)
        return;
    for (int32_t i = 0; i < self->plan->input_count; i++)
        ranges[count++] = (struct tt_async_range){
            self->work->in[i], self->plan->inputs[i].row_bytes * (size_t)self->count, false};
    for (int32_t o = 0; o < self->plan->output_count; o++)
        ranges[count++] = (struct tt_async_range){
            self->work->out[o],
            self->cells->set->tensors[self->plan->outputs[o].tensor].row_bytes *
                (size_t)self->count,
            true};
    bool copies_here = tt_async_device_runs_kernels(self->cells->device);
    if (copies_here) {
        count += list_copies(&self->work->gathers, ranges + count);
        count += list_copies(&self->work->scatters, ranges + count);
    }
    self->place->async.kernel.ranges = ranges;
    self->place->async.kernel.range_count = count;
}

/* ---- the whole ---- */

/* The longest input of the task's requests, in elements; for a tree, its leaves. */
static int32_t longest_of(const struct tt_cells *cells, const struct tt_engine_task *task) {
    size_t longest = 0;
    for (int32_t i = 0; i < task->member_count; i++)
        if (task->cells[i].inputs[0].size_bytes > longest)
            longest = task->cells[i].inputs[0].size_bytes;
    int32_t elements = (int32_t)(longest / tt_dtype_bytes(cells->signature.inputs[0].dtype));
    return cells->kind == TT_UNFOLD_TREE ? (elements + 1) / 2 : elements;
}

/* How long it takes on an emulated device; as in the simulator, all rows of a batch of which some
 * are gathered count as such. */
static int64_t work_of_cells(const struct tt_stream_place *place) {
    const struct tt_stream_program *program = &place->model->program;
    const struct tt_engine_task *task = place->task;
    if (!program->latency_ns)
        return 1;
    int64_t work_ns =
        program->task_ns + program->latency_ns(program->context, task->member_count,
                                               longest_of(program->cells, task),
                                               task->head.first_step, task->head.last_step);
    if (place->cells->gathers.count > 0 || task->cells[0].sources[0] < 0)
        work_ns += program->gather_row_ns * task->member_count;
    return work_ns > 0 ? work_ns : 1;
}

static void describe(struct tt_stream_place *place, struct tt_stream_cell_work *work) {
    const struct tt_engine_task *task = place->task;
    place->cells = work;
    place->valid.count = 0;
    place->valid.rows = task->member_count;
    place->async =
        (struct tt_async_task){.user = task,
                               .max_run_ns = task->max_run_ns,
                               .why = &place->why,
                               .head = {.executor = task->head.executor,
                                        .first_step = task->head.first_step,
                                        .last_step = task->head.last_step,
                                        .submitted_at = tt_async_device_now(place->model->device)},
                               .kernel = {.name = "cells",
                                          .run = tt_stream_cells_run,
                                          .enqueue = tt_stream_cells_enqueue,
                                          .context = place,
                                          .demand_ppm = TT_DEMAND_WHOLE},
                               .after = work->writers,
                               .put = tt_stream_cells_put};
}

void tt_stream_cells_resolve(struct tt_stream_place *place, struct tt_stream_cell_work *work) {
    struct tt_stream_cells *cells = place->model->cells;
    int32_t type = place->task->head.first_step;
    tt_assert(place->task->kind == TT_ENGINE_CELLS && !place->task->after);
    describe(place, work);
    struct resolving self = {.place = place,
                             .cells = cells,
                             .work = work,
                             .task = place->task,
                             .cell = place->task->cells,
                             .count = place->task->member_count,
                             .type = type,
                             .plan = &cells->set->plans[type],
                             .offsets = &cells->offsets[type]};
    tt_assert(self.count >= 1 && self.count <= self.plan->max_batch);
    work->gathers.count = work->scatters.count = work->told.count = work->failed_count = 0;
    find_adjacent(&self);
    find_inputs(&self);
    find_outputs(&self);
    note_slots(&self);
    list_memory(&self);
    place->async.kernel.work_ns = work_of_cells(place);
}
