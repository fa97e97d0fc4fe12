/* The server's gRPC side: a socket server (net/sockets) whose connections are HTTP/2 (net/http2)
 * and whose streams are calls (grpc_call.h).
 *
 * Life and threads as those of net/http/listener.h: open, run on a thread of its own, stop, close.
 * Implemented in grpc_listener.c. */
#ifndef TT_NET_GRPC_GRPC_LISTENER_H
#define TT_NET_GRPC_GRPC_LISTENER_H

#include "base/text.h"
#include "serve/limits.h"
#include "serve/serving.h"

struct tt_access_control;
struct tt_address_limits;
struct tt_grpc_listener;
struct tt_line_file;
struct tt_log;
struct tt_shared_memory;
struct tt_tls_server;
struct tt_tracer;

struct tt_grpc_listener_options {
    const char *host; /* a name or an address to bind to; borrowed for the call to _open */
    int32_t tcp_port; /* 0: any free one */
    int32_t threads;  /* at most TT_SOCKET_GROUP_MAX; 0 or 1: the caller's of _run alone */
    int64_t
        busy_poll_us; /* how long a thread watches its sockets before it sleeps; < 0: adaptive */
    const char *server_version;
    int64_t drain_ms;   /* after the first _stop: not ready, but everything is served */
    struct tt_log *log; /* borrowed; clients may change its settings; NULL: silent */
    struct tt_line_file *access_lines; /* borrowed: of the access log; NULL: none */
    struct tt_tracer *tracer;          /* borrowed: of spans; NULL: none */
    int32_t first_writer;              /* of both: the first thread's; the others follow */
    struct tt_tls_server *tls;         /* borrowed until close; NULL: without TLS */
    struct tt_access_control *access;  /* borrowed until close; NULL: everything is allowed */
    struct tt_shared_memory *memory;   /* borrowed; NULL: none is shared with clients */
    struct tt_limits limits;
    struct tt_address_limits *addresses; /* borrowed until close; NULL: none */
    struct tt_network_quotas
        *quotas; /* borrowed: shared with other listeners; NULL: its own, of `limits` */
};

/* INVALID (host, port number), IO (port in use, not allowed), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_grpc_listener_open(struct tt_serving *serving,
                                                const struct tt_grpc_listener_options *options,
                                                struct tt_grpc_listener **out_listener,
                                                struct tt_error *why);
int32_t tt_grpc_listener_tcp_port(const struct tt_grpc_listener *self);
/* Serves on the calling thread, and on those that were started, until stopped. */
void tt_grpc_listener_run(struct tt_grpc_listener *self);
/* From any thread or a signal handler; see tt_socket_server_stop(). */
void tt_grpc_listener_stop(struct tt_grpc_listener *self, int64_t grace_ms);
/* After run has returned, or instead of it. NULL-safe. */
void tt_grpc_listener_close(struct tt_grpc_listener *take_self);

struct tt_grpc_counts {
    int64_t accepted, connections; /* ever; open now */
    int64_t requests, answered, gone, in_flight;
    int64_t evicted; /* connections, closed because of the answers that they held */
};
/* Any thread. */
void tt_grpc_listener_counts(const struct tt_grpc_listener *self,
                             struct tt_grpc_counts *out_counts);
/* Appends the counts to a page of metrics; `listener` is a struct tt_grpc_listener. Any thread. */
void tt_grpc_listener_metrics(const void *listener, struct tt_text *page);

#endif
