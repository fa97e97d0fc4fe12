/* Small ONNX files for tests, written byte by byte: no weights, no nodes, only the fields that the
 * walker reads. */
#ifndef TT_TESTS_ONNX_BUILDER_H
#define TT_TESTS_ONNX_BUILDER_H

#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void onnx_varint(struct tt_text *to, uint64_t value) {
    do {
        char byte = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        tt_text_append(to, &byte, 1);
        value >>= 7;
    } while (value);
}

static inline void onnx_number(struct tt_text *to, uint32_t field, uint64_t value) {
    onnx_varint(to, (uint64_t)field << 3);
    onnx_varint(to, value);
}

static inline void onnx_bytes(struct tt_text *to, uint32_t field, const void *bytes,
                              size_t length) {
    onnx_varint(to, (uint64_t)field << 3 | 2);
    onnx_varint(to, length);
    tt_text_append(to, bytes, length);
}

/* Appends `take_message` as a field and frees it. */
static inline void onnx_message(struct tt_text *to, uint32_t field, struct tt_text *take_message) {
    onnx_bytes(to, field, tt_text_string(take_message), take_message->length);
    tt_text_fini(take_message);
}

/* `dims`: "N,3,-,8": a name is symbolic, - is unknown; NULL: no shape. Field 11 is an input, 12 an
 * output. */
static inline void onnx_value(struct tt_text *graph, uint32_t field, const char *name, int element,
                              const char *dims) {
    struct tt_text tensor = {0}, shape = {0}, type = {0}, value = {0};
    onnx_number(&tensor, 1, (uint64_t)element);
    for (const char *at = dims; at && *at;) {
        size_t length = strcspn(at, ",");
        struct tt_text dim = {0};
        if (*at >= '0' && *at <= '9')
            onnx_number(&dim, 1, strtoull(at, NULL, 10));
        else if (*at != '-')
            onnx_bytes(&dim, 2, at, length);
        onnx_message(&shape, 1, &dim);
        at += length + (at[length] == ',');
    }
    if (dims)
        onnx_message(&tensor, 2, &shape);
    onnx_message(&type, 1, &tensor);
    onnx_bytes(&value, 1, name, strlen(name));
    onnx_message(&value, 2, &type);
    onnx_message(graph, field, &value);
}

static inline void onnx_initializer(struct tt_text *graph, const char *name) {
    struct tt_text tensor = {0};
    char raw[64] = {0};
    onnx_number(&tensor, 2, 1);
    onnx_bytes(&tensor, 8, name, strlen(name));
    onnx_bytes(&tensor, 9, raw, sizeof(raw));
    onnx_message(graph, 5, &tensor);
}

static inline void onnx_model(struct tt_text *out, struct tt_text *take_graph) {
    struct tt_text opset = {0}, other = {0};
    onnx_number(out, 1, 8); /* ir_version */
    onnx_message(out, 7, take_graph);
    onnx_bytes(&other, 1, "com.example", 11);
    onnx_number(&other, 2, 3);
    onnx_message(out, 8, &other);
    onnx_number(&opset, 2, 17);
    onnx_message(out, 8, &opset);
}

#endif
