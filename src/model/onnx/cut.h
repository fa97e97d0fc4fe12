/* D1: chooses where a graph is cut into stages.
 *
 * A cut is after a node, in the file's order. It separates the nodes up to it from the nodes behind
 * it. It is legal if every data tensor that crosses it keeps its rows in one dimension (in a model
 * without batching: is any dense tensor). The reason: a stage runs with other batches than the
 * stage that made its input. Rows that are not dimension 0 cross transposed (slices.h). Tensors
 * that follow from shapes do not cross; the stage that needs them recomputes them.
 *
 * How the cuts are chosen:
 * - For K stages, the slowest stage is within a tenth of the fastest possible. No stage takes less
 *   than three quarters of its share, if that is possible. Among such placements the one with the
 *   fewest crossing tensors wins, then the one with the fewest bytes.
 * - By batch, a cut is where the preferred batch size of the operators changes.
 *
 * It decides from the tables of an onnx_graph, which the caller has filled in by running the graph.
 * It does not change them. */
#ifndef TT_MODEL_ONNX_CUT_H
#define TT_MODEL_ONNX_CUT_H

#include "base/text.h"
#include "model/onnx/onnx_graph.h"

enum { TT_CUT_MAX_STAGES = 4096 };

enum tt_cut_how {
    TT_CUT_STAGES,   /* `count` stages of about equal time */
    TT_CUT_AUTO,     /* as many as cost little: the caller measures and sets `count` */
    TT_CUT_PER_NODE, /* everywhere where a cut is legal */
    TT_CUT_AT,       /* after the named nodes, or the producers of the named tensors */
    TT_CUT_BY_BATCH, /* where the preferred batch size changes; needs `preferred` */
};

struct tt_cut_request {
    enum tt_cut_how how;
    bool batched;
    int32_t count;
    const char *const *names;
    int32_t name_count;
    const int32_t *preferred; /* BY_BATCH: per node, its best batch size */
};

/* Position i is the cut after node i; there is none after the last node. */
struct tt_cut_position {
    bool legal;
    bool idle;              /* on one side there are only nodes that are recomputed: no cut */
    int32_t blocker;        /* if not legal: a tensor that must cross and cannot */
    int32_t crossing_count; /* data tensors made before it and needed behind it */
    int64_t crossing_bytes; /* bytes per row */
};

struct tt_cut_plan {
    int32_t node_count;
    struct tt_cut_position *positions; /* [node_count] */
    int32_t stage_count;
    int32_t *first_nodes; /* [stage_count + 1]; stage s ends before first_nodes[s + 1] */
    int64_t *times_ns;    /* [stage_count] */
};

/* Describes the request in words ("stages 4", "per node", "by batch", "at a,b"), which also
 * identify it. Returns `out`. */
char *tt_cut_describe(const struct tt_cut_request *request, char *out, size_t capacity);
/* Errors: INVALID (more stages than possible, an unknown name, or an illegal cut: the message names
 * the node and the tensor), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cut_choose(const struct tt_onnx_graph *graph,
                                        const struct tt_cut_request *request,
                                        struct tt_cut_plan **out_plan, struct tt_error *why);
void tt_cut_plan_free(struct tt_cut_plan *take_plan);
/* Asserts that the stages cover each node once, and that each cut is legal. O(stages). */
void tt_cut_plan_check(const struct tt_cut_plan *self);
/* Appends why the tensor cannot cross: "tensor 't' of Reshape 'r' (node 7) has shape [-1,12,64],
 * of which no dimension keeps the rows". */
void tt_cut_explain_blocker(const struct tt_onnx_graph *graph, int32_t tensor,
                            struct tt_text *out_text);
/* True if the data tensor crosses the cut after `node`. */
bool tt_cut_crosses(const struct tt_onnx_tensor *tensor, int32_t node);

#endif
