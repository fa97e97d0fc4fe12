#include "engine/streams/stream_model.h"

#include "engine/streams/stream_inputs.h"

#include <stdlib.h>

enum { ALIGNMENT = 256 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Places `count` tensors from `at` on; returns the end. 0: one has no fixed size. */
static size_t lay_out(const struct tt_tensor_spec *specs, int32_t count, int32_t rows, size_t at,
                      size_t *row_bytes, size_t *offsets) {
    for (int32_t i = 0; i < count; i++) {
        row_bytes[i] = tt_tensor_row_bytes(&specs[i]);
        if (row_bytes[i] == 0)
            return 0;
        offsets[i] = at;
        at = aligned(at + row_bytes[i] * (size_t)rows);
    }
    return at;
}

static enum tt_err measure(struct tt_stream_model *self, struct tt_error *why) {
    const struct tt_signature *signature = &self->signature;
    const struct tt_stream_program *program = &self->program;
    int32_t rows = signature->max_batch;
    if (!signature->batched || rows < 1 || program->step_count < 1)
        return tt_fail(
            TT_ERR_INVALID, why,
            "a model of %d steps for batches of %d rows; streams run batched models of at "
            "least 1 step",
            program->step_count, signature->batched ? rows : 0);
    if (program->step_count > 1 && (program->slot_count < rows || program->state_bytes == 0))
        return tt_fail(TT_ERR_INVALID, why,
                       "%d slots of %zu bytes between steps; a model of %d steps needs at least %d "
                       "(its max_batch) of at least 1 byte",
                       program->slot_count, program->state_bytes, program->step_count, rows);
    size_t inputs_end = lay_out(signature->inputs, signature->input_count, rows, 0,
                                self->input_row_bytes, self->input_at);
    size_t outputs_end = lay_out(signature->outputs, signature->output_count, rows, inputs_end,
                                 self->output_row_bytes, self->output_at);
    if (inputs_end == 0 || outputs_end == 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "an input or output has no fixed size; streams run models in which only the "
                       "number of rows varies");
    self->inputs_bytes = inputs_end;
    self->outputs_at = inputs_end;
    self->outputs_bytes = outputs_end - inputs_end;
    self->pinned_bytes = self->states_at = outputs_end;
    self->arena_bytes = outputs_end + 2 * aligned(program->state_bytes * (size_t)rows);
    return TT_OK;
}

static enum tt_err take_memory(struct tt_stream_model *self, struct tt_error *why) {
    int32_t slots = self->program.step_count > 1 ? self->program.slot_count : 0;
    self->arenas = calloc((size_t)self->arena_count, sizeof(*self->arenas));
    self->states = calloc((size_t)slots + 1, sizeof(*self->states));
    self->next_slot = calloc((size_t)slots + 1, sizeof(*self->next_slot));
    if (!self->arenas || !self->states || !self->next_slot)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    for (int32_t i = 0; i < slots; i++) {
        self->states[i] = (struct tt_engine_state){.model = self, .first_slot = i};
        self->next_slot[i] = i + 1 < slots ? i + 1 : -1;
    }
    self->free_slot = slots > 0 ? 0 : -1;
    self->free_count = self->slot_total = slots;
    enum tt_err err = TT_OK;
    if (slots > 0)
        err = tt_async_reserve(self->device, (size_t)slots * self->program.state_bytes,
                               &self->slots, why);
    for (int32_t i = 0; !err && i < self->arena_count; i++) {
        struct tt_stream_arena *arena = &self->arenas[i];
        void *pinned = NULL;
        err = tt_async_reserve(self->device, self->arena_bytes, &arena->device, why);
        if (!err)
            err = tt_async_pin(self->device, self->pinned_bytes, &pinned, why);
        arena->pinned = pinned;
    }
    return err;
}

enum tt_err tt_stream_model_new(struct tt_async_device *device,
                                const struct tt_stream_program *program, int32_t arena_count,
                                struct tt_stream_model **out_model, struct tt_error *why) {
    struct tt_stream_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    tt_lock_init(&self->lock);
    self->device = device;
    self->signature = *program->signature;
    self->program = *program;
    self->program.signature = &self->signature;
    self->arena_count = arena_count;
    enum tt_err err = measure(self, why);
    if (!err && !program->enqueue && !tt_async_device_runs_kernels(device))
        err = tt_fail(TT_ERR_UNSUPPORTED, why,
                      "device %s runs no C functions, and the model has no other form",
                      tt_async_device_info(device)->name);
    if (!err)
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
    for (int32_t i = 0; take_self->arenas && i < take_self->arena_count; i++) {
        const struct tt_stream_arena *arena = &take_self->arenas[i];
        if (arena->pinned)
            tt_async_unpin(take_self->device, arena->pinned);
        if (arena->device)
            tt_async_release(take_self->device, arena->device, take_self->arena_bytes);
    }
    if (take_self->slots)
        tt_async_release(take_self->device, take_self->slots,
                         (size_t)take_self->program.slot_count * take_self->program.state_bytes);
    tt_assert(take_self->free_count == take_self->slot_total);
    tt_lock_fini(&take_self->lock);
    free(take_self->arenas);
    free(take_self->states);
    free(take_self->next_slot);
    free(take_self);
}

/* ---- slots ---- */

struct tt_engine_state *tt_stream_model_take(struct tt_stream_model *self, int32_t rows) {
    tt_lock_take(&self->lock);
    struct tt_engine_state *state = NULL;
    if (self->free_count >= rows) {
        int32_t last = self->free_slot;
        state = &self->states[last];
        state->lacks_memory = false;
        for (int32_t i = 1; i < rows; i++)
            last = self->next_slot[last];
        self->free_slot = self->next_slot[last];
        self->next_slot[last] = -1;
        self->free_count -= rows;
    }
    tt_lock_give(&self->lock);
    return state;
}

void tt_stream_model_give(struct tt_engine_state *take_state) {
    if (!take_state)
        return;
    struct tt_stream_model *self = take_state->model;
    tt_lock_take(&self->lock);
    int32_t last = take_state->first_slot;
    self->free_count++;
    for (; self->next_slot[last] >= 0; last = self->next_slot[last])
        self->free_count++;
    self->next_slot[last] = self->free_slot;
    self->free_slot = take_state->first_slot;
    tt_lock_give(&self->lock);
}
