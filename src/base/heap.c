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
    entries[0].key = INT64_MAX;
    *self = (struct tt_heap){.entries = entries, .position = position, .capacity = capacity};
    return TT_OK;
}

void tt_heap_fini(struct tt_heap *self) {
    free(self->entries);
    free(self->position);
    *self = (struct tt_heap){0};
}

static bool before(const struct tt_heap_entry *a, const struct tt_heap_entry *b) {
    return a->key < b->key || (a->key == b->key && a->tie < b->tie);
}

static void place(struct tt_heap *self, int32_t at, struct tt_heap_entry entry) {
    self->entries[at] = entry;
    self->position[entry.id] = at;
}

static int32_t parent_of(int32_t at) { return (int32_t)((uint32_t)(at - 1) / ARITY); }

static void rise(struct tt_heap *self, int32_t at, struct tt_heap_entry entry) {
    while (at > 0) {
        int32_t parent = parent_of(at);
        if (!before(&entry, &self->entries[parent]))
            break;
        place(self, at, self->entries[parent]);
        at = parent;
    }
    place(self, at, entry);
}

/* Of the entries from `first` to `end` - 1. Which one it is cannot be predicted: the keys are
 * compared such that the compiler needs no branch for it. */
static int32_t smallest_of(const struct tt_heap *self, int32_t first, int32_t end) {
    int32_t smallest = first;
    for (int32_t i = first + 1; i < end; i++) {
        const struct tt_heap_entry *a = &self->entries[i], *b = &self->entries[smallest];
        if (a->key != b->key ? a->key < b->key : a->tie < b->tie)
            smallest = i;
    }
    return smallest;
}

static void sink(struct tt_heap *self, int32_t at, struct tt_heap_entry entry) {
    for (;;) {
        int32_t first = at * ARITY + 1;
        if (first >= self->count)
            break;
        int32_t end = first + ARITY < self->count ? first + ARITY : self->count;
        int32_t smallest = smallest_of(self, first, end);
        if (!before(&self->entries[smallest], &entry))
            break;
        place(self, at, self->entries[smallest]);
        at = smallest;
    }
    place(self, at, entry);
}

void tt_heap_set(struct tt_heap *self, int32_t id, int64_t key, int32_t tie) {
    tt_assert((uint32_t)id < (uint32_t)self->capacity);
    struct tt_heap_entry entry = {.key = key, .tie = tie, .id = id};
    int32_t at = self->position[id];
    if (at < 0) {
        rise(self, self->count++, entry);
        return;
    }
    /* Most new keys leave the entry where it is. */
    struct tt_heap_entry *old = &self->entries[at];
    if (before(&entry, old)) {
        if (at > 0 && before(&entry, &self->entries[parent_of(at)])) {
            rise(self, at, entry);
            return;
        }
    } else if (at * ARITY + 1 < self->count && before(old, &entry)) {
        sink(self, at, entry);
        return;
    }
    old->key = key;
    old->tie = tie;
}

void tt_heap_take_out(struct tt_heap *self, int32_t id) {
    int32_t at = self->position[id];
    tt_assert(at >= 0);
    self->position[id] = -1;
    struct tt_heap_entry last = self->entries[--self->count];
    if (last.id == id) {
        if (self->count == 0)
            self->entries[0].key = INT64_MAX;
        return;
    }
    if (at > 0 && before(&last, &self->entries[parent_of(at)]))
        rise(self, at, last);
    else
        sink(self, at, last);
}

void tt_heap_check(const struct tt_heap *self) {
    tt_assert(self->count > 0 || self->entries[0].key == INT64_MAX);
    for (int32_t at = 0; at < self->count; at++) {
        tt_assert(self->position[self->entries[at].id] == at);
        if (at > 0)
            tt_assert(!before(&self->entries[at], &self->entries[parent_of(at)]));
    }
}
