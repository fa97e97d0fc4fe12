#include "fleet/extent_ring.h"

#include <stdlib.h>

enum tt_err tt_extent_ring_init(struct tt_extent_ring *self, size_t size, int32_t capacity) {
    tt_assert(size > 0 && capacity > 0);
    *self = (struct tt_extent_ring){.extents = calloc((size_t)capacity, sizeof(*self->extents)),
                                    .capacity = capacity,
                                    .size = size};
    return self->extents ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_extent_ring_fini(struct tt_extent_ring *self) {
    free(self->extents);
    *self = (struct tt_extent_ring){.extents = NULL};
}

/* The one at this place, counted from the oldest. */
static struct tt_extent *at(const struct tt_extent_ring *self, int32_t place) {
    return &self->extents[(self->oldest + place) % self->capacity];
}

/* Where so many bytes are free; false: nowhere. */
static bool find(const struct tt_extent_ring *self, size_t bytes, size_t *out_begin) {
    if (bytes > self->size)
        return false;
    *out_begin = 0;
    if (self->count == 0)
        return true;
    size_t head = at(self, 0)->begin, tail = at(self, self->count - 1)->end;
    bool is_wrapped = at(self, self->count - 1)->begin < head;
    if (is_wrapped || bytes <= self->size - tail) {
        *out_begin = tail;
        return !is_wrapped || bytes <= head - tail;
    }
    return bytes <= head;
}

int32_t tt_extent_ring_take(struct tt_extent_ring *self, size_t bytes, size_t *out_begin) {
    size_t begin;
    if (bytes > self->size)
        return TT_NO_EXTENT;
    size_t rounded =
        bytes ? (bytes + TT_EXTENT_BYTES - 1) / TT_EXTENT_BYTES * TT_EXTENT_BYTES : TT_EXTENT_BYTES;
    if (self->count == self->capacity || !find(self, rounded, &begin))
        return TT_NO_EXTENT;
    int32_t number = (self->oldest + self->count++) % self->capacity;
    self->extents[number] = (struct tt_extent){.begin = begin, .end = begin + rounded};
    *out_begin = begin;
    return number;
}

void tt_extent_ring_give(struct tt_extent_ring *self, int32_t number) {
    tt_assert(number >= 0 && number < self->capacity && !self->extents[number].is_back);
    tt_assert((number - self->oldest + self->capacity) % self->capacity < self->count);
    self->extents[number].is_back = true;
    while (self->count > 0 && at(self, 0)->is_back) {
        self->oldest = (self->oldest + 1) % self->capacity;
        self->count--;
    }
}

void tt_extent_ring_give_oldest(struct tt_extent_ring *self) {
    tt_assert(self->count > 0);
    tt_extent_ring_give(self, self->oldest);
}

void tt_extent_ring_check(const struct tt_extent_ring *self) {
    int32_t wraps = 0;
    tt_assert(self->count >= 0 && self->count <= self->capacity);
    tt_assert(self->count == 0 || !at(self, 0)->is_back);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_extent *extent = at(self, i);
        tt_assert(extent->begin < extent->end && extent->end <= self->size);
        if (i > 0 && extent->begin < at(self, i - 1)->end) {
            wraps++;
            tt_assert(extent->begin == 0);
        }
        tt_assert(wraps == 0 || extent->end <= at(self, 0)->begin);
    }
    tt_assert(wraps <= 1);
}
