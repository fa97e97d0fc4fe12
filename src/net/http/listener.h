/* The server's HTTP side: a socket server (net/sockets) whose connections are connection.h, and
 * those of HTTP/2 net/http2 with the streams of http_stream.h; what requests mean is
 * http_routes.h.
 *
 * Life: `tt_listener_open` binds and reports the port number it got; `tt_listener_run` serves on
 * the calling thread until `tt_listener_stop` was called and every accepted request is finished or
 * its grace is over; `tt_listener_close` frees everything. Every request that comes in is answered,
 * or its client has gone.
 *
 * With `threads` above 1 it starts further threads (net/sockets/socket_group.h). Each connection
 * belongs to one thread. Each thread has a struct tt_port, its side of the scheduler, and counters
 * of its own, which are summed at reading; limits hold for all threads together (`quotas`). Models,
 * settings of the log and readiness belong to the server, which any port reaches.
 *
 * It installs no signal handlers and has no locks: other threads reach a loop only by `wake` and
 * by the pipe of tt_listener_stop. Implemented in listener.c. */
#ifndef TT_NET_HTTP_LISTENER_H
#define TT_NET_HTTP_LISTENER_H

#include "net/http/http_counts.h"
#include "serve/limits.h"
#include "serve/serving.h"

struct tt_access_control;
struct tt_address_limits;
struct tt_dashboard_access;
struct tt_line_file;
struct tt_listener;
struct tt_log;
struct tt_shared_memory;
struct tt_tls_server;
struct tt_tracer;

struct tt_listener_options {
    const char *host;         /* a name or an address to bind to, or "unix:PATH" of a socket */
    int32_t tcp_port;         /* 0: any free one */
    int32_t metrics_tcp_port; /* answers only /metrics; 0: none */
    int32_t threads;          /* at most TT_SOCKET_GROUP_MAX; 0 or 1: the caller's of _run alone */
    int64_t
        busy_poll_us; /* how long a thread watches its sockets before it sleeps; < 0: adaptive */
    const char *server_version;
    int64_t drain_ms; /* after the first tt_listener_stop(): not ready, but everything is served */
    struct tt_shared_memory *memory;   /* borrowed; NULL: none is shared with clients */
    struct tt_log *log;                /* borrowed; clients may change its settings; NULL: silent */
    struct tt_line_file *access_lines; /* borrowed: of the access log; NULL: none */
    struct tt_tracer *tracer;          /* borrowed: of spans; NULL: none */
    int32_t first_writer; /* of both: the first thread's; the others follow; no other listener's */
    const struct tt_dashboard_access
        *dashboard; /* a port of the live page; NULL: an ordinary one */
    /* Appends metrics of others to the metrics page; on the loop's thread; NULL: none. */
    void (*more_metrics)(const void *context, struct tt_text *page);
    const void *more_metrics_context; /* borrowed until close */
    struct tt_tls_server *tls; /* borrowed until close; NULL: without TLS, as on a Unix socket */
    struct tt_access_control *access; /* borrowed until close; NULL: everything is allowed */
    bool is_admin;                    /* the admin interface */
    int64_t turn_ns;                  /* of base/loop_turn.h; 0: TT_LOOP_TURN_NS */
    struct tt_limits limits;
    struct tt_address_limits *addresses; /* borrowed until close; NULL: none */
    struct tt_network_quotas
        *quotas; /* borrowed: shared with other listeners; NULL: its own, of `limits` */
};

/* 127.0.0.1:8000, and limits for a server on the open network. */
void tt_listener_options_default(struct tt_listener_options *out_options);

/* Whether the addresses can be listened on now, without keeping them: before models are loaded.
 * INVALID (host), IO (port in use, not allowed). */
TT_MUST_CHECK enum tt_err tt_listener_check(const struct tt_listener_options *options,
                                            struct tt_error *why);
/* INVALID (host, port number), IO (port in use, not allowed), NO_MEMORY. `options->host`,
 * `server_version`, `log`, `access_lines`, `tracer` and `dashboard` until close. */
TT_MUST_CHECK enum tt_err tt_listener_open(struct tt_serving *serving,
                                           const struct tt_listener_options *options,
                                           struct tt_listener **out_listener, struct tt_error *why);
int32_t tt_listener_tcp_port(const struct tt_listener *self);
/* Serves on the calling thread, and on those that were started, until stopped. */
void tt_listener_run(struct tt_listener *self);
/* From any thread or a signal handler, once or more. The server is no longer ready. After
 * options.drain_ms, or the second call: no new connections, idle ones are closed, requests that
 * have begun are finished. After `grace_ms` more the rest is cut off, and its inferences are
 * cancelled. */
void tt_listener_stop(struct tt_listener *self, int64_t grace_ms);
/* After run has returned, or instead of it. NULL-safe. */
void tt_listener_close(struct tt_listener *take_self);

/* Of all threads. Any thread. */
struct tt_listener_counts tt_listener_counts(const struct tt_listener *self);
/* Of one thread, from 0. Any thread. */
struct tt_listener_counts tt_listener_thread_counts(const struct tt_listener *self, int32_t thread);

#endif
