/* Where a model of a stream engine has its tensors on the device.
 *
 * A task's arena holds the inputs of max_batch rows one tensor after the other, then the outputs,
 * then what passes between steps. Between tasks each row of a request has a slot in arrays of
 * `slot_count` rows. Tensors that pass between steps have a *store*: a part of the arena, and an
 * array of slots. Tensors with rows of one size share a store if no step needs both, so a model of
 * a hundred nodes needs little more memory than its widest place.
 *
 * Life: made when a model is loaded; it never changes. Implemented in stream_layout.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_LAYOUT_H
#define TT_ENGINE_STREAMS_STREAM_LAYOUT_H

#include "engine/dataflow.h"

/* What exits want on the host behind one step, at most. */
enum { TT_STREAM_MAX_READ_BACKS = 64 };

/* D8: a tensor that the host reads behind a step, since its exits decide there. */
struct tt_stream_read_back {
    int32_t step, tensor;
    size_t at; /* in an arena's pinned part; steps overlap there */
};

struct tt_stream_store {
    size_t row_bytes;
    size_t arena_at, slots_at; /* offsets in an arena, and in the slots */
    int32_t last_use;          /* of its newest tensor, while it is laid out */
};

struct tt_stream_layout {
    const struct tt_dataflow *flow; /* borrowed */
    size_t input_row_bytes[TT_MAX_TENSORS], output_row_bytes[TT_MAX_TENSORS];
    size_t input_at[TT_MAX_TENSORS], output_at[TT_MAX_TENSORS]; /* offsets in an arena */
    size_t inputs_bytes, outputs_at, outputs_bytes, arena_bytes;
    size_t pinned_bytes; /* of its first part, with inputs and outputs only, and the read-backs */
    int32_t read_back_count;
    struct tt_stream_read_back *read_backs; /* by step */
    int32_t store_count;
    struct tt_stream_store *stores;
    int32_t *store_of;  /* [tensors]: -1: it never passes between steps */
    int32_t *output_of; /* [tensors]: which output of the model; -1: none */
    size_t slots_bytes;
    int32_t alignment; /* a row of a slot with this number, or a multiple, is aligned as kernels of
                          a GPU want it */
};

/* `slot_count` 0: no room between tasks. Errors: INVALID (a tensor has no fixed size), UNSUPPORTED
 * (an output is an input; too many tensors), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_stream_layout_init(struct tt_stream_layout *self,
                                                const struct tt_dataflow *flow,
                                                const struct tt_signature *signature,
                                                int32_t slot_count, struct tt_error *why);
void tt_stream_layout_fini(struct tt_stream_layout *self);
/* Where the host finds the tensor behind this step, which has an exit that reads it back. */
size_t tt_stream_layout_read_back(const struct tt_stream_layout *self, int32_t step,
                                  int32_t tensor);
/* True if the tensor is on the device when a task begins with this step, and some step from there
 * on reads it, or the model's answer has it. */
static inline bool tt_stream_layout_is_live(const struct tt_stream_layout *self, int32_t tensor,
                                            int32_t step) {
    const struct tt_dataflow_tensor *t = &self->flow->tensors[tensor];
    return t->producer < step && t->last_use >= step;
}

#endif
