/* Runs cells of one type as one batch: one call of the type's session.
 *
 * A state input is bound in place if its slots are adjacent in batch order, or if all cells begin
 * with the initial value. Before that, the few cells that the task marks are copied to their
 * `staging_slot` (engine.h). Otherwise the input is gathered. Elements of requests are always
 * gathered. Outputs are written in place if the cells' slots are adjacent, else copied there.
 * Nothing else is copied, and the steady state allocates nothing. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_STEP_H
#define TT_ENGINE_ONNXRUNTIME_CELL_STEP_H

#include "engine/onnxruntime/cell_batch.h"

/* Runs at most the type's largest batch. Errors, for the batch as a whole: INVALID (an element is
 * out of range, or the session rejects the input), NO_MEMORY, INTERNAL. On error the contents of
 * the cells' slots are undefined. */
TT_MUST_CHECK enum tt_err tt_cell_step_run(struct tt_cell_batch *batch, struct tt_error *why);
/* Runs all cells: in batches of at most the type's largest, and one by one if a batch fails. Sets
 * each cell's error and the value it emitted. The slots of failed cells are zero. */
void tt_cell_step_run_each(const struct tt_cell_batch *batch);

#endif
