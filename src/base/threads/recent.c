#include "base/threads/recent.h"

#include <stdlib.h>

enum tt_err tt_recent_init(struct tt_recent *self, int64_t capacity, uint32_t record_words) {
    tt_assert(capacity >= 1 && capacity <= INT64_C(1) << 40);
    tt_assert(record_words >= 1);
    uint64_t rounded = 1;
    while (rounded < (uint64_t)capacity)
        rounded *= 2;
    /* calloc: pages that are never written cost nothing */
    self->words = calloc(rounded * record_words, sizeof(*self->words));
    if (!self->words)
        return TT_ERR_NO_MEMORY;
    self->capacity = rounded;
    self->record_words = record_words;
    atomic_init(&self->begun, 0);
    atomic_init(&self->written, 0);
    return TT_OK;
}

void tt_recent_fini(struct tt_recent *self) {
    free(self->words);
    self->words = NULL;
}

/* A reader that sees a word of a new record, by acquire, also sees that its writing had begun. */
void tt_recent_put(struct tt_recent *self, const uint64_t *record) {
    uint64_t number = atomic_load_explicit(&self->written, memory_order_relaxed);
    _Atomic uint64_t *to = self->words + (number & (self->capacity - 1)) * self->record_words;
    atomic_store_explicit(&self->begun, number + 1, memory_order_relaxed);
    for (uint32_t i = 0; i < self->record_words; i++)
        atomic_store_explicit(&to[i], record[i], memory_order_release);
    atomic_store_explicit(&self->written, number + 1, memory_order_release);
}

uint64_t tt_recent_end(const struct tt_recent *self) {
    return atomic_load_explicit(&self->written, memory_order_acquire);
}

uint64_t tt_recent_first(const struct tt_recent *self) {
    uint64_t end = tt_recent_end(self);
    return end > self->capacity ? end - self->capacity : 0;
}

bool tt_recent_get(const struct tt_recent *self, uint64_t number, uint64_t *out_record) {
    const _Atomic uint64_t *from =
        self->words + (number & (self->capacity - 1)) * self->record_words;
    for (uint32_t i = 0; i < self->record_words; i++)
        out_record[i] = atomic_load_explicit(&from[i], memory_order_acquire);
    /* The record that reuses this place is `capacity` later; had its writing begun? */
    return atomic_load_explicit(&self->begun, memory_order_relaxed) <= number + self->capacity;
}
