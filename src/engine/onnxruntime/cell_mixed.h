/* C1: a batch of cells of several models, whose types compute the same. Each cell reads and writes
 * the slots of its own model, so all rows are gathered and scattered. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_MIXED_H
#define TT_ENGINE_ONNXRUNTIME_CELL_MIXED_H

#include "engine/onnxruntime/cell_batch.h"

/* Its errors are those of tt_cell_step_run. */
TT_MUST_CHECK enum tt_err tt_cell_mixed_run(const struct tt_cell_batch *batch,
                                            struct tt_error *why);
/* The slot of a cell that failed: zero. */
void tt_cell_mixed_clear(const struct tt_engine_cell *cell);

#endif
