/* The wire format of protobuf: reading a message field by field in place, and writing fields into a
 * text. For messages on the data path, which protobuf-c would copy; it knows no schema.
 *
 * A reader is a value on the stack over borrowed bytes. Groups are rejected, as no message here has
 * any. It never allocates and never reads past the end. Implemented in protobuf_wire.c. */
#ifndef TT_NET_GRPC_PROTOBUF_WIRE_H
#define TT_NET_GRPC_PROTOBUF_WIRE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tt_wire_type {
    TT_WIRE_VARINT = 0,
    TT_WIRE_FIXED64 = 1,
    TT_WIRE_BYTES = 2,
    TT_WIRE_FIXED32 = 5
};

enum { TT_WIRE_MAX_VARINT_BYTES = 10 };

struct tt_wire {
    const char *at, *end;
    bool is_bad; /* the bytes are no message; set by a function that returned false */
};

struct tt_wire_field {
    uint32_t number;
    enum tt_wire_type type;
    uint64_t value;    /* of VARINT, FIXED64 and FIXED32: the bits */
    const char *bytes; /* of BYTES, borrowed */
    size_t size_bytes;
};

static inline void tt_wire_init(struct tt_wire *self, const char *bytes, size_t size_bytes) {
    *self = (struct tt_wire){.at = bytes, .end = bytes + size_bytes};
}
/* The next field. False: none is left, or `is_bad` is set. */
bool tt_wire_next(struct tt_wire *self, struct tt_wire_field *out_field);
/* The next value of a packed field. False: none is left, or `is_bad` is set. */
bool tt_wire_next_varint(struct tt_wire *self, uint64_t *out_value);

/* --- writing --- */

/* Bytes of `value` as a varint. */
size_t tt_wire_varint_bytes(uint64_t value);
void tt_wire_put_varint(struct tt_text *out, uint64_t value);
void tt_wire_put_tag(struct tt_text *out, uint32_t number, enum tt_wire_type type);
/* A field of type BYTES, tag and length before it. */
void tt_wire_put_bytes(struct tt_text *out, uint32_t number, const void *bytes, size_t size_bytes);
void tt_wire_put_string(struct tt_text *out, uint32_t number, const char *string);

#endif
