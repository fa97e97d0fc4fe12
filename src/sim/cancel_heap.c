#include "sim/cancel_heap.h"

#include "base/array.h"

#include <stdbool.h>
#include <stdlib.h>

void tt_cancel_heap_fini(struct tt_cancel_heap *self) {
    free(self->entries);
    *self = (struct tt_cancel_heap){0};
}

static bool before(const struct tt_cancel_entry *a, const struct tt_cancel_entry *b) {
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

void tt_cancel_heap_push(struct tt_cancel_heap *self, int64_t at, int64_t number,
                         struct tt_handle handle) {
    bool reserved = TT_ARRAY_RESERVE(self->entries, &self->capacity, self->count + 1);
    tt_assert(reserved);
    struct tt_cancel_entry entry = {.at = at, .number = number, .handle = handle};
    int64_t hole = self->count++;
    while (hole > 0 && before(&entry, &self->entries[(hole - 1) / 2])) {
        self->entries[hole] = self->entries[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    self->entries[hole] = entry;
}

struct tt_handle tt_cancel_heap_pop(struct tt_cancel_heap *self) {
    tt_assert(self->count > 0);
    struct tt_handle first = self->entries[0].handle;
    struct tt_cancel_entry last = self->entries[--self->count];
    int64_t hole = 0;
    for (;;) {
        int64_t child = 2 * hole + 1;
        if (child >= self->count)
            break;
        if (child + 1 < self->count && before(&self->entries[child + 1], &self->entries[child]))
            child++;
        if (!before(&self->entries[child], &last))
            break;
        self->entries[hole] = self->entries[child];
        hole = child;
    }
    if (self->count > 0)
        self->entries[hole] = last;
    return first;
}
