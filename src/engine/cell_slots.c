#include "engine/cell_slots.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64 };

static int32_t word_count(const struct tt_cell_slots *self) {
    return (self->capacity + WORD_BITS - 1) / WORD_BITS;
}

enum tt_err tt_cell_slots_init(struct tt_cell_slots *self, int32_t capacity) {
    tt_assert(capacity >= 1);
    *self = (struct tt_cell_slots){.capacity = capacity};
    self->free = malloc((size_t)word_count(self) * sizeof(*self->free));
    self->orphan_of = calloc((size_t)capacity, sizeof(*self->orphan_of));
    if (!self->free || !self->orphan_of) {
        free(self->free);
        free(self->orphan_of);
        *self = (struct tt_cell_slots){0};
        return TT_ERR_NO_MEMORY;
    }
    memset(self->free, 0xff, (size_t)word_count(self) * sizeof(*self->free));
    int32_t rest = capacity % WORD_BITS;
    if (rest)
        self->free[word_count(self) - 1] = (UINT64_C(1) << rest) - 1;
    return TT_OK;
}

void tt_cell_slots_fini(struct tt_cell_slots *self) {
    tt_assert(self->in_use == 0);
    tt_assert(self->reserved == 0);
    free(self->free);
    free(self->orphan_of);
    *self = (struct tt_cell_slots){0};
}

bool tt_cell_slots_reserve(struct tt_cell_slots *self, int32_t count) {
    tt_assert(count >= 0);
    if (count > self->capacity - self->reserved)
        return false;
    self->reserved += count;
    return true;
}

void tt_cell_slots_unreserve(struct tt_cell_slots *self, int32_t count) {
    tt_assert(count <= self->reserved);
    self->reserved -= count;
}

/* The first slot in [at, end) whose free bit equals `wanted`; `end` if there is none. */
static int32_t next(const struct tt_cell_slots *self, int32_t at, int32_t end, bool wanted) {
    while (at < end) {
        uint64_t word = self->free[at / WORD_BITS];
        word = (wanted ? word : ~word) >> (at % WORD_BITS);
        if (word) {
            at += __builtin_ctzll(word);
            break;
        }
        at += WORD_BITS - at % WORD_BITS;
    }
    return at < end ? at : end;
}

static void mark(struct tt_cell_slots *self, int32_t slot) {
    self->free[slot / WORD_BITS] &= ~(UINT64_C(1) << (slot % WORD_BITS));
}

/* Marks all slots of [first, end) as used. */
static void mark_range(struct tt_cell_slots *self, int32_t first, int32_t end) {
    for (int32_t at = first, next_word; at < end; at = next_word) {
        next_word = (at / WORD_BITS + 1) * WORD_BITS;
        uint64_t from = UINT64_MAX << (at % WORD_BITS);
        uint64_t up_to = end < next_word ? ~(UINT64_MAX << (end % WORD_BITS)) : UINT64_MAX;
        self->free[at / WORD_BITS] &= ~(from & up_to);
    }
}

void tt_cell_slots_take(struct tt_cell_slots *self, int32_t count, int32_t *out_slots) {
    tt_assert(count >= 1);
    tt_assert(count <= self->reserved - self->in_use);
    while (self->free[self->first_free_word] == 0)
        self->first_free_word++; /* a reserved slot is free, so this ends */
    int32_t lowest = self->first_free_word * WORD_BITS;
    int32_t first = next(self, lowest, self->capacity, true);
    while (first < self->capacity) {
        /* Stop after `count`: the last free run is most of the pool. */
        int32_t most = count < self->capacity - first ? first + count : self->capacity;
        int32_t end = next(self, first, most, false);
        if (end - first >= count)
            break;
        first = next(self, end, self->capacity, true);
    }
    if (first < self->capacity) {
        mark_range(self, first, first + count);
        for (int32_t i = 0; i < count; i++)
            out_slots[i] = first + i;
    } else {
        int32_t slot = next(self, lowest, self->capacity, true);
        for (int32_t i = 0; i < count; i++) {
            out_slots[i] = slot;
            mark(self, slot);
            slot = next(self, slot, self->capacity, true);
        }
    }
    self->in_use += count;
}

static bool is_free(const struct tt_cell_slots *self, int32_t slot) {
    return self->free[slot / WORD_BITS] >> (slot % WORD_BITS) & 1;
}

bool tt_cell_slots_is_open(const struct tt_cell_slots *self, int32_t slot, int32_t executor,
                           bool *out_is_orphan) {
    tt_assert(slot >= 0);
    tt_assert(slot < self->capacity);
    *out_is_orphan = self->orphan_of[slot] == executor + 1;
    return *out_is_orphan || is_free(self, slot);
}

void tt_cell_slots_take_one(struct tt_cell_slots *self, int32_t slot) {
    if (self->orphan_of[slot]) {
        self->orphan_of[slot] = 0;
        return;
    }
    tt_assert(self->reserved > self->in_use);
    tt_assert(is_free(self, slot));
    mark(self, slot);
    self->in_use++;
}

void tt_cell_slots_orphan(struct tt_cell_slots *self, int32_t slot, int32_t executor) {
    tt_assert(!is_free(self, slot) && self->orphan_of[slot] == 0);
    self->orphan_of[slot] = executor + 1;
}

void tt_cell_slots_end_orphan(struct tt_cell_slots *self, int32_t slot) {
    if (!self->orphan_of[slot])
        return;
    self->orphan_of[slot] = 0;
    tt_cell_slots_give(self, slot);
    tt_cell_slots_unreserve(self, 1);
}
