#include "net/listener.h"

#include "base/log.h"
#include "net/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tt_listener_options_default(struct tt_listener_options *out_options) {
    *out_options = (struct tt_listener_options){
        .host = "127.0.0.1",
        .port = 8000,
        .server_version = "",
    };
    tt_limits_default(&out_options->limits);
}

/* Out of file descriptors libuv sheds those that wait, by one that it keeps for that; where that is
 * gone too it would try for ever, and so it gets ours. */
static void on_connection(uv_stream_t *server, int status) {
    struct tt_listener *self = server->data;
    if (status == 0) {
        tt_connection_accept(self, server == (uv_stream_t *)&self->metrics_server);
        return;
    }
    tt_log_limited(self->options.log, TT_LOG_WARNING, NULL, "cannot accept a connection: %s",
                   uv_strerror(status));
    if (self->spare_fd >= 0) {
        close(self->spare_fd);
        self->spare_fd = -1;
    }
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

/* Each list is in order of expiry, so only those that are due are looked at. */
static void on_tick(uv_timer_t *timer) {
    struct tt_listener *self = timer->data;
    uint64_t now = uv_now(&self->loop);
    if (self->spare_fd < 0)
        self->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int of_metrics = 0; of_metrics < 2 && !self->stopping; of_metrics++)
        if (self->accept_waits[of_metrics])
            tt_connection_accept(self, of_metrics);
    for (int wait = 0; wait < TT_WAIT_COUNT; wait++) {
        struct tt_list_node *node;
        while (self->limits_ms[wait] && (node = tt_list_first(&self->waits[wait])) != NULL) {
            struct tt_connection *connection = TT_CONTAINER_OF(node, struct tt_connection, node);
            if (now - connection->since_ms < self->limits_ms[wait])
                break;
            tt_connection_expire(connection);
            tt_assert(connection->wait != (enum tt_wait)wait); /* else this would not end */
        }
    }
}

/* Requests are handed over once per turn, after the sockets, where nearly all come from, and once
 * more before waiting, for the rest; answers that there are by then go out at once. */
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

static void close_all(struct tt_listener *self, int wait) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->waits[wait])) != NULL)
        tt_connection_close(TT_CONTAINER_OF(node, struct tt_connection, node));
}

static void on_grace_over(uv_timer_t *timer) {
    struct tt_listener *self = timer->data;
    for (int wait = 0; wait < TT_WAIT_CLOSED; wait++)
        close_all(self, wait);
    tt_listener_check_stopped(self);
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
    if (!self->stopping) {
        self->stopping = true;
        uv_close((uv_handle_t *)&self->server, NULL);
        uv_close((uv_handle_t *)&self->metrics_server, NULL);
        close_all(self, TT_WAIT_IDLE);
    }
    uv_timer_start(&self->grace, on_grace_over, (uint64_t)grace_ms, 0);
    tt_listener_check_stopped(self);
}

void tt_listener_check_stopped(struct tt_listener *self) {
    if (self->stopping && self->counts.connections == 0 && self->exchange_count == 0) {
        self->stopped = true;
        uv_stop(&self->loop);
    }
}

static enum tt_err bind_to(uv_tcp_t *server, const char *host, int32_t port, int32_t *out_port,
                           struct tt_error *why) {
    char service[16];
    snprintf(service, sizeof(service), "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int problem = getaddrinfo(host, service, &hints, &found);
    if (problem)
        return tt_fail(TT_ERR_INVALID, why, "cannot listen on \"%s\": %s", host,
                       gai_strerror(problem));
    int result = uv_tcp_bind(server, found->ai_addr, 0);
    freeaddrinfo(found);
    if (result == 0)
        result = uv_listen((uv_stream_t *)server, 1024, on_connection);
    if (result < 0)
        return tt_fail(TT_ERR_IO, why, "cannot listen on %s:%d: %s", host, port,
                       uv_strerror(result));
    struct sockaddr_storage address;
    int length = sizeof(address);
    result = uv_tcp_getsockname(server, (struct sockaddr *)&address, &length);
    if (result < 0)
        return tt_fail(TT_ERR_IO, why, "%s:%d: %s", host, port, uv_strerror(result));
    *out_port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                    : ((struct sockaddr_in *)&address)->sin_port);
    return TT_OK;
}

/* Handles that need no system call to initialise, and so no error. */
static void start_handles(struct tt_listener *self) {
    const struct tt_limits *limits = &self->options.limits;
    for (int wait = 0; wait < TT_WAIT_COUNT; wait++)
        tt_list_init(&self->waits[wait]);
    self->limits_ms[TT_WAIT_IDLE] = (uint64_t)limits->idle_timeout_ms;
    self->limits_ms[TT_WAIT_HEAD] = (uint64_t)limits->header_timeout_ms;
    self->limits_ms[TT_WAIT_BODY] = (uint64_t)limits->body_timeout_ms;
    self->limits_ms[TT_WAIT_WRITE] = (uint64_t)limits->write_timeout_ms;
    self->limits_ms[TT_WAIT_LINGER] = TT_LINGER_MS;
    uint64_t shortest = TT_LINGER_MS;
    for (int wait = 0; wait < TT_WAIT_COUNT; wait++)
        if (self->limits_ms[wait] && self->limits_ms[wait] < shortest)
            shortest = self->limits_ms[wait];
    uint64_t period = shortest / 4 ? shortest / 4 : 1;
    uv_tcp_init(&self->loop, &self->server);
    uv_tcp_init(&self->loop, &self->metrics_server);
    uv_timer_init(&self->loop, &self->tick);
    uv_timer_init(&self->loop, &self->grace);
    uv_prepare_init(&self->loop, &self->before_wait);
    uv_check_init(&self->loop, &self->after_wait);
    self->before_wait.data = self->after_wait.data = self;
    uv_prepare_start(&self->before_wait, on_before_wait);
    uv_check_start(&self->after_wait, on_after_wait);
    self->server.data = self->metrics_server.data = self->tick.data = self->grace.data = self;
    uv_timer_start(&self->tick, on_tick, period, period);
}

enum tt_err tt_listener_open(struct tt_serving *serving, const struct tt_listener_options *options,
                             struct tt_listener **out_listener, struct tt_error *why) {
    if (options->port < 0 || options->port > 65535)
        return tt_fail(TT_ERR_INVALID, why, "port %d: it must be between 0 (any) and 65535",
                       options->port);
    struct tt_listener *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a listener");
    self->serving = serving;
    self->options = *options;
    self->stop_pipe[0] = self->stop_pipe[1] = -1;
    self->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    self->body_budget.limit_bytes = (size_t)options->limits.receive_bytes;
    self->http_limits =
        (struct tt_http1_limits){.head_bytes = (size_t)options->limits.header_bytes,
                                 .header_count = (int32_t)options->limits.header_count,
                                 .body_bytes = (size_t)options->limits.body_bytes,
                                 .budget = &self->body_budget};
    int result = uv_loop_init(&self->loop);
    if (result < 0) {
        if (self->spare_fd >= 0)
            close(self->spare_fd);
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot make an event loop: %s", uv_strerror(result));
    }
    start_handles(self);
    self->wake.data = self->stop.data = self;
    enum tt_err err = TT_OK;
    result = uv_async_init(&self->loop, &self->wake, on_wake);
    if (result == 0)
        result = uv_pipe(self->stop_pipe, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE);
    if (result == 0)
        result = uv_poll_init(&self->loop, &self->stop, self->stop_pipe[0]);
    if (result == 0)
        result = uv_poll_start(&self->stop, UV_READABLE, on_stop);
    if (result < 0)
        err = tt_fail(TT_ERR_IO, why, "cannot make an event loop: %s", uv_strerror(result));
    if (!err)
        err = bind_to(&self->server, options->host, options->port, &self->bound_port, why);
    int32_t metrics_port = 0;
    if (!err && options->metrics_port > 0)
        err = bind_to(&self->metrics_server, options->host, options->metrics_port, &metrics_port,
                      why);
    self->options.host = NULL; /* borrowed for this call only */
    if (!err)
        err = tt_port_open(serving, wake_from_outside, self, &self->port, why);
    if (err) {
        tt_listener_close(self);
        return err;
    }
    tt_port_hold_back(self->port);
    *out_listener = self;
    return TT_OK;
}

int32_t tt_listener_port(const struct tt_listener *self) { return self->bound_port; }

void tt_listener_run(struct tt_listener *self) {
    while (!self->stopped)
        uv_run(&self->loop, UV_RUN_DEFAULT);
}

void tt_listener_stop(struct tt_listener *self, int64_t grace_ms) {
    /* A pipe, since it carries the number across threads, and out of signal handlers. Full: it is
     * told already. */
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
        tt_listener_stop(self, 0);
        tt_listener_run(self);
    }
    if (self->port)
        tt_port_close(self->port); /* first, so that nobody rings a bell that is gone */
    self->port = NULL;             /* the loop turns on, and looks */
    uv_walk(&self->loop, close_handle, NULL);
    while (uv_run(&self->loop, UV_RUN_DEFAULT) != 0)
        continue;
    for (int i = 0; i < 2; i++)
        if (self->stop_pipe[i] >= 0)
            close(self->stop_pipe[i]);
    if (self->spare_fd >= 0)
        close(self->spare_fd);
    int result = uv_loop_close(&self->loop);
    tt_assert(result == 0);
    free(self);
}

struct tt_listener_counts tt_listener_counts(const struct tt_listener *self) {
    return self->counts;
}
