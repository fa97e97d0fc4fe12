#include "base/heap.h"

#include <stdlib.h>

enum { ARITY = 4 };

enum tt_err tt_heap_init(struct tt_heap *self, int32_t capacity) {
    tt_assert(capacity >= 0);
    size_t slots = capacity > 0 ? (size_t)capacity : 1;
    struct tt_heap_entry *entries = malloc(slots * sizeof(*entries));
    int32_t *position = malloc(slots * sizeof(*position));
    if (!entries || !position) {
        free(entries);
        free(position);
        return TT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < slots; i++)
        position[i] = -1;
    *self = (struct tt_heap){.entries = entries, .position = position, .capacity = capacity};
    return TT_OK;
}

void tt_heap_fini(struct tt_heap *self) {
    free(self->entries);
    free(self->position);
    *self = (struct tt_heap){0};
}

static bool before(const struct tt_heap_entry *a, const struct tt_heap_entry *b) {
    if (a->key != b->key)
        return a->key < b->key;
    return a->tie < b->tie;
}

static void place(struct tt_heap *self, int32_t at, struct tt_heap_entry entry) {
    self->entries[at] = entry;
    self->position[entry.id] = at;
}

static void rise(struct tt_heap *self, int32_t at, struct tt_heap_entry entry) {
    while (at > 0) {
        int32_t parent = (at - 1) / ARITY;
        if (!before(&entry, &self->entries[parent]))
            break;
        place(self, at, self->entries[parent]);
        at = parent;
    }
    place(self, at, entry);
}

static void sink(struct tt_heap *self, int32_t at, struct tt_heap_entry entry) {
    for (;;) {
        int32_t first = at * ARITY + 1;
        if (first >= self->count)
            break;
        int32_t end = first + ARITY < self->count ? first + ARITY : self->count;
        int32_t smallest = first;
        for (int32_t child = first + 1; child < end; child++)
            if (before(&self->entries[child], &self->entries[smallest]))
                smallest = child;
        if (!before(&self->entries[smallest], &entry))
            break;
        place(self, at, self->entries[smallest]);
        at = smallest;
    }
    place(self, at, entry);
}

void tt_heap_set(struct tt_heap *self, int32_t id, int64_t key, int32_t tie) {
    tt_assert(id >= 0 && id < self->capacity);
    struct tt_heap_entry entry = {.key = key, .tie = tie, .id = id};
    int32_t at = self->position[id];
    if (at < 0) {
        rise(self, self->count++, entry);
    } else if (before(&entry, &self->entries[at])) {
        rise(self, at, entry);
    } else if (before(&self->entries[at], &entry)) { /* the same key again moves nothing */
        sink(self, at, entry);
    }
}

void tt_heap_take_out(struct tt_heap *self, int32_t id) {
    int32_t at = self->position[id];
    tt_assert(at >= 0);
    self->position[id] = -1;
    struct tt_heap_entry last = self->entries[--self->count];
    if (last.id == id)
        return;
    if (at > 0 && before(&last, &self->entries[(at - 1) / ARITY]))
        rise(self, at, last);
    else
        sink(self, at, last);
}

void tt_heap_check(const struct tt_heap *self) {
    for (int32_t at = 0; at < self->count; at++) {
        tt_assert(self->position[self->entries[at].id] == at);
        if (at > 0)
            tt_assert(!before(&self->entries[at], &self->entries[(at - 1) / ARITY]));
    }
}
