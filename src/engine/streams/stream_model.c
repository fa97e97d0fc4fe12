#include "engine/streams/stream_model.h"

#include "engine/streams/stream_cells.h"
#include "engine/streams/stream_inputs.h"

#include <stdlib.h>

static enum tt_err check(const struct tt_stream_model *self, struct tt_error *why) {
    const struct tt_signature *signature = &self->signature;
    const struct tt_stream_program *program = &self->program;
    int32_t rows = signature->max_batch;
    if (!signature->batched || rows < 1 || program->step_count < 1)
        return tt_fail(
            TT_ERR_INVALID, why,
            "a model of %d steps for batches of %d rows; streams run batched models of at "
            "least 1 step",
            program->step_count, signature->batched ? rows : 0);
    bool has_state = program->dataflow || program->state_bytes > 0;
    if (program->step_count > 1 && (program->slot_count < rows || !has_state))
        return tt_fail(TT_ERR_INVALID, why,
                       "%d slots of %zu bytes between steps; a model of %d steps needs at least %d "
                       "(its max_batch) of at least 1 byte",
                       program->slot_count, program->state_bytes, program->step_count, rows);
    return TT_OK;
}

static enum tt_err lay_out(struct tt_stream_model *self, struct tt_error *why) {
    const struct tt_stream_program *program = &self->program;
    enum tt_err err = TT_OK;
    if (!program->dataflow)
        err = tt_dataflow_init_chain(&self->chain, &self->signature, program->step_count,
                                     program->state_bytes, why);
    if (err)
        return err;
    self->slot_total = program->step_count > 1 ? program->slot_count : 0;
    return tt_stream_layout_init(&self->layout,
                                 program->dataflow ? program->dataflow : &self->chain,
                                 &self->signature, self->slot_total, why);
}

/* For the order checker: the arena, the ring, and each slot that a kernel may touch. */
static enum tt_err take_ranges(const struct tt_stream_model *self, struct tt_stream_arena *arena,
                               struct tt_error *why) {
    size_t slots = (size_t)self->signature.max_batch * (size_t)self->layout.store_count;
    size_t count = 1 + (size_t)self->signature.input_count + slots;
    arena->ranges = self->device->order ? calloc(count, sizeof(*arena->ranges)) : NULL;
    return arena->ranges || !self->device->order
               ? TT_OK
               : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
}

static enum tt_err take_memory(struct tt_stream_model *self, struct tt_error *why) {
    size_t slots = (size_t)self->slot_total;
    self->arenas = calloc((size_t)self->arena_count, sizeof(*self->arenas));
    self->states = calloc(slots + 1, sizeof(*self->states));
    self->next_slot = calloc(slots + 1, sizeof(*self->next_slot));
    self->is_used = calloc(slots + 1, sizeof(*self->is_used));
    if (!self->arenas || !self->states || !self->next_slot || !self->is_used)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    for (int32_t i = 0; i < self->slot_total; i++)
        self->states[i] = (struct tt_engine_state){.model = self, .first_slot = i};
    self->free_count = self->slot_total;
    enum tt_err err = TT_OK;
    if (self->layout.slots_bytes > 0)
        err = tt_async_reserve(self->device, self->layout.slots_bytes, &self->slots, why);
    for (int32_t i = 0; !err && i < self->arena_count; i++) {
        struct tt_stream_arena *arena = &self->arenas[i];
        void *pinned = NULL;
        err = take_ranges(self, arena, why);
        if (!err)
            err = tt_async_reserve(self->device, self->layout.arena_bytes, &arena->device, why);
        if (!err)
            err = tt_async_pin(self->device, self->layout.pinned_bytes, &pinned, why);
        arena->pinned = pinned;
    }
    return err;
}

enum tt_err tt_stream_model_new(struct tt_async_device *device,
                                const struct tt_stream_program *program, int32_t executor_count,
                                int32_t depth, struct tt_stream_model **out_model,
                                struct tt_error *why) {
    struct tt_stream_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    tt_lock_init(&self->lock);
    self->device = device;
    self->signature = *program->signature;
    self->program = *program;
    self->program.signature = &self->signature;
    self->arena_count = program->cells ? 0 : executor_count * depth;
    enum tt_err err = program->cells ? TT_OK : check(self, why);
    if (!err && !program->cells)
        err = lay_out(self, why);
    if (!err && !program->enqueue && !tt_async_device_runs_kernels(device))
        err = tt_fail(TT_ERR_UNSUPPORTED, why,
                      "device %s runs no C functions, and the model has no other form",
                      tt_async_device_info(device)->name);
    if (!err && program->cells)
        err = tt_stream_cells_new(device, program->cells, program->slot_count, executor_count,
                                  depth, &self->cells, why);
    else if (!err)
        err = take_memory(self, why);
    if (err) {
        tt_stream_model_free(self);
        return err;
    }
    *out_model = self;
    return TT_OK;
}

void tt_stream_model_free(struct tt_stream_model *take_self) {
    if (!take_self)
        return;
    tt_stream_inputs_free(take_self->inputs);
    tt_stream_cells_free(take_self->cells);
    for (int32_t i = 0; take_self->arenas && i < take_self->arena_count; i++) {
        const struct tt_stream_arena *arena = &take_self->arenas[i];
        if (arena->pinned)
            tt_async_unpin(take_self->device, arena->pinned);
        if (arena->device)
            tt_async_release(take_self->device, arena->device, take_self->layout.arena_bytes);
        free(arena->ranges);
    }
    if (take_self->slots)
        tt_async_release(take_self->device, take_self->slots, take_self->layout.slots_bytes);
    tt_assert(!take_self->is_used || take_self->free_count == take_self->slot_total);
    tt_stream_layout_fini(&take_self->layout);
    tt_dataflow_fini(&take_self->chain);
    tt_lock_fini(&take_self->lock);
    free(take_self->arenas);
    free(take_self->states);
    free(take_self->next_slot);
    free(take_self->is_used);
    free(take_self);
}

/* ---- slots ---- */

/* The first of `rows` adjacent free slots, from the cursor on and then from the start; -1: there
 * are none. Batches follow each other, so half of one, and two that were taken one after the other,
 * are adjacent, too. */
static int32_t find_run(const struct tt_stream_model *self, int32_t rows) {
    const int32_t begins[] = {self->cursor, 0};
    for (int32_t pass = 0; pass < 2 && rows <= self->free_count; pass++)
        for (int32_t slot = begins[pass], run = 0; slot < self->slot_total; slot++) {
            run = self->is_used[slot] ? 0 : run + 1;
            if (run == rows)
                return slot - rows + 1;
        }
    return -1;
}

/* A state for `rows` rows: in the run of slots from `first` on, or, -1, in any. */
static struct tt_engine_state *claim(struct tt_stream_model *self, int32_t first, int32_t rows) {
    int32_t slot = first >= 0 ? first : 0, last = -1;
    struct tt_engine_state *state = NULL;
    for (int32_t left = rows; left > 0; slot++) {
        if (self->is_used[slot])
            continue;
        self->is_used[slot] = true;
        self->next_slot[slot] = -1;
        if (state)
            self->next_slot[last] = slot;
        else
            state = &self->states[slot];
        last = slot;
        left--;
    }
    tt_assert(state != NULL);
    state->refused = TT_OK;
    state->exit = -1;
    self->free_count -= rows;
    self->cursor = (last + 1) % self->slot_total;
    return state;
}

void tt_stream_model_take(struct tt_stream_model *self, struct tt_engine_member *const *members,
                          int32_t count) {
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++)
        total += members[i]->rows;
    tt_lock_take(&self->lock);
    int32_t run = find_run(self, total);
    for (int32_t i = 0; i < count; i++) {
        int32_t rows = members[i]->rows;
        bool fits = self->free_count >= rows;
        members[i]->state = fits ? claim(self, run >= 0 ? run : find_run(self, rows), rows) : NULL;
        run += run >= 0 ? rows : 0;
    }
    tt_lock_give(&self->lock);
}

void tt_stream_model_give(struct tt_engine_state *take_state) {
    if (!take_state)
        return;
    struct tt_stream_model *self = take_state->model;
    tt_lock_take(&self->lock);
    for (int32_t slot = take_state->first_slot; slot >= 0; slot = self->next_slot[slot]) {
        self->is_used[slot] = false;
        self->free_count++;
    }
    tt_lock_give(&self->lock);
}
