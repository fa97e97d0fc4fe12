/* Where the parts of a cut graph stand in its picture: layers from top to bottom, edges between
 * neighbouring layers only.
 *
 * The first layer holds the model's inputs, the last its outputs. A node stands below all that it
 * reads and below every node of the stages before. What is read further down passes each layer
 * between at a point of its own, so that no edge runs through a box. Layers are ordered, and their
 * parts moved, so that edges are short. Nodes that follow from shapes are not drawn.
 *
 * Life: _init lays everything out; the picture reads it; _fini. Implemented in cut_layout.c. */
#ifndef TT_MODEL_ONNX_CUT_LAYOUT_H
#define TT_MODEL_ONNX_CUT_LAYOUT_H

#include "model/onnx/cut.h"

enum { TT_CUT_BOX_WIDTH = 150, TT_CUT_POINT_WIDTH = 10, TT_CUT_GAP = 16 };

enum tt_cut_part_kind { TT_CUT_NODE, TT_CUT_INPUT, TT_CUT_OUTPUT, TT_CUT_POINT };

struct tt_cut_part {
    enum tt_cut_part_kind kind;
    int32_t index; /* of the node, or of the tensor (input, output); -1: a point */
    int32_t layer;
    double x; /* its middle, in pixels from 0 */
};

struct tt_cut_edge {
    int32_t from, to; /* parts */
};

struct tt_cut_layout {
    const struct tt_onnx_graph *graph; /* borrowed */
    const struct tt_cut_plan *plan;    /* borrowed */
    struct tt_cut_part *parts;
    struct tt_cut_edge *edges; /* by the layer of `from` */
    int32_t part_count, edge_count;
    int64_t part_capacity, edge_capacity;
    int32_t layer_count;
    int32_t *stage_ends; /* [stage_count]: the layer behind each stage's last */
    double width;
    bool failed; /* no memory */
};

/* Errors: NO_MEMORY; then there is nothing to free. */
TT_MUST_CHECK enum tt_err tt_cut_layout_init(struct tt_cut_layout *self,
                                             const struct tt_onnx_graph *graph,
                                             const struct tt_cut_plan *plan);
void tt_cut_layout_fini(struct tt_cut_layout *self);

#endif
