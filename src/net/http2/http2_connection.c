#include "net/http2/http2_connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct connection {
    struct tt_http2_session session;
    union {
        uv_tcp_t tcp;
        uv_pipe_t pipe; /* of a Unix socket */
    };
    struct tt_http2_connections *all;
    struct tt_tls_session *tls; /* NULL: without TLS */
    struct tt_list_node node, dirty_node;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct tt_text unsent;             /* copied from an output that the socket did not take */
    struct tt_text ahead;              /* received, for a later turn of the loop */
    struct tt_loop_behind behind;      /* reading, or what is `ahead`, waits for that turn */
    struct tt_body_part waiting;       /* its answers that the client does not take */
    int64_t heard_at_ms, pinged_at_ms; /* pinged_at_ms 0: no PING is unanswered */
    int64_t write_began_at_ms, accepted_at_ms, lingers_since_ms;
    int64_t discarded_bytes; /* since the last tick, while it lingers */
    bool is_writing, is_reading, is_closing;
    bool is_broken;    /* it closes when what is to be sent was sent */
    bool is_lingering; /* its session has ended, and its client is to close */
    bool has_place;    /* in the quota of connections */
};

static struct connection *connection_of(struct tt_http2_session *session) {
    return TT_CONTAINER_OF(session, struct connection, session);
}

bool tt_http2_connections_empty(const struct tt_http2_connections *self) {
    return tt_list_empty(&self->all);
}

/* --- closing --- */

static void on_closed(uv_handle_t *handle) {
    struct connection *self = handle->data;
    struct tt_http2_connections *all = self->all;
    tt_list_remove(&self->node);
    tt_text_fini(&self->unsent);
    tt_text_fini(&self->ahead);
    if (self->has_place)
        tt_quota_give(all->places, 1);
    tt_address_limits_leave(all->addresses, self->session.place);
    free(self->session.refusal);
    tt_tls_session_free(self->tls);
    free(self);
    tt_counter_add(&all->ended, 1);
    all->on_gone(all->owner);
}

/* Once; nothing is sent or understood any more. */
static void end_session(struct connection *self) {
    if (self->is_lingering)
        return;
    if (tt_list_linked(&self->dirty_node))
        tt_list_remove(&self->dirty_node);
    tt_loop_turn_forget(&self->behind);
    tt_http2_session_fini(&self->session);
}

static void connection_close(struct connection *self) {
    if (self->is_closing)
        return;
    self->is_closing = true;
    end_session(self);
    tt_loop_turn_forget(&self->behind); /* of a session that lingers */
    tt_body_part_end(&self->waiting);
    uv_close((uv_handle_t *)&self->tcp, on_closed);
}

static void set_reading(struct connection *self, bool reading);
static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);

static void on_shutdown(uv_shutdown_t *request, int status) {
    (void)request;
    (void)status;
}

/* Closing with unread bytes would make the kernel reset the connection, and the client might lose
 * its last answer, or the reason why it must go. */
static void linger(struct connection *self) {
    end_session(self);
    self->is_lingering = true;
    self->lingers_since_ms = self->all->timers.now_ms;
    set_reading(self, true);
    if (!self->is_closing &&
        uv_shutdown(&self->shutdown, (uv_stream_t *)&self->tcp, on_shutdown) < 0)
        connection_close(self);
}

/* --- writing --- */

static void flush(struct connection *self);
static void read_on(struct connection *self);

static void on_written(uv_write_t *write, int status) {
    struct connection *self = write->data;
    self->is_writing = false;
    if (self->is_closing)
        return;
    if (status < 0) {
        connection_close(self);
        return;
    }
    tt_text_fini(&self->unsent);
    read_on(self);
    if (!self->is_closing)
        flush(self);
}

/* Leaves `unsent` to the loop, but for its first `skipped` bytes. Meanwhile nothing is read, so
 * that the client cannot make more of it. False: the connection is closed. */
static bool write_unsent(struct connection *self, size_t skipped) {
    uv_buf_t buffer = {.base = self->unsent.bytes + skipped, .len = self->unsent.length - skipped};
    self->write.data = self;
    if (self->unsent.failed ||
        uv_write(&self->write, (uv_stream_t *)&self->tcp, &buffer, 1, on_written) < 0) {
        connection_close(self);
        return false;
    }
    self->is_writing = true;
    self->write_began_at_ms = self->all->timers.now_ms;
    set_reading(self, false);
    return !self->is_closing;
}

/* Keeps the rest of the output in memory. False: the connection is closed. */
static bool write_later(struct connection *self, const struct tt_http2_output *output,
                        size_t sent) {
    tt_assert(self->unsent.length == 0);
    for (int32_t i = 0; i < output->count; i++) {
        const struct tt_http2_piece *piece = &output->pieces[i];
        size_t skipped = sent < piece->size_bytes ? sent : piece->size_bytes;
        sent -= skipped;
        tt_text_append(&self->unsent, piece->bytes + skipped, piece->size_bytes - skipped);
    }
    return write_unsent(self, 0);
}

/* Writes the output; what the socket does not take now is copied. False: the connection is closed,
 * or the socket is full. */
static bool write_output(struct connection *self, struct tt_http2_output *output) {
    uv_buf_t buffers[TT_HTTP2_OUTPUT_PIECES];
    for (int32_t i = 0; i < output->count; i++)
        buffers[i] = (uv_buf_t){.base = (char *)(uintptr_t)output->pieces[i].bytes,
                                .len = output->pieces[i].size_bytes};
    int sent = uv_try_write((uv_stream_t *)&self->tcp, buffers, (unsigned)output->count);
    if (sent < 0 && sent != UV_EAGAIN) {
        connection_close(self);
        return false;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    bool is_all = done == output->total_bytes;
    if (!is_all && !write_later(self, output, done))
        return false;
    tt_http2_session_written(&self->session);
    return is_all;
}

/* Writes what is encrypted; the rest of it goes to the loop, as above. False: the connection is
 * closed, or the socket is full. */
static bool write_sealed(struct connection *self) {
    struct tt_text *out = &self->tls->out;
    uv_buf_t buffer = {.base = out->bytes, .len = out->length};
    int sent = out->failed ? UV_ENOMEM : uv_try_write((uv_stream_t *)&self->tcp, &buffer, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        connection_close(self);
        return false;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == out->length) {
        tt_tls_loop_written(self->all->tls, self->tls);
        return true;
    }
    self->unsent = *out;
    tt_text_init(out);
    write_unsent(self, done);
    return false;
}

/* Encrypts what the session has to send now. False: nothing is left after it. */
static bool pull_sealed(struct connection *self) {
    struct tt_http2_output *output = &self->all->output;
    struct tt_tls_loop *loop = self->all->tls;
    if (!self->tls->is_established || self->tls->is_failed)
        return false;
    tt_http2_output_clear(output);
    bool is_more = tt_http2_session_pull(&self->session, output);
    bool good = true;
    for (int32_t i = 0; i < output->count && good; i++)
        good =
            tt_tls_loop_add(loop, self->tls, output->pieces[i].bytes, output->pieces[i].size_bytes);
    if (!tt_tls_loop_end(loop, self->tls) || !good)
        self->is_broken = true;
    tt_http2_session_written(&self->session); /* it is copied */
    return is_more && !self->is_broken;
}

/* False: the connection is closed, or the socket is full. */
static bool flush_tls(struct connection *self) {
    bool is_more;
    do {
        is_more = pull_sealed(self);
        if (self->tls->out.length && !write_sealed(self))
            return false;
    } while (is_more);
    return true;
}

static bool flush_plain(struct connection *self) {
    struct tt_http2_output *output = &self->all->output;
    bool is_more = true;
    while (is_more) {
        tt_http2_output_clear(output);
        is_more = tt_http2_session_pull(&self->session, output);
        if (output->count && !write_output(self, output))
            return false;
    }
    tt_http2_session_written(&self->session); /* streams may have closed without a byte */
    return true;
}

static void flush_session(struct connection *self) {
    if (self->is_closing || self->is_lingering || self->is_writing ||
        !(self->tls ? flush_tls : flush_plain)(self))
        return;
    bool is_over = self->is_broken || tt_http2_session_is_over(&self->session);
    if (!is_over && !(self->all->stopping && self->session.stream_count == 0))
        return;
    if (self->tls)
        tt_tls_session_end(self->tls);
    bool is_sent = !self->tls || !self->tls->out.length || write_sealed(self);
    self->is_broken = true; /* it closes when that is written */
    if (is_sent && is_over && !self->all->stopping)
        linger(self);
    else if (is_sent)
        connection_close(self);
}

/* It goes, in favour of others. */
static void give_way(struct connection *self) {
    size_t bytes = self->session.held_bytes + self->unsent.length;
    tt_answer_budget_evicted(self->all->answers, &self->session.peer, (int64_t)bytes);
    connection_close(self);
}

static void on_evicted(struct tt_body_part *part) {
    give_way(TT_CONTAINER_OF(part, struct connection, waiting));
}

/* Writes what can be written, and counts what waits. */
static void flush(struct connection *self) {
    flush_session(self);
    size_t bytes = self->session.held_bytes + self->unsent.length;
    int64_t now_ms = (int64_t)uv_now(self->all->loop); /* `timers` may be of an earlier turn */
    if (!self->is_closing &&
        !tt_answer_budget_count(self->all->answers, &self->waiting, (int64_t)bytes, now_ms))
        give_way(self);
}

void tt_http2_connections_touch(struct tt_http2_session *session) {
    struct connection *self = connection_of(session);
    if (!self->is_closing && !self->is_lingering && !tt_list_linked(&self->dirty_node))
        tt_list_push_back(&self->all->dirty, &self->dirty_node);
}

bool tt_http2_connections_flush(struct tt_http2_connections *self) {
    struct tt_list_node *node;
    bool found = false;
    while ((node = tt_list_first(&self->dirty)) != NULL) {
        tt_list_remove(node);
        flush(TT_CONTAINER_OF(node, struct connection, dirty_node));
        found = true;
    }
    return found;
}

/* --- reading --- */

/* It takes milliseconds. */
static bool is_in_handshake(const struct connection *self) {
    return self->tls && !self->tls->is_established;
}

/* What comes takes long by itself. */
static bool reads_much(const struct connection *self) {
    return self->is_lingering || is_in_handshake(self);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    (void)suggested;
    struct connection *self = handle->data;
    struct tt_loop_turn *turn = self->all->turn;
    if (turn && tt_loop_turn_must_wait(turn, self->behind.lane, reads_much(self)))
        *out_buffer = (uv_buf_t){.base = NULL, .len = 0}; /* on_read() gets UV_ENOBUFS */
    else
        *out_buffer = (uv_buf_t){.base = self->all->read_buffer, .len = TT_HTTP2_READ_BYTES};
}

/* Keeps the bytes for a later turn. */
static void keep_ahead(struct connection *self, const char *bytes, size_t count) {
    tt_text_append(&self->ahead, bytes, count);
    if (self->ahead.failed) {
        self->is_broken = true;
        return;
    }
    set_reading(self, false);
    self->behind.is_long = false;
    tt_loop_turn_defer(self->all->turn, &self->behind);
}

static void receive_plain(struct connection *self, const char *bytes, size_t count) {
    size_t used = 0;
    if (count == 0 || self->is_broken)
        return;
    if (self->ahead.length == 0 &&
        tt_http2_session_receive(&self->session, bytes, count, &used) != TT_OK)
        self->is_broken = true;
    else if (used < count)
        keep_ahead(self, bytes + used, count - used);
}

/* Takes all that was fed to TLS: it lies where the next read of any connection goes. */
static void receive_fed(struct connection *self) {
    char *plain = self->all->tls->plain;
    enum tt_tls_event event;
    size_t count;
    while ((event = tt_tls_session_read(self->tls, plain, TT_TLS_PLAIN_BYTES, &count)) ==
           TT_TLS_DATA)
        receive_plain(self, plain, count);
    if (self->ahead.length == 0 && event != TT_TLS_MORE)
        self->is_broken = true;
}

static void receive(struct connection *self, const char *bytes, size_t count) {
    self->heard_at_ms = self->all->timers.now_ms;
    self->pinged_at_ms = 0;
    tt_list_remove(&self->node);
    tt_list_push_back(&self->all->all, &self->node);
    if (self->tls) {
        tt_tls_session_feed(self->tls, bytes, count);
        receive_fed(self);
    } else {
        receive_plain(self, bytes, count);
    }
    if (self->is_broken || !tt_http2_session_reads(&self->session))
        set_reading(self, false); /* until it lingers */
    tt_http2_connections_touch(&self->session);
}

/* What a client sends after the end. Beyond the limit the rest waits in its socket for the next
 * tick, so that flow control slows the client down. */
static void discard(struct connection *self, size_t count) {
    self->discarded_bytes += (int64_t)count;
    if (self->discarded_bytes >= TT_HTTP2_LINGER_BYTES)
        set_reading(self, false);
}

/* Reads without waiting for the loop; ends and errors come by it. */
static void read_now(struct connection *self) {
    uv_os_fd_t fd;
    uv_buf_t buffer;
    on_alloc((uv_handle_t *)&self->tcp, 0, &buffer);
    ssize_t count = -1;
    if (uv_fileno((uv_handle_t *)&self->tcp, &fd) == 0)
        count = read(fd, buffer.base, buffer.len);
    if (count > 0)
        on_read((uv_stream_t *)&self->tcp, count, &buffer);
}

/* Another turn for what was kept, or to read. */
static void go_on(struct tt_loop_behind *behind) {
    struct connection *self = TT_CONTAINER_OF(behind, struct connection, behind);
    struct tt_text ahead = self->ahead;
    if (self->is_writing) /* on_written() goes on */
        return;
    if (ahead.length == 0) {
        set_reading(self, true);
        if (!self->is_closing)
            read_now(self);
        return;
    }
    self->all->timers.now_ms = (int64_t)uv_now(self->all->loop);
    tt_text_init(&self->ahead);
    receive_plain(self, ahead.bytes, ahead.length);
    if (self->tls)
        receive_fed(self);
    tt_text_fini(&ahead);
    if (self->ahead.length == 0)
        set_reading(self, true);
    if (!self->is_closing)
        tt_http2_connections_touch(&self->session);
}

/* What was written made room for more requests. */
static void read_on(struct connection *self) {
    if (self->ahead.length)
        tt_loop_turn_defer(self->all->turn, &self->behind);
    else
        set_reading(self, true);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct connection *self = stream->data;
    if (count == 0 || self->is_closing)
        return;
    if (count == UV_ENOBUFS) { /* what came waits in the socket */
        set_reading(self, false);
        self->behind.is_long = reads_much(self);
        tt_loop_turn_defer(self->all->turn, &self->behind);
        return;
    }
    self->all->timers.now_ms = (int64_t)uv_now(self->all->loop);
    if (count < 0)
        connection_close(self);
    else if (self->is_lingering)
        discard(self, (size_t)count);
    else
        receive(self, buffer->base, (size_t)count);
}

static void set_reading(struct connection *self, bool reading) {
    if (self->is_reading == reading || self->is_closing)
        return;
    self->is_reading = reading;
    if (!reading)
        uv_read_stop((uv_stream_t *)&self->tcp);
    else if (uv_read_start((uv_stream_t *)&self->tcp, on_alloc, on_read) < 0)
        connection_close(self);
}

/* --- all connections --- */

void tt_http2_connections_init(struct tt_http2_connections *self, uv_loop_t *loop,
                               const struct tt_limits *limits, struct tt_network_quotas *quotas,
                               const struct tt_http2_handler *handler, void *handler_context,
                               tt_http2_changed_fn *on_gone, void *owner) {
    self->loop = loop;
    self->limits = limits;
    self->session_limits = (struct tt_http2_limits){.streams = (int32_t)limits->streams,
                                                    .header_count = (int32_t)limits->header_count,
                                                    .header_bytes = (size_t)limits->header_bytes};
    self->handler = handler;
    self->handler_context = handler_context;
    self->on_gone = on_gone;
    self->owner = owner;
    self->stopping = false;
    self->tls = NULL;
    self->addresses = NULL;
    self->answers = NULL;
    self->is_local = false;
    self->turn = NULL;
    tt_list_init(&self->all);
    tt_list_init(&self->dirty);
    tt_http2_timers_init(&self->timers, limits->header_timeout_ms, limits->body_timeout_ms,
                         limits->write_timeout_ms);
    tt_http2_memory_init(&self->memory);
    tt_counter_set(&self->accepted, 0);
    tt_counter_set(&self->opened, 0);
    tt_counter_set(&self->ended, 0);
    self->places = &quotas->connections;
}

void tt_http2_connections_fini(struct tt_http2_connections *self) {
    tt_assert(tt_http2_connections_empty(self));
    tt_http2_memory_fini(&self->memory);
}

uint64_t tt_http2_connections_tick_ms(const struct tt_http2_connections *self) {
    const struct tt_limits *limits = self->limits;
    int64_t shortest_ms = 1000;
    const int64_t all_ms[] = {limits->body_timeout_ms, limits->write_timeout_ms,
                              limits->idle_timeout_ms, limits->header_timeout_ms};
    for (size_t i = 0; i < TT_COUNT(all_ms); i++)
        if (all_ms[i] < shortest_ms)
            shortest_ms = all_ms[i];
    return shortest_ms >= 4 ? (uint64_t)shortest_ms / 4 : 1;
}

/* Over the limit of its address a connection is accepted for a moment, and its requests get the
 * reason. False: no memory. */
static bool enter_address(struct connection *self) {
    struct tt_http2_session *session = &self->session;
    struct tt_error why;
    if (tt_address_limits_enter(self->all->addresses, &session->peer, &session->place, &why))
        return true;
    session->refusal = strdup(why.text);
    return session->refusal != NULL;
}

/* A connection without a socket; NULL: no memory. */
static struct connection *connection_new(struct tt_http2_connections *all) {
    struct connection *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    all->timers.now_ms = (int64_t)uv_now(all->loop);
    self->all = all;
    self->behind.go_on = go_on;
    self->waiting.evict = on_evicted;
    self->heard_at_ms = self->accepted_at_ms = all->timers.now_ms;
    if (tt_http2_session_init(&self->session, all->handler, &all->session_limits, &all->timers,
                              &all->memory, all->handler_context) != TT_OK) {
        free(self);
        return NULL;
    }
    self->session.turn = all->turn;
    return self;
}

/* From here on it ends by connection_close(). */
static void open_socket(struct connection *self) {
    struct tt_http2_connections *all = self->all;
    if (all->is_local)
        uv_pipe_init(all->loop, &self->pipe, 0);
    else
        uv_tcp_init(all->loop, &self->tcp);
    self->tcp.data = self;
    tt_list_push_back(&all->all, &self->node);
    tt_counter_add(&all->opened, 1);
}

bool tt_http2_connections_accept(struct tt_http2_connections *self,
                                 int (*take)(void *client, uv_tcp_t *tcp), void *client,
                                 bool is_full) {
    struct connection *connection = connection_new(self);
    if (!connection)
        return false;
    if (self->tls) {
        connection->tls = tt_tls_loop_accept(self->tls, TT_TLS_HTTP2);
        if (!connection->tls) {
            tt_http2_session_fini(&connection->session);
            free(connection);
            return false;
        }
    }
    open_socket(connection);
    connection->has_place = tt_quota_take(self->places, 1);
    /* The last places are kept for probes over HTTP. */
    int64_t room = self->places->limit - tt_network_reserve(self->places->limit);
    if (take(client, &connection->tcp) < 0 || is_full || !connection->has_place ||
        tt_quota_used(self->places) > room) {
        connection_close(connection);
        return true;
    }
    tt_counter_add(&self->accepted, 1);
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0)
        connection->session.peer = tt_peer_address_of(fd);
    connection->behind.lane = tt_peer_address_lane(&connection->session.peer);
    if (self->addresses && !enter_address(connection)) {
        connection_close(connection);
        return true;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    set_reading(connection, true);
    if (!connection->is_closing)
        flush(connection);
    return true;
}

bool tt_http2_connections_adopt(struct tt_http2_connections *self,
                                const struct tt_http2_newcomer *newcomer) {
    struct connection *connection = connection_new(self);
    if (!connection)
        return false;
    struct tt_http2_session *session = &connection->session;
    open_socket(connection);
    connection->tls = newcomer->tls;
    connection->has_place = newcomer->has_quota;
    session->peer = newcomer->peer;
    connection->behind.lane = tt_peer_address_lane(&session->peer);
    session->place = newcomer->place;
    session->is_reserved = newcomer->is_reserved;
    session->only_metrics = newcomer->only_metrics;
    if (newcomer->take(newcomer->client, &connection->tcp) < 0) {
        connection_close(connection);
        return true;
    }
    tt_counter_add(&self->accepted, 1);
    set_reading(connection, true);
    if (connection->is_closing)
        return true;
    if (newcomer->has_preface)
        receive_plain(connection, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    receive_plain(connection, newcomer->bytes, newcomer->count);
    if (connection->tls)
        receive_fed(connection);
    tt_http2_connections_touch(session);
    return true;
}

/* Idle connections end; those with streams must answer a PING from time to time. */
static void check_silence(struct connection *self, int64_t now_ms) {
    int64_t silence_ms = now_ms - self->heard_at_ms;
    bool is_brief = self->session.refusal || self->session.is_reserved;
    if (self->is_lingering) {
        self->discarded_bytes = 0;
        set_reading(self, true);
        if (now_ms - self->lingers_since_ms >= TT_HTTP2_LINGER_MS)
            connection_close(self);
        return;
    }
    if (is_brief && now_ms - self->accepted_at_ms >= TT_HTTP2_BRIEF_MS) {
        connection_close(self);
        return;
    }
    if (self->tls && !self->tls->is_established) {
        if (now_ms - self->accepted_at_ms >= self->all->limits->header_timeout_ms)
            connection_close(self);
    } else if (self->is_writing) {
        if (now_ms - self->write_began_at_ms >= self->all->limits->write_timeout_ms)
            connection_close(self);
    } else if (self->session.stream_count == 0) {
        if (silence_ms >= self->all->limits->idle_timeout_ms)
            connection_close(self);
    } else if (!self->pinged_at_ms && silence_ms >= TT_HTTP2_PING_MS) {
        self->pinged_at_ms = now_ms;
        tt_http2_session_ping(&self->session);
        tt_http2_connections_touch(&self->session);
    } else if (self->pinged_at_ms && now_ms - self->pinged_at_ms >= TT_HTTP2_PING_LIMIT_MS) {
        connection_close(self);
    }
}

void tt_http2_connections_expire(struct tt_http2_connections *self) {
    self->timers.now_ms = (int64_t)uv_now(self->loop);
    tt_http2_timers_expire(&self->timers, tt_http2_connections_touch);
    struct tt_list_node *node = tt_list_first(&self->all);
    while (node) { /* on_closed, which removes the node, comes later */
        struct connection *connection = TT_CONTAINER_OF(node, struct connection, node);
        node = tt_list_next(&self->all, node);
        if (!connection->is_closing)
            check_silence(connection, self->timers.now_ms);
    }
    tt_http2_connections_flush(self);
}

void tt_http2_connections_stop(struct tt_http2_connections *self) {
    struct tt_list_node *node = tt_list_first(&self->all);
    self->stopping = true;
    for (; node; node = tt_list_next(&self->all, node)) {
        struct connection *connection = TT_CONTAINER_OF(node, struct connection, node);
        if (connection->is_lingering)
            connection_close(connection);
        if (!connection->is_closing)
            tt_http2_session_stop(&connection->session);
        tt_http2_connections_touch(&connection->session);
    }
}

void tt_http2_connections_close_all(struct tt_http2_connections *self) {
    struct tt_list_node *node = tt_list_first(&self->all);
    for (; node; node = tt_list_next(&self->all, node))
        connection_close(TT_CONTAINER_OF(node, struct connection, node));
}
