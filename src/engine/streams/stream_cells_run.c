/* What the streams do for a task of cells (engine/streams/stream_cells.h): copies, the cells in
 * either form, and what comes back. */
#include "base/array.h"
#include "engine/streams/stream_cells.h"

#include <string.h>

/* The cells of a task, in either form. */
struct cells_run {
    struct tt_stream_place *place;
    const struct tt_cell_plan *plan;
    void *native_stream; /* NULL: C functions, and the addresses are this process's */
    uint64_t in[TT_MAX_TENSORS], out[TT_MAX_TENSORS];
};

static struct tt_stream_cell_work *work_of(const struct tt_stream_place *place) {
    return place->cells;
}

static const struct tt_cell_set *set_of(const struct tt_stream_place *place) {
    return place->model->cells->set;
}

static const struct tt_cell_plan *plan_of(const struct tt_stream_place *place) {
    return &set_of(place)->plans[place->async.head.first_step];
}

static size_t out_bytes(const struct cells_run *self, int32_t o) {
    return set_of(self->place)->tensors[self->plan->outputs[o].tensor].row_bytes;
}

/* ---- the cells ---- */

static enum tt_err compute(const struct cells_run *self, int32_t first, int32_t count,
                           struct tt_error *why) {
    const struct tt_stream_program *program = &self->place->model->program;
    int32_t type = self->place->async.head.first_step;
    uint64_t in[TT_MAX_TENSORS], out[TT_MAX_TENSORS];
    const void *from[TT_MAX_TENSORS];
    void *to[TT_MAX_TENSORS];
    for (int32_t i = 0; i < self->plan->input_count; i++) {
        in[i] = self->in[i] + self->plan->inputs[i].row_bytes * (uint64_t)first;
        from[i] = (const void *)(uintptr_t)in[i];
    }
    for (int32_t o = 0; o < self->plan->output_count; o++) {
        out[o] = self->out[o] + out_bytes(self, o) * (uint64_t)first;
        to[o] = (void *)(uintptr_t)out[o];
    }
    if (self->native_stream)
        return program->enqueue(program->context, self->place->async.head.executor,
                                self->native_stream, type, count, in, out, why);
    return program->compute(program->context, type, count, from, to, why);
}

/* Cells queued behind it must read finite values. */
static void fail_cell(const struct cells_run *self, int32_t number, enum tt_err err,
                      const struct tt_error *why) {
    struct tt_stream_cell_work *work = work_of(self->place);
    struct tt_engine_cell *cell = &self->place->task->cells[number];
    if (!cell->err)
        cell->err = tt_fail(err, cell->why, "%s", why->text);
    work->failed[work->failed_count++] = number; /* filled with zeros behind the kernel */
    for (int32_t o = 0; !self->native_stream && o < self->plan->output_count; o++)
        memset((char *)(uintptr_t)self->out[o] + out_bytes(self, o) * (size_t)number, 0,
               out_bytes(self, o));
}

/* Runs cells [first, first + count): together; if they fail, in halves. As deep as the logarithm
 * of the batch. */
static enum tt_err run_cells(const struct cells_run *self, int32_t first, int32_t count,
                             struct tt_error *why) {
    enum tt_err err = compute(self, first, count, why);
    if (err != TT_ERR_INVALID && err != TT_ERR_NO_MEMORY)
        return err;
    if (count == 1) {
        fail_cell(self, first, err, why);
        return TT_OK;
    }
    err = run_cells(self, first, count / 2, why);
    return err ? err : run_cells(self, first + count / 2, count - count / 2, why);
}

/* ---- where kernels are C functions ---- */

static bool copy_all(struct tt_async_device *device, const struct tt_stream_copies *copies) {
    for (int32_t i = 0; i < copies->count; i++) {
        const struct tt_stream_copy *copy = &copies->copies[i];
        void *to = tt_async_pointer(device, copy->to);
        const void *from = tt_async_pointer(device, copy->from);
        if (!to || !from)
            return false;
        memcpy(to, from, copy->bytes);
    }
    return true;
}

static bool find(struct tt_async_device *device, const uint64_t *addresses, int32_t count,
                 uint64_t *out_found) {
    for (int32_t i = 0; i < count; i++) {
        out_found[i] = (uintptr_t)tt_async_pointer(device, addresses[i]);
        if (!out_found[i])
            return false;
    }
    return true;
}

static enum tt_err run_here(struct tt_stream_place *place, struct tt_async_device *device) {
    struct tt_stream_cell_work *work = work_of(place);
    struct cells_run self = {.place = place, .plan = plan_of(place)};
    struct tt_error why = {""};
    if (!copy_all(device, &work->gathers) ||
        !find(device, work->in, self.plan->input_count, self.in) ||
        !find(device, work->out, self.plan->output_count, self.out))
        return TT_ERR_INTERNAL; /* the device has failed: no range of the kernel has the address */
    enum tt_err err = run_cells(&self, 0, place->task->member_count, &why);
    work->failed_count = 0; /* they are zero */
    return err || copy_all(device, &work->scatters) ? err : TT_ERR_INTERNAL;
}

enum tt_err tt_stream_cells_run(struct tt_async_device *device, void *context) {
    return tt_stream_place_guard(context, device, run_here);
}

/* ---- where they are put on native streams ---- */

enum tt_err tt_stream_cells_enqueue(struct tt_async_device *device, void *context,
                                    void *native_stream, struct tt_error *why) {
    struct tt_stream_place *place = context;
    struct tt_stream_cell_work *work = work_of(place);
    struct cells_run self = {
        .place = place, .plan = plan_of(place), .native_stream = native_stream};
    (void)device;
    memcpy(self.in, work->in, sizeof(self.in));
    memcpy(self.out, work->out, sizeof(self.out));
    struct tt_error said = {""};
    enum tt_err err = run_cells(&self, 0, place->task->member_count, &said);
    return err ? tt_fail(err, why, "%s", said.text) : TT_OK;
}

static enum tt_err put_copies(struct tt_async_stream *stream, const struct tt_stream_copies *copies,
                              struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < copies->count; i++)
        err = tt_async_copy_within(stream, copies->copies[i].to, copies->copies[i].from,
                                   copies->copies[i].bytes, why);
    return err;
}

static enum tt_err put_zeros(const struct tt_stream_place *place, struct tt_async_stream *stream,
                             struct tt_error *why) {
    const struct tt_stream_cell_work *work = work_of(place);
    const struct tt_cell_plan *plan = plan_of(place);
    enum tt_err err = TT_OK;
    for (int32_t f = 0; f < work->failed_count; f++)
        for (int32_t o = 0; !err && o < plan->output_count; o++) {
            size_t bytes = set_of(place)->tensors[plan->outputs[o].tensor].row_bytes;
            err = tt_async_fill(stream, work->out[o] + bytes * (uint64_t)work->failed[f], 0, bytes,
                                why);
        }
    return err;
}

/* ---- both ---- */

static enum tt_err put_elements(const struct tt_stream_place *place, struct tt_async_stream *stream,
                                struct tt_error *why) {
    const struct tt_stream_cell_work *work = work_of(place);
    const struct tt_cell_plan *plan = plan_of(place);
    size_t rows = (size_t)place->task->member_count;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < plan->input_count; i++)
        if (plan->inputs[i].state < 0)
            err = tt_async_copy_in(stream, work->in[i], work->pinned + (work->in[i] - work->arena),
                                   plan->inputs[i].row_bytes * rows, why);
    return err;
}

static enum tt_err put_told(const struct tt_stream_place *place, struct tt_async_stream *stream,
                            struct tt_error *why) {
    const struct tt_stream_copies *told = &work_of(place)->told;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < told->count; i++)
        err = tt_async_copy_out(stream, (void *)(uintptr_t)told->copies[i].to, told->copies[i].from,
                                told->copies[i].bytes, why);
    if (!err && place->model->device->order && place->outputs_left)
        err = tt_async_record(stream, place->outputs_left, why);
    return err;
}

enum tt_err tt_stream_cells_put(struct tt_async_task *task, enum tt_async_put where,
                                struct tt_async_stream *stream, struct tt_error *why) {
    struct tt_stream_place *place = (struct tt_stream_place *)(void *)task;
    bool copies_here = tt_async_device_runs_kernels(place->model->device);
    enum tt_err err;
    switch (where) {
    case TT_ASYNC_PUT_FIRST:
        if (task->refused)
            return TT_OK;
        err = put_elements(place, stream, why);
        return err || copies_here ? err : put_copies(stream, &work_of(place)->gathers, why);
    case TT_ASYNC_PUT_LAST:
        if (copies_here)
            return TT_OK;
        err = put_zeros(place, stream, why);
        return err ? err : put_copies(stream, &work_of(place)->scatters, why);
    case TT_ASYNC_PUT_NOTICE: return put_told(place, stream, why);
    }
    return TT_OK;
}

/* ---- what comes back ---- */

/* From the slots of the cell's own model. */
static int64_t emitted_by(const struct tt_stream_place *place, const struct tt_engine_cell *cell) {
    const struct tt_cell_set *set = set_of(place);
    int32_t type = place->async.head.first_step;
    if (place->task->is_mixed) {
        set = TT_CONTAINER_OF(cell->home, struct tt_stream_model, model)->cells->set;
        type = cell->home_type;
    }
    return tt_cell_integer(&set->tensors[set->plans[type].emit], cell->slot);
}

/* What its cells emitted, or why they failed. */
static void settle_cells(const struct tt_stream_place *place, bool is_done) {
    const struct tt_cell_plan *plan = plan_of(place);
    struct tt_engine_task *task = place->task;
    struct tt_error why = place->why;
    enum tt_err err = is_done ? TT_OK : tt_async_device_status(place->model->device, &why);
    if (!is_done && !err)
        err = place->async.refused;
    for (int32_t k = 0; k < task->member_count; k++) {
        struct tt_engine_cell *cell = &task->cells[k];
        if (err)
            cell->err = tt_fail(err, cell->why, "%s", why.text);
        else if (plan->emits_integer && !cell->err)
            cell->emitted = emitted_by(place, cell);
    }
}

void tt_stream_cells_settle(struct tt_stream_place *place) {
    struct tt_engine_task *task = place->task;
    const struct tt_device_task *head = &place->async.head;
    bool is_done = head->outcome == TT_OUTCOME_DONE;
    tt_lock_take(&place->lock);
    task->was_cut = place->was_cut;
    tt_lock_give(&place->lock);
    task->head.outcome = head->outcome;
    task->head.started_at = head->started_at;
    task->head.ended_at = place->async.computed_at;
    task->head.last_step_done = is_done ? task->head.last_step : task->head.first_step - 1;
    task->infer_ns = task->head.ended_at - task->head.started_at;
    settle_cells(place, is_done);
    if (!is_done)
        return;
    task->cell_count += task->member_count;
    tt_engine_task_rounds_ended(task, task->head.first_step, task->head.ended_at,
                                task->head.last_step - task->head.first_step + 1);
}
