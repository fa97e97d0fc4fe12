/* D1: where a graph is cut into stages.
 *
 * A cut stands after a node, in the file's order, and parts the nodes into those before and those
 * behind it. It can be made where every data tensor that crosses is one whose rows are kept in
 * dimension 0 (of a model that does not batch: any dense one), since stages run with other batches
 * than the stage that made their input. Tensors that follow from shapes do not cross: the stage
 * that needs them makes them again.
 *
 * Asked for K stages, the cuts are placed so that the slowest stage is, within a tenth, as fast as
 * it can be and none takes less than three quarters of its share (where that can be), and among
 * those placements so that the fewest tensors cross, then the fewest bytes. Asked to cut by batch,
 * they stand where the preferred batch size of the operators changes.
 *
 * It decides from the tables of an onnx_graph that somebody has filled in by running it, and
 * changes nothing there. */
#ifndef TT_MODEL_ONNX_CUT_H
#define TT_MODEL_ONNX_CUT_H

#include "base/text.h"
#include "model/onnx/onnx_graph.h"

enum { TT_CUT_MAX_STAGES = 4096 };

enum tt_cut_how {
    TT_CUT_STAGES,   /* `count` stages of about equal time */
    TT_CUT_AUTO,     /* as many as cost little: the one who can measure sets `count` */
    TT_CUT_PER_NODE, /* wherever it can be cut */
    TT_CUT_AT,       /* after the named nodes (or the makers of the named tensors) */
    TT_CUT_BY_BATCH, /* where the preferred batch size changes; see `preferred` */
};

struct tt_cut_request {
    enum tt_cut_how how;
    bool batched;
    int32_t count;
    const char *const *names;
    int32_t name_count;
    const int32_t *preferred; /* BY_BATCH: per node, the batch size that it runs best at */
};

/* The cut after node `i` is position i; the last node has none. */
struct tt_cut_position {
    bool legal;
    bool idle;              /* nothing but nodes that are made again on one side: no cut at all */
    int32_t blocker;        /* where not legal: a tensor that must cross and cannot */
    int32_t crossing_count; /* data tensors made before and needed behind */
    int64_t crossing_bytes; /* of one row */
};

struct tt_cut_plan {
    int32_t node_count;
    struct tt_cut_position *positions; /* [node_count] */
    int32_t stage_count;
    int32_t *first_nodes; /* [stage_count + 1]; stage s is the nodes first_nodes[s] ..
                             first_nodes[s + 1] - 1 */
    int64_t *times_ns;    /* [stage_count] */
};

/* "stages 4", "per node", "by batch", "at a,b": the request in words, which names it; returns
 * `out`.
 */
char *tt_cut_describe(const struct tt_cut_request *request, char *out, size_t capacity);
/* Errors: INVALID (more stages than can be had, a name that is none, a cut that cannot be made: the
 * sentence names the node and the tensor), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cut_choose(const struct tt_onnx_graph *graph,
                                        const struct tt_cut_request *request,
                                        struct tt_cut_plan **out_plan, struct tt_error *why);
void tt_cut_plan_free(struct tt_cut_plan *take_plan);
/* "tensor 't' of Reshape 'r' (node 7) has shape [-1,12,64], whose first dimension does not keep the
 * rows"; appended. */
void tt_cut_explain_blocker(const struct tt_onnx_graph *graph, int32_t tensor,
                            struct tt_text *out_text);
/* Does the data tensor cross the cut after `node`? */
bool tt_cut_crosses(const struct tt_onnx_tensor *tensor, int32_t node);

#endif
