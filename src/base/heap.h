/* Indexed 4-ary min-heap over small integer ids (models, devices), with a key (int64, int32 tie)
 * per id.
 *
 * The position of each id is kept, so changing or removing any key is O(log n), and nothing is
 * allocated after init. Four children per node: half the depth of a binary heap, and the four keys
 * share a cache line. Implemented in heap.c. */
#ifndef TT_BASE_HEAP_H
#define TT_BASE_HEAP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_heap_entry {
    int64_t key;
    int32_t tie; /* smaller goes first among equal keys */
    int32_t id;
};

struct tt_heap {
    struct tt_heap_entry *entries; /* when empty the first one has the key INT64_MAX */
    int32_t *position;             /* of each id in entries; -1 when absent */
    int32_t count;
    int32_t capacity; /* ids are 0 .. capacity - 1 */
};

TT_MUST_CHECK enum tt_err tt_heap_init(struct tt_heap *self, int32_t capacity);
void tt_heap_fini(struct tt_heap *self);
/* Adds `id`, or changes its key. */
void tt_heap_set(struct tt_heap *self, int32_t id, int64_t key, int32_t tie);
/* Removes `id`, which is a member. */
void tt_heap_take_out(struct tt_heap *self, int32_t id);
void tt_heap_check(const struct tt_heap *self);

static inline bool tt_heap_contains(const struct tt_heap *self, int32_t id) {
    return self->position[id] >= 0;
}
/* Removes `id` if it is a member. */
static inline void tt_heap_remove(struct tt_heap *self, int32_t id) {
    tt_assert((uint32_t)id < (uint32_t)self->capacity);
    if (tt_heap_contains(self, id)) /* usually it is not, and there is no call */
        tt_heap_take_out(self, id);
}
/* The smallest key; INT64_MAX when empty. */
static inline int64_t tt_heap_next_key(const struct tt_heap *self) { return self->entries[0].key; }
/* The smallest entry; NULL when empty. Borrowed until the next change. */
static inline const struct tt_heap_entry *tt_heap_top(const struct tt_heap *self) {
    return self->count ? &self->entries[0] : NULL;
}
/* The key of a member. */
static inline int64_t tt_heap_key(const struct tt_heap *self, int32_t id) {
    tt_assert(self->position[id] >= 0);
    return self->entries[self->position[id]].key;
}

#endif
