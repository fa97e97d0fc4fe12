#include "sim/input_pool.h"

#include "base/instant.h"

#include <stdlib.h>

static void push(struct tt_input_queue *self, const struct tt_input *input) {
    if (self->count == self->capacity) {
        int32_t capacity = self->capacity ? 2 * self->capacity : 64;
        struct tt_input *inputs = malloc((size_t)capacity * sizeof(*inputs));
        tt_assert(inputs != NULL);
        for (int32_t i = 0; i < self->count; i++)
            inputs[i] = self->inputs[(self->first + i) % self->capacity];
        free(self->inputs);
        *self = (struct tt_input_queue){
            .inputs = inputs, .capacity = capacity, .first = 0, .count = self->count};
    }
    self->inputs[(self->first + self->count++) % self->capacity] = *input;
}

static struct tt_input *front(const struct tt_input_queue *self) {
    return self->count > 0 ? &self->inputs[self->first] : NULL;
}

static void pop(struct tt_input_queue *self) {
    self->first = (self->first + 1) % self->capacity;
    self->count--;
}

/* Removes the input of the request, if it is there. O(inputs before it): the oldest leave first. */
static void forget(struct tt_input_queue *self, struct tt_handle handle) {
    int32_t at = 0;
    for (; at < self->count; at++) {
        struct tt_handle own = self->inputs[(self->first + at) % self->capacity].handle;
        if (own.index == handle.index && own.generation == handle.generation)
            break;
    }
    if (at == self->count)
        return;
    for (; at > 0; at--) /* those before it move up */
        self->inputs[(self->first + at) % self->capacity] =
            self->inputs[(self->first + at - 1) % self->capacity];
    pop(self);
}

enum tt_err tt_input_pool_init(struct tt_input_pool *self, int32_t model_count, int32_t slots,
                               struct tt_copy_engine *engine,
                               const struct tt_request_pool *requests) {
    *self = (struct tt_input_pool){.requests = requests, .engine = engine};
    self->rings = calloc((size_t)model_count, sizeof(*self->rings));
    self->waiting = calloc((size_t)model_count, sizeof(*self->waiting));
    if (!self->rings || !self->waiting)
        return TT_ERR_NO_MEMORY;
    self->model_count = model_count;
    for (int32_t m = 0; m < model_count; m++) {
        enum tt_err err = tt_slot_ring_init(&self->rings[m], slots);
        if (err)
            return err;
    }
    return TT_OK;
}

void tt_input_pool_fini(struct tt_input_pool *self) {
    for (int32_t m = 0; m < self->model_count; m++) {
        tt_slot_ring_fini(&self->rings[m]);
        free(self->waiting[m].inputs);
    }
    free(self->rings);
    free(self->waiting);
    free(self->sent.inputs);
    *self = (struct tt_input_pool){0};
}

/* Sends the input if its ring has room. */
static bool send(struct tt_input_pool *self, int64_t now, struct tt_input *input) {
    input->slot = tt_slot_ring_take(&self->rings[input->model], input->rows);
    if (input->slot < 0)
        return false;
    input->ready_at = input->bytes > 0 ? tt_copy_engine_add(self->engine, now, input->bytes) : now;
    const struct tt_input *last =
        self->sent.count > 0
            ? &self->sent.inputs[(self->sent.first + self->sent.count - 1) % self->sent.capacity]
            : NULL;
    if (last) /* inputs become ready in the order in which they were sent */
        input->ready_at = tt_instant_max(input->ready_at, last->ready_at);
    push(&self->sent, input);
    return true;
}

/* Sends inputs that wait for slots of the model, while there is room. */
static void fill(struct tt_input_pool *self, int64_t now, int32_t model) {
    struct tt_input_queue *waiting = &self->waiting[model];
    struct tt_input *input;
    while ((input = front(waiting))) {
        if (!send(self, now, input))
            return;
        pop(waiting);
    }
}

void tt_input_pool_arrived(struct tt_input_pool *self, int64_t now,
                           const struct tt_request *request, int64_t bytes) {
    struct tt_input input = {.handle = request->handle,
                             .model = request->model,
                             .rows = request->rows,
                             .slot = -1,
                             .bytes = bytes};
    struct tt_input_queue *waiting = &self->waiting[request->model];
    if (waiting->count == 0 && send(self, now, &input))
        return;
    self->held_back++;
    push(waiting, &input);
}

int64_t tt_input_pool_next_at(const struct tt_input_pool *self) {
    const struct tt_input *next = front(&self->sent);
    return next ? next->ready_at : TT_NEVER;
}

static void release(struct tt_input_pool *self, int64_t now, int32_t model, int32_t slot,
                    int32_t rows) {
    tt_slot_ring_release(&self->rings[model], slot, rows);
    fill(self, now, model);
}

struct tt_request *tt_input_pool_take_ready(struct tt_input_pool *self, int64_t now) {
    const struct tt_input *next;
    while ((next = front(&self->sent)) && next->ready_at <= now) {
        struct tt_input input = *next;
        pop(&self->sent);
        struct tt_request *request = tt_request_pool_find(self->requests, input.handle);
        if (request) {
            request->slot = input.slot;
            return request;
        }
        release(self, now, input.model, input.slot,
                input.rows); /* the request left during the copy */
    }
    return NULL;
}

void tt_input_pool_left(struct tt_input_pool *self, int64_t now, const struct tt_request *request) {
    if (request->slot >= 0) {
        release(self, now, request->model, request->slot, request->rows);
    } else { /* those behind it may find room that it did not */
        forget(&self->waiting[request->model], request->handle);
        fill(self, now, request->model);
    }
}

void tt_input_pool_check(const struct tt_input_pool *self) {
    for (int32_t m = 0; m < self->model_count; m++)
        tt_slot_ring_check(&self->rings[m]);
}
