#include "net/grpc/protobuf_wire.h"

#include <string.h>

static bool read_varint(struct tt_wire *self, uint64_t *out_value) {
    const char *at = self->at;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at < self->end; shift += 7) {
        unsigned char byte = (unsigned char)*at++;
        if (shift == 63 && byte > 1)
            break; /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            self->at = at;
            *out_value = value;
            return true;
        }
    }
    self->is_bad = true;
    return false;
}

static bool read_fixed(struct tt_wire *self, size_t size_bytes, uint64_t *out_value) {
    if ((size_t)(self->end - self->at) < size_bytes) {
        self->is_bad = true;
        return false;
    }
    *out_value = 0;
    for (size_t i = 0; i < size_bytes; i++)
        *out_value |= (uint64_t)(unsigned char)self->at[i] << (8 * i);
    self->at += size_bytes;
    return true;
}

static bool read_bytes(struct tt_wire *self, struct tt_wire_field *field) {
    uint64_t size_bytes;
    if (!read_varint(self, &size_bytes))
        return false;
    if (size_bytes > (uint64_t)(self->end - self->at)) {
        self->is_bad = true;
        return false;
    }
    field->bytes = self->at;
    field->size_bytes = (size_t)size_bytes;
    self->at += size_bytes;
    return true;
}

bool tt_wire_next(struct tt_wire *self, struct tt_wire_field *out_field) {
    uint64_t tag;
    if (self->at == self->end || !read_varint(self, &tag))
        return false;
    uint64_t number = tag >> 3;
    if (number == 0 || number > 0x1fffffff) {
        self->is_bad = true;
        return false;
    }
    *out_field = (struct tt_wire_field){.number = (uint32_t)number};
    switch (tag & 7) {
    case TT_WIRE_VARINT:
        out_field->type = TT_WIRE_VARINT;
        return read_varint(self, &out_field->value);
    case TT_WIRE_FIXED64:
        out_field->type = TT_WIRE_FIXED64;
        return read_fixed(self, 8, &out_field->value);
    case TT_WIRE_BYTES: out_field->type = TT_WIRE_BYTES; return read_bytes(self, out_field);
    case TT_WIRE_FIXED32:
        out_field->type = TT_WIRE_FIXED32;
        return read_fixed(self, 4, &out_field->value);
    default: self->is_bad = true; return false;
    }
}

bool tt_wire_next_varint(struct tt_wire *self, uint64_t *out_value) {
    return self->at != self->end && read_varint(self, out_value);
}

/* --- writing --- */

size_t tt_wire_varint_bytes(uint64_t value) {
    size_t count = 1;
    for (; value >= 0x80; value >>= 7)
        count++;
    return count;
}

void tt_wire_put_varint(struct tt_text *out, uint64_t value) {
    char *to = tt_text_reserve(out, TT_WIRE_MAX_VARINT_BYTES);
    if (!to)
        return;
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        to[count++] = (char)(0x80 | (value & 0x7f));
    to[count++] = (char)value;
    out->length += count;
}

void tt_wire_put_tag(struct tt_text *out, uint32_t number, enum tt_wire_type type) {
    tt_wire_put_varint(out, (uint64_t)number << 3 | (uint64_t)type);
}

void tt_wire_put_bytes(struct tt_text *out, uint32_t number, const void *bytes, size_t size_bytes) {
    tt_wire_put_tag(out, number, TT_WIRE_BYTES);
    tt_wire_put_varint(out, size_bytes);
    tt_text_append(out, bytes, size_bytes);
}

void tt_wire_put_string(struct tt_text *out, uint32_t number, const char *string) {
    tt_wire_put_bytes(out, number, string, strlen(string));
}
