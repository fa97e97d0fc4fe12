/* Tensors in the terms of the Open Inference Protocol. Dimension -1 of a shape is set by each
 * request. */
#ifndef TT_CORE_TENSOR_H
#define TT_CORE_TENSOR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_MAX_RANK = 8, TT_MAX_TENSORS = 64, TT_MAX_NAME_BYTES = 256 };

enum tt_dtype {
    TT_DTYPE_NONE,
    TT_DTYPE_BOOL,
    TT_DTYPE_UINT8,
    TT_DTYPE_UINT16,
    TT_DTYPE_UINT32,
    TT_DTYPE_UINT64,
    TT_DTYPE_INT8,
    TT_DTYPE_INT16,
    TT_DTYPE_INT32,
    TT_DTYPE_INT64,
    TT_DTYPE_FP16,
    TT_DTYPE_FP32,
    TT_DTYPE_FP64,
    TT_DTYPE_BF16,
    TT_DTYPE_BYTES, /* strings: each element has its own length */
};

struct tt_shape {
    int32_t rank;
    int64_t dims[TT_MAX_RANK];
};

/* One input or output of a model. `shape` has all dimensions, the batch dimension first where
 * `batched`. */
struct tt_tensor_spec {
    char name[TT_MAX_NAME_BYTES];
    enum tt_dtype dtype;
    struct tt_shape shape;
};

/* Inputs and outputs of a model as the engine runs it. */
struct tt_signature {
    bool batched;      /* dimension 0 of every tensor is the number of rows */
    int32_t max_batch; /* maximum number of rows in one run; 1 where not batched */
    int32_t input_count, output_count;
    struct tt_tensor_spec inputs[TT_MAX_TENSORS];
    struct tt_tensor_spec outputs[TT_MAX_TENSORS];
};

/* Bytes of one element; 0 for BYTES and NONE. */
size_t tt_dtype_bytes(enum tt_dtype dtype);
/* Name in the protocol's spelling ("FP32" ...). Static storage. */
const char *tt_dtype_name(enum tt_dtype dtype);
/* The inverse; TT_DTYPE_NONE for an unknown spelling. `name` need not be NUL-terminated. */
enum tt_dtype tt_dtype_parse(const char *name, size_t length);
/* Product of the dimensions from `first` on; -1 if one is negative or the product overflows int64.
 */
int64_t tt_shape_count(const struct tt_shape *shape, int32_t first);
/* Bytes of a row, where dimension 0 is the rows; 0: a row has no fixed size. */
size_t tt_tensor_row_bytes(const struct tt_tensor_spec *spec);
/* Writes "[2,-1,8]" to `out` (at least 8 * 21 bytes); returns `out`. */
char *tt_shape_print(const struct tt_shape *shape, char *out, size_t capacity);
/* True if a concrete shape fits the spec. -1 matches anything >= 0; dimension 0 is free where
 * `batched`. */
bool tt_shape_fits(const struct tt_shape *concrete, const struct tt_shape *spec, bool batched);
/* True if a dimension of some input, other than the rows, may differ between requests. */
bool tt_signature_varies(const struct tt_signature *signature);
/* Checks that `size_bytes` bytes are exactly a BYTES tensor of `count` elements: 4 bytes of length
 * (little endian) before each. INVALID. */
TT_MUST_CHECK enum tt_err tt_bytes_tensor_check(const void *bytes, size_t size_bytes, int64_t count,
                                                struct tt_error *why);

#endif
