#include "core/tensor.h"

#include "base/text.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [TT_DTYPE_NONE] = {"NONE", 0},     [TT_DTYPE_BOOL] = {"BOOL", 1},
    [TT_DTYPE_UINT8] = {"UINT8", 1},   [TT_DTYPE_UINT16] = {"UINT16", 2},
    [TT_DTYPE_UINT32] = {"UINT32", 4}, [TT_DTYPE_UINT64] = {"UINT64", 8},
    [TT_DTYPE_INT8] = {"INT8", 1},     [TT_DTYPE_INT16] = {"INT16", 2},
    [TT_DTYPE_INT32] = {"INT32", 4},   [TT_DTYPE_INT64] = {"INT64", 8},
    [TT_DTYPE_FP16] = {"FP16", 2},     [TT_DTYPE_FP32] = {"FP32", 4},
    [TT_DTYPE_FP64] = {"FP64", 8},     [TT_DTYPE_BF16] = {"BF16", 2},
    [TT_DTYPE_BYTES] = {"BYTES", 0},
};

size_t tt_dtype_bytes(enum tt_dtype dtype) { return dtypes[dtype].bytes; }

const char *tt_dtype_name(enum tt_dtype dtype) { return dtypes[dtype].name; }

enum tt_dtype tt_dtype_parse(const char *name, size_t length) {
    for (int i = TT_DTYPE_BOOL; i <= TT_DTYPE_BYTES; i++)
        if (strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, name, length) == 0)
            return (enum tt_dtype)i;
    return TT_DTYPE_NONE;
}

int64_t tt_shape_count(const struct tt_shape *shape, int32_t first) {
    int64_t count = 1;
    for (int32_t i = first; i < shape->rank; i++)
        if (shape->dims[i] < 0 || __builtin_mul_overflow(count, shape->dims[i], &count))
            return -1;
    return count;
}

size_t tt_tensor_row_bytes(const struct tt_tensor_spec *spec) {
    int64_t count = tt_shape_count(&spec->shape, 1);
    size_t bytes;
    if (spec->shape.rank < 1 || count <= 0 ||
        __builtin_mul_overflow((size_t)count, tt_dtype_bytes(spec->dtype), &bytes))
        return 0;
    return bytes;
}

char *tt_shape_print(const struct tt_shape *shape, char *out, size_t capacity) {
    char text[TT_MAX_RANK * (TT_INTEGER_TEXT_BYTES + 1) + 2];
    size_t length = 0;
    text[length++] = '[';
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i)
            text[length++] = ',';
        length += tt_text_write_integer(shape->dims[i], text + length);
    }
    text[length++] = ']';
    length = length < capacity ? length : capacity - 1;
    memcpy(out, text, length);
    out[length] = '\0';
    return out;
}

bool tt_shape_fits(const struct tt_shape *concrete, const struct tt_shape *spec, bool batched) {
    if (concrete->rank != spec->rank)
        return false;
    for (int32_t i = 0; i < spec->rank; i++) {
        if (concrete->dims[i] < 0)
            return false;
        bool is_free = spec->dims[i] < 0 || (batched && i == 0);
        if (!is_free && concrete->dims[i] != spec->dims[i])
            return false;
    }
    return true;
}

bool tt_signature_varies(const struct tt_signature *signature) {
    for (int32_t i = 0; i < signature->input_count; i++)
        for (int32_t d = signature->batched ? 1 : 0; d < signature->inputs[i].shape.rank; d++)
            if (signature->inputs[i].shape.dims[d] < 0)
                return true;
    return false;
}

enum tt_err tt_bytes_tensor_check(const void *bytes, size_t size_bytes, int64_t count,
                                  struct tt_error *why) {
    const uint8_t *at = bytes;
    size_t left = size_bytes;
    for (int64_t i = 0; i < count; i++) {
        uint32_t length;
        if (left < sizeof(length))
            return tt_fail(TT_ERR_INVALID, why,
                           "the binary data ends in element %lld of %lld: each string has 4 bytes "
                           "of length in front",
                           (long long)i, (long long)count);
        memcpy(&length, at, sizeof(length));
        at += sizeof(length);
        left -= sizeof(length);
        if (left < length)
            return tt_fail(TT_ERR_INVALID, why,
                           "element %lld says that it has %u bytes, but only %zu are left",
                           (long long)i, length, left);
        at += length;
        left -= length;
    }
    if (left)
        return tt_fail(TT_ERR_INVALID, why, "%zu bytes are left over after its %lld strings", left,
                       (long long)count);
    return TT_OK;
}
