/* What a task of cells costs besides the cells themselves (C6): something for every task, and for
 * every row that is not where the task before it on the same executor left it.
 *
 * The state of a set of chains that goes on unchanged lies in memory as the last task wrote it, so
 * the next reads it in place. Any other set is gathered first: each row is copied once. */
#ifndef TT_SIM_CELL_COST_H
#define TT_SIM_CELL_COST_H

#include "core/task.h"

struct tt_cell_rates {
    int64_t task_ns;       /* every task */
    int64_t gather_row_ns; /* every row of a task that is gathered */
};

/* Of one executor. All zero in the beginning. */
struct tt_cell_cost {
    struct tt_cell_place *last; /* where the rows of the last task of cells lie */
    int32_t count, capacity;
    int64_t tasks, gathered_rows; /* so far */
};

void tt_cell_cost_fini(struct tt_cell_cost *self);
/* The task begins; returns what it costs besides, in ns. Aborts when memory is out. */
int64_t tt_cell_cost_begin(struct tt_cell_cost *self, const struct tt_task *task,
                           const struct tt_cell_rates *rates);

#endif
