#include "net/sockets/socket_server.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/loopback.h"
#include "base/threads/time_slice.h"
#include "net/sockets/pool_work.h"
#include "net/sockets/socket_inbox.h"
#include "serve/serving.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void on_tick(uv_timer_t *timer);

/* It ticks only while there is something to expire: an idle server sleeps. */
static void start_tick(struct tt_socket_server *self) {
    uint64_t period_ms = self->protocol->tick_ms(self->context);
    if (!uv_is_active((uv_handle_t *)&self->tick))
        uv_timer_start(&self->tick, on_tick, period_ms, period_ms);
}

/* --- clients --- */

static int take_waiting(void *client, uv_tcp_t *tcp) {
    return uv_accept(client, (uv_stream_t *)tcp);
}

static int take_descriptor(void *client, uv_tcp_t *tcp) {
    int fd = *(int *)client;
    int result = uv_tcp_open(tcp, fd);
    if (result < 0)
        close(fd);
    return result;
}

/* Serves a client that was accepted already. */
static void adopt(struct tt_socket_server *self, struct tt_handed_socket socket) {
    if (!self->protocol->accept(self->context, take_descriptor, &socket.fd, socket.which,
                                socket.is_full)) {
        close(socket.fd);
        tt_counter_add(&self->lost_count, 1);
        tt_log_limited(self->log, TT_LOG_WARNING, NULL, "no memory for a connection");
    }
    self->has_new_socket = true;
    start_tick(self);
}

static void take_handed(struct tt_socket_server *self) {
    struct tt_handed_socket socket;
    while (self->inbox && tt_socket_inbox_take(self->inbox, &socket))
        adopt(self, socket);
}

/* The server with the fewest connections; of equals the one after the last that was chosen, so that
 * short connections go around too. */
static int32_t choose_peer(const struct tt_socket_server *self) {
    int32_t chosen = 0;
    int64_t least = INT64_MAX;
    for (int32_t i = 1; i <= self->peer_count; i++) {
        int32_t index = (self->last_peer + i) % self->peer_count;
        const struct tt_socket_server *peer = self->peers[index];
        int64_t open = peer->given_count - peer->protocol->ended(peer->context) -
                       tt_counter_get(&peer->lost_count);
        if (open < least) {
            least = open;
            chosen = index;
        }
    }
    return chosen;
}

static void free_handle(uv_handle_t *handle) { free(handle); }

/* The descriptor of a waiting client, out of libuv's hands; -1: it is gone. */
static int detach_waiting(struct tt_socket_server *self, uv_tcp_t *tcp, int which, bool *out_full) {
    uv_os_fd_t fd = -1;
    int own = -1;
    uv_tcp_init(&self->loop, tcp);
    if (uv_accept((uv_stream_t *)&self->sockets[which].tcp, (uv_stream_t *)tcp) == 0 &&
        uv_fileno((uv_handle_t *)tcp, &fd) == 0) {
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0 && self->spare_fd >= 0) { /* no descriptor is left: refuse it with this one */
            close(self->spare_fd);
            self->spare_fd = -1;
            own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        }
    }
    *out_full = self->spare_fd < 0;
    uv_close((uv_handle_t *)tcp, free_handle);
    return own;
}

/* Passes a waiting client to one of the others. False: this server serves it itself. */
static bool hand_over(struct tt_socket_server *self, int which) {
    int32_t index = choose_peer(self);
    struct tt_socket_server *peer = self->peers[index];
    self->last_peer = index;
    uv_tcp_t *tcp = peer != self ? malloc(sizeof(*tcp)) : NULL;
    if (!tcp)
        return false;
    struct tt_handed_socket socket = {.which = which};
    socket.fd = detach_waiting(self, tcp, which, &socket.is_full);
    if (socket.fd < 0)
        return true;
    if (tt_socket_inbox_put(peer->inbox, socket)) {
        peer->given_count++;
        tt_socket_server_wake(peer);
    } else { /* it does not keep up */
        self->given_count++;
        adopt(self, socket);
    }
    return true;
}

static void accept_one(struct tt_socket_server *self, int which) {
    bool is_elsewhere = self->peer_count > 1 && hand_over(self, which);
    bool is_taken =
        is_elsewhere || self->protocol->accept(self->context, take_waiting, &self->sockets[which],
                                               which, self->spare_fd < 0);
    self->accepts[which].needs_memory = !is_taken;
    self->given_count += is_taken && !is_elsewhere;
    self->has_new_socket = true;
    start_tick(self);
}

static void accept_later(struct tt_loop_behind *behind) {
    struct tt_socket_accepts *accepts = TT_CONTAINER_OF(behind, struct tt_socket_accepts, behind);
    struct tt_socket_server *self = accepts->server;
    accept_one(self, accepts == &self->accepts[1]);
}

/* Without file descriptors libuv refuses waiting clients by a descriptor that it keeps for that.
 * Where that one is gone too it would try for ever, so it gets the listener's. */
static void on_connection(uv_stream_t *server, int status) {
    struct tt_socket_server *self = server->data;
    int which = server == (uv_stream_t *)&self->sockets[1].tcp;
    if (status == 0) {
        if (tt_loop_turn_is_over(&self->turn)) /* libuv offers no other client before it is taken */
            tt_loop_turn_defer(&self->turn, &self->accepts[which].behind);
        else
            accept_one(self, which);
        return;
    }
    tt_log_limited(self->log, TT_LOG_WARNING, NULL, "cannot accept a connection: %s",
                   uv_strerror(status));
    if (self->spare_fd >= 0) {
        close(self->spare_fd);
        self->spare_fd = -1;
    }
    start_tick(self);
}

static bool flush(struct tt_socket_server *self) {
    return self->protocol->flush && self->protocol->flush(self->context);
}

static void on_wake(void *server) {
    struct tt_socket_server *self = server;
    take_handed(self);
    if (!self->port)
        return;
    tt_port_drain(self->port);
    if (self->protocol->relieve)
        self->protocol->relieve(self->context);
    tt_loop_turn_go_on(&self->turn);
    flush(self);
}

void tt_socket_server_wake(void *server) {
    struct tt_socket_server *self = server;
    tt_loop_wake_send(&self->wake);
}

static void on_tick(uv_timer_t *timer) {
    struct tt_socket_server *self = timer->data;
    if (self->spare_fd < 0)
        self->spare_fd = eventfd(0, EFD_CLOEXEC);
    for (int which = 0; which < TT_SOCKET_SERVER_SOCKETS && !self->stopping; which++)
        if (self->accepts[which].needs_memory)
            accept_one(self, which);
    self->protocol->expire(self->context);
    if (self->protocol->is_empty(self->context) && self->spare_fd >= 0 &&
        !self->accepts[0].needs_memory && !self->accepts[1].needs_memory)
        uv_timer_stop(&self->tick);
}

/* Requests are handed over once per loop turn, after the sockets, where nearly all come from, and
 * once more before waiting, for the rest. Answers that exist by then go out at once. */
static void on_after_wait(uv_check_t *check) {
    struct tt_socket_server *self = check->data;
    tt_counter_add(&self->turns, 1);
    tt_loop_turn_next(&self->turn);
    if (!self->port)
        return;
    if (self->busy_poll.limit_ns > 0)
        tt_busy_poll_after(&self->busy_poll, tt_clock_now());
    tt_port_rested(self->port);
    tt_port_flush(self->port);
    flush(self);
}

/* A new socket is not watched before the loop has waited once. */
static void watch(struct tt_socket_server *self) {
    struct pollfd sockets = {.fd = uv_backend_fd(&self->loop), .events = POLLIN};
    int64_t now = tt_clock_now();
    bool is_new = self->has_new_socket;
    self->has_new_socket = false;
    int64_t for_ns = tt_busy_poll_before(&self->busy_poll, now, tt_port_has_requests(self->port));
    if (for_ns == 0 || is_new || uv_backend_timeout(&self->loop) == 0)
        return;
    while (poll(&sockets, 1, 0) == 0)
        if (tt_clock_now() - now >= for_ns) {
            tt_busy_poll_in_vain(&self->busy_poll);
            return;
        }
}

static void on_before_wait(uv_prepare_t *prepare) {
    struct tt_socket_server *self = prepare->data;
    if (!self->port)
        return;
    /* Writing answers may bring the port new work, so the rest comes last. */
    do
        tt_port_rest(self->port);
    while (flush(self));
    tt_counter_set(&self->answer_ns, tt_port_answer_ns(self->port));
    if (self->busy_poll.limit_ns > 0)
        watch(self);
}

void tt_socket_server_check_stopped(struct tt_socket_server *self) {
    if (self->stopping && self->protocol->is_empty(self->context)) {
        self->stopped = true;
        uv_stop(&self->loop);
    }
}

static void on_grace_over(uv_timer_t *timer) {
    struct tt_socket_server *self = timer->data;
    self->protocol->close_all(self->context);
    tt_socket_server_check_stopped(self);
}

static void stop_accepting(struct tt_socket_server *self) {
    if (!self->stopping) {
        self->stopping = true;
        for (int which = 0; which < TT_SOCKET_SERVER_SOCKETS; which++) {
            tt_loop_turn_forget(&self->accepts[which].behind);
            uv_close((uv_handle_t *)&self->sockets[which].tcp, NULL);
        }
        take_handed(self);
        self->protocol->stop(self->context);
    }
    for (int32_t i = 1; i < self->peer_count; i++)
        tt_socket_server_stop(self->peers[i], self->grace_ms);
    uv_timer_start(&self->grace, on_grace_over, (uint64_t)self->grace_ms, 0);
    tt_socket_server_check_stopped(self);
}

static void on_drain_over(uv_timer_t *timer) {
    struct tt_socket_server *self = timer->data;
    if (!self->inbox && !self->is_quiet)
        tt_log_write(self->log, TT_LOG_INFO, NULL,
                     "stopping: no new connections; requests get %lld ms to finish",
                     (long long)self->grace_ms);
    stop_accepting(self);
}

/* Load balancers learn from the readiness that they must go elsewhere, so that comes first. */
static void begin_drain(struct tt_socket_server *self) {
    self->draining = true;
    tt_serving_retire(self->serving);
    if (!self->is_quiet)
        tt_log_write(self->log, TT_LOG_INFO, NULL,
                     "stopping: not ready any more; serving for another %lld ms",
                     (long long)self->drain_ms);
    uv_timer_start(&self->drain, on_drain_over, (uint64_t)self->drain_ms, 0);
}

static void on_stop(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tt_socket_server *self = poll->data;
    int64_t grace_ms = -1, next_ms;
    while (read(self->stop_pipe[0], &next_ms, sizeof(next_ms)) == (ssize_t)sizeof(next_ms))
        grace_ms = next_ms > 0 ? next_ms : 0;
    if (grace_ms < 0)
        return;
    self->grace_ms = grace_ms;
    if (!self->draining && self->drain_ms > 0) {
        begin_drain(self);
        return;
    }
    uv_timer_stop(&self->drain);
    tt_serving_retire(self->serving);
    on_drain_over(&self->drain);
}

/* --- Unix sockets --- */

static const char local_prefix[] = "unix:";

bool tt_socket_is_local(const char *host) {
    return strncmp(host, local_prefix, sizeof(local_prefix) - 1) == 0;
}

/* libuv reports a folder that is missing as permission denied. */
static enum tt_err check_folder(const char *host, const char *path, struct tt_error *why) {
    char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    return access(folder, W_OK | X_OK) == 0
               ? TT_OK
               : tt_fail(TT_ERR_IO, why, "cannot listen on %s: %s", host, strerror(errno));
}

static enum tt_err local_address(const char *host, struct sockaddr_un *out, struct tt_error *why) {
    const char *path = host + sizeof(local_prefix) - 1;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof(out->sun_path))
        return tt_fail(TT_ERR_INVALID, why,
                       "cannot listen on %s: the path of a socket has 1 to %zu bytes", host,
                       sizeof(out->sun_path) - 1);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return check_folder(host, path, why);
}

/* A socket without a listener was left by a server that was killed. */
static enum tt_err remove_stale(const char *host, const struct sockaddr_un *address,
                                struct tt_error *why) {
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return TT_OK;
    if (!S_ISSOCK(found.st_mode))
        return tt_fail(TT_ERR_IO, why, "cannot listen on %s: there is a file that is no socket",
                       host);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_used = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
    if (fd >= 0)
        close(fd);
    if (is_used)
        return tt_fail(TT_ERR_IO, why, "cannot listen on %s: a server listens there", host);
    return unlink(address->sun_path) == 0
               ? TT_OK
               : tt_fail(TT_ERR_IO, why, "cannot replace %s: %s", host, strerror(errno));
}

static enum tt_err bind_local(uv_pipe_t *server, const char *host, struct tt_error *why) {
    struct sockaddr_un address;
    enum tt_err err = local_address(host, &address, why);
    err = err ? err : remove_stale(host, &address, why);
    if (err)
        return err;
    mode_t former = umask(0177);
    int result = uv_pipe_bind(server, address.sun_path);
    umask(former);
    if (result == 0)
        result = uv_listen((uv_stream_t *)server, 128, on_connection);
    return result < 0
               ? tt_fail(TT_ERR_IO, why, "cannot listen on %s: %s", host, uv_strerror(result))
               : TT_OK;
}

/* --- addresses --- */

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

bool tt_socket_is_loopback(const char *host) {
    struct addrinfo *found;
    bool is_it = true;
    if (tt_socket_is_local(host))
        return true;
    if (resolve(host, 0, &found, NULL) != TT_OK)
        return true; /* no server can listen there */
    for (const struct addrinfo *one = found; one; one = one->ai_next)
        is_it = is_it && tt_address_is_loopback(one->ai_addr);
    freeaddrinfo(found);
    return is_it;
}

/* The address that a listener of the host is bound to, IPv4 within IPv6. False: none can be. */
static bool bound_address(const char *host, struct in6_addr *out) {
    struct addrinfo *found;
    if (resolve(host, 0, &found, NULL) != TT_OK)
        return false;
    if (found->ai_family == AF_INET6) {
        *out = ((const struct sockaddr_in6 *)found->ai_addr)->sin6_addr;
    } else {
        *out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(out->s6_addr + 12, &((const struct sockaddr_in *)found->ai_addr)->sin_addr, 4);
    }
    freeaddrinfo(found);
    return true;
}

/* A listener of `all` has the other address, too: `::` has all, 0.0.0.0 those of IPv4. */
static bool includes(const struct in6_addr *all, const struct in6_addr *other) {
    static const struct in6_addr all_v4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return IN6_ARE_ADDR_EQUAL(all, other) || IN6_IS_ADDR_UNSPECIFIED(all) ||
           (IN6_ARE_ADDR_EQUAL(all, &all_v4) && IN6_IS_ADDR_V4MAPPED(other));
}

bool tt_socket_hosts_meet(const char *a, const char *b) {
    struct in6_addr of_a, of_b;
    return bound_address(a, &of_a) && bound_address(b, &of_b) &&
           (includes(&of_a, &of_b) || includes(&of_b, &of_a));
}

static enum tt_err fail_to_listen(const char *host, int32_t tcp_port, const char *reason,
                                  struct tt_error *why) {
    return tt_fail(TT_ERR_IO, why,
                   strchr(host, ':') ? "cannot listen on [%s]:%d: %s"
                                     : "cannot listen on %s:%d: %s",
                   host, tcp_port, reason);
}

enum tt_err tt_socket_server_check(const char *host, int32_t tcp_port, struct tt_error *why) {
    struct addrinfo *found;
    struct sockaddr_un local;
    if (tt_socket_is_local(host))
        return local_address(host, &local, why);
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
static void start_handles(struct tt_socket_server *self) {
    for (int which = 0; which < TT_SOCKET_SERVER_SOCKETS; which++) {
        if (self->is_local)
            uv_pipe_init(&self->loop, &self->sockets[which].pipe, 0);
        else
            uv_tcp_init(&self->loop, &self->sockets[which].tcp);
        self->sockets[which].tcp.data = self;
        self->accepts[which].server = self;
        self->accepts[which].behind.go_on = accept_later;
    }
    uv_timer_init(&self->loop, &self->tick);
    uv_timer_init(&self->loop, &self->grace);
    uv_timer_init(&self->loop, &self->drain);
    uv_prepare_init(&self->loop, &self->before_wait);
    uv_check_init(&self->loop, &self->after_wait);
    self->before_wait.data = self->after_wait.data = self;
    uv_prepare_start(&self->before_wait, on_before_wait);
    uv_check_start(&self->after_wait, on_after_wait);
    self->tick.data = self->grace.data = self;
    self->drain.data = self;
    self->stop_poll.data = self;
}

/* Handles that other threads reach the loop by. */
static int open_signals(struct tt_socket_server *self) {
    int result = tt_loop_wake_open(&self->wake, &self->loop, on_wake, self);
    if (result == 0)
        result = uv_pipe(self->stop_pipe, UV_NONBLOCK_PIPE, UV_NONBLOCK_PIPE);
    if (result == 0)
        result = uv_poll_init(&self->loop, &self->stop_poll, self->stop_pipe[0]);
    return result ? result : uv_poll_start(&self->stop_poll, UV_READABLE, on_stop);
}

enum tt_err tt_socket_server_init(struct tt_socket_server *self, struct tt_serving *serving,
                                  const struct tt_socket_protocol *protocol, void *context,
                                  struct tt_log *log, struct tt_error *why) {
    self->serving = serving;
    self->protocol = protocol;
    self->context = context;
    self->log = log;
    self->stop_pipe[0] = self->stop_pipe[1] = -1;
    self->spare_fd = eventfd(0, EFD_CLOEXEC);
    tt_loop_wake_init(&self->wake);
    tt_loop_turn_init(&self->turn, tt_socket_server_wake, self);
    int result = uv_loop_init(&self->loop);
    self->has_loop = result == 0;
    if (self->has_loop) {
        start_handles(self);
        result = open_signals(self);
    }
    return result < 0
               ? tt_fail(TT_ERR_IO, why, "cannot create an event loop: %s", uv_strerror(result))
               : TT_OK;
}

enum tt_err tt_socket_server_bind(struct tt_socket_server *self, int which, const char *host,
                                  int32_t tcp_port, int32_t *out_tcp_port, struct tt_error *why) {
    if (tcp_port < 0 || tcp_port > 65535)
        return tt_fail(TT_ERR_INVALID, why, "port %d: it must be between 0 (any) and 65535",
                       tcp_port);
    if (self->is_local) {
        *out_tcp_port = 0;
        return bind_local(&self->sockets[which].pipe, host, why);
    }
    enum tt_err err = bind_to(&self->sockets[which].tcp, host, tcp_port, out_tcp_port, why);
    tt_assert(err || *out_tcp_port > 0);
    return err;
}

enum tt_err tt_socket_server_open_port(struct tt_socket_server *self, struct tt_error *why) {
    enum tt_err err =
        tt_serving_open_port(self->serving, tt_socket_server_wake, self, &self->port, why);
    if (err)
        return err;
    tt_port_hold_back(self->port);
    start_tick(self);
    return TT_OK;
}

enum tt_err tt_socket_server_open_inbox(struct tt_socket_server *self, struct tt_error *why) {
    return tt_socket_inbox_open(&self->inbox, why);
}

void tt_socket_server_set_peers(struct tt_socket_server *self, struct tt_socket_server **peers,
                                int32_t count) {
    tt_assert(count >= 1);
    tt_assert(peers[0] == self);
    self->peers = peers;
    self->peer_count = count;
}

void tt_socket_server_run(struct tt_socket_server *self) {
    tt_time_slice_be_short();
    while (!self->stopped)
        uv_run(&self->loop, UV_RUN_DEFAULT);
}

void tt_socket_server_stop(struct tt_socket_server *self, int64_t grace_ms) {
    /* A pipe carries the number across threads and out of signal handlers. If it is full, the loop
     * has been notified already. */
    int saved = errno;
    ssize_t written = write(self->stop_pipe[1], &grace_ms, sizeof(grace_ms));
    (void)written;
    errno = saved;
}

static void close_handle(uv_handle_t *handle, void *context) {
    (void)context;
    if (!uv_is_closing(handle) && !tt_pool_work_owns(handle))
        uv_close(handle, NULL);
}

void tt_socket_server_close(struct tt_socket_server *self) {
    if (!self->stopped && self->port) {
        self->drain_ms = 0;
        tt_socket_server_stop(self, 0);
        tt_socket_server_run(self);
    }
    if (self->port)
        tt_port_close(self->port); /* first, so that no thread wakes a closed handle */
    self->port = NULL;             /* the loop still runs its callbacks */
    if (self->has_loop) {
        uv_walk(&self->loop, close_handle, NULL);
        while (uv_run(&self->loop, UV_RUN_DEFAULT) != 0)
            continue;
    }
    tt_socket_inbox_close(self->inbox);
    for (int i = 0; i < 2; i++)
        if (self->stop_pipe[i] >= 0)
            close(self->stop_pipe[i]);
    if (self->spare_fd >= 0)
        close(self->spare_fd);
    tt_loop_wake_fini(&self->wake);
    tt_assert(self->protocol->is_empty(self->context));
    int result = self->has_loop ? uv_loop_close(&self->loop) : 0;
    tt_assert(result == 0);
}
