/* What a request by cells answers on ONNX Runtime, while it is computed: the rows that its cells
 * emitted so far (a decoder's words), and in the end the outputs of its last cell.
 *
 * Life: all zero; `tt_cell_answer_emit` for each cell of the answer in order, `_finish` with the
 * slot of the last; then the outputs are a result of their own and the slot may be given back. One
 * thread at a time. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_ANSWER_H
#define TT_ENGINE_ONNXRUNTIME_CELL_ANSWER_H

#include "engine/engine.h"

struct tt_cell_answer {
    char *emitted; /* rows; owned */
    int32_t count, capacity;
};

void tt_cell_answer_fini(struct tt_cell_answer *self);
/* The cell whose outputs lie in `slot` is the next of the answer; nothing happens where its type
 * emits nothing. `most`: cells that will emit, at least 1. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_answer_emit(struct tt_cell_answer *self,
                                              const struct tt_engine_model *model, int32_t slot,
                                              int32_t most);
/* One reference, of one row. Empties the answer. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_answer_finish(struct tt_cell_answer *self,
                                                const struct tt_engine_model *model, int32_t slot,
                                                struct tt_engine_result **out_result);

#endif
