/* An ONNX graph as tables: nodes in order, numbered tensors, and the producer and readers of each
 * tensor.
 *
 * It owns the whole file as a protobuf-c message (fields outside our schema are preserved), a table
 * of nodes and a table of tensors. Code that runs the graph writes the results of the run into the
 * tables: types, shapes, whether rows are kept, the time of each node.
 *
 * There are two kinds of tensors:
 * - A tensor that follows from shapes and constants only (the result of a Shape node, and what is
 *   computed from it). It is small and is recomputed wherever it is needed. So it need not cross a
 *   cut, and a number of rows in it is that of the batch that recomputes it.
 * - Every other tensor is data, and must cross.
 *
 * It never runs anything. It trusts the file only in this: nodes are in an order in which they can
 * run. Any other file is rejected. */
#ifndef TT_MODEL_ONNX_ONNX_GRAPH_H
#define TT_MODEL_ONNX_ONNX_GRAPH_H

#include "base/err.h"
#include "core/tensor.h"
#include "onnx.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_ONNX_FROM_INPUT = -1, TT_ONNX_FROM_INITIALIZER = -2 };

enum tt_onnx_rows {
    TT_ONNX_ROWS_UNKNOWN,  /* not measured */
    TT_ONNX_ROWS_KEPT,     /* dimension 0 counts the rows, and each row depends on its own input */
    TT_ONNX_ROWS_WITHIN,   /* so does `rows_dim`, a later one: between layers of ONNX's LSTM */
    TT_ONNX_ROWS_ELSEWHERE /* no dimension does */
};

struct tt_onnx_tensor {
    const char *name;    /* borrowed from the message */
    int32_t producer;    /* index of the node that makes it; or TT_ONNX_FROM_... */
    int32_t initializer; /* index in the message; -1: not an initializer */
    int32_t last_use; /* last node that needs it, directly or not; node_count: output; -1: none */
    bool is_output;
    bool from_shapes;
    /* Written by the code that ran the graph: */
    bool dense; /* its type and rank are supported */
    enum tt_onnx_rows rows;
    int32_t rows_dim; /* WITHIN only */
    enum tt_dtype dtype;
    struct tt_shape shape; /* -1: varies; rank 0 may also mean unknown */
    int64_t row_bytes;     /* as measured in a run; of the whole tensor if rows are not kept */
};

struct tt_onnx_node {
    const Onnx__Node *message;
    int32_t input_count, output_count;
    int32_t *inputs;  /* tensors, including those that inner graphs read; owned */
    int32_t *outputs; /* owned */
    bool from_shapes; /* all of its outputs follow from shapes */
    int64_t time_ns;  /* written by the code that ran the graph; 0: not measured */
};

struct tt_onnx_graph {
    Onnx__Model *model;
    int32_t node_count, tensor_count;
    struct tt_onnx_node *nodes;
    struct tt_onnx_tensor *tensors;
    int32_t input_count, output_count; /* without the initializers among the inputs */
    int32_t *inputs, *outputs;         /* indices of tensors, in the file's order */
};

/* Unpacks `length` bytes, which may be freed afterwards; `file_name` is used in messages. Errors:
 * INVALID (not an ONNX file; a tensor without producer, with two producers, or read before it is
 * made), UNSUPPORTED (more than a million nodes), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_onnx_graph_new(const char *file_name, const void *bytes, size_t length,
                                            struct tt_onnx_graph **out_graph, struct tt_error *why);
void tt_onnx_graph_free(struct tt_onnx_graph *take_graph);
/* Writes "Conv 'layer1/conv' (node 3)", for people; returns `out`. */
char *tt_onnx_graph_node_name(const struct tt_onnx_graph *self, int32_t node, char *out,
                              size_t capacity);
/* Index of the node with this name, or that makes the tensor with this name; -1: there is none. */
int32_t tt_onnx_graph_find(const struct tt_onnx_graph *self, const char *name);
/* Converts between our type and ONNX's number; NONE and 0: there is none. */
enum tt_dtype tt_onnx_dtype(int32_t element);
/* An initializer's bytes in the message; NULL: they are stored in another form. */
const void *tt_onnx_tensor_bytes(const Onnx__Tensor *tensor, size_t *out_bytes);
int32_t tt_onnx_element(enum tt_dtype dtype);

#endif
