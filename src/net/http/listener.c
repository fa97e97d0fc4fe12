#include "net/http/listener.h"

#include "base/log/log.h"
#include "net/http/connection.h"
#include "net/sockets/socket_server.h"

#include <stdlib.h>

enum { SERVER, METRICS_SERVER };

struct tt_listener {
    struct tt_socket_server server;
    int32_t bound_tcp_port;
    struct tt_listener_options options;
    struct tt_connections connections;
};

void tt_listener_options_default(struct tt_listener_options *out_options) {
    *out_options = (struct tt_listener_options){
        .host = "127.0.0.1",
        .tcp_port = 8000,
        .server_version = "",
    };
    tt_limits_default(&out_options->limits);
}

/* --- struct tt_socket_protocol --- */

static bool accept_one(void *context, uv_stream_t *socket, int which, bool is_full) {
    struct tt_listener *self = context;
    return tt_connections_accept(&self->connections, socket, which == METRICS_SERVER, is_full);
}

static void expire(void *context) {
    tt_connections_expire(&((struct tt_listener *)context)->connections);
}

static uint64_t tick_ms(const void *context) {
    return tt_connections_tick_ms(&((const struct tt_listener *)context)->connections);
}

static void stop(void *context) {
    tt_connections_stop(&((struct tt_listener *)context)->connections);
}

static void close_all(void *context) {
    tt_connections_close_all(&((struct tt_listener *)context)->connections);
}

static bool is_empty(const void *context) {
    return tt_connections_empty(&((const struct tt_listener *)context)->connections);
}

static const struct tt_socket_protocol protocol = {.accept = accept_one,
                                                   .expire = expire,
                                                   .tick_ms = tick_ms,
                                                   .flush = NULL,
                                                   .stop = stop,
                                                   .close_all = close_all,
                                                   .is_empty = is_empty};

static void on_empty(void *owner) {
    tt_socket_server_check_stopped(&((struct tt_listener *)owner)->server);
}

/* --- the listener --- */

static void start_connections(struct tt_listener *self, struct tt_serving *serving) {
    const struct tt_listener_options *options = &self->options;
    struct tt_http_context context = {
        .service = {.serving = serving,
                    .port = NULL,
                    .server_version = options->server_version,
                    .log_settings = options->log ? &options->log->settings : NULL},
        .json_depth = (int32_t)options->limits.json_depth,
        .management_bytes = options->limits.management_bytes,
        .log = options->log,
        .access_lines = options->access_lines,
        .dashboard = options->dashboard,
        .more_metrics = options->more_metrics,
        .more_metrics_context = options->more_metrics_context};
    tt_connections_init(&self->connections, &self->server.loop, &options->limits, &context,
                        on_empty, self);
}

enum tt_err tt_listener_check(const struct tt_listener_options *options, struct tt_error *why) {
    enum tt_err err = tt_socket_server_check(options->host, options->tcp_port, why);
    if (!err && options->metrics_tcp_port > 0)
        err = tt_socket_server_check(options->host, options->metrics_tcp_port, why);
    return err;
}

static enum tt_err open_sockets(struct tt_listener *self, const struct tt_listener_options *options,
                                struct tt_error *why) {
    struct tt_socket_server *server = &self->server;
    int32_t metrics_tcp_port = 0;
    enum tt_err err = tt_socket_server_bind(server, SERVER, options->host, options->tcp_port,
                                            &self->bound_tcp_port, why);
    if (!err && options->metrics_tcp_port > 0)
        err = tt_socket_server_bind(server, METRICS_SERVER, options->host,
                                    options->metrics_tcp_port, &metrics_tcp_port, why);
    if (!err)
        err = tt_socket_server_open_port(server, why);
    self->connections.context.service.port = server->port;
    return err;
}

enum tt_err tt_listener_open(struct tt_serving *serving, const struct tt_listener_options *options,
                             struct tt_listener **out_listener, struct tt_error *why) {
    struct tt_listener *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    self->options = *options;
    self->options.host = NULL; /* borrowed for this call only */
    self->server.drain_ms = options->drain_ms;
    start_connections(self, serving);
    enum tt_err err =
        tt_socket_server_init(&self->server, serving, &protocol, self, options->log, why);
    if (!err)
        err = open_sockets(self, options, why);
    if (err) {
        tt_listener_close(self);
        return err;
    }
    *out_listener = self;
    return TT_OK;
}

int32_t tt_listener_tcp_port(const struct tt_listener *self) { return self->bound_tcp_port; }

void tt_listener_run(struct tt_listener *self) { tt_socket_server_run(&self->server); }

void tt_listener_stop(struct tt_listener *self, int64_t grace_ms) {
    tt_socket_server_stop(&self->server, grace_ms);
}

void tt_listener_close(struct tt_listener *self) {
    if (!self)
        return;
    tt_socket_server_close(&self->server);
    tt_connections_fini(&self->connections);
    free(self);
}

struct tt_listener_counts tt_listener_counts(const struct tt_listener *self) {
    return self->connections.counts;
}
