/* A cut for people: a table of the stages and of the other possible cuts, and a picture of the
 * graph with its stages. */
#ifndef TT_MODEL_ONNX_CUT_REPORT_H
#define TT_MODEL_ONNX_CUT_REPORT_H

#include "model/onnx/cut.h"

/* Appends the stages (nodes, time, share); each cut with the tensors that cross it (shape, bytes
 * per row); and the places that cannot be cut, with the tensor that prevents it. `preferred` may be
 * NULL. */
void tt_cut_report(const struct tt_onnx_graph *graph, const struct tt_cut_plan *plan,
                   const int32_t *preferred, struct tt_text *out_text);
/* Appends an SVG (cut_svg.c): nodes in layers, a band and a time per stage, inputs, outputs, and an
 * arrow from each data tensor to whatever reads it. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cut_svg(const struct tt_onnx_graph *graph,
                                     const struct tt_cut_plan *plan, const char *title,
                                     struct tt_text *out_svg);

#endif
