/* Reads a model's inputs and outputs from its ONNX file without loading the model.
 *
 * The file is a protobuf message that consists almost entirely of weights. It is mapped and walked
 * by hand: names, types and shapes are read, everything else (nodes, weights) is skipped. So a file
 * of gigabytes costs a few pages. Every length is checked against its enclosing message. Hostile
 * bytes give an error with their offset, never a crash.
 *
 * Inputs that are also initializers have a default in the file (before IR version 4 all weights
 * were listed so). They do not count as inputs.
 *
 * It never interprets the graph: only ONNX Runtime knows whether it can run it. */
#ifndef TT_MODEL_ONNX_ONNX_FILE_H
#define TT_MODEL_ONNX_ONNX_FILE_H

#include "base/err.h"
#include "core/tensor.h"

/* An input or output. A symbolic or unknown dimension is -1. */
struct tt_onnx_value {
    struct tt_tensor_spec spec;
    bool has_shape;                     /* false: the rank is unknown, and spec.shape has rank 0 */
    char batch_name[TT_MAX_NAME_BYTES]; /* name of a symbolic dimension 0 in the file; or "" */
};

enum { TT_ONNX_MAX_EXTERNALS = 8 };

struct tt_onnx_file {
    int64_t ir_version;
    int64_t opset; /* of the default operator domain */
    int32_t input_count, output_count;
    struct tt_onnx_value inputs[TT_MAX_TENSORS];
    struct tt_onnx_value outputs[TT_MAX_TENSORS];
    /* Names of other files with weights, as written in this file. */
    int32_t external_count;
    char externals[TT_ONNX_MAX_EXTERNALS][TT_MAX_NAME_BYTES];
};

/* Walks `length` bytes; `file_name` is used in messages only. The caller owns the result: free().
 * Errors:
 * - INVALID: not ONNX, damaged, truncated, or an invalid name;
 * - UNSUPPORTED: sequences, maps, types without a name in the protocol, ranks above TT_MAX_RANK,
 *   more tensors than TT_MAX_TENSORS, weights in more files than TT_ONNX_MAX_EXTERNALS;
 * - NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_onnx_file_parse(const char *file_name, const void *bytes,
                                             size_t length, struct tt_onnx_file **out_file,
                                             struct tt_error *why);
/* Reads a file. Errors: as above, and NOT_FOUND, IO. The file must not be truncated during the
 * call. */
TT_MUST_CHECK enum tt_err tt_onnx_file_read(const char *path, struct tt_onnx_file **out_file,
                                            struct tt_error *why);

#endif
