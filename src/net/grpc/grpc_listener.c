#include "net/grpc/grpc_listener.h"

#include "base/log/log.h"
#include "net/grpc/grpc_operations.h"
#include "net/http2/http2_connection.h"
#include "net/sockets/socket_server.h"

#include <stdlib.h>

struct tt_grpc_listener {
    struct tt_socket_server server;
    int32_t bound_tcp_port;
    struct tt_grpc_listener_options options;
    struct tt_grpc_calls calls;
    struct tt_http2_connections connections;
};

/* --- struct tt_socket_protocol --- */

static bool accept_one(void *context, uv_stream_t *socket, int which, bool is_full) {
    struct tt_grpc_listener *self = context;
    (void)which;
    return tt_http2_connections_accept(&self->connections, socket, is_full);
}

static void expire(void *context) {
    struct tt_grpc_listener *self = context;
    tt_grpc_calls_watch(&self->calls);
    tt_http2_connections_expire(&self->connections);
}

static uint64_t tick_ms(const void *context) {
    return tt_http2_connections_tick_ms(&((const struct tt_grpc_listener *)context)->connections);
}

static bool flush(void *context) {
    return tt_http2_connections_flush(&((struct tt_grpc_listener *)context)->connections);
}

static void stop(void *context) {
    struct tt_grpc_listener *self = context;
    tt_grpc_calls_stop(&self->calls);
    tt_http2_connections_stop(&self->connections);
    tt_http2_connections_flush(&self->connections);
}

static void close_all(void *context) {
    tt_http2_connections_close_all(&((struct tt_grpc_listener *)context)->connections);
}

static bool is_empty(const void *context) {
    const struct tt_grpc_listener *self = context;
    return tt_http2_connections_empty(&self->connections) && self->calls.call_count == 0;
}

static const struct tt_socket_protocol protocol = {.accept = accept_one,
                                                   .expire = expire,
                                                   .tick_ms = tick_ms,
                                                   .flush = flush,
                                                   .stop = stop,
                                                   .close_all = close_all,
                                                   .is_empty = is_empty};

static void on_gone(void *owner) {
    struct tt_grpc_listener *self = owner;
    if (self->server.stopping)
        tt_socket_server_check_stopped(&self->server);
}

/* --- the listener --- */

static void start(struct tt_grpc_listener *self, struct tt_serving *serving) {
    const struct tt_grpc_listener_options *options = &self->options;
    const struct tt_kserve_service service = {.serving = serving,
                                              .port = NULL,
                                              .server_version = options->server_version,
                                              .log_settings =
                                                  options->log ? &options->log->settings : NULL};
    tt_grpc_calls_init(&self->calls, &tt_grpc_operations, &service, &options->limits, options->log);
    self->calls.touch = tt_http2_connections_touch;
    self->calls.on_gone = on_gone;
    self->calls.owner = self;
    tt_http2_connections_init(&self->connections, &self->server.loop, &options->limits,
                              &tt_grpc_handler, &self->calls, on_gone, self);
}

enum tt_err tt_grpc_listener_open(struct tt_serving *serving,
                                  const struct tt_grpc_listener_options *options,
                                  struct tt_grpc_listener **out_listener, struct tt_error *why) {
    struct tt_grpc_listener *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    self->options = *options;
    self->options.host = NULL; /* borrowed for this call only */
    self->server.drain_ms = options->drain_ms;
    start(self, serving);
    enum tt_err err =
        tt_socket_server_init(&self->server, serving, &protocol, self, options->log, why);
    if (!err)
        err = tt_socket_server_bind(&self->server, 0, options->host, options->tcp_port,
                                    &self->bound_tcp_port, why);
    if (!err)
        err = tt_socket_server_open_port(&self->server, why);
    if (err) {
        tt_grpc_listener_close(self);
        return err;
    }
    self->calls.service.port = self->server.port;
    *out_listener = self;
    return TT_OK;
}

int32_t tt_grpc_listener_tcp_port(const struct tt_grpc_listener *self) {
    return self->bound_tcp_port;
}

void tt_grpc_listener_run(struct tt_grpc_listener *self) { tt_socket_server_run(&self->server); }

void tt_grpc_listener_stop(struct tt_grpc_listener *self, int64_t grace_ms) {
    tt_socket_server_stop(&self->server, grace_ms);
}

void tt_grpc_listener_close(struct tt_grpc_listener *take_self) {
    if (!take_self)
        return;
    tt_socket_server_close(&take_self->server);
    tt_http2_connections_fini(&take_self->connections);
    tt_grpc_calls_fini(&take_self->calls);
    free(take_self);
}

/* --- counts --- */

void tt_grpc_listener_counts(const struct tt_grpc_listener *self,
                             struct tt_grpc_counts *out_counts) {
    const struct tt_grpc_calls *calls = &self->calls;
    *out_counts = (struct tt_grpc_counts){.accepted = tt_counter_get(&self->connections.accepted),
                                          .connections = tt_counter_get(&self->connections.open),
                                          .answered = tt_counter_get(&calls->answered),
                                          .gone = tt_counter_get(&calls->gone),
                                          .in_flight = tt_counter_get(&calls->in_flight),
                                          .requests = tt_counter_get(&calls->requests)};
}

void tt_grpc_listener_metrics(const void *listener, struct tt_text *page) {
    struct tt_grpc_counts counts;
    tt_grpc_listener_counts(listener, &counts);
    const struct {
        const char *name, *help, *type;
        int64_t value;
    } rows[] = {
        {"tutti_grpc_connections_accepted_total", "gRPC connections accepted", "counter",
         counts.accepted},
        {"tutti_grpc_connections", "gRPC connections open", "gauge", counts.connections},
        {"tutti_grpc_requests_total", "gRPC calls whose headers came", "counter", counts.requests},
        {"tutti_grpc_answered_total", "gRPC calls whose status was written", "counter",
         counts.answered},
        {"tutti_grpc_gone_total", "gRPC calls whose client left before their status", "counter",
         counts.gone},
        {"tutti_grpc_in_flight", "gRPC calls not ended yet", "gauge", counts.in_flight},
    };
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", rows[i].name, rows[i].help,
                       rows[i].name, rows[i].type, rows[i].name, (long long)rows[i].value);
}
