#include "net/http/listener.h"

#include "base/log/log.h"
#include "net/http/connection.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

struct tt_listener {
    uv_loop_t loop;
    uv_tcp_t server, metrics_server;
    uv_async_t wake;
    uv_poll_t stop;
    int stop_pipe[2]; /* carries the grace, in ms, from tt_listener_stop to the loop */
    uv_timer_t tick, grace, drain;
    int64_t grace_ms; /* of the last tt_listener_stop() */
    struct tt_serving *serving;
    bool draining;
    uv_prepare_t before_wait; /* both hand requests over to the scheduler, once per loop turn */
    uv_check_t after_wait;
    struct tt_port *port;
    struct tt_listener_options options;
    int32_t bound_tcp_port;
    bool stopped;
    bool accept_waits[2]; /* a client waits for memory; [1]: on the metrics socket */
    int spare_fd; /* closed when no descriptor is left, to accept and refuse a client; an eventfd,
                     which needs no file; -1 */
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

static void on_tick(uv_timer_t *timer);

/* It ticks only while there is something to expire: an idle server sleeps. */
static void start_tick(struct tt_listener *self) {
    uint64_t period_ms = tt_connections_tick_ms(&self->connections);
    if (!uv_is_active((uv_handle_t *)&self->tick))
        uv_timer_start(&self->tick, on_tick, period_ms, period_ms);
}

static void accept_one(struct tt_listener *self, bool of_metrics) {
    uv_tcp_t *server = of_metrics ? &self->metrics_server : &self->server;
    self->accept_waits[of_metrics] = !tt_connections_accept(
        &self->connections, (uv_stream_t *)server, of_metrics, self->spare_fd < 0);
    start_tick(self);
}

/* Without file descriptors libuv refuses waiting clients by a descriptor that it keeps for that.
 * Where that one is gone too it would try for ever, so it gets the listener's. */
static void on_connection(uv_stream_t *server, int status) {
    struct tt_listener *self = server->data;
    if (status == 0) {
        accept_one(self, server == (uv_stream_t *)&self->metrics_server);
        return;
    }
    tt_log_limited(self->options.log, TT_LOG_WARNING, NULL, "cannot accept a connection: %s",
                   uv_strerror(status));
    if (self->spare_fd >= 0) {
        close(self->spare_fd);
        self->spare_fd = -1;
    }
    start_tick(self);
}

static void on_wake(uv_async_t *async) {
    struct tt_listener *self = async->data;
    if (self->port)
        tt_port_drain(self->port);
}

static void wake_from_outside(void *context) {
    struct tt_listener *self = context;
    uv_async_send(&self->wake);
}

static void on_tick(uv_timer_t *timer) {
    struct tt_listener *self = timer->data;
    if (self->spare_fd < 0)
        self->spare_fd = eventfd(0, EFD_CLOEXEC);
    for (int of_metrics = 0; of_metrics < 2 && !self->connections.stopping; of_metrics++)
        if (self->accept_waits[of_metrics])
            accept_one(self, of_metrics);
    tt_connections_expire(&self->connections);
    if (tt_connections_empty(&self->connections) && self->spare_fd >= 0 && !self->accept_waits[0] &&
        !self->accept_waits[1])
        uv_timer_stop(&self->tick);
}

/* Requests are handed over once per loop turn, after the sockets, where nearly all come from, and
 * once more before waiting, for the rest. Answers that exist by then go out at once. */
static void on_after_wait(uv_check_t *check) {
    struct tt_listener *self = check->data;
    if (self->port)
        tt_port_flush(self->port);
}

static void on_before_wait(uv_prepare_t *prepare) {
    struct tt_listener *self = prepare->data;
    if (self->port)
        tt_port_rest(self->port);
}

static void check_stopped(void *owner) {
    struct tt_listener *self = owner;
    if (self->connections.stopping && tt_connections_empty(&self->connections)) {
        self->stopped = true;
        uv_stop(&self->loop);
    }
}

static void on_grace_over(uv_timer_t *timer) {
    struct tt_listener *self = timer->data;
    tt_connections_close_all(&self->connections);
    check_stopped(self);
}

static void stop_accepting(struct tt_listener *self) {
    if (!self->connections.stopping) {
        uv_close((uv_handle_t *)&self->server, NULL);
        uv_close((uv_handle_t *)&self->metrics_server, NULL);
        tt_connections_stop(&self->connections);
    }
    uv_timer_start(&self->grace, on_grace_over, (uint64_t)self->grace_ms, 0);
    check_stopped(self);
}

static void on_drain_over(uv_timer_t *timer) {
    struct tt_listener *self = timer->data;
    tt_log_write(self->options.log, TT_LOG_INFO, NULL,
                 "stopping: no new connections; requests get %lld ms to finish",
                 (long long)self->grace_ms);
    stop_accepting(self);
}

/* Load balancers learn from the readiness that they must go elsewhere, so that comes first. */
static void begin_drain(struct tt_listener *self) {
    self->draining = true;
    tt_serving_retire(self->serving);
    tt_log_write(self->options.log, TT_LOG_INFO, NULL,
                 "stopping: not ready any more; serving for another %lld ms",
                 (long long)self->options.drain_ms);
    uv_timer_start(&self->drain, on_drain_over, (uint64_t)self->options.drain_ms, 0);
}

static void on_stop(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tt_listener *self = poll->data;
    int64_t grace_ms = -1, next_ms;
    while (read(self->stop_pipe[0], &next_ms, sizeof(next_ms)) == (ssize_t)sizeof(next_ms))
        grace_ms = next_ms > 0 ? next_ms : 0;
    if (grace_ms < 0)
        return;
    self->grace_ms = grace_ms;
    if (!self->draining && self->options.drain_ms > 0) {
        begin_drain(self);
        return;
    }
    uv_timer_stop(&self->drain);
    tt_serving_retire(self->serving);
    on_drain_over(&self->drain);
}

/* The addresses of a host, for freeaddrinfo(). */
static enum tt_err resolve(const char *host, int32_t tcp_port, struct addrinfo **out_found,
                           struct tt_error *why) {
    char service[16];
    snprintf(service, sizeof(service), "%d", tcp_port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    int problem = getaddrinfo(host, service, &hints, out_found);
    if (problem)
        return tt_fail(TT_ERR_INVALID, why, "cannot listen on \"%s\": %s", host,
                       gai_strerror(problem));
    return TT_OK;
}

static enum tt_err fail_to_listen(const char *host, int32_t tcp_port, const char *reason,
                                  struct tt_error *why) {
    return tt_fail(TT_ERR_IO, why, "cannot listen on %s:%d: %s", host, tcp_port, reason);
}

static enum tt_err check_address(const char *host, int32_t tcp_port, struct tt_error *why) {
    struct addrinfo *found;
    enum tt_err err = resolve(host, tcp_port, &found, why);
    if (err)
        return err;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, failed = 0;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0)
        failed = errno;
    freeaddrinfo(found);
    if (fd >= 0)
        close(fd);
    return failed ? fail_to_listen(host, tcp_port, uv_strerror(uv_translate_sys_error(failed)), why)
                  : TT_OK;
}

enum tt_err tt_listener_check(const struct tt_listener_options *options, struct tt_error *why) {
    enum tt_err err = check_address(options->host, options->tcp_port, why);
    if (!err && options->metrics_tcp_port > 0)
        err = check_address(options->host, options->metrics_tcp_port, why);
    return err;
}

static enum tt_err bind_to(uv_tcp_t *server, const char *host, int32_t tcp_port,
                           int32_t *out_tcp_port, struct tt_error *why) {
    struct addrinfo *found;
    enum tt_err err = resolve(host, tcp_port, &found, why);
    if (err)
        return err;
    int result = uv_tcp_bind(server, found->ai_addr, 0);
    freeaddrinfo(found);
    if (result == 0)
        result = uv_listen((uv_stream_t *)server, 1024, on_connection);
    if (result < 0)
        return fail_to_listen(host, tcp_port, uv_strerror(result), why);
    struct sockaddr_storage address;
    int length = sizeof(address);
    result = uv_tcp_getsockname(server, (struct sockaddr *)&address, &length);
    if (result < 0)
        return tt_fail(TT_ERR_IO, why, "%s:%d: %s", host, tcp_port, uv_strerror(result));
    *out_tcp_port =
        ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                            : ((struct sockaddr_in *)&address)->sin_port);
    return TT_OK;
}

/* Handles whose initialisation needs no system call and so cannot fail. */
static void start_handles(struct tt_listener *self) {
    uv_tcp_init(&self->loop, &self->server);
    uv_tcp_init(&self->loop, &self->metrics_server);
    uv_timer_init(&self->loop, &self->tick);
    uv_timer_init(&self->loop, &self->grace);
    uv_timer_init(&self->loop, &self->drain);
    uv_prepare_init(&self->loop, &self->before_wait);
    uv_check_init(&self->loop, &self->after_wait);
    self->before_wait.data = self->after_wait.data = self;
    uv_prepare_start(&self->before_wait, on_before_wait);
    uv_check_start(&self->after_wait, on_after_wait);
    self->server.data = self->metrics_server.data = self->tick.data = self->grace.data = self;
    self->drain.data = self;
    self->wake.data = self->stop.data = self;
    start_tick(self);
}

/* Handles that other threads reach the loop by. */
static int open_signals(struct tt_listener *self) {
    int result = uv_async_init(&self->loop, &self->wake, on_wake);
    if (result == 0)
        result = uv_pipe(self->stop_pipe, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE);
    if (result == 0)
        result = uv_poll_init(&self->loop, &self->stop, self->stop_pipe[0]);
    return result ? result : uv_poll_start(&self->stop, UV_READABLE, on_stop);
}

static void start_connections(struct tt_listener *self, struct tt_serving *serving) {
    const struct tt_listener_options *options = &self->options;
    struct tt_http_context context = {
        .service = {.serving = serving,
                    .port = self->port,
                    .server_version = options->server_version,
                    .log_settings = options->log ? &options->log->settings : NULL},
        .json_depth = (int32_t)options->limits.json_depth,
        .management_bytes = options->limits.management_bytes,
        .log = options->log,
        .access_lines = options->access_lines,
        .dashboard = options->dashboard};
    tt_connections_init(&self->connections, &self->loop, &options->limits, &context, check_stopped,
                        self);
}

enum tt_err tt_listener_open(struct tt_serving *serving, const struct tt_listener_options *options,
                             struct tt_listener **out_listener, struct tt_error *why) {
    if (options->tcp_port < 0 || options->tcp_port > 65535)
        return tt_fail(TT_ERR_INVALID, why, "port %d: it must be between 0 (any) and 65535",
                       options->tcp_port);
    struct tt_listener *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    self->options = *options;
    self->options.host = NULL; /* borrowed for this call only */
    self->serving = serving;
    self->stop_pipe[0] = self->stop_pipe[1] = -1;
    int result = uv_loop_init(&self->loop);
    if (result < 0) {
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot create an event loop: %s", uv_strerror(result));
    }
    self->spare_fd = eventfd(0, EFD_CLOEXEC);
    start_connections(self, serving);
    start_handles(self);
    enum tt_err err = TT_OK;
    result = open_signals(self);
    if (result < 0)
        err = tt_fail(TT_ERR_IO, why, "cannot create an event loop: %s", uv_strerror(result));
    if (!err)
        err = bind_to(&self->server, options->host, options->tcp_port, &self->bound_tcp_port, why);
    int32_t metrics_tcp_port = 0;
    if (!err && options->metrics_tcp_port > 0)
        err = bind_to(&self->metrics_server, options->host, options->metrics_tcp_port,
                      &metrics_tcp_port, why);
    if (!err)
        err = tt_serving_open_port(serving, wake_from_outside, self, &self->port, why);
    if (err) {
        tt_listener_close(self);
        return err;
    }
    tt_assert(self->bound_tcp_port > 0);
    self->connections.context.service.port = self->port;
    tt_port_hold_back(self->port);
    *out_listener = self;
    return TT_OK;
}

int32_t tt_listener_tcp_port(const struct tt_listener *self) { return self->bound_tcp_port; }

void tt_listener_run(struct tt_listener *self) {
    while (!self->stopped)
        uv_run(&self->loop, UV_RUN_DEFAULT);
}

void tt_listener_stop(struct tt_listener *self, int64_t grace_ms) {
    /* A pipe carries the number across threads and out of signal handlers. If it is full, the loop
     * has been notified already. */
    int saved = errno;
    ssize_t written = write(self->stop_pipe[1], &grace_ms, sizeof(grace_ms));
    (void)written;
    errno = saved;
}

static void close_handle(uv_handle_t *handle, void *context) {
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void tt_listener_close(struct tt_listener *self) {
    if (!self)
        return;
    if (!self->stopped && self->port) {
        self->options.drain_ms = 0;
        tt_listener_stop(self, 0);
        tt_listener_run(self);
    }
    if (self->port)
        tt_port_close(self->port); /* first, so that no thread wakes a closed handle */
    self->port = NULL;             /* the loop still runs its callbacks */
    uv_walk(&self->loop, close_handle, NULL);
    while (uv_run(&self->loop, UV_RUN_DEFAULT) != 0)
        continue;
    for (int i = 0; i < 2; i++)
        if (self->stop_pipe[i] >= 0)
            close(self->stop_pipe[i]);
    if (self->spare_fd >= 0)
        close(self->spare_fd);
    tt_connections_fini(&self->connections);
    int result = uv_loop_close(&self->loop);
    tt_assert(result == 0);
    free(self);
}

struct tt_listener_counts tt_listener_counts(const struct tt_listener *self) {
    return self->connections.counts;
}
