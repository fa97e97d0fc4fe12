/* ONNX models of a few nodes, written byte by byte, so that tests of the engine need no file and no
 * Python.
 *
 * `tiny_onnx_begin`, then inputs, outputs, nodes and constants in any order, then `tiny_onnx_end`
 * gives the file's bytes. Protocol buffers: a field is a key (number and wire type), then its
 * value; a nested message is its length and its bytes. */
#ifndef TINY_ONNX_H
#define TINY_ONNX_H

#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum tiny_onnx_type {
    TINY_FLOAT = 1,
    TINY_UINT8 = 2,
    TINY_INT8 = 3,
    TINY_UINT16 = 4,
    TINY_INT16 = 5,
    TINY_INT32 = 6,
    TINY_INT64 = 7,
    TINY_STRING = 8,
    TINY_BOOL = 9,
    TINY_FLOAT16 = 10,
    TINY_DOUBLE = 11,
    TINY_UINT32 = 12,
    TINY_UINT64 = 13,
    TINY_COMPLEX64 = 14,
    TINY_BFLOAT16 = 16,
};

struct tiny_onnx {
    struct tt_text graph;
};

static inline void tiny_varint(struct tt_text *to, uint64_t value) {
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        tt_text_append(to, &byte, 1);
        value >>= 7;
    } while (value);
}

static inline void tiny_number(struct tt_text *to, uint32_t field, uint64_t value) {
    tiny_varint(to, field << 3);
    tiny_varint(to, value);
}

static inline void tiny_bytes(struct tt_text *to, uint32_t field, const void *bytes, size_t count) {
    tiny_varint(to, field << 3 | 2);
    tiny_varint(to, count);
    tt_text_append(to, bytes, count);
}

static inline void tiny_string(struct tt_text *to, uint32_t field, const char *string) {
    tiny_bytes(to, field, string, strlen(string));
}

/* Appends `message` as a field and empties it. */
static inline void tiny_message(struct tt_text *to, uint32_t field, struct tt_text *message) {
    tiny_bytes(to, field, message->bytes ? message->bytes : "", message->length);
    tt_text_fini(message);
}

static inline void tiny_onnx_begin(struct tiny_onnx *self) {
    tt_text_init(&self->graph);
    tiny_string(&self->graph, 2, "tiny");
}

/* A graph input (field 11) or output (12); a dimension of -1 becomes symbolic: N for the first, d1,
 * d2 for others. */
static inline void tiny_onnx_port(struct tiny_onnx *self, uint32_t field, const char *name,
                                  enum tiny_onnx_type type, int rank, const int64_t *dims) {
    struct tt_text shape, tensor, type_proto, info;
    tt_text_init(&shape);
    for (int i = 0; i < rank; i++) {
        struct tt_text dim;
        tt_text_init(&dim);
        char symbol[16] = "N";
        if (i > 0)
            snprintf(symbol, sizeof(symbol), "d%d", i);
        if (dims[i] < 0)
            tiny_string(&dim, 2, symbol);
        else
            tiny_number(&dim, 1, (uint64_t)dims[i]);
        tiny_message(&shape, 1, &dim);
    }
    tt_text_init(&tensor);
    tiny_number(&tensor, 1, type);
    tiny_message(&tensor, 2, &shape);
    tt_text_init(&type_proto);
    tiny_message(&type_proto, 1, &tensor);
    tt_text_init(&info);
    tiny_string(&info, 1, name);
    tiny_message(&info, 2, &type_proto);
    tiny_message(&self->graph, field, &info);
}

#define TINY_DIMS(...)                                                                             \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static inline void tiny_onnx_input(struct tiny_onnx *self, const char *name,
                                   enum tiny_onnx_type type, int rank, const int64_t *dims) {
    tiny_onnx_port(self, 11, name, type, rank, dims);
}

static inline void tiny_onnx_output(struct tiny_onnx *self, const char *name,
                                    enum tiny_onnx_type type, int rank, const int64_t *dims) {
    tiny_onnx_port(self, 12, name, type, rank, dims);
}

/* A constant of the graph. */
static inline void tiny_onnx_constant(struct tiny_onnx *self, const char *name,
                                      enum tiny_onnx_type type, int rank, const int64_t *dims,
                                      const void *bytes, size_t size_bytes) {
    struct tt_text tensor;
    tt_text_init(&tensor);
    for (int i = 0; i < rank; i++)
        tiny_number(&tensor, 1, (uint64_t)dims[i]);
    tiny_number(&tensor, 2, type);
    tiny_string(&tensor, 8, name);
    tiny_bytes(&tensor, 9, bytes, size_bytes);
    tiny_message(&self->graph, 5, &tensor);
}

/* A node with up to two inputs (the second may be NULL) and one integer attribute (its name may be
 * NULL). */
static inline void tiny_onnx_node(struct tiny_onnx *self, const char *operator, const char * first,
                                  const char *second, const char *output, const char *attribute,
                                  int64_t value) {
    struct tt_text node;
    tt_text_init(&node);
    tiny_string(&node, 1, first);
    if (second)
        tiny_string(&node, 1, second);
    tiny_string(&node, 2, output);
    tiny_string(&node, 3, output);
    tiny_string(&node, 4, operator);
    if (attribute) {
        struct tt_text attr;
        tt_text_init(&attr);
        tiny_string(&attr, 1, attribute);
        tiny_number(&attr, 3, (uint64_t)value);
        tiny_number(&attr, 20, 2); /* an INT */
        tiny_message(&node, 5, &attr);
    }
    tiny_message(&self->graph, 1, &node);
}

/* The file's bytes, owned by the caller. */
static inline struct tt_text tiny_onnx_end(struct tiny_onnx *take_self) {
    struct tt_text opset, model;
    tt_text_init(&opset);
    tiny_string(&opset, 1, "");
    tiny_number(&opset, 2, 17);
    tt_text_init(&model);
    tiny_number(&model, 1, 8); /* ir_version */
    tiny_message(&model, 7, &take_self->graph);
    tiny_message(&model, 8, &opset);
    return model;
}

/* One node from x to y of the same type and shape. */
static inline struct tt_text tiny_onnx_unary(const char *operator, enum tiny_onnx_type type,
                                             int rank, const int64_t *dims) {
    struct tiny_onnx model;
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", type, rank, dims);
    tiny_onnx_output(&model, "y", type, rank, dims);
    tiny_onnx_node(&model, operator, "x", NULL, "y", NULL, 0);
    return tiny_onnx_end(&model);
}

#endif
