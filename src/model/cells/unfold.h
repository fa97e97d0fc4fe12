/* C2: a request as cells.
 *
 * Unfolding turns the tensors of one request into what core/cell_graph.h wants (specs: cells, and
 * which read which) and what whoever runs the cells wants (which element of the tensors each cell
 * reads, which cell is the last). How, says the model: a chain has one cell per element; a sequence
 * to sequence model a chain of encoders and, behind it, an open-ended chain of decoders; a tree a
 * cell per node; steps (without files) what they are in the simulator; and a plug-in does what it
 * likes, within the same limits.
 *
 * This is where hostile requests are turned away: what comes out is within the model's limits, has
 * no cycles, and reads no token that the vocabulary does not have. Every error but
 * NO_MEMORY is INVALID, names the place (tensor, element, node) and is for the client to read; so
 * is what a plug-in does wrong.
 *
 * Life of one: made when a request has come in whole, on any thread, several at once; `specs` go to
 * tt_cell_graph_new; lives as long as cells of the request do, for whoever runs them to look things
 * up; freed with the graph. It is one piece of memory, and holds nothing of the request's. */
#ifndef TT_MODEL_CELLS_UNFOLD_H
#define TT_MODEL_CELLS_UNFOLD_H

#include "core/cell_graph.h"
#include "model/cells/cells.h"

/* One input of a request, contiguous and aligned to its elements; in the order and of the types of
 * the model's signature. */
struct tt_unfold_tensor {
    const void *bytes;
    struct tt_shape shape; /* as sent: [1, n, ...] */
};

/* What the cells of one spec read of the request: repeat r reads element first + r * stride of
 * every tensor that its type reads from. In a tree `first` is the node. */
struct tt_unfold_elements {
    int32_t first;
    int32_t stride; /* 1, or -1: from behind; 0: a single cell, or one that reads nothing */
};
static inline int32_t tt_unfold_elements_at(const struct tt_unfold_elements *self, int32_t repeat) {
    return self->first + repeat * self->stride;
}

struct tt_unfolded {
    int32_t spec_count;
    struct tt_cell_spec *specs; /* the cell's type is first_step; of STEPS up to last_step */
    struct tt_unfold_elements *elements; /* [spec_count] */
    int32_t answer_spec;   /* what its last cell gives, or all of its cells emit, is the answer */
    int32_t input_length;  /* elements */
    int32_t output_length; /* the most that can be emitted; 0: the model emits nothing */
};

/* `tensors`: [cells->signature.input_count], whose shapes fit the signature. */
TT_MUST_CHECK enum tt_err tt_unfold_new(const struct tt_cells *cells,
                                        const struct tt_unfold_tensor *tensors,
                                        struct tt_unfolded **out_unfolded, struct tt_error *why);
void tt_unfold_free(struct tt_unfolded *take_unfolded);

/* The element that a cell reads; cell: the number of the repeat. */
static inline int32_t tt_unfold_element(const struct tt_unfolded *self, int32_t spec,
                                        int32_t repeat) {
    return tt_unfold_elements_at(&self->elements[spec], repeat);
}

#endif
