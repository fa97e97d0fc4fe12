#include "fleet/word_queue.h"

#include "base/array.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

void tt_word_queue_fini(struct tt_word_queue *self) {
    free(self->bytes);
    free(self->ends);
    *self = (struct tt_word_queue){.bytes = NULL};
}

void tt_word_queue_begin(struct tt_word_queue *self) {
    if (self->taken == self->count)
        self->count = self->asked = self->taken = self->used = 0;
    bool reserved = TT_ARRAY_RESERVE(self->ends, &self->end_capacity, self->count + 1);
    tt_assert(reserved); /* out of memory for a few words: nothing can go on */
    self->ends[self->count++] = (size_t)self->used;
}

void tt_word_queue_append(struct tt_word_queue *self, const void *word, size_t bytes) {
    tt_assert(self->count > 0 && self->asked < self->count);
    bool reserved = TT_ARRAY_RESERVE(self->bytes, &self->capacity, self->used + (int64_t)bytes);
    tt_assert(reserved);
    memcpy(self->bytes + self->used, word, bytes);
    self->used += (int64_t)bytes;
    self->ends[self->count - 1] = (size_t)self->used;
}

static size_t begin_of(const struct tt_word_queue *self, int64_t chunk) {
    return chunk > 0 ? self->ends[chunk - 1] : 0;
}

size_t tt_word_queue_next(struct tt_word_queue *self) {
    tt_assert(self->asked < self->count);
    int64_t chunk = self->asked++;
    return self->ends[chunk] - begin_of(self, chunk);
}

const uint8_t *tt_word_queue_take(struct tt_word_queue *self, size_t *out_bytes) {
    tt_assert(self->taken < self->asked);
    int64_t chunk = self->taken++;
    size_t begin = begin_of(self, chunk);
    *out_bytes = self->ends[chunk] - begin;
    return self->bytes + begin;
}
