#include "base/threads/ring.h"

#include <stdlib.h>

enum tt_err tt_ring_init(struct tt_ring *self, int32_t capacity) {
    tt_assert(capacity >= 1);
    tt_assert(capacity <= 1 << 30);
    uint32_t slot_count = 1;
    while (slot_count < (uint32_t)capacity)
        slot_count *= 2;
    void **slots = calloc(slot_count, sizeof(*slots));
    if (!slots)
        return TT_ERR_NO_MEMORY;
    self->slots = slots;
    self->mask = slot_count - 1;
    self->capacity = (uint32_t)capacity;
    self->head_seen = self->tail_seen = 0;
    atomic_init(&self->tail, 0);
    atomic_init(&self->head, 0);
    return TT_OK;
}

void tt_ring_fini(struct tt_ring *self) {
    free(self->slots);
    self->slots = NULL;
}

bool tt_ring_push(struct tt_ring *self, void *item) {
    tt_assert(item != NULL);
    uint32_t tail = atomic_load_explicit(&self->tail, memory_order_relaxed);
    if (tail - self->head_seen >= self->capacity) {
        self->head_seen = atomic_load_explicit(&self->head, memory_order_acquire);
        if (tail - self->head_seen >= self->capacity)
            return false;
    }
    self->slots[tail & self->mask] = item;
    atomic_store_explicit(&self->tail, tail + 1, memory_order_release);
    return true;
}

bool tt_ring_is_empty(struct tt_ring *self) {
    return atomic_load_explicit(&self->head, memory_order_relaxed) ==
           atomic_load_explicit(&self->tail, memory_order_acquire);
}

void *tt_ring_pop(struct tt_ring *self) {
    uint32_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    if (head == self->tail_seen) {
        self->tail_seen = atomic_load_explicit(&self->tail, memory_order_acquire);
        if (head == self->tail_seen)
            return NULL;
    }
    void *item = self->slots[head & self->mask];
    atomic_store_explicit(&self->head, head + 1, memory_order_release);
    return item;
}
