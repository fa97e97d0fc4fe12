#include "net/http/listener.h"

#include "base/log/log.h"
#include "net/http/connection.h"
#include "net/http/http_stream.h"
#include "net/sockets/socket_group.h"

#include <stdlib.h>

enum { SERVER, METRICS_SERVER };

/* What one connection thread has. */
struct worker {
    struct tt_socket_server server;
    struct tt_http_transactions transactions;
    struct tt_connections connections;
    struct tt_http_streams streams;
    struct tt_http2_connections http2;
    struct tt_answer_budget answers;
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
    const struct worker *self = context;
    return tt_counter_get(&self->transactions.counts.ended) + tt_counter_get(&self->http2.ended);
}

static void expire(void *context) {
    struct worker *self = context;
    tt_connections_expire(&self->connections);
    tt_http2_connections_expire(&self->http2);
}

static uint64_t tick_ms(const void *context) {
    const struct worker *self = context;
    uint64_t one_ms = tt_connections_tick_ms(&self->connections);
    uint64_t two_ms = tt_http2_connections_tick_ms(&self->http2);
    return one_ms < two_ms ? one_ms : two_ms;
}

static bool flush(void *context) {
    return tt_http2_connections_flush(&((struct worker *)context)->http2);
}

static void relieve(void *context) {
    struct worker *self = context;
    tt_body_budget_relieve(&self->transactions.body_budget);
    tt_body_budget_relieve(&self->answers.bodies);
}

/* No other thread wakes this one any more. */
static void leave_budgets(struct worker *self) {
    tt_body_budget_leave(&self->transactions.body_budget);
    tt_body_budget_leave(&self->answers.bodies);
}

static void stop(void *context) {
    struct worker *self = context;
    self->transactions.stopping = true;
    leave_budgets(self);
    tt_connections_stop(&self->connections);
    tt_http2_connections_stop(&self->http2);
    tt_http2_connections_flush(&self->http2);
}

static void close_all(void *context) {
    struct worker *self = context;
    tt_connections_close_all(&self->connections);
    tt_http2_connections_close_all(&self->http2);
}

static bool is_empty(const void *context) {
    const struct worker *self = context;
    return tt_connections_empty(&self->connections) && tt_http2_connections_empty(&self->http2) &&
           self->transactions.count == 0;
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

static void on_end(void *owner) {
    struct worker *self = owner;
    if (self->server.stopping)
        tt_socket_server_check_stopped(&self->server);
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
        .turn = &worker->server.turn,
        .journal = {.access_lines = options->access_lines,
                    .tracer = options->tracer,
                    .writer = options->first_writer + self->worker_count},
        .dashboard = options->dashboard,
        .gate = &worker->gate,
        .host = options->host,
        .more_metrics = options->more_metrics,
        .more_metrics_context = options->more_metrics_context};
    struct tt_network_quotas *quotas = options->quotas ? options->quotas : &self->own_quotas;
    tt_http_transactions_init(&worker->transactions, &worker->server.loop, &options->limits, quotas,
                              &context, on_end, worker);
    worker->streams = (struct tt_http_streams){.transactions = &worker->transactions,
                                               .addresses = options->addresses,
                                               .touch = tt_http2_connections_touch};
    tt_http2_connections_init(&worker->http2, &worker->server.loop, &options->limits, quotas,
                              &tt_http_stream_handler, &worker->streams, on_end, worker);
    tt_connections_init(&worker->connections, &worker->transactions, &worker->http2, quotas);
    worker->connections.tls = worker->http2.tls = worker->tls;
    worker->connections.addresses = worker->http2.addresses = options->addresses;
    tt_answer_budget_init(&worker->answers, &quotas->send_bytes, &quotas->answers, options->log);
    worker->connections.answers = worker->http2.answers = &worker->answers;
    worker->connections.turn = worker->http2.turn = &worker->server.turn;
    worker->connections.is_local = worker->http2.is_local = worker->server.is_local = is_local;
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
    tt_busy_poll_init(&worker->server.busy_poll, self->options.busy_poll_us * TT_US);
    worker->server.drain_ms = self->worker_count ? 0 : self->options.drain_ms;
    /* They stop with the port for requests, which says so. */
    worker->server.is_quiet = self->options.is_admin || self->options.dashboard;
    start_connections(self, worker, serving);
    self->workers[self->worker_count++] = worker;
    tt_socket_group_add(&self->group, &worker->server);
    enum tt_err err =
        tt_socket_server_init(&worker->server, serving, &protocol, worker, self->options.log, why);
    if (self->options.turn_ns)
        worker->server.turn.length_ns = self->options.turn_ns;
    if (!err) {
        tt_body_budget_join(&worker->transactions.body_budget, tt_socket_server_wake,
                            &worker->server);
        tt_body_budget_join(&worker->answers.bodies, tt_socket_server_wake, &worker->server);
    }
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
        self->workers[i]->transactions.context.service.port = self->workers[i]->server.port;
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
        leave_budgets(self->workers[i]);
    tt_socket_group_close(&self->group);
    for (int32_t i = 0; i < self->worker_count; i++) {
        tt_connections_fini(&self->workers[i]->connections);
        tt_http2_connections_fini(&self->workers[i]->http2);
        tt_http_transactions_fini(&self->workers[i]->transactions);
        tt_answer_budget_fini(&self->workers[i]->answers);
        tt_tls_loop_free(self->workers[i]->tls);
        tt_gate_fini(&self->workers[i]->gate);
        free(self->workers[i]);
    }
    free(self);
}

static void add_counts(const struct worker *worker, struct tt_listener_counts *out_counts) {
    tt_http_counters_add(&worker->transactions.counts, &worker->http2.ended, out_counts);
    out_counts->http2_connections += tt_counter_get(&worker->http2.accepted);
    out_counts->turns += tt_counter_get(&worker->server.turns);
    out_counts->answer_ns =
        tt_instant_max(out_counts->answer_ns, tt_counter_get(&worker->server.answer_ns));
    out_counts->evicted += tt_counter_get(&worker->answers.evicted);
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
