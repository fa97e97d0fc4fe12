#include "net/grpc/grpc_pack.h"

#include <stdlib.h>

struct unpacking {
    int32_t parts_left;
    size_t bytes_left;
    bool is_exceeded;
};

static void *take(void *context, size_t size_bytes) {
    struct unpacking *self = context;
    if (self->parts_left == 0 || size_bytes > self->bytes_left) {
        self->is_exceeded = true;
        return NULL;
    }
    self->parts_left--;
    self->bytes_left -= size_bytes;
    return malloc(size_bytes);
}

static void give(void *context, void *memory) {
    (void)context;
    free(memory);
}

void *tt_grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *bytes,
                     size_t size_bytes, struct tt_error *why) {
    struct unpacking limits = {.parts_left = TT_GRPC_MAX_PARTS,
                               .bytes_left = 2 * size_bytes + TT_GRPC_UNPACKED_BYTES};
    ProtobufCAllocator allocator = {.alloc = take, .free = give, .allocator_data = &limits};
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, &allocator, size_bytes, (const uint8_t *)bytes);
    if (!message && limits.is_exceeded)
        tt_fail(TT_ERR_INVALID, why, "the %s has too many fields", descriptor->short_name);
    else if (!message)
        tt_fail(TT_ERR_INVALID, why, "the message is no %s in protobuf", descriptor->short_name);
    return message;
}

enum tt_err tt_grpc_pack(const void *message, struct tt_text *out, struct tt_error *why) {
    size_t size_bytes = protobuf_c_message_get_packed_size(message);
    char *to = tt_text_reserve(out, size_bytes);
    if (!to)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the answer");
    out->length += protobuf_c_message_pack(message, (uint8_t *)to);
    return TT_OK;
}
