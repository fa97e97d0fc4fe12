/* Walks the protobuf messages of an ONNX file by hand, without unpacking it: such a file consists
 * almost entirely of weights.
 *
 * Every length is checked against its enclosing message. Hostile bytes give an error with their
 * offset, never a crash. It knows no field of ONNX by itself; onnx_file.c and onnx_memory.c do. */
#ifndef TT_MODEL_ONNX_ONNX_WALK_H
#define TT_MODEL_ONNX_ONNX_WALK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TT_ONNX_WIRE_NUMBER = 0, TT_ONNX_WIRE_64 = 1, TT_ONNX_WIRE_BYTES = 2, TT_ONNX_WIRE_32 = 5 };

/* Of a file, with names; real ones have thousands. Hostile ones would fill the memory with names.
 */
enum { TT_ONNX_MAX_CONSTANTS = 1 << 18 };

struct tt_onnx_span {
    const uint8_t *at, *end; /* both NULL: there is none */
};

static inline size_t tt_onnx_span_length(struct tt_onnx_span span) {
    return (size_t)(span.end - span.at);
}

struct tt_onnx_walk {
    const char *file_name; /* for messages */
    const uint8_t *start;  /* of the file */
    struct tt_error *why;
    void *context; /* the caller's */
};

struct tt_onnx_field {
    uint32_t number;
    uint32_t wire_type;
    uint64_t value;            /* if a varint */
    struct tt_onnx_span bytes; /* otherwise */
};

/* A field that is read. Its bytes go to `take`; without it, its value (a uint64_t or a struct
 * tt_onnx_span) is stored at `offset` of the target, the last one if the field is repeated. */
struct tt_onnx_rule {
    uint32_t number;
    uint32_t wire_type; /* another one means that this is not an ONNX file */
    size_t offset;
    enum tt_err (*take)(struct tt_onnx_walk *walk, struct tt_onnx_span bytes, void *target);
};

#define TT_ONNX_NUMBER(number, type, member)                                                       \
    { number, TT_ONNX_WIRE_NUMBER, offsetof(type, member), NULL }
#define TT_ONNX_BYTES(number, type, member)                                                        \
    { number, TT_ONNX_WIRE_BYTES, offsetof(type, member), NULL }
#define TT_ONNX_TAKE(number, function)                                                             \
    { number, TT_ONNX_WIRE_BYTES, 0, function }

/* INVALID, with the offset of `at`. */
enum tt_err tt_onnx_damaged(const struct tt_onnx_walk *walk, const uint8_t *at, const char *what);
/* Reads the next field of a message; `span` moves past it. */
TT_MUST_CHECK enum tt_err tt_onnx_next_field(const struct tt_onnx_walk *walk,
                                             struct tt_onnx_span *span, struct tt_onnx_field *out);
/* Reads the fields of `message` that have a rule, in the order of the file. */
TT_MUST_CHECK enum tt_err tt_onnx_read_fields(struct tt_onnx_walk *walk,
                                              struct tt_onnx_span message,
                                              const struct tt_onnx_rule *rules, size_t count,
                                              void *target);

/* A file in memory. It must not be truncated meanwhile. */
struct tt_onnx_map {
    void *bytes;
    size_t length;
};
/* Errors: NOT_FOUND, IO, INVALID (not a regular file, or empty). */
TT_MUST_CHECK enum tt_err tt_onnx_map_open(const char *path, struct tt_onnx_map *out_map,
                                           struct tt_error *why);
void tt_onnx_map_close(struct tt_onnx_map *self);

#endif
