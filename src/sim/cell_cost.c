#include "sim/cell_cost.h"

#include "core/cell_graph.h"

#include <stdlib.h>

struct tt_cell_place {
    int64_t request; /* its number */
    int32_t spec;    /* of the chain; -1: a node of a tree, which no cell continues in place */
    int32_t cell;
};

void tt_cell_cost_fini(struct tt_cell_cost *self) {
    free(self->last);
    *self = (struct tt_cell_cost){0};
}

static void reserve(struct tt_cell_cost *self, int32_t count) {
    if (count <= self->capacity)
        return;
    self->last = realloc(self->last, (size_t)count * sizeof(*self->last));
    tt_assert(self->last != NULL);
    self->capacity = count;
}

static struct tt_cell_place place_of(const struct tt_task_item *item) {
    bool chain = item->subgraph->is_chain;
    return (struct tt_cell_place){.request = item->request->number,
                                  .spec = chain ? item->subgraph->spec : -1,
                                  .cell = item->cell};
}

/* Whether each item continues from its place in the previous task. */
static bool goes_on(const struct tt_cell_cost *self, const struct tt_task *task) {
    if (task->count != self->count)
        return false;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_place here = place_of(&task->items[i]);
        const struct tt_cell_place *last = &self->last[i];
        if (here.spec < 0 || here.spec != last->spec || here.request != last->request ||
            here.cell != last->cell + 1)
            return false;
    }
    return true;
}

int64_t tt_cell_cost_begin(struct tt_cell_cost *self, const struct tt_task *task,
                           const struct tt_cell_rates *rates) {
    bool in_place = goes_on(self, task);
    reserve(self, task->count);
    self->count = task->count;
    for (int32_t i = 0; i < task->count; i++)
        self->last[i] = place_of(&task->items[i]);
    self->tasks++;
    if (in_place)
        return rates->task_ns;
    self->gathered_rows += task->rows;
    return rates->task_ns + rates->gather_row_ns * task->rows;
}
