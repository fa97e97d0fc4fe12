/* The answer of a request of cells on ONNX Runtime (engine/cell_answer.h), made while it is
 * computed: `_emit` for each cell of the answer in order, `_finish` with the slot of the last. Then
 * the outputs are a result of their own and the slot may be given back. One thread at a time. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_ANSWER_H
#define TT_ENGINE_ONNXRUNTIME_ORT_ANSWER_H

#include "engine/cell_answer.h"
#include "engine/engine.h"

/* The cell whose outputs lie in `slot` is the next of the answer; nothing happens where its type
 * emits nothing. `most`: cells that will emit, at least 1. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_answer_emit(struct tt_cell_answer *self,
                                             const struct tt_engine_model *model, int32_t slot,
                                             int32_t most);
/* One reference, of one row. Empties the answer. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_answer_finish(struct tt_cell_answer *self,
                                               const struct tt_engine_model *model, int32_t slot,
                                               struct tt_engine_result **out_result);

#endif
