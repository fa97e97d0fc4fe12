#include "base/threads/record_ring.h"

#include "base/threads/perturb.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_record_ring_init(struct tt_record_ring *self, int32_t capacity,
                                int32_t record_bytes) {
    tt_assert(capacity >= 1 && capacity <= 1 << 28);
    tt_assert(record_bytes > 0 && record_bytes % 8 == 0);
    uint32_t slots = 1;
    while (slots < (uint32_t)capacity)
        slots *= 2;
    size_t bytes = ((size_t)slots * (size_t)record_bytes + 63) / 64 * 64;
    unsigned char *records = aligned_alloc(64, bytes);
    if (!records)
        return TT_ERR_NO_MEMORY;
    self->records = records;
    self->capacity = slots;
    self->record_bytes = (uint32_t)record_bytes;
    self->head_seen = self->tail_seen = self->added = 0;
    atomic_init(&self->tail, 0);
    atomic_init(&self->head, 0);
    return TT_OK;
}

void tt_record_ring_fini(struct tt_record_ring *self) {
    free(self->records);
    self->records = NULL;
}

static unsigned char *slot(const struct tt_record_ring *self, uint32_t at) {
    return self->records + (size_t)(at & (self->capacity - 1)) * self->record_bytes;
}

/* How many of `count` records from `at` on are before the end of the memory. */
static int32_t contiguous(const struct tt_record_ring *self, uint32_t at, uint32_t count) {
    uint32_t before_end = self->capacity - (at & (self->capacity - 1));
    return (int32_t)(count < before_end ? count : before_end);
}

void *tt_record_ring_room(struct tt_record_ring *self, int32_t *out_count) {
    uint32_t tail = atomic_load_explicit(&self->tail, memory_order_relaxed);
    uint32_t free_count = self->capacity - (tail - self->head_seen);
    if (free_count <= self->capacity / 2) { /* more is enough room, without another look */
        tt_perturb();
        self->head_seen = atomic_load_explicit(&self->head, memory_order_acquire);
        free_count = self->capacity - (tail - self->head_seen);
    }
    *out_count = contiguous(self, tail, free_count);
    return slot(self, tail);
}

void tt_record_ring_commit(struct tt_record_ring *self, int32_t count) {
    uint32_t tail = atomic_load_explicit(&self->tail, memory_order_relaxed);
    tt_assert(count >= 0 && (uint32_t)count <= self->capacity - (tail - self->head_seen));
    tt_perturb();
    atomic_store_explicit(&self->tail, tail + (uint32_t)count, memory_order_release);
    tt_perturb();
}

bool tt_record_ring_add(struct tt_record_ring *self, const void *record) {
    uint32_t end = atomic_load_explicit(&self->tail, memory_order_relaxed) + self->added;
    if (end - self->head_seen == self->capacity) {
        tt_perturb();
        self->head_seen = atomic_load_explicit(&self->head, memory_order_acquire);
        if (end - self->head_seen == self->capacity)
            return false;
    }
    memcpy(slot(self, end), record, self->record_bytes);
    self->added++;
    return true;
}

void tt_record_ring_publish(struct tt_record_ring *self) {
    uint32_t added = self->added;
    self->added = 0;
    if (added > 0)
        tt_record_ring_commit(self, (int32_t)added);
}

bool tt_record_ring_push(struct tt_record_ring *self, const void *record) {
    if (!tt_record_ring_add(self, record))
        return false;
    tt_record_ring_publish(self);
    return true;
}

bool tt_record_ring_look(struct tt_record_ring *self) {
    tt_perturb();
    self->tail_seen = atomic_load_explicit(&self->tail, memory_order_acquire);
    return self->tail_seen != atomic_load_explicit(&self->head, memory_order_relaxed);
}

const void *tt_record_ring_peek(struct tt_record_ring *self, int32_t *out_count) {
    uint32_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    *out_count = contiguous(self, head, self->tail_seen - head);
    return slot(self, head);
}

int32_t tt_record_ring_seen(const struct tt_record_ring *self) {
    return (int32_t)(self->tail_seen - atomic_load_explicit(&self->head, memory_order_relaxed));
}

bool tt_record_ring_look_for(struct tt_record_ring *self, int32_t count) {
    uint32_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&self->tail, memory_order_acquire);
    if (count < 0 || tail - head < (uint32_t)count)
        return false;
    self->tail_seen = head + (uint32_t)count;
    return true;
}

void tt_record_ring_take(struct tt_record_ring *self, int32_t count) {
    uint32_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    tt_assert(count >= 0 && (uint32_t)count <= self->tail_seen - head);
    tt_perturb();
    atomic_store_explicit(&self->head, head + (uint32_t)count, memory_order_release);
    tt_perturb();
}
