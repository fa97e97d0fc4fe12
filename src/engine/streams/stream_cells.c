#include "engine/streams/stream_cells.h"

#include "device/async_upload.h"

#include <stdlib.h>

enum { ALIGNMENT = 256, MAX_SLOTS = 1 << 18, LEAST_BATCHES = 16, MEMORY_SHARE = 8 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int32_t max_batch_of(const struct tt_cells *cells) {
    int32_t most = 1;
    for (int32_t t = 0; t < cells->type_count; t++)
        if (cells->types[t].max_batch > most)
            most = cells->types[t].max_batch;
    return most;
}

int64_t tt_stream_cells_operations(const struct tt_cells *cells, int32_t places) {
    /* Waits for other streams, two events, the kernel and a call; copies of elements. */
    enum { WHATEVER_THE_BATCH = 8 + TT_MAX_TENSORS };
    int64_t told = cells->signature.output_count + 1;
    return places * (WHATEVER_THE_BATCH + max_batch_of(cells) * told);
}

/* ---- where things are in an arena ---- */

/* Elements come first, since pinned memory has only them. */
static void lay_out(struct tt_stream_cells *self) {
    for (int32_t t = 0; t < self->set->cells->type_count; t++) {
        const struct tt_cell_plan *plan = &self->set->plans[t];
        size_t rows = (size_t)plan->max_batch, at = 0;
        for (int32_t pass = 0; pass < 2; pass++) {
            for (int32_t i = 0; i < plan->input_count; i++) {
                const struct tt_cell_input *input = &plan->inputs[i];
                if ((input->state >= 0) != (pass == 1))
                    continue;
                self->offsets[t].inputs[i] = at;
                at = aligned(at + input->row_bytes * rows);
            }
            if (pass == 0 && at > self->pinned_bytes)
                self->pinned_bytes = at;
        }
        for (int32_t o = 0; o < plan->output_count; o++) {
            self->offsets[t].outputs[o] = at;
            at = aligned(at + self->set->tensors[plan->outputs[o].tensor].row_bytes * rows);
        }
        if (at > self->arena_bytes)
            self->arena_bytes = at;
    }
}

/* ---- slots ---- */

static bool is_told(const struct tt_cell_set *set, int32_t tensor) {
    for (int32_t t = 0; t < set->cells->type_count; t++)
        for (int32_t o = 0; o < set->plans[t].output_count; o++)
            if (set->plans[t].outputs[o].is_told && set->plans[t].outputs[o].tensor == tensor)
                return true;
    return false;
}

static int32_t slots_of(const struct tt_stream_cells *self, int32_t asked) {
    size_t slot_bytes = 0;
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++)
        slot_bytes += self->set->tensors[t].row_bytes;
    if (asked > 0 || slot_bytes == 0)
        return asked > 0 ? asked : LEAST_BATCHES * self->max_batch;
    int64_t share = tt_async_device_info(self->device)->memory_bytes / MEMORY_SHARE;
    int64_t slots = share / (int64_t)slot_bytes;
    if (slots > MAX_SLOTS)
        return MAX_SLOTS;
    int64_t least = (int64_t)LEAST_BATCHES * self->max_batch;
    return (int32_t)(slots < least ? least : slots);
}

static enum tt_err make_slots(struct tt_stream_cells *self, int32_t asked, struct tt_error *why) {
    struct tt_cell_set *set = self->set;
    size_t slots = (size_t)slots_of(self, asked);
    set->slot_count = (int32_t)slots;
    set->type_of = calloc(slots, sizeof(*set->type_of));
    self->writers = calloc(slots, sizeof(*self->writers));
    if (!set->type_of || !self->writers)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu slots", slots);
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < TT_CELL_TENSORS; t++) {
        struct tt_cell_tensor *tensor = &set->tensors[t];
        if (tensor->row_bytes == 0)
            continue;
        err = tt_async_reserve(self->device, tensor->row_bytes * slots, &self->tensors[t], why);
        void *pinned = NULL;
        if (!err && is_told(set, t))
            err = tt_async_pin(self->device, tensor->row_bytes * slots, &pinned, why);
        tensor->bytes = pinned;
    }
    return err ? tt_fail_in(err, why, "%zu slots for cells", slots) : TT_OK;
}

/* Copies the rows of each initial value to the device. */
static enum tt_err make_initial(struct tt_stream_cells *self, struct tt_error *why) {
    struct tt_async_upload *upload = NULL;
    enum tt_err err = tt_async_upload_open(self->device, &upload, why);
    for (int32_t t = 0; !err && t < self->set->cells->type_count; t++) {
        const struct tt_cell_plan *plan = &self->set->plans[t];
        for (int32_t i = 0; !err && i < plan->input_count; i++)
            if (plan->inputs[i].initial)
                err = tt_async_upload_put(upload, plan->inputs[i].initial,
                                          plan->inputs[i].row_bytes * (size_t)plan->max_batch,
                                          &self->initial[t][i], why);
    }
    tt_async_upload_close(upload);
    return err;
}

/* ---- places ---- */

/* The most copies that a task may need: one per row of each tensor. */
static enum tt_err make_work(struct tt_stream_cells *self, struct tt_stream_cell_work *work,
                             struct tt_error *why) {
    size_t gathers = 0, scatters = 0, told = 0;
    for (int32_t t = 0; t < self->set->cells->type_count; t++) {
        const struct tt_cell_plan *plan = &self->set->plans[t];
        size_t reads = 0, writes = 0, tells = 0;
        for (int32_t i = 0; i < plan->input_count; i++)
            reads += plan->inputs[i].state >= 0;
        for (int32_t o = 0; o < plan->output_count; o++) {
            writes += 1 + (size_t)plan->outputs[o].copy_count;
            tells += plan->outputs[o].is_told;
        }
        gathers = reads > gathers ? reads : gathers;
        scatters = writes > scatters ? writes : scatters;
        told = tells > told ? tells : told;
    }
    size_t rows = (size_t)self->max_batch;
    work->gathers.copies = calloc(gathers * rows + 1, sizeof(*work->gathers.copies));
    work->scatters.copies = calloc(scatters * rows + 1, sizeof(*work->scatters.copies));
    work->told.copies = calloc(told * rows + 1, sizeof(*work->told.copies));
    work->failed = calloc(rows, sizeof(*work->failed));
    work->writers = calloc((size_t)self->executor_count, sizeof(struct tt_async_task *));
    bool has_room = work->gathers.copies && work->scatters.copies && work->told.copies &&
                    work->failed && work->writers;
    if (self->device->order) {
        size_t ranges = 2 * (gathers + scatters) * rows + (size_t)2 * TT_MAX_TENSORS;
        work->ranges = calloc(ranges, sizeof(*work->ranges));
        has_room = has_room && work->ranges;
    }
    if (!has_room)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for batches of %zu cells", rows);
    void *pinned = NULL;
    enum tt_err err = self->pinned_bytes > 0
                          ? tt_async_pin(self->device, self->pinned_bytes, &pinned, why)
                          : TT_OK;
    work->pinned = pinned;
    return err;
}

static void free_work(const struct tt_stream_cells *self, const struct tt_stream_cell_work *work) {
    if (work->pinned)
        tt_async_unpin(self->device, work->pinned);
    free(work->gathers.copies);
    free(work->scatters.copies);
    free(work->told.copies);
    free(work->ranges);
    free(work->writers);
    free(work->failed);
}

static enum tt_err make_places(struct tt_stream_cells *self, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < self->executor_count; e++)
        err = tt_async_reserve(self->device, self->arena_bytes, &self->arenas[e], why);
    for (int32_t i = 0; !err && i < self->executor_count * self->depth; i++) {
        self->works[i].arena = self->arenas[i / self->depth];
        err = make_work(self, &self->works[i], why);
    }
    return err;
}

/* ---- the whole ---- */

enum tt_err tt_stream_cells_new(struct tt_async_device *device, const struct tt_cells *cells,
                                int32_t asked, int32_t executor_count, int32_t depth,
                                struct tt_stream_cells **out_self, struct tt_error *why) {
    size_t types = (size_t)cells->type_count, executors = (size_t)executor_count;
    for (size_t t = 0; t < types; t++)
        if (cells->types[t].has_cache)
            return tt_fail(TT_ERR_UNSUPPORTED, why,
                           "cell '%s' has states in place, which are for executors on the CPU only",
                           cells->types[t].name);
    struct tt_stream_cells *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model of cells");
    *self = (struct tt_stream_cells){.device = device,
                                     .executor_count = executor_count,
                                     .depth = depth,
                                     .max_batch = max_batch_of(cells)};
    self->set = calloc(1, sizeof(*self->set) + types * sizeof(self->set->plans[0]));
    self->initial = calloc(types, sizeof(*self->initial));
    self->offsets = calloc(types, sizeof(*self->offsets));
    self->arenas = calloc(executors, sizeof(*self->arenas));
    self->works = calloc(executors * (size_t)depth, sizeof(*self->works));
    enum tt_err err = TT_OK;
    if (!self->set || !self->initial || !self->offsets || !self->arenas || !self->works)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model of cells");
    if (!err) {
        self->set->cells = cells;
        err = tt_cell_set_plan(self->set, why);
    }
    if (!err)
        err = make_slots(self, asked, why);
    if (!err) {
        lay_out(self);
        err = make_places(self, why);
    }
    if (!err)
        err = make_initial(self, why);
    if (err) {
        tt_stream_cells_free(self);
        return err;
    }
    *out_self = self;
    return TT_OK;
}

static void free_memory(const struct tt_stream_cells *self) {
    struct tt_async_device *device = self->device;
    const struct tt_cell_set *set = self->set;
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++) {
        const struct tt_cell_tensor *tensor = &set->tensors[t];
        if (tensor->bytes)
            tt_async_unpin(device, tensor->bytes);
        if (self->tensors[t])
            tt_async_release(device, self->tensors[t], tensor->row_bytes * (size_t)set->slot_count);
    }
    for (int32_t t = 0; self->initial && t < set->cells->type_count; t++)
        for (int32_t i = 0; i < set->plans[t].input_count; i++)
            if (self->initial[t][i])
                tt_async_release(device, self->initial[t][i],
                                 set->plans[t].inputs[i].row_bytes *
                                     (size_t)set->plans[t].max_batch);
}

void tt_stream_cells_free(struct tt_stream_cells *take_self) {
    if (!take_self)
        return;
    int32_t places = take_self->executor_count * take_self->depth;
    for (int32_t i = 0; take_self->works && i < places; i++)
        free_work(take_self, &take_self->works[i]);
    for (int32_t e = 0; take_self->arenas && e < take_self->executor_count; e++)
        if (take_self->arenas[e])
            tt_async_release(take_self->device, take_self->arenas[e], take_self->arena_bytes);
    if (take_self->set && take_self->set->cells) {
        free_memory(take_self);
        tt_cell_set_fini(take_self->set);
    }
    free(take_self->set);
    free(take_self->initial);
    free(take_self->offsets);
    free(take_self->writers);
    free(take_self->arenas);
    free(take_self->works);
    free(take_self);
}
