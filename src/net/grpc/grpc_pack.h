/* Messages of protobuf-c from bytes and to bytes. Implemented in grpc_pack.c. */
#ifndef TT_NET_GRPC_GRPC_PACK_H
#define TT_NET_GRPC_GRPC_PACK_H

#include "base/err.h"
#include "base/text.h"

#include <protobuf-c/protobuf-c.h>

enum {
    TT_GRPC_MAX_PARTS = 8192, /* allocations of a message; a load of 1000 files has half */
    TT_GRPC_UNPACKED_BYTES = 1024 * 1024 /* that it may take beside twice its own bytes */
};

/* The message, to be freed with protobuf_c_message_free_unpacked(). NULL: INVALID, and `why` is
 * set; also where it would take more than the above, as two bytes of a message may become a hundred
 * bytes of memory. */
void *tt_grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *bytes,
                     size_t size_bytes, struct tt_error *why);
/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_grpc_pack(const void *message, struct tt_text *out,
                                       struct tt_error *why);

#endif
