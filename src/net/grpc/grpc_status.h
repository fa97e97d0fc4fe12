/* gRPC's status codes, the text forms of its headers, and which code belongs to which error of
 * ours. The sentences are those of HTTP. Implemented in grpc_status.c. */
#ifndef TT_NET_GRPC_GRPC_STATUS_H
#define TT_NET_GRPC_GRPC_STATUS_H

#include "base/err.h"
#include "base/text.h"

#include <stdint.h>

enum tt_grpc_status {
    TT_GRPC_OK = 0,
    TT_GRPC_CANCELLED = 1,
    TT_GRPC_INVALID_ARGUMENT = 3,
    TT_GRPC_DEADLINE_EXCEEDED = 4,
    TT_GRPC_NOT_FOUND = 5,
    TT_GRPC_PERMISSION_DENIED = 7,
    TT_GRPC_RESOURCE_EXHAUSTED = 8,
    TT_GRPC_UNIMPLEMENTED = 12,
    TT_GRPC_INTERNAL = 13,
    TT_GRPC_UNAVAILABLE = 14,
    TT_GRPC_UNAUTHENTICATED = 16,
};

/* BUSY is UNAVAILABLE: a client may try again, as after HTTP's 503. */
enum tt_grpc_status tt_grpc_status_of(enum tt_err err);
/* Appends the sentence as the header grpc-message has it: bytes other than printable ASCII, and
 * '%', as %XX. */
void tt_grpc_status_put(struct tt_text *out, const char *sentence);
/* The header grpc-timeout, in ns; capped at INT64_MAX. -1: it is malformed. */
int64_t tt_grpc_timeout_parse(const char *value, size_t value_bytes);

#endif
