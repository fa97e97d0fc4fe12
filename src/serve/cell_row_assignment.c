#include "serve/cell_row_assignment.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_cell_row_assignment_init(struct tt_cell_row_assignment *self, int32_t max_batch) {
    size_t bytes = (size_t)max_batch * sizeof(int32_t);
    *self = (struct tt_cell_row_assignment){
        .sources = malloc(bytes), .items = malloc(bytes), .moved = malloc(bytes)};
    return self->sources && self->items && self->moved ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_cell_row_assignment_fini(struct tt_cell_row_assignment *self) {
    free(self->sources);
    free(self->items);
    free(self->moved);
    *self = (struct tt_cell_row_assignment){0};
}

/* An item whose source is in the range keeps that row. Returns how many items do not; `moved` has
 * these. */
static int32_t assign_remaining_items(struct tt_cell_row_assignment *self, int32_t base,
                                      int32_t count) {
    const int32_t *sources = self->sources;
    int32_t *items = self->items, movers = 0;
    memset(items, 0xff, (size_t)count * sizeof(*items)); /* -1 each */
    for (int32_t i = 0; i < count; i++) {
        uint32_t row = (uint32_t)sources[i] -
                       (uint32_t)base; /* a row before the range wraps to far beyond it */
        if (row < (uint32_t)count && items[row] < 0)
            items[row] = i;
        else
            self->moved[movers++] = i;
    }
    return movers;
}

bool tt_cell_row_assignment_borrow(struct tt_cell_slots *slots, int32_t count) {
    return slots->reserved + count <= slots->capacity / 2 && tt_cell_slots_reserve(slots, count);
}

bool tt_cell_row_assignment_keep(struct tt_cell_row_assignment *self, struct tt_cell_slots *slots,
                                 int32_t executor, int32_t base, int32_t count) {
    tt_assert(base >= 0);
    int32_t movers = assign_remaining_items(self, base, count), orphans = 0;
    bool keeps = base <= slots->capacity - count;
    const int32_t *items = self->items;
    for (int32_t row = 0; keeps && movers > 0 && row < count; row++) {
        if (items[row] >= 0)
            continue;
        bool is_orphan;
        keeps = tt_cell_slots_is_open(slots, base + row, executor, &is_orphan);
        orphans += is_orphan;
    }
    if (!keeps || !tt_cell_row_assignment_borrow(slots, movers - orphans)) {
        for (int32_t i = 0; i < count; i++)
            self->items[i] = i;
        self->moved_count = 0;
        return false;
    }
    self->moved_count = movers;
    for (int32_t row = 0; movers > 0; row++) {
        if (self->items[row] >= 0)
            continue;
        tt_cell_slots_take_one(slots, base + row);
        self->items[row] = self->moved[--movers];
        self->moved[movers] = row;
    }
    return true;
}
