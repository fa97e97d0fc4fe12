#include "serve/input_ring.h"

#include "engine/engine.h"
#include "serve/inference_state.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCHES = 4, /* full ones that the ring holds by default */
    MIN_SLOTS = 64,
    DEFAULT_BYTES = 1 << 30, /* of a ring of default size, unless two batches take more */
};
static const size_t max_bytes = (size_t)8 << 30;

bool tt_input_ring_fits(const struct tt_signature *signature) {
    if (!signature->batched || signature->input_count == 0)
        return false;
    for (int32_t i = 0; i < signature->input_count; i++)
        if (tt_tensor_row_bytes(&signature->inputs[i]) == 0)
            return false;
    return true;
}

static enum tt_err choose_count(const struct tt_signature *signature, int32_t asked,
                                int32_t *out_count, struct tt_error *why) {
    size_t row = 0;
    for (int32_t i = 0; i < signature->input_count; i++)
        if (__builtin_add_overflow(row, tt_tensor_row_bytes(&signature->inputs[i]), &row))
            row = SIZE_MAX;
    if (asked > 0) {
        *out_count = asked;
        if ((size_t)asked <= max_bytes / row)
            return TT_OK;
        return tt_fail(TT_ERR_INVALID, why,
                       "input_slots: %d slots of %zu bytes are more than 8 GiB; at most %zu", asked,
                       row, max_bytes / row);
    }
    int32_t count = signature->max_batch * BATCHES;
    count = count > MIN_SLOTS ? count : MIN_SLOTS;
    if ((size_t)count > DEFAULT_BYTES / row)
        count = (int32_t)(DEFAULT_BYTES / row);
    *out_count = count > 2 * signature->max_batch ? count : 2 * signature->max_batch;
    return TT_OK;
}

/* Where the rows are: memory of the ring's, or of the model's. */
static enum tt_err take_memory(struct tt_input_ring *self, struct tt_error *why) {
    if (self->model)
        return self->model->engine->ops->inputs->open(self->model, self->slots.capacity,
                                                      self->bytes, why);
    /* calloc: holes must hold finite values. */
    for (int32_t i = 0; i < self->input_count; i++) {
        self->bytes[i] = calloc((size_t)self->slots.capacity, self->row_bytes[i]);
        if (!self->bytes[i])
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d slots of inputs",
                           self->slots.capacity);
    }
    return TT_OK;
}

static enum tt_err ring_new(struct tt_engine_model *model, const struct tt_signature *signature,
                            int32_t slots, struct tt_input_ring **out_ring, struct tt_error *why) {
    tt_assert(tt_input_ring_fits(signature));
    int32_t count;
    enum tt_err err = choose_count(signature, slots, &count, why);
    if (err)
        return err;
    struct tt_input_ring *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tt_lock_init(&self->lock);
    tt_list_init(&self->held);
    tt_list_init(&self->came);
    self->model = model;
    self->input_count = signature->input_count;
    size_t inputs = (size_t)signature->input_count;
    self->bytes = calloc(inputs, sizeof(*self->bytes));
    self->row_bytes = calloc(inputs, sizeof(*self->row_bytes));
    bool good = self->bytes && self->row_bytes && tt_slot_ring_init(&self->slots, count) == TT_OK;
    for (size_t i = 0; good && i < inputs; i++)
        self->row_bytes[i] = tt_tensor_row_bytes(&signature->inputs[i]);
    err = good ? take_memory(self, why)
               : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d slots of inputs", count);
    if (err) {
        tt_input_ring_free(self);
        return err;
    }
    *out_ring = self;
    return TT_OK;
}

enum tt_err tt_input_ring_new(const struct tt_signature *signature, int32_t slots,
                              struct tt_input_ring **out_ring, struct tt_error *why) {
    return ring_new(NULL, signature, slots, out_ring, why);
}

enum tt_err tt_input_ring_new_on_device(struct tt_engine_model *model,
                                        const struct tt_signature *signature, int32_t slots,
                                        bool never_holds, struct tt_input_ring **out_ring,
                                        struct tt_error *why) {
    enum tt_err err = ring_new(model, signature, slots, out_ring, why);
    if (!err)
        (*out_ring)->never_holds = never_holds;
    return err;
}

void tt_input_ring_free(struct tt_input_ring *take_self) {
    if (!take_self)
        return;
    tt_assert(take_self->slots.used == 0);
    tt_assert(tt_list_empty(&take_self->came));
    tt_assert(tt_list_empty(&take_self->held));
    tt_assert(take_self->reported_used == 0);
    if (take_self->slot_count)
        tt_counter_add_shared(take_self->slot_count, -take_self->slots.capacity);
    for (int32_t i = 0; !take_self->model && take_self->bytes && i < take_self->input_count; i++)
        free(take_self->bytes[i]);
    free(take_self->bytes);
    free(take_self->row_bytes);
    tt_slot_ring_fini(&take_self->slots);
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

void *tt_input_ring_at(const struct tt_input_ring *self, const struct tt_inference *inference,
                       int32_t input) {
    tt_assert(inference->slot >= 0);
    return self->bytes[input] + (size_t)inference->slot * self->row_bytes[input];
}

/* ---- under the lock ---- */

static const struct tt_engine_input_ops *device_of(const struct tt_input_ring *self) {
    return self->model->engine->ops->inputs;
}

/* Moves waiting inferences to slots, oldest first, as far as slots are free. */
static void fill(struct tt_input_ring *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->held))) {
        struct tt_inference *inference = TT_CONTAINER_OF(node, struct tt_inference, in_ring);
        inference->slot = tt_slot_ring_take(&self->slots, inference->rows);
        if (inference->slot < 0)
            return;
        if (self->model)
            device_of(self)->settle(self->model, inference->slot, inference->rows);
        for (int32_t i = 0; i < self->input_count; i++) {
            void *to = tt_input_ring_at(self, inference, i);
            memcpy(to, inference->inputs[i].bytes, inference->inputs[i].size_bytes);
            inference->inputs[i].bytes = to;
        }
        if (self->model)
            device_of(self)->send(self->model, inference->slot, inference->rows);
        tt_list_remove(node);
        tt_list_push_back(&self->came, node);
    }
}

static void unlink_inference(struct tt_inference *inference) {
    if (tt_list_linked(&inference->in_ring))
        tt_list_remove(&inference->in_ring);
}

static void report_used(struct tt_input_ring *self) {
    if (!self->used_count || self->slots.used == self->reported_used)
        return;
    tt_counter_add_shared(self->used_count, self->slots.used - self->reported_used);
    self->reported_used = self->slots.used;
}

void tt_input_ring_show(struct tt_input_ring *self, struct tt_counter *slot_count,
                        struct tt_counter *used_count) {
    tt_lock_take(&self->lock);
    self->slot_count = slot_count;
    self->used_count = used_count;
    tt_counter_add_shared(slot_count, self->slots.capacity);
    report_used(self);
    tt_lock_give(&self->lock);
}

/* ---- the ports' threads ---- */

void tt_input_ring_take(struct tt_input_ring *self, struct tt_inference *inference) {
    tt_lock_take(&self->lock);
    inference->slot =
        tt_list_empty(&self->held) ? tt_slot_ring_take(&self->slots, inference->rows) : -1;
    report_used(self);
    tt_lock_give(&self->lock);
    if (self->model && inference->slot >= 0)
        device_of(self)->settle(self->model, inference->slot, inference->rows);
}

bool tt_input_ring_send(struct tt_input_ring *self, struct tt_inference *inference) {
    if (self->model && inference->slot >= 0)
        device_of(self)->send(self->model, inference->slot, inference->rows);
    if (self->never_holds || inference->slot >= 0)
        return false;
    tt_lock_take(&self->lock);
    tt_assert(!tt_list_linked(&inference->in_ring));
    tt_list_push_back(&self->held, &inference->in_ring);
    fill(self); /* slots may have come back while it was written */
    report_used(self);
    bool news = !tt_list_empty(&self->came);
    tt_lock_give(&self->lock);
    return news;
}

bool tt_input_ring_give(struct tt_input_ring *self, struct tt_inference *inference) {
    tt_lock_take(&self->lock);
    tt_assert(!tt_list_linked(&inference->in_ring));
    if (inference->slot >= 0)
        tt_slot_ring_release(&self->slots, inference->slot, inference->rows);
    inference->slot = -1;
    fill(self);
    report_used(self);
    bool news = !tt_list_empty(&self->came);
    tt_lock_give(&self->lock);
    return news;
}

/* ---- the scheduler ---- */

bool tt_input_ring_arrived(struct tt_input_ring *self, struct tt_inference *inference) {
    tt_lock_take(&self->lock);
    bool there = inference->slot >= 0 || self->never_holds;
    if (there)
        unlink_inference(inference); /* it need not be reported again */
    tt_lock_give(&self->lock);
    return there;
}

struct tt_inference *tt_input_ring_came(struct tt_input_ring *self) {
    tt_lock_take(&self->lock);
    struct tt_list_node *node = tt_list_first(&self->came);
    if (node)
        tt_list_remove(node);
    tt_lock_give(&self->lock);
    return node ? TT_CONTAINER_OF(node, struct tt_inference, in_ring) : NULL;
}

struct tt_engine_copies tt_input_ring_copies(const struct tt_input_ring *self,
                                             const struct tt_inference *inference) {
    return self->model && inference->slot >= 0
               ? device_of(self)->copies(self->model, inference->slot)
               : (struct tt_engine_copies){0};
}

void tt_input_ring_forget(struct tt_input_ring *self, struct tt_inference *inference) {
    tt_lock_take(&self->lock);
    unlink_inference(inference);
    tt_lock_give(&self->lock);
}
