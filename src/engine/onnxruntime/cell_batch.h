/* What a batch of cells is run with: the cells, and an executor's scratch memory.
 *
 * Life of the scratch memory: all zero at first, it grows with the batches, _fini. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_BATCH_H
#define TT_ENGINE_ONNXRUNTIME_CELL_BATCH_H

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

/* Room for `bytes` bytes, whose contents are undefined; NULL: no memory. */
void *tt_cell_scratch_room(struct tt_gather_buffer *buffer, size_t bytes);

struct tt_cell_batch {
    const struct tt_ort_model *model;
    int32_t type;
    struct tt_engine_cell *cells; /* the cells to run */
    int32_t count;
    struct tt_cell_scratch *scratch;
    OrtRunOptions *run_options;
    struct tt_engine_task *task; /* receives times and byte counts */
};

/* Calls the session of the type with the inputs and outputs that are bound. INVALID, INTERNAL. */
TT_MUST_CHECK enum tt_err tt_cell_batch_call(const struct tt_cell_batch *self,
                                             struct tt_error *why);

#endif
