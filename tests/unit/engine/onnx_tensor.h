/* Reads a serialised ONNX TensorProto (a .pb file of the ONNX backend tests) into the bytes that
 * the engine takes. */
#ifndef ONNX_TENSOR_H
#define ONNX_TENSOR_H

#include "base/text.h"
#include "core/tensor.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct onnx_tensor {
    enum tt_dtype dtype;
    struct tt_shape shape;
    struct tt_text bytes;
};

struct onnx_reader {
    const unsigned char *at, *end;
    bool broken;
};

static inline uint64_t onnx_varint(struct onnx_reader *self) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && self->at < self->end; shift += 7) {
        unsigned char byte = *self->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    self->broken = true;
    return 0;
}

/* The next `count` bytes as a reader of their own. */
static inline struct onnx_reader onnx_slice(struct onnx_reader *self, uint64_t count) {
    if (count > (uint64_t)(self->end - self->at)) {
        self->broken = true;
        count = 0;
    }
    struct onnx_reader slice = {self->at, self->at + count, false};
    self->at += count;
    return slice;
}

static inline enum tt_dtype onnx_dtype(uint64_t type) {
    static const enum tt_dtype types[] = {
        [1] = TT_DTYPE_FP32,    [2] = TT_DTYPE_UINT8, [3] = TT_DTYPE_INT8,  [4] = TT_DTYPE_UINT16,
        [5] = TT_DTYPE_INT16,   [6] = TT_DTYPE_INT32, [7] = TT_DTYPE_INT64, [8] = TT_DTYPE_BYTES,
        [9] = TT_DTYPE_BOOL,    [10] = TT_DTYPE_FP16, [11] = TT_DTYPE_FP64, [12] = TT_DTYPE_UINT32,
        [13] = TT_DTYPE_UINT64, [16] = TT_DTYPE_BF16,
    };
    return type < TT_COUNT(types) ? types[type] : TT_DTYPE_NONE;
}

static inline void onnx_put_dim(struct onnx_tensor *tensor, uint64_t value) {
    if (tensor->shape.rank < TT_MAX_RANK)
        tensor->shape.dims[tensor->shape.rank] = (int64_t)value;
    tensor->shape.rank++;
}

/* One field's elements. Fields 4 to 11 hold them by kind, wider than they are where the type is
 * small. */
static inline void onnx_put(struct onnx_tensor *tensor, struct onnx_reader *values, uint64_t field,
                            uint64_t wire) {
    size_t element_bytes = tt_dtype_bytes(tensor->dtype);
    if (field == 6) {
        uint32_t length = (uint32_t)(values->end - values->at);
        tt_text_append(&tensor->bytes, &length, sizeof(length));
        tt_text_append(&tensor->bytes, values->at, length);
    } else if (field == 4 || field == 9 || field == 10 || wire == 5 || wire == 1) {
        tt_text_append(&tensor->bytes, values->at, (size_t)(values->end - values->at));
    } else {
        while (values->at < values->end && !values->broken) {
            uint64_t value = onnx_varint(values);
            tt_text_append(&tensor->bytes, &value, element_bytes); /* little endian */
        }
    }
}

/* `out_tensor->bytes` is owned by the caller. The data type must precede the data, as it does in
 * files that were written in field order. Errors: NOT_FOUND, IO, INVALID (broken), UNSUPPORTED (no
 * type of ours). */
static inline enum tt_err onnx_tensor_read(const char *path, struct onnx_tensor *out_tensor) {
    struct tt_text file;
    enum tt_err err = tt_text_read_file(path, (size_t)1 << 30, &file, NULL);
    if (err)
        return err;
    struct onnx_tensor tensor = {.dtype = TT_DTYPE_NONE};
    tt_text_init(&tensor.bytes);
    const unsigned char *start = (const unsigned char *)tt_text_string(&file);
    struct onnx_reader reader = {start, start + file.length, false};
    while (reader.at < reader.end && !reader.broken) {
        uint64_t key = onnx_varint(&reader), field = key >> 3, wire = key & 7;
        const unsigned char *before = reader.at;
        struct onnx_reader values;
        if (wire == 2) {
            values = onnx_slice(&reader, onnx_varint(&reader));
        } else if (wire == 0) {
            uint64_t value = onnx_varint(&reader);
            values = (struct onnx_reader){before, reader.at, false};
            if (field == 2)
                tensor.dtype = onnx_dtype(value);
        } else {
            values = onnx_slice(&reader, wire == 5 ? 4 : 8);
        }
        if (field == 1)
            while (values.at < values.end && !values.broken)
                onnx_put_dim(&tensor, onnx_varint(&values));
        else if (field >= 4 && field <= 11 && field != 8)
            onnx_put(&tensor, &values, field, wire);
        reader.broken |= values.broken;
    }
    tt_text_fini(&file);
    if (reader.broken)
        err = TT_ERR_INVALID;
    else if (tensor.dtype == TT_DTYPE_NONE || tensor.shape.rank > TT_MAX_RANK)
        err = TT_ERR_UNSUPPORTED;
    if (err)
        tt_text_fini(&tensor.bytes);
    else
        *out_tensor = tensor;
    return err;
}

#endif
