#include "net/http/listener.h"

#include "base/log/log.h"
#include "net/http/connection.h"
#include "net/sockets/socket_group.h"

#include <stdlib.h>

enum { SERVER, METRICS_SERVER };

/* What one connection thread has. */
struct worker {
    struct tt_socket_server server;
    struct tt_connections connections;
    struct tt_tls_loop *tls; /* NULL: without TLS */
    struct tt_gate gate;
};

struct tt_listener {
    struct tt_socket_group group;
    struct worker *workers[TT_SOCKET_GROUP_MAX];
    int32_t worker_count;
    int32_t bound_tcp_port;
    struct tt_listener_options options;
    struct tt_network_quotas own_quotas; /* where the options have none */
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

static bool accept_one(void *context, tt_take_socket_fn *take, void *client, int which,
                       bool is_full) {
    struct worker *self = context;
    return tt_connections_accept(&self->connections, take, client, which == METRICS_SERVER,
                                 is_full);
}

static int64_t ended(const void *context) {
    return tt_counter_get(&((const struct worker *)context)->connections.counts.ended);
}

static void expire(void *context) {
    tt_connections_expire(&((struct worker *)context)->connections);
}

static uint64_t tick_ms(const void *context) {
    return tt_connections_tick_ms(&((const struct worker *)context)->connections);
}

static void relieve(void *context) {
    tt_body_budget_relieve(&((struct worker *)context)->connections.body_budget);
}

static void stop(void *context) { tt_connections_stop(&((struct worker *)context)->connections); }

static void close_all(void *context) {
    tt_connections_close_all(&((struct worker *)context)->connections);
}

static bool is_empty(const void *context) {
    return tt_connections_empty(&((const struct worker *)context)->connections);
}

static const struct tt_socket_protocol protocol = {.accept = accept_one,
                                                   .ended = ended,
                                                   .expire = expire,
                                                   .tick_ms = tick_ms,
                                                   .flush = NULL,
                                                   .relieve = relieve,
                                                   .stop = stop,
                                                   .close_all = close_all,
                                                   .is_empty = is_empty};

static void on_empty(void *owner) {
    tt_socket_server_check_stopped(&((struct worker *)owner)->server);
}

/* --- the listener --- */

static int32_t counts_of(const void *context, int32_t thread,
                         struct tt_listener_counts *out_counts) {
    const struct tt_listener *self = context;
    *out_counts = thread < 0 ? tt_listener_counts(self) : tt_listener_thread_counts(self, thread);
    return self->worker_count;
}

static void start_connections(struct tt_listener *self, struct worker *worker,
                              struct tt_serving *serving) {
    struct tt_listener_options *options = &self->options;
    bool is_local = tt_socket_is_local(options->host);
    tt_gate_init(&worker->gate, options->access,
                 !options->is_admin ? TT_GATE_PUBLIC
                 : is_local         ? TT_GATE_LOCAL
                                    : TT_GATE_ADMIN);
    struct tt_http_context context = {
        .service = {.serving = serving,
                    .port = NULL,
                    .server_version = options->server_version,
                    .log_settings = options->log ? &options->log->settings : NULL,
                    .memory = options->memory},
        .counts = counts_of,
        .counts_context = self,
        .json_depth = (int32_t)options->limits.json_depth,
        .management_bytes = options->limits.management_bytes,
        .log = options->log,
        .journal = {.access_lines = options->access_lines,
                    .tracer = options->tracer,
                    .writer = self->worker_count},
        .dashboard = options->dashboard,
        .gate = &worker->gate,
        .host = options->host,
        .more_metrics = options->more_metrics,
        .more_metrics_context = options->more_metrics_context};
    tt_connections_init(&worker->connections, &worker->server.loop, &options->limits,
                        options->quotas ? options->quotas : &self->own_quotas, &context, on_empty,
                        worker);
    worker->connections.tls = worker->tls;
    worker->connections.addresses = options->addresses;
    worker->connections.is_local = worker->server.is_local = is_local;
}

static enum tt_err add_worker(struct tt_listener *self, struct tt_serving *serving,
                              struct tt_error *why) {
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    if (self->options.tls && !tt_socket_is_local(self->options.host)) {
        worker->tls = tt_tls_loop_new(self->options.tls);
        if (!worker->tls) {
            free(worker);
            return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for TLS");
        }
    }
    worker->server.drain_ms = self->worker_count ? 0 : self->options.drain_ms;
    start_connections(self, worker, serving);
    self->workers[self->worker_count++] = worker;
    tt_socket_group_add(&self->group, &worker->server);
    enum tt_err err =
        tt_socket_server_init(&worker->server, serving, &protocol, worker, self->options.log, why);
    if (!err)
        tt_body_budget_join(&worker->connections.body_budget, tt_socket_server_wake,
                            &worker->server);
    return err;
}

enum tt_err tt_listener_check(const struct tt_listener_options *options, struct tt_error *why) {
    enum tt_err err = tt_socket_server_check(options->host, options->tcp_port, why);
    if (!err && options->metrics_tcp_port > 0)
        err = tt_socket_server_check(options->host, options->metrics_tcp_port, why);
    return err;
}

static enum tt_err bind_sockets(struct tt_listener *self, const struct tt_listener_options *options,
                                struct tt_error *why) {
    struct tt_socket_server *server = &self->workers[0]->server;
    int32_t metrics_tcp_port = 0;
    enum tt_err err = tt_socket_server_bind(server, SERVER, options->host, options->tcp_port,
                                            &self->bound_tcp_port, why);
    if (!err && options->metrics_tcp_port > 0)
        err = tt_socket_server_bind(server, METRICS_SERVER, options->host,
                                    options->metrics_tcp_port, &metrics_tcp_port, why);
    return err;
}

enum tt_err tt_listener_open(struct tt_serving *serving, const struct tt_listener_options *options,
                             struct tt_listener **out_listener, struct tt_error *why) {
    int32_t threads = options->threads > 1 ? options->threads : 1;
    tt_assert(threads <= TT_SOCKET_GROUP_MAX);
    struct tt_listener *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    self->options = *options;
    tt_network_quotas_init(&self->own_quotas, &options->limits);
    enum tt_err err = TT_OK;
    while (!err && self->worker_count < threads)
        err = add_worker(self, serving, why);
    if (!err)
        err = bind_sockets(self, options, why);
    if (!err)
        err = tt_socket_group_open_ports(&self->group, why);
    for (int32_t i = 0; i < self->worker_count; i++)
        self->workers[i]->connections.context.service.port = self->workers[i]->server.port;
    if (!err)
        err = tt_socket_group_start(&self->group, "tutti-http", why);
    if (err) {
        tt_listener_close(self);
        return err;
    }
    *out_listener = self;
    return TT_OK;
}

int32_t tt_listener_tcp_port(const struct tt_listener *self) { return self->bound_tcp_port; }

void tt_listener_run(struct tt_listener *self) { tt_socket_group_run(&self->group); }

void tt_listener_stop(struct tt_listener *self, int64_t grace_ms) {
    tt_socket_server_stop(&self->workers[0]->server, grace_ms);
}

void tt_listener_close(struct tt_listener *self) {
    if (!self)
        return;
    for (int32_t i = 0; i < self->worker_count; i++) /* else others wake a closed handle */
        tt_body_budget_leave(&self->workers[i]->connections.body_budget);
    tt_socket_group_close(&self->group);
    for (int32_t i = 0; i < self->worker_count; i++) {
        tt_connections_fini(&self->workers[i]->connections);
        tt_tls_loop_free(self->workers[i]->tls);
        tt_gate_fini(&self->workers[i]->gate);
        free(self->workers[i]);
    }
    free(self);
}

static void add_counts(const struct worker *worker, struct tt_listener_counts *out_counts) {
    tt_http_counters_add(&worker->connections.counts, out_counts);
    out_counts->turns += tt_counter_get(&worker->server.turns);
}

struct tt_listener_counts tt_listener_counts(const struct tt_listener *self) {
    struct tt_listener_counts counts = {0};
    for (int32_t i = 0; i < self->worker_count; i++)
        add_counts(self->workers[i], &counts);
    return counts;
}

struct tt_listener_counts tt_listener_thread_counts(const struct tt_listener *self,
                                                    int32_t thread) {
    struct tt_listener_counts counts = {0};
    tt_assert(thread >= 0 && thread < self->worker_count);
    add_counts(self->workers[thread], &counts);
    return counts;
}
