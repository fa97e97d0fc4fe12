/* A domain's tasks of models of cells, between the mechanism and the engine: what each member reads
 * and writes when a task starts, and what follows for its requests when the task is back.
 *
 * It serves policies by cells (C4: several tasks are queued, each with one cell of each member) and
 * by sequences (C7: all members together, to the longest; L6: until members diverge or a stop is
 * asked for, each from its own position). In the scheduler's turns. Implemented in cell_tasks.c. */
#ifndef TT_SERVE_CELL_TASKS_H
#define TT_SERVE_CELL_TASKS_H

#include "core/task.h"
#include "serve/cell_caches.h"
#include "serve/cell_row_assignment.h"
#include "serve/cell_run.h"

/* Memory for the members of each of a domain's tasks. */
struct tt_cell_tasks {
    int32_t max_batch;
    struct tt_engine_cell *cells;
    struct tt_engine_sequence *sequences;
    struct tt_error *whys; /* of the members of any task */
    int32_t *slots;        /* [3 * max_batch] of the current task */
    struct tt_cell_row_assignment assignment;
    struct tt_cell_cache_member *caches; /* [max_batch] of the current task */
};

TT_MUST_CHECK enum tt_err tt_cell_tasks_init(struct tt_cell_tasks *self, int32_t task_count,
                                             int32_t max_batch);
void tt_cell_tasks_fini(struct tt_cell_tasks *self);
/* Task number `index` of the domain is to run: takes its slots and fills in the engine's side. */
void tt_cell_tasks_start(struct tt_cell_tasks *self, int32_t index, struct tt_served_model *model,
                         const struct tt_task *task, struct tt_engine_task *engine_task);
/* The task is back: sets the items' fates and the results of their inferences, and counts. */
void tt_cell_tasks_finished(struct tt_served_model *model, struct tt_task *task,
                            struct tt_engine_task *engine_task);

/* Notes in the inference when it was computed. */
void tt_cell_tasks_note_times(struct tt_inference *inference, int64_t started_at,
                              int64_t computed_at);

#endif
