/* The cancellations to come, ordered by time. Most requests have none, so the heap grows on
 * demand. */
#ifndef TT_SIM_CANCEL_HEAP_H
#define TT_SIM_CANCEL_HEAP_H

#include "base/instant.h"
#include "core/request.h"

struct tt_cancel_entry {
    int64_t at;
    int64_t number; /* ties: the earlier arrival first */
    struct tt_handle handle;
};

struct tt_cancel_heap {
    struct tt_cancel_entry *entries;
    int64_t count, capacity;
};

void tt_cancel_heap_fini(struct tt_cancel_heap *self);
void tt_cancel_heap_push(struct tt_cancel_heap *self, int64_t at, int64_t number,
                         struct tt_handle handle);
/* Removes and returns the earliest. The heap must not be empty. */
struct tt_handle tt_cancel_heap_pop(struct tt_cancel_heap *self);

static inline int64_t tt_cancel_heap_next_at(const struct tt_cancel_heap *self) {
    return self->count > 0 ? self->entries[0].at : TT_NEVER;
}

#endif
