#include "net/grpc/grpc_listener.h"

#include "base/log/log.h"
#include "net/grpc/grpc_operations.h"
#include "net/grpc/grpc_work.h"
#include "net/http2/http2_connection.h"
#include "net/sockets/socket_group.h"

#include <stdlib.h>

/* What one connection thread has. */
struct worker {
    struct tt_socket_server server;
    struct tt_grpc_calls calls;
    struct tt_http2_connections connections;
    struct tt_answer_budget answers;
    struct tt_tls_loop *tls; /* NULL: without TLS */
    struct tt_gate gate;
};

struct tt_grpc_listener {
    struct tt_socket_group group;
    struct worker *workers[TT_SOCKET_GROUP_MAX];
    int32_t worker_count;
    int32_t bound_tcp_port;
    struct tt_grpc_listener_options options;
    struct tt_network_quotas own_quotas; /* where the options have none */
};

/* --- struct tt_socket_protocol --- */

static bool accept_one(void *context, tt_take_socket_fn *take, void *client, int which,
                       bool is_full) {
    struct worker *self = context;
    (void)which;
    return tt_http2_connections_accept(&self->connections, take, client, is_full);
}

static int64_t ended(const void *context) {
    return tt_counter_get(&((const struct worker *)context)->connections.ended);
}

static void expire(void *context) {
    struct worker *self = context;
    tt_grpc_calls_watch(&self->calls);
    tt_http2_connections_expire(&self->connections);
}

static uint64_t tick_ms(const void *context) {
    return tt_http2_connections_tick_ms(&((const struct worker *)context)->connections);
}

static bool flush(void *context) {
    return tt_http2_connections_flush(&((struct worker *)context)->connections);
}

static void relieve(void *context) {
    struct worker *self = context;
    tt_body_budget_relieve(&self->calls.budget);
    tt_body_budget_relieve(&self->answers.bodies);
}

static void stop(void *context) {
    struct worker *self = context;
    tt_grpc_calls_stop(&self->calls);
    tt_body_budget_leave(&self->answers.bodies);
    tt_http2_connections_stop(&self->connections);
    tt_http2_connections_flush(&self->connections);
}

static void close_all(void *context) {
    tt_http2_connections_close_all(&((struct worker *)context)->connections);
}

static bool is_empty(const void *context) {
    const struct worker *self = context;
    return tt_http2_connections_empty(&self->connections) && self->calls.call_count == 0;
}

static const struct tt_socket_protocol protocol = {.accept = accept_one,
                                                   .ended = ended,
                                                   .expire = expire,
                                                   .tick_ms = tick_ms,
                                                   .flush = flush,
                                                   .relieve = relieve,
                                                   .stop = stop,
                                                   .close_all = close_all,
                                                   .is_empty = is_empty};

static void on_gone(void *owner) {
    struct worker *self = owner;
    if (self->server.stopping)
        tt_socket_server_check_stopped(&self->server);
}

/* --- the listener --- */

static void start(struct tt_grpc_listener *self, struct worker *worker,
                  struct tt_serving *serving) {
    struct tt_grpc_listener_options *options = &self->options;
    struct tt_network_quotas *quotas = options->quotas ? options->quotas : &self->own_quotas;
    const struct tt_kserve_service service = {.serving = serving,
                                              .port = NULL,
                                              .server_version = options->server_version,
                                              .log_settings =
                                                  options->log ? &options->log->settings : NULL,
                                              .memory = options->memory};
    tt_grpc_calls_init(&worker->calls, &tt_grpc_operations, &service, &options->limits, quotas,
                       options->log);
    tt_gate_init(&worker->gate, options->access, TT_GATE_PUBLIC);
    worker->calls.gate = &worker->gate;
    const struct tt_journal_options journal = {.access_lines = options->access_lines,
                                               .tracer = options->tracer,
                                               .writer =
                                                   options->first_writer + self->worker_count};
    tt_journal_init(&worker->calls.journal, &journal);
    worker->calls.loop = &worker->server.loop;
    worker->calls.turn = &worker->server.turn;
    tt_grpc_pages_init(&worker->calls);
    worker->calls.touch = tt_http2_connections_touch;
    worker->calls.on_gone = on_gone;
    worker->calls.owner = worker;
    tt_http2_connections_init(&worker->connections, &worker->server.loop, &options->limits, quotas,
                              &tt_grpc_handler, &worker->calls, on_gone, worker);
    worker->connections.tls = worker->tls;
    worker->connections.addresses = options->addresses;
    tt_answer_budget_init(&worker->answers, &quotas->send_bytes, &quotas->answers, options->log);
    worker->connections.answers = &worker->answers;
    worker->connections.turn = &worker->server.turn;
    worker->calls.addresses = options->addresses;
}

static enum tt_err add_worker(struct tt_grpc_listener *self, struct tt_serving *serving,
                              struct tt_error *why) {
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    if (self->options.tls) {
        worker->tls = tt_tls_loop_new(self->options.tls);
        if (!worker->tls) {
            free(worker);
            return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for TLS");
        }
    }
    tt_busy_poll_init(&worker->server.busy_poll, self->options.busy_poll_us * TT_US);
    worker->server.drain_ms = self->worker_count ? 0 : self->options.drain_ms;
    worker->server.is_quiet = true;
    start(self, worker, serving);
    self->workers[self->worker_count++] = worker;
    tt_socket_group_add(&self->group, &worker->server);
    enum tt_err err =
        tt_socket_server_init(&worker->server, serving, &protocol, worker, self->options.log, why);
    if (!err) {
        tt_body_budget_join(&worker->calls.budget, tt_socket_server_wake, &worker->server);
        tt_body_budget_join(&worker->answers.bodies, tt_socket_server_wake, &worker->server);
    }
    return err;
}

enum tt_err tt_grpc_listener_open(struct tt_serving *serving,
                                  const struct tt_grpc_listener_options *options,
                                  struct tt_grpc_listener **out_listener, struct tt_error *why) {
    int32_t threads = options->threads > 1 ? options->threads : 1;
    tt_assert(threads <= TT_SOCKET_GROUP_MAX);
    struct tt_grpc_listener *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    self->options = *options;
    self->options.host = NULL; /* borrowed for this call only */
    tt_network_quotas_init(&self->own_quotas, &options->limits);
    enum tt_err err = TT_OK;
    while (!err && self->worker_count < threads)
        err = add_worker(self, serving, why);
    if (!err)
        err = tt_socket_server_bind(&self->workers[0]->server, 0, options->host, options->tcp_port,
                                    &self->bound_tcp_port, why);
    if (!err)
        err = tt_socket_group_open_ports(&self->group, why);
    for (int32_t i = 0; i < self->worker_count; i++)
        self->workers[i]->calls.service.port = self->workers[i]->server.port;
    if (!err)
        err = tt_socket_group_start(&self->group, "tutti-grpc", why);
    if (err) {
        tt_grpc_listener_close(self);
        return err;
    }
    *out_listener = self;
    return TT_OK;
}

int32_t tt_grpc_listener_tcp_port(const struct tt_grpc_listener *self) {
    return self->bound_tcp_port;
}

void tt_grpc_listener_run(struct tt_grpc_listener *self) { tt_socket_group_run(&self->group); }

void tt_grpc_listener_stop(struct tt_grpc_listener *self, int64_t grace_ms) {
    tt_socket_server_stop(&self->workers[0]->server, grace_ms);
}

void tt_grpc_listener_close(struct tt_grpc_listener *take_self) {
    if (!take_self)
        return;
    for (int32_t i = 0; i < take_self->worker_count; i++) { /* else others wake a closed handle */
        tt_body_budget_leave(&take_self->workers[i]->calls.budget);
        tt_body_budget_leave(&take_self->workers[i]->answers.bodies);
    }
    tt_socket_group_close(&take_self->group);
    for (int32_t i = 0; i < take_self->worker_count; i++) {
        tt_http2_connections_fini(&take_self->workers[i]->connections);
        tt_journal_fini(&take_self->workers[i]->calls.journal);
        tt_grpc_calls_fini(&take_self->workers[i]->calls);
        tt_answer_budget_fini(&take_self->workers[i]->answers);
        tt_tls_loop_free(take_self->workers[i]->tls);
        tt_gate_fini(&take_self->workers[i]->gate);
        free(take_self->workers[i]);
    }
    free(take_self);
}

/* --- counts --- */

void tt_grpc_listener_counts(const struct tt_grpc_listener *self,
                             struct tt_grpc_counts *out_counts) {
    struct tt_grpc_counts sum = {0};
    for (int32_t i = 0; i < self->worker_count; i++) {
        const struct tt_grpc_calls *calls = &self->workers[i]->calls;
        const struct tt_http2_connections *connections = &self->workers[i]->connections;
        int64_t ended = tt_counter_get(&connections->ended); /* before those that were opened */
        sum.accepted += tt_counter_get(&connections->accepted);
        sum.connections += tt_counter_get(&connections->opened) - ended;
        sum.answered += tt_counter_get(&calls->answered);
        sum.gone += tt_counter_get(&calls->gone);
        sum.in_flight += tt_counter_get(&calls->in_flight);
        sum.requests += tt_counter_get(&calls->requests);
        sum.evicted += tt_counter_get(&self->workers[i]->answers.evicted);
    }
    *out_counts = sum;
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
        {"tutti_grpc_evicted_total",
         "gRPC connections closed because of the answers they did not take", "counter",
         counts.evicted},
        {"tutti_grpc_in_flight", "gRPC calls not ended yet", "gauge", counts.in_flight},
    };
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", rows[i].name, rows[i].help,
                       rows[i].name, rows[i].type, rows[i].name, (long long)rows[i].value);
}
