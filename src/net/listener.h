/* The server's HTTP side: sockets, connections and their time limits, on one libuv loop that one
 * thread runs.
 *
 * Life: `tt_listener_open` binds (and says which port it got), `tt_listener_run` serves until
 * `tt_listener_stop` was called from any thread or signal handler and what was accepted is finished
 * or its grace is over; `tt_listener_close` gives everything back. Everything that comes in is
 * answered or its client has gone.
 *
 * A connection: idle -> head -> body -> in flight (its inference runs elsewhere) -> writing -> idle
 * again, or lingering until the client has read the last answer. One request of a connection is in
 * flight at a time; those that a client sends ahead wait, up to `limits.pipeline_bytes`, so that
 * answers come in order. A client that closes its connection, or its sending half, while its
 * request is in flight has gone: the inference is cancelled.
 *
 * The listener installs no signal handlers and has no locks: other threads reach it through
 * uv_async alone. */
#ifndef TT_NET_LISTENER_H
#define TT_NET_LISTENER_H

#include "net/http/http1.h"
#include "net/http/http_counts.h"
#include "serve/limits.h"
#include "serve/serving.h"

struct tt_listener;
struct tt_log;
struct tt_trace_settings;

struct tt_listener_options {
    const char *host;     /* a name or an address to bind to */
    int32_t port;         /* 0: any free one */
    int32_t metrics_port; /* answers /metrics and nothing else; 0: no such port */
    const char *server_version;
    struct tt_trace_settings *trace; /* shown and changed by clients; borrowed; NULL: none */
    struct tt_log *log;              /* its settings likewise; lines go there */
    struct tt_limits limits;
};

/* 127.0.0.1:8000, and limits for a server on the open network. */
void tt_listener_options_default(struct tt_listener_options *out_options);

/* INVALID (host, port), IO (port in use, not allowed), NO_MEMORY. The strings of `options` are
 * borrowed only for the call, but `server_version` until close. */
TT_MUST_CHECK enum tt_err tt_listener_open(struct tt_serving *serving,
                                           const struct tt_listener_options *options,
                                           struct tt_listener **out_listener, struct tt_error *why);
int32_t tt_listener_port(const struct tt_listener *self);
/* Serves on the calling thread until stopped. */
void tt_listener_run(struct tt_listener *self);
/* From any thread or a signal handler, once or more: no new connections, idle ones are closed,
 * requests that have begun are finished; after `grace_ms` what is left is cut off, and its
 * inferences are cancelled. */
void tt_listener_stop(struct tt_listener *self, int64_t grace_ms);
/* After run has returned, or instead of it. NULL-safe. */
void tt_listener_close(struct tt_listener *take_self);

/* On the loop's thread, or after run has returned. */
struct tt_listener_counts tt_listener_counts(const struct tt_listener *self);

#endif
