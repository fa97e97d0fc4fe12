#include "core/slot_ring.h"

#include <stdlib.h>

enum tt_err tt_slot_ring_init(struct tt_slot_ring *self, int32_t capacity) {
    tt_assert(capacity >= 1);
    *self = (struct tt_slot_ring){.capacity = capacity};
    self->released = calloc((size_t)capacity, sizeof(*self->released));
    return self->released ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_slot_ring_fini(struct tt_slot_ring *self) {
    free(self->released);
    *self = (struct tt_slot_ring){0};
}

/* Marks `count` slots from `next` on as used. */
static void advance(struct tt_slot_ring *self, int32_t count, bool released) {
    for (int32_t i = 0; i < count; i++)
        self->released[self->next + i] = released;
    self->next += count;
    if (self->next == self->capacity)
        self->next = 0;
    self->used += count;
}

int32_t tt_slot_ring_take(struct tt_slot_ring *self, int32_t rows) {
    tt_assert(rows >= 1 && rows <= self->capacity);
    if (self->used == 0) /* empty: start again with the longest range ahead */
        self->next = self->oldest = 0;
    int32_t to_end = self->capacity - self->next;
    int32_t skipped = rows > to_end ? to_end : 0;
    if (self->used + skipped + rows > self->capacity)
        return -1;
    advance(self, skipped, true);
    int32_t first = self->next;
    advance(self, rows, false);
    return first;
}

void tt_slot_ring_release(struct tt_slot_ring *self, int32_t first, int32_t rows) {
    tt_assert(first >= 0 && rows >= 1 && first + rows <= self->capacity);
    for (int32_t i = 0; i < rows; i++) {
        tt_assert(!self->released[first + i]);
        self->released[first + i] = true;
    }
    while (self->used > 0 && self->released[self->oldest]) {
        self->used--;
        self->oldest = self->oldest + 1 == self->capacity ? 0 : self->oldest + 1;
    }
}

void tt_slot_ring_check(const struct tt_slot_ring *self) {
    tt_assert(self->used >= 0 && self->used <= self->capacity);
    tt_assert(self->next == (self->oldest + self->used) % self->capacity);
    tt_assert(self->used == 0 || !self->released[self->oldest]);
}
