/* A lower estimate of the memory that a model takes, from its ONNX file alone: before a runtime
 * loads it, because loading computes what follows from constants. A file of 150 bytes may ask for
 * gigabytes.
 *
 * It counts the weights (of the file, of files that it names, and of inner graphs) and the largest
 * single tensor that the file determines: an annotated shape, with the largest batch in an open
 * first dimension; or the result of ConstantOfShape, Expand, RandomNormal or RandomUniform whose
 * shape is a constant. Shapes that follow only from computations are not seen: a trial load
 * (--isolate-loads) and the limit of the runtime's memory catch these.
 *
 * Hostile bytes give an error, never a crash. Nothing is loaded. Implemented in onnx_memory.c. */
#ifndef TT_MODEL_ONNX_ONNX_MEMORY_H
#define TT_MODEL_ONNX_ONNX_MEMORY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct tt_onnx_memory {
    int64_t weight_bytes;
    int64_t largest_bytes; /* of the largest tensor besides the weights; saturates */
    char largest[256];     /* what makes it: "ConstantOfShape 'big' (node 3)"; "": there is none */
};

/* `max_batch` >= 1. Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_onnx_memory_parse(const char *file_name, const void *bytes,
                                               size_t length, int32_t max_batch,
                                               struct tt_onnx_memory *out_memory,
                                               struct tt_error *why);
/* The same of a file. Errors: as above, and NOT_FOUND, IO. */
TT_MUST_CHECK enum tt_err tt_onnx_memory_read(const char *path, int32_t max_batch,
                                              struct tt_onnx_memory *out_memory,
                                              struct tt_error *why);
/* Reads a file. INVALID: its estimate is above `limit_bytes`; the message names the node or tensor.
 * `out_bytes`: the estimate. Errors: as above, and NOT_FOUND, IO. */
TT_MUST_CHECK enum tt_err tt_onnx_memory_check(const char *path, int32_t max_batch,
                                               int64_t limit_bytes, int64_t *out_bytes,
                                               struct tt_error *why);

#endif
