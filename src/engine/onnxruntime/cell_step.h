/* Runs cells of one type as one batch: one call of the type's session.
 *
 * A state input is bound in place if its slots are adjacent in batch order, or if all cells begin
 * with the initial value. Before that, the few cells that the task marks are copied to their
 * `staging_slot` (engine.h). Otherwise the input is gathered. Elements of requests are always
 * gathered. Outputs are written in place if the cells' slots are adjacent, else copied there.
 * Nothing else is copied, and the steady state allocates nothing. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_STEP_H
#define TT_ENGINE_ONNXRUNTIME_CELL_STEP_H

#include "engine/gather.h"
#include "engine/onnxruntime/cell_model.h"
#include "engine/onnxruntime/ort_values.h"

/* An executor's scratch memory, reused from task to task. All zero at first. */
struct tt_cell_scratch {
    struct tt_gather_buffer inputs[TT_MAX_TENSORS], outputs[TT_MAX_TENSORS];
    const OrtValue *bound_inputs[TT_MAX_TENSORS];
    OrtValue *bound_outputs[TT_MAX_TENSORS];
    struct tt_ort_values values;
    const char **rows;            /* of the input that is being gathered */
    int32_t *movers;              /* cells of the batch that need copies in or out */
    struct tt_engine_cell *cells; /* cells of the current round of sequences */
    int64_t row_capacity, mover_capacity;
    int32_t cell_capacity;
};

void tt_cell_scratch_fini(struct tt_cell_scratch *self);

struct tt_cell_batch {
    const struct tt_ort_model *model;
    int32_t type;
    struct tt_engine_cell *cells; /* the cells to run */
    int32_t count;
    struct tt_cell_scratch *scratch;
    OrtRunOptions *run_options;
    struct tt_engine_task *task; /* receives times and byte counts */
};

/* Runs at most the type's largest batch. Errors, for the batch as a whole: INVALID (an element is
 * out of range, or the session rejects the input), NO_MEMORY, INTERNAL. On error the contents of
 * the cells' slots are undefined. */
TT_MUST_CHECK enum tt_err tt_cell_step_run(struct tt_cell_batch *batch, struct tt_error *why);
/* Runs all cells: in batches of at most the type's largest, and one by one if a batch fails. Sets
 * each cell's error and the value it emitted. The slots of failed cells are zero. */
void tt_cell_step_run_each(const struct tt_cell_batch *batch);

/* C1: the same as tt_cell_step_run for cells of several models. Implemented in cell_mixed.c, as
 * is: the slot of a cell that failed is zero. */
TT_MUST_CHECK enum tt_err tt_cell_mixed_run(const struct tt_cell_batch *batch,
                                            struct tt_error *why);
void tt_cell_mixed_clear(const struct tt_engine_cell *cell);
/* Room for `bytes` bytes, whose contents are undefined; NULL: no memory. */
void *tt_cell_scratch_room(struct tt_gather_buffer *buffer, size_t bytes);

#endif
