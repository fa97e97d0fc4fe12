#include "base/threads/byte_ring.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_byte_ring_init(struct tt_byte_ring *self, size_t capacity) {
    tt_assert(capacity >= 1);
    tt_assert(capacity <= (size_t)1 << 40);
    uint64_t rounded = 1;
    while (rounded < capacity)
        rounded *= 2;
    uint8_t *bytes = malloc(rounded);
    if (!bytes)
        return TT_ERR_NO_MEMORY;
    self->bytes = bytes;
    self->capacity = rounded;
    self->head_seen = 0;
    atomic_init(&self->tail, 0);
    atomic_init(&self->head, 0);
    return TT_OK;
}

void tt_byte_ring_fini(struct tt_byte_ring *self) {
    free(self->bytes);
    self->bytes = NULL;
}

bool tt_byte_ring_put(struct tt_byte_ring *self, const void *bytes, size_t count) {
    uint64_t tail = atomic_load_explicit(&self->tail, memory_order_relaxed);
    tt_assert(tail - self->head_seen <= self->capacity);
    if (count > self->capacity - (tail - self->head_seen)) {
        self->head_seen = atomic_load_explicit(&self->head, memory_order_acquire);
        if (count > self->capacity - (tail - self->head_seen))
            return false;
    }
    uint64_t at = tail & (self->capacity - 1);
    size_t first = count < self->capacity - at ? count : self->capacity - at;
    memcpy(self->bytes + at, bytes, first);
    memcpy(self->bytes, (const uint8_t *)bytes + first, count - first);
    atomic_store_explicit(&self->tail, tail + count, memory_order_release);
    return true;
}

size_t tt_byte_ring_peek(const struct tt_byte_ring *self, struct tt_byte_piece out_pieces[2]) {
    uint64_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&self->tail, memory_order_acquire);
    size_t count = tail - head;
    tt_assert(count <= self->capacity);
    uint64_t at = head & (self->capacity - 1);
    size_t first = count < self->capacity - at ? count : self->capacity - at;
    out_pieces[0] = (struct tt_byte_piece){self->bytes + at, first};
    out_pieces[1] = (struct tt_byte_piece){self->bytes, count - first};
    return count;
}

void tt_byte_ring_take(struct tt_byte_ring *self, size_t count) {
    uint64_t head = atomic_load_explicit(&self->head, memory_order_relaxed);
    tt_assert(count <= atomic_load_explicit(&self->tail, memory_order_relaxed) - head);
    atomic_store_explicit(&self->head, head + count, memory_order_release);
}
