#include "net/grpc/grpc_pack.h"

void *tt_grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *bytes,
                     size_t size_bytes, struct tt_error *why) {
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, NULL, size_bytes, (const uint8_t *)bytes);
    if (!message)
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
