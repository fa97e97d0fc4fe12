/* An ONNX graph taken apart: nodes in order, tensors by number, who makes and who reads each.
 *
 * It holds the whole file as a message of protobuf-c (what our schema does not name is carried
 * along), and beside it a table of nodes and one of tensors. Somebody who has run the graph writes
 * into the tables what only a run can tell: types, shapes, whether rows stay apart, how long a node
 * takes.
 *
 * Two kinds of tensors are told apart from the graph alone. One that follows from shapes and
 * constants (a Shape node's result, and what is computed from such) is small, and made again
 * wherever it is needed: it need not cross a cut, and the number of rows that it may hold is then
 * that of the batch which asks. Every other tensor is data, and must cross.
 *
 * It never runs anything, and trusts the file no further than that its nodes stand in an order in
 * which they can run: a file that says otherwise is refused. */
#ifndef TT_MODEL_ONNX_ONNX_GRAPH_H
#define TT_MODEL_ONNX_ONNX_GRAPH_H

#include "base/err.h"
#include "core/tensor.h"
#include "onnx.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_ONNX_FROM_INPUT = -1, TT_ONNX_FROM_INITIALIZER = -2 };

enum tt_onnx_rows {
    TT_ONNX_ROWS_UNKNOWN,  /* nobody has looked */
    TT_ONNX_ROWS_KEPT,     /* dimension 0 counts the rows, and each row depends on its own input */
    TT_ONNX_ROWS_ELSEWHERE /* dimension 0 is something else */
};

struct tt_onnx_tensor {
    const char *name;    /* borrowed from the message */
    int32_t producer;    /* the node; or TT_ONNX_FROM_... */
    int32_t initializer; /* its index in the message; -1: none */
    int32_t last_use; /* the last node that needs it, be it through tensors made again; the number
                         of nodes where the graph gives it out; -1: nobody */
    bool is_output;
    bool from_shapes;
    /* Written by who ran the graph: */
    bool dense; /* a tensor of a type and rank that we carry */
    enum tt_onnx_rows rows;
    enum tt_dtype dtype;
    struct tt_shape shape; /* -1: varies; rank 0 may also mean unknown */
    int64_t row_bytes;     /* as seen in a run; the whole where rows are not kept */
};

struct tt_onnx_node {
    const Onnx__Node *message;
    int32_t input_count, output_count;
    int32_t *inputs;  /* tensors, those read by inner graphs too; owned */
    int32_t *outputs; /* owned */
    bool from_shapes; /* all its outputs are */
    int64_t time_ns;  /* written by who ran the graph; 0: nobody */
};

struct tt_onnx_graph {
    Onnx__Model *model;
    int32_t node_count, tensor_count;
    struct tt_onnx_node *nodes;
    struct tt_onnx_tensor *tensors;
    int32_t input_count, output_count; /* without initializers that are listed as inputs */
    int32_t *inputs, *outputs;         /* tensors, in the file's order */
};

/* Unpacks `length` bytes (which may be freed then); `file_name` is for messages. Errors: INVALID
 * (no ONNX file; a tensor that nobody makes, or made twice, or read before), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_onnx_graph_new(const char *file_name, const void *bytes, size_t length,
                                            struct tt_onnx_graph **out_graph, struct tt_error *why);
void tt_onnx_graph_free(struct tt_onnx_graph *take_graph);
/* "Conv 'layer1/conv' (node 3)", for people; returns `out`. */
char *tt_onnx_graph_node_name(const struct tt_onnx_graph *self, int32_t node, char *out,
                              size_t capacity);
/* The node of this name, or that makes the tensor of this name; -1: there is none. */
int32_t tt_onnx_graph_find(const struct tt_onnx_graph *self, const char *name);
/* Our type for ONNX's number and back; NONE and 0 where there is none. */
enum tt_dtype tt_onnx_dtype(int32_t element);
int32_t tt_onnx_element(enum tt_dtype dtype);

#endif
