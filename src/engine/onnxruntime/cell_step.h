/* Runs cells of one type as one batch: one call of the type's session.
 *
 * Each state input is bound where it lies when the slots that the cells read are adjacent in batch
 * order, after those few were copied there of which the task says so (engine.h: `seat`), or when
 * all of them begin; else it is gathered. Elements of the requests are always gathered. Outputs are
 * written in place where the cells' slots are adjacent, else copied there. Nothing else is
 * copied, and in steady state nothing is allocated. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_STEP_H
#define TT_ENGINE_ONNXRUNTIME_CELL_STEP_H

#include "engine/gather.h"
#include "engine/onnxruntime/cell_model.h"
#include "engine/onnxruntime/ort_values.h"

/* An executor's memory, kept from task to task. All zero in the beginning. */
struct tt_cell_scratch {
    struct tt_gather_buffer inputs[TT_MAX_TENSORS], outputs[TT_MAX_TENSORS];
    const OrtValue *bound_inputs[TT_MAX_TENSORS];
    OrtValue *bound_outputs[TT_MAX_TENSORS];
    struct tt_ort_values values;
    const char **rows;            /* of the input at hand */
    int32_t *movers;              /* of the batch at hand: cells that move in or out */
    struct tt_engine_cell *cells; /* of a walk at hand */
    int32_t row_capacity, cell_capacity;
};

void tt_cell_scratch_fini(struct tt_cell_scratch *self);

struct tt_cell_batch {
    const struct tt_ort_model *model;
    int32_t type;
    struct tt_engine_cell *cells; /* that run */
    int32_t count;
    struct tt_cell_scratch *scratch;
    OrtRunOptions *run_options;
    struct tt_engine_task *task; /* its times and bytes are added to */
};

/* At most the type's largest batch. Errors: INVALID (an element that is not there; what the session
 * says), NO_MEMORY, INTERNAL, of the batch as a whole; what lies in the cells' slots is undefined
 * then. */
TT_MUST_CHECK enum tt_err tt_cell_step_run(struct tt_cell_batch *batch, struct tt_error *why);
/* Runs them, all at once (more than the type's largest batch: one such after the other) or, if that
 * fails, one by one: sets the error of each, and what it emitted. The slots of who fails are zero
 * then. */
void tt_cell_step_run_each(const struct tt_cell_batch *batch);

#endif
