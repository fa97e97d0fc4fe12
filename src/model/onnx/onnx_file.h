/* What an ONNX file says about a model's inputs and outputs, without loading the model.
 *
 * The file is a protobuf message that is nearly all weights. It is mapped and walked by hand:
 * names, types and shapes are read, everything else (nodes, weights) is stepped over, so that a
 * file of gigabytes costs a few pages. Every length is checked against its enclosing message;
 * hostile bytes give an error with their offset, never a crash.
 *
 * Inputs that are also initializers have a default in the file (before IR version 4 all weights
 * were listed so) and are no inputs of the model for us.
 *
 * It never interprets the graph: whether ONNX Runtime can run it, only ONNX Runtime knows. */
#ifndef TT_MODEL_ONNX_ONNX_FILE_H
#define TT_MODEL_ONNX_ONNX_FILE_H

#include "base/err.h"
#include "core/tensor.h"

/* An input or output. A symbolic or unknown dimension is -1. */
struct tt_onnx_value {
    struct tt_tensor_spec spec;
    bool has_shape;                     /* else the rank is unknown, and spec.shape is of rank 0 */
    char batch_name[TT_MAX_NAME_BYTES]; /* what the file calls dimension 0 where symbolic; or "" */
};

enum { TT_ONNX_MAX_EXTERNALS = 8 };

struct tt_onnx_file {
    int64_t ir_version;
    int64_t opset; /* of the standard operators */
    int32_t input_count, output_count;
    struct tt_onnx_value inputs[TT_MAX_TENSORS];
    struct tt_onnx_value outputs[TT_MAX_TENSORS];
    /* Files beside this one that hold weights, as it names them. */
    int32_t external_count;
    char externals[TT_ONNX_MAX_EXTERNALS][TT_MAX_NAME_BYTES];
};

/* Walks `length` bytes; `file_name` is only for messages. Errors: INVALID (not ONNX, damaged,
 * truncated; names longer and ranks higher than we carry; more tensors than TT_MAX_TENSORS),
 * UNSUPPORTED (sequences, maps, types without a name in the protocol; weights in more files than
 * TT_ONNX_MAX_EXTERNALS), NO_MEMORY. The result is the
 * caller's: free(). */
TT_MUST_CHECK enum tt_err tt_onnx_file_parse(const char *file_name, const void *bytes,
                                             size_t length, struct tt_onnx_file **out_file,
                                             struct tt_error *why);
/* The same from a file. Errors: also NOT_FOUND, IO. The file must not be cut shorter meanwhile. */
TT_MUST_CHECK enum tt_err tt_onnx_file_read(const char *path, struct tt_onnx_file **out_file,
                                            struct tt_error *why);

#endif
