/* C2: unfolding of a request into cells.
 *
 * It turns the tensors of one request into specs for core/cell_graph.h (the cells, and which read
 * which) and into elements for the engine (which element of the tensors each cell reads, and which
 * cell is the last). The model defines how:
 * - a chain has one cell per element, or per chunk of elements;
 * - a sequence-to-sequence model has a chain of encoders, then an open-ended chain of decoders;
 * - a tree has one cell per node;
 * - steps (without files) are the same as in the simulator;
 * - a plug-in defines its own cells, within the same limits.
 *
 * It rejects hostile requests: its result is within the model's limits, has no cycle, and reads no
 * token outside the vocabulary. Every error except NO_MEMORY is INVALID. The message is for the
 * client and names the place (tensor, element, node); so does the message for a mistake of a
 * plug-in.
 *
 * Life: made when a request has arrived completely, on any thread, several at once. `specs` go to
 * tt_cell_graph_new. It lives as long as the cells of the request, for look-ups by the engine, and
 * is freed with the graph. It is one allocation and refers to nothing of the request. */
#ifndef TT_MODEL_CELLS_UNFOLD_H
#define TT_MODEL_CELLS_UNFOLD_H

#include "core/cell_graph.h"
#include "model/cells/cells.h"

/* One input of a request, contiguous and aligned to its elements, with the order and types of the
 * model's signature. */
struct tt_unfold_tensor {
    const void *bytes;
    struct tt_shape shape; /* as sent: [1, n, ...] */
};

/* What the cells of one spec read of the request: repeat r reads element first + r * stride of
 * every tensor that its type reads. In a tree `first` is the node. If the type reads chunks
 * (cells.h), the index is that of a chunk. */
struct tt_unfold_elements {
    int32_t first;
    int32_t stride; /* 1; -1: backwards; 0: a single cell, or one that reads nothing */
};
static inline int32_t tt_unfold_elements_at(const struct tt_unfold_elements *self, int32_t repeat) {
    return self->first + repeat * self->stride;
}

struct tt_unfolded {
    int32_t spec_count;
    struct tt_cell_spec *specs;          /* first_step: the type; last_step: equal but for STEPS */
    struct tt_unfold_elements *elements; /* [spec_count] */
    int32_t
        answer_spec; /* its last cell's outputs, or what all of its cells emit, are the answer */
    int32_t input_length;  /* number of elements, also where cells read chunks of them */
    int32_t output_length; /* maximum number of emitted elements; 0: the model emits nothing */
};

/* `tensors`: [cells->signature.input_count]; their shapes must fit the signature. */
TT_MUST_CHECK enum tt_err tt_unfold_new(const struct tt_cells *cells,
                                        const struct tt_unfold_tensor *tensors,
                                        struct tt_unfolded **out_unfolded, struct tt_error *why);
void tt_unfold_free(struct tt_unfolded *take_unfolded);

/* The element, or chunk, that a cell reads; `repeat` is its number in its chain. */
static inline int32_t tt_unfold_element(const struct tt_unfolded *self, int32_t spec,
                                        int32_t repeat) {
    return tt_unfold_elements_at(&self->elements[spec], repeat);
}

#endif
