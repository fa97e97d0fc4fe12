/* What a task of cells costs besides the cells themselves (C6): a fixed time per task, and a time
 * for every row that the previous task on the same executor did not leave in place.
 *
 * The states of a set of chains that continues unchanged lie in memory as the last task wrote them,
 * and the next task reads them there. For any other set each row is copied once (gathered). */
#ifndef TT_SIM_CELL_COST_H
#define TT_SIM_CELL_COST_H

#include "core/task.h"

struct tt_cell_rates {
    int64_t task_ns;       /* every task */
    int64_t gather_row_ns; /* every row of a task that is gathered */
};

/* Of one executor. Zero-initialized. */
struct tt_cell_cost {
    struct tt_cell_place *last; /* the places of the rows of the last task of cells */
    int32_t count, capacity;
    int64_t tasks, gathered_rows; /* so far */
};

void tt_cell_cost_fini(struct tt_cell_cost *self);
/* Called when the task begins. Returns its extra time in ns. Aborts if memory runs out. */
int64_t tt_cell_cost_begin(struct tt_cell_cost *self, const struct tt_task *task,
                           const struct tt_cell_rates *rates);

#endif
