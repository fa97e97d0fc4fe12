#include "fleet/memory_exchange.h"

#include "base/log/log.h"
#include "base/packet_socket.h"
#include "fleet/memory_greeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_MS = 100, MAX_WAIT_MS = 10000, TIMEOUT_MS = 3000, MAX_CONNECTIONS = 256 };
enum { NAME_BYTES = 64, NOTHING = 0 };

struct connection {
    uv_poll_t poll;
    struct tt_memory_exchange *exchange;
    struct connection *next, **at; /* in exchange->connections */
    int fd;
    uint16_t peer;          /* TT_CLUSTER_NO_NODE: not known yet */
    int32_t awaited;        /* enum tt_memory_kind; NOTHING: that the peer closes */
    bool is_ours, is_ended; /* this node dialed */
    uint64_t begun_ms;
};

/* A backend that a frontend has a link to. */
struct dial {
    bool is_wanted;
    struct connection *connection;
    uint64_t next_ms, wait_ms;
};

struct tt_memory_exchange {
    struct tt_memory_agreement *agreement;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_poll_t listener;
    int listener_fd; /* -1: none */
    struct connection *connections;
    int32_t connection_count;
    struct dial *dials; /* [file->count] */
    bool is_closing, was_refused;
};

static const struct tt_node_memory_options *options_of(const struct tt_memory_exchange *self) {
    return &self->agreement->options;
}

static bool is_backend(const struct tt_memory_exchange *self) {
    const struct tt_node_memory_options *options = options_of(self);
    return options->file->places[options->number].role == TT_ROLE_BACKEND;
}

/* All nodes of a cluster have the same description, and numbers are theirs alone. */
static void name_of(const struct tt_memory_exchange *self, uint16_t backend, char *out) {
    snprintf(out, NAME_BYTES, "tutti/%016" PRIx64 "/%u", options_of(self)->file->digest, backend);
}

static void complain(const struct tt_memory_exchange *self, uint16_t peer,
                     const struct tt_error *why) {
    tt_log_limited(options_of(self)->log, TT_LOG_WARNING, NULL,
                   "cluster: %s: no memory is shared: %s",
                   peer == TT_CLUSTER_NO_NODE ? "a process of this host"
                                              : options_of(self)->file->places[peer].name,
                   why->text);
}

/* ---- connections ---- */

static void on_closed(uv_handle_t *handle) {
    struct connection *self = handle->data;
    close(self->fd);
    free(self);
}

static void end(struct connection *self) {
    struct tt_memory_exchange *exchange = self->exchange;
    if (self->is_ended)
        return;
    self->is_ended = true;
    *self->at = self->next;
    if (self->next)
        self->next->at = self->at;
    exchange->connection_count--;
    if (self->is_ours && exchange->dials[self->peer].connection == self)
        exchange->dials[self->peer].connection = NULL;
    uv_close((uv_handle_t *)&self->poll, on_closed);
}

static void close_both(const int fds[TT_MEMORY_DESCRIPTORS]) {
    for (int32_t i = 0; i < TT_MEMORY_DESCRIPTORS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static enum tt_err say(struct connection *self, struct tt_memory_message *message, const int *fds,
                       int32_t fd_count, struct tt_error *why) {
    const struct tt_node_memory_options *options = options_of(self->exchange);
    const uint8_t *session = options->session(options->context, self->peer);
    uint8_t bytes[TT_MEMORY_MESSAGE_BYTES];
    if (!session)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "its link has ended");
    message->from = options->number;
    message->to = self->peer;
    tt_memory_message_write(message, session, bytes);
    return tt_packet_send(self->fd, bytes, sizeof(bytes), fds, fd_count, why);
}

static enum tt_err say_kind(struct connection *self, enum tt_memory_kind kind, int32_t awaited,
                            struct tt_error *why) {
    struct tt_memory_message message = {.kind = kind};
    self->awaited = awaited;
    return say(self, &message, NULL, 0, why);
}

/* Nothing of a message is believed before this. */
static enum tt_err verify(struct connection *self, const uint8_t *bytes,
                          const struct tt_memory_message *message, struct tt_error *why) {
    const struct tt_node_memory_options *options = options_of(self->exchange);
    bool is_known = message->from < options->file->count && message->to == options->number &&
                    (self->peer == TT_CLUSTER_NO_NODE || self->peer == message->from);
    if (!is_known || (int32_t)message->kind != self->awaited ||
        (!self->is_ours && options->file->places[message->from].role != TT_ROLE_FRONTEND))
        return tt_fail(TT_ERR_INVALID, why, "an unexpected message about shared memory");
    const uint8_t *session = options->session(options->context, message->from);
    if (!session) /* the frontend's side of the link was up first; it dials again */
        return tt_fail(TT_ERR_UNAVAILABLE, why, "there is no link to it yet");
    if (!tt_memory_message_is_signed(bytes, session))
        return tt_fail(TT_ERR_INVALID, why, "a message about shared memory has a wrong tag");
    self->peer = message->from;
    return TT_OK;
}

static enum tt_err offer(struct connection *self, struct tt_error *why) {
    struct tt_memory_message message = {.kind = TT_MEMORY_OFFER};
    int fds[TT_MEMORY_DESCRIPTORS];
    enum tt_err err =
        tt_memory_agreement_offer(self->exchange->agreement, self->peer, &message, fds, why);
    self->awaited = TT_MEMORY_ACCEPTED;
    return err ? err : say(self, &message, fds, TT_MEMORY_DESCRIPTORS, why);
}

/* Takes the descriptors. */
static enum tt_err accept_offer(struct connection *self, const struct tt_memory_message *message,
                                const int fds[TT_MEMORY_DESCRIPTORS], struct tt_error *why) {
    if (fds[0] < 0 || fds[1] < 0) {
        close_both(fds);
        return tt_fail(TT_ERR_INVALID, why, "an offer of memory lacks a descriptor");
    }
    enum tt_err err =
        tt_memory_agreement_accept(self->exchange->agreement, self->peer, message, fds, why);
    return err ? err : say_kind(self, TT_MEMORY_ACCEPTED, NOTHING, why);
}

static enum tt_err answer(struct connection *self, const struct tt_memory_message *message,
                          const int fds[TT_MEMORY_DESCRIPTORS], struct tt_error *why) {
    if (message->kind == TT_MEMORY_OFFER)
        return accept_offer(self, message, fds, why);
    close_both(fds);
    switch (message->kind) {
    case TT_MEMORY_HELLO: return say_kind(self, TT_MEMORY_WELCOME, TT_MEMORY_OFFER, why);
    case TT_MEMORY_WELCOME: return offer(self, why);
    case TT_MEMORY_ACCEPTED:
        self->exchange->dials[self->peer].is_wanted = false;
        tt_memory_agreement_agreed(self->exchange->agreement, self->peer);
        break;
    case TT_MEMORY_OFFER:
    case TT_MEMORY_KINDS: break;
    }
    end(self);
    return TT_OK;
}

static enum tt_err take_packet(struct connection *self, struct tt_error *why) {
    uint8_t bytes[TT_MEMORY_MESSAGE_BYTES];
    int fds[TT_PACKET_DESCRIPTORS];
    size_t count;
    struct tt_memory_message message;
    enum tt_err err = tt_packet_receive(self->fd, bytes, sizeof(bytes), &count, fds, why);
    if (err)
        return err;
    err = tt_memory_message_read(bytes, count, &message, why);
    if (!err)
        err = verify(self, bytes, &message, why);
    if (!err)
        return answer(self, &message, fds, why);
    close_both(fds);
    return err;
}

static void on_packet(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct connection *self = poll->data;
    struct tt_error why;
    enum tt_err err = take_packet(self, &why);
    if (!err || err == TT_ERR_BUSY)
        return;
    if (err != TT_ERR_UNAVAILABLE)
        complain(self->exchange, self->peer, &why);
    end(self);
}

/* Takes the descriptor. NULL: out of memory. */
static struct connection *begin(struct tt_memory_exchange *exchange, int take_fd, uint16_t peer) {
    struct connection *self = calloc(1, sizeof(*self));
    if (!self || uv_poll_init(exchange->loop, &self->poll, take_fd) < 0) {
        free(self);
        close(take_fd);
        return NULL;
    }
    self->exchange = exchange;
    self->fd = take_fd;
    self->peer = peer;
    self->is_ours = peer != TT_CLUSTER_NO_NODE;
    self->awaited = TT_MEMORY_HELLO;
    self->begun_ms = uv_now(exchange->loop);
    self->poll.data = self;
    self->next = exchange->connections;
    self->at = &exchange->connections;
    if (self->next)
        self->next->at = &self->next;
    exchange->connections = self;
    exchange->connection_count++;
    uv_poll_start(&self->poll, UV_READABLE | UV_DISCONNECT, on_packet);
    return self;
}

/* ---- dialing and accepting ---- */

static void dial(struct tt_memory_exchange *self, uint16_t backend) {
    struct dial *dial = &self->dials[backend];
    char name[NAME_BYTES];
    int fd;
    struct tt_error why;
    dial->next_ms = uv_now(self->loop) + dial->wait_ms;
    dial->wait_ms = dial->wait_ms < MAX_WAIT_MS / 2 ? 2 * dial->wait_ms : MAX_WAIT_MS;
    name_of(self, backend, name);
    enum tt_err err = tt_packet_connect(name, &fd, &why);
    if (!err) {
        dial->connection = begin(self, fd, backend);
        if (!dial->connection)
            return;
        err = say_kind(dial->connection, TT_MEMORY_HELLO, TT_MEMORY_WELCOME, &why);
        if (err)
            end(dial->connection);
    }
    if (err == TT_ERR_INVALID || err == TT_ERR_IO)
        complain(self, backend, &why);
}

static void on_listener(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tt_memory_exchange *self = poll->data;
    int fd;
    struct tt_error why;
    enum tt_err err = tt_packet_accept(self->listener_fd, &fd, &why);
    if (err == TT_ERR_INVALID)
        complain(self, TT_CLUSTER_NO_NODE, &why);
    if (err)
        return;
    if (self->connection_count >= MAX_CONNECTIONS)
        close(fd);
    else
        begin(self, fd, TT_CLUSTER_NO_NODE);
}

/* The name may be taken by an earlier process of this node for a while. */
static void listen_again(struct tt_memory_exchange *self) {
    char name[NAME_BYTES];
    struct tt_error why;
    name_of(self, options_of(self)->number, name);
    enum tt_err err = tt_packet_listen(name, &self->listener_fd, &why);
    if (!err && uv_poll_init(self->loop, &self->listener, self->listener_fd) < 0) {
        close(self->listener_fd);
        self->listener_fd = -1;
        err = tt_fail(TT_ERR_IO, &why, "cannot watch a Unix socket");
    }
    if (err && !self->was_refused)
        complain(self, options_of(self)->number, &why);
    self->was_refused = err != TT_OK;
    if (err)
        return;
    self->listener.data = self;
    uv_poll_start(&self->listener, UV_READABLE, on_listener);
}

static void on_tick(uv_timer_t *timer) {
    struct tt_memory_exchange *self = timer->data;
    uint64_t now_ms = uv_now(self->loop);
    for (struct connection *c = self->connections, *next; c; c = next) {
        next = c->next;
        if (now_ms - c->begun_ms > TIMEOUT_MS)
            end(c);
    }
    if (is_backend(self) && self->listener_fd < 0)
        listen_again(self);
    for (int32_t i = 0; i < options_of(self)->file->count; i++)
        if (self->dials[i].is_wanted && !self->dials[i].connection &&
            now_ms >= self->dials[i].next_ms)
            dial(self, (uint16_t)i);
}

void tt_memory_exchange_link(struct tt_memory_exchange *self, uint16_t backend, bool is_up) {
    struct dial *wanted = &self->dials[backend];
    if (self->is_closing)
        return;
    if (wanted->connection)
        end(wanted->connection);
    *wanted = (struct dial){.is_wanted = is_up, .wait_ms = TICK_MS};
    if (is_up)
        dial(self, backend);
}

/* ---- opening and closing ---- */

enum tt_err tt_memory_exchange_open(struct tt_memory_agreement *agreement, uv_loop_t *loop,
                                    struct tt_memory_exchange **out_exchange,
                                    struct tt_error *why) {
    struct tt_memory_exchange *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->agreement = agreement;
    self->loop = loop;
    self->listener_fd = -1;
    self->dials = calloc((size_t)agreement->options.file->count, sizeof(*self->dials));
    if (!self->dials) {
        free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    uv_timer_init(loop, &self->timer);
    self->timer.data = self;
    uv_timer_start(&self->timer, on_tick, TICK_MS, TICK_MS);
    if (is_backend(self))
        listen_again(self);
    *out_exchange = self;
    return TT_OK;
}

static void on_listener_closed(uv_handle_t *handle) {
    struct tt_memory_exchange *self = handle->data;
    close(self->listener_fd);
}

void tt_memory_exchange_close(struct tt_memory_exchange *self) {
    if (self->is_closing)
        return;
    self->is_closing = true;
    while (self->connections)
        end(self->connections);
    uv_close((uv_handle_t *)&self->timer, NULL);
    if (self->listener_fd >= 0)
        uv_close((uv_handle_t *)&self->listener, on_listener_closed);
}

void tt_memory_exchange_free(struct tt_memory_exchange *take_self) {
    if (!take_self)
        return;
    tt_assert(take_self->is_closing && !take_self->connections);
    free(take_self->dials);
    free(take_self);
}
