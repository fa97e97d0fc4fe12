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

#include <stdbool.h>
#include <stddef.h>

struct tt_dataflow_tensor {
    enum tt_dtype dtype;
    struct tt_shape shape;
    size_t row_bytes;
    int32_t producer; /* the step that makes it; -1: an input of the model */
    /* The last step that reads it, or whose exits do; step_count: an output of the model. What an
     * exit gives to a request that skips steps is kept until the step where that goes on. */
    int32_t last_use;
};

struct tt_dataflow_step {
    int32_t input_count, output_count;
    int32_t *inputs, *outputs; /* tensors */
};

/* D8: behind a step, a request whose rows all meet a condition leaves the model or skips steps. */
struct tt_dataflow_exit {
    int32_t step, to; /* `to`: the step that follows; step_count: it leaves */
    /* Runs behind `step`, for all rows. What it makes is read by exits only. Without outputs: there
     * is none. */
    struct tt_dataflow_step test;
    int32_t condition; /* BOOL or FP32, one per row (engine/exit_condition.h); -1: the next two */
    int32_t moved, since; /* FP32 */
    double less_than;
    /* Tensors that the skipped steps would have made, and what takes their place: made by `step`,
     * by the test, or before. Of a request that leaves: the model's outputs. */
    int32_t give_count;
    struct tt_dataflow_give {
        int32_t tensor, from;
    } * gives;
};

/* All zero: there is none. */
struct tt_dataflow {
    int32_t step_count, tensor_count, exit_count;
    struct tt_dataflow_tensor *tensors;
    struct tt_dataflow_step *steps;
    struct tt_dataflow_exit *exits;  /* the first of a step whose condition is met counts */
    int32_t outputs[TT_MAX_TENSORS]; /* tensors, in the signature's order */
};

/* Room for steps and tensors, all zero. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dataflow_init(struct tt_dataflow *self, int32_t step_count,
                                           int32_t tensor_count);
/* Room for the tensors of a step. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dataflow_step_init(struct tt_dataflow_step *self, int32_t input_count,
                                                int32_t output_count);
/* Room for exits, all zero but for `condition`, which is none. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dataflow_exits_init(struct tt_dataflow *self, int32_t exit_count);
void tt_dataflow_fini(struct tt_dataflow *self);
/* The exits are known: keeps each tensor until the last exit that reads it. */
void tt_dataflow_keep_for_exits(struct tt_dataflow *self);
/* True if a request may leave or skip steps behind this step. */
bool tt_dataflow_has_exit(const struct tt_dataflow *self, int32_t step);
/* True if an exit behind the step reads the tensor: its test, its condition, or the answer of a
 * request that leaves there. */
bool tt_dataflow_exit_reads(const struct tt_dataflow *self, int32_t step, int32_t tensor);
/* What runs has an index: that of a step, or step_count + e: the test of exit e. */
static inline const struct tt_dataflow_step *tt_dataflow_run(const struct tt_dataflow *self,
                                                             int32_t index) {
    return index < self->step_count ? &self->steps[index]
                                    : &self->exits[index - self->step_count].test;
}
/* Steps in a row: the first reads all inputs, the last makes all outputs, and each passes one
 * tensor of `state_bytes` per row to the next. The shapes of the signature are fixed but for the
 * rows. Errors: NO_MEMORY, INVALID (a tensor has rows of no fixed size). */
TT_MUST_CHECK enum tt_err tt_dataflow_init_chain(struct tt_dataflow *self,
                                                 const struct tt_signature *signature,
                                                 int32_t step_count, size_t state_bytes,
                                                 struct tt_error *why);

#endif
