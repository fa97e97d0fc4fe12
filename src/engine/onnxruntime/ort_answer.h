/* Makes the answer of a request of cells on ONNX Runtime (engine/cell_answer.h). `_emit` is called
 * for each cell of the answer in order, `_finish` with the slot of the last one. Then the outputs
 * are a result of their own, and the slot may be returned. One thread at a time. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_ANSWER_H
#define TT_ENGINE_ONNXRUNTIME_ORT_ANSWER_H

#include "engine/cell_answer.h"
#include "engine/engine.h"

/* Appends the outputs in `slot` to the answer; does nothing if the type of their cell does not
 * emit. `most`: maximum of cells that will emit, >= 1. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_answer_emit(struct tt_cell_answer *self,
                                             const struct tt_engine_model *model, int32_t slot,
                                             int32_t most);
/* Makes a result of one row with one reference, and empties the answer. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_answer_finish(struct tt_cell_answer *self,
                                               const struct tt_engine_model *model, int32_t slot,
                                               struct tt_engine_result **out_result);

#endif
