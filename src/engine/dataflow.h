/* Which tensors the steps of a loaded model read and make, with fixed sizes: what a device needs to
 * keep rows between steps (engine/streams/stream_engine.h).
 *
 * Tensors are numbered: the model's inputs first, in the signature's order, then those that steps
 * make. Dimension 0 of each is the rows; all others are fixed. A dataflow is made once per model
 * and never changes. Implemented in dataflow.c. */
#ifndef TT_ENGINE_DATAFLOW_H
#define TT_ENGINE_DATAFLOW_H

#include "base/err.h"
#include "core/tensor.h"

#include <stddef.h>

struct tt_dataflow_tensor {
    enum tt_dtype dtype;
    struct tt_shape shape;
    size_t row_bytes;
    int32_t producer; /* the step that makes it; -1: an input of the model */
    int32_t last_use; /* the last step that reads it; step_count: an output of the model */
};

struct tt_dataflow_step {
    int32_t input_count, output_count;
    int32_t *inputs, *outputs; /* tensors */
};

/* All zero: there is none. */
struct tt_dataflow {
    int32_t step_count, tensor_count;
    struct tt_dataflow_tensor *tensors;
    struct tt_dataflow_step *steps;
    int32_t outputs[TT_MAX_TENSORS]; /* tensors, in the signature's order */
};

/* Room for steps and tensors, all zero. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dataflow_init(struct tt_dataflow *self, int32_t step_count,
                                           int32_t tensor_count);
/* Room for the tensors of a step. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dataflow_step_init(struct tt_dataflow_step *self, int32_t input_count,
                                                int32_t output_count);
void tt_dataflow_fini(struct tt_dataflow *self);
/* Steps in a row: the first reads all inputs, the last makes all outputs, and each passes one
 * tensor of `state_bytes` per row to the next. The shapes of the signature are fixed but for the
 * rows. Errors: NO_MEMORY, INVALID (a tensor has rows of no fixed size). */
TT_MUST_CHECK enum tt_err tt_dataflow_init_chain(struct tt_dataflow *self,
                                                 const struct tt_signature *signature,
                                                 int32_t step_count, size_t state_bytes,
                                                 struct tt_error *why);

#endif
