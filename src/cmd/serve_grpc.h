/* gRPC of `tutti serve`: a listener of its own on a thread of its own.
 *
 * Life: _open() after the models are there; _stop() any number of times; _close() before the models
 * go. */
#ifndef TT_CMD_SERVE_GRPC_H
#define TT_CMD_SERVE_GRPC_H

#include "net/grpc/grpc_listener.h"

struct tt_serve_grpc;

/* Whether the address can be listened on now, before models are loaded. INVALID, IO. */
TT_MUST_CHECK enum tt_err tt_serve_grpc_check(const char *host, int32_t tcp_port,
                                              struct tt_error *why);
/* Starts the thread. INVALID (host), IO (the port is in use, or no thread), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serve_grpc_open(struct tt_serving *serving,
                                             const struct tt_grpc_listener_options *options,
                                             struct tt_serve_grpc **out_grpc, struct tt_error *why);
const struct tt_grpc_listener *tt_serve_grpc_listener(const struct tt_serve_grpc *self);
/* As tt_grpc_listener_stop(); also from a signal handler. NULL-safe. */
void tt_serve_grpc_stop(struct tt_serve_grpc *self, int64_t grace_ms);
/* Waits for the end of the calls that _stop() lets finish. Without a _stop() they are cut off.
 * NULL-safe. */
void tt_serve_grpc_close(struct tt_serve_grpc *take_self, bool was_stopped);

#endif
