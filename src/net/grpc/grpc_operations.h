/* The operations of a server's calls: methods, inferences and watches. Implemented in
 * grpc_operations.c. */
#ifndef TT_NET_GRPC_GRPC_OPERATIONS_H
#define TT_NET_GRPC_GRPC_OPERATIONS_H

#include "net/grpc/grpc_call.h"

extern const struct tt_grpc_operations tt_grpc_operations;

/* --- for the files of this folder; the members of the table --- */

void tt_grpc_call_infer(struct tt_grpc_call *call, const char *bytes, size_t size_bytes);
void tt_grpc_call_cancel(struct tt_grpc_call *call);
void tt_grpc_call_watch(struct tt_grpc_call *call, const char *bytes, size_t size_bytes);

#endif
