#include "fleet/node_connection.h"

#include "base/array.h"
#include "base/varint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MAX_LINE_BYTES = 4096, VISIT_HEAD_BYTES = 4 };
/* What may wait for a peer that does not read; a link that has more is closed. */
enum { MAX_OUT_BYTES = 1 << 30 };

struct tt_connection *tt_connection_new(struct tt_node_links *links,
                                        const struct tt_connection_events *events, uint16_t peer) {
    struct tt_connection *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->links = links;
    self->events = events;
    self->peer = peer;
    self->begun_ms = uv_now(links->loop);
    int result = uv_tcp_init(links->loop, &self->tcp);
    tt_assert(result == 0);
    self->tcp.data = self;
    tt_frame_stream_init(&self->in, links->options.limit_bytes);
    tt_text_init(&self->sealed_flying);
    self->next = links->connections;
    self->at = &links->connections;
    if (self->next)
        self->next->at = &self->next;
    links->connections = self;
    return self;
}

static void on_closed(uv_handle_t *handle) {
    struct tt_connection *self = handle->data;
    tt_frame_stream_fini(&self->in);
    free(self->out);
    free(self->flying);
    tt_text_fini(&self->sealed_flying);
    tt_tls_session_free(self->tls);
    free(self);
}

void tt_connection_close(struct tt_connection *self) {
    if (self->is_closing)
        return;
    self->is_closing = true;
    *self->at = self->next;
    if (self->next)
        self->next->at = self->at;
    uv_close((uv_handle_t *)&self->tcp, on_closed);
}

/* ---- writing ---- */

uint8_t *tt_connection_room(struct tt_connection *self, size_t bytes) {
    if (self->is_closing || self->out_bytes + bytes > MAX_OUT_BYTES ||
        !TT_ARRAY_RESERVE(self->out, &self->out_capacity, (int64_t)(self->out_bytes + bytes)))
        return NULL;
    uint8_t *room = self->out + self->out_bytes;
    self->out_bytes += bytes;
    return room;
}

static void fail(struct tt_connection *self) {
    struct tt_error why;
    tt_fail(TT_ERR_INVALID, &why, "TLS: %s", tt_tls_session_reason(self->tls));
    self->events->ended(self->links, self, 0, &why);
}

static void on_written(uv_write_t *request, int status) {
    struct tt_connection *self = request->handle->data;
    self->is_writing = false;
    tt_text_clear(&self->sealed_flying);
    if (self->is_closing)
        return;
    if (status < 0)
        self->events->ended(self->links, self, status, NULL);
    else
        tt_connection_flush(self);
}

/* The rest of what was collected flies, and a new collection begins. */
static int write_rest(struct tt_connection *self, size_t done) {
    uint8_t *flying = self->out;
    int64_t capacity = self->out_capacity;
    uv_buf_t rest = uv_buf_init((char *)flying + done, (unsigned)(self->out_bytes - done));
    self->out = self->flying;
    self->out_capacity = self->flying_capacity;
    self->flying = flying;
    self->flying_capacity = capacity;
    self->out_bytes = 0;
    self->is_writing = true;
    return uv_write(&self->writing, (uv_stream_t *)&self->tcp, &rest, 1, on_written);
}

/* The rest of what was encrypted flies. */
static int write_sealed_rest(struct tt_connection *self, size_t done) {
    struct tt_text sealed = self->tls->out;
    self->tls->out = self->sealed_flying;
    self->sealed_flying = sealed;
    uv_buf_t rest = uv_buf_init(sealed.bytes + done, (unsigned)(sealed.length - done));
    self->is_writing = true;
    return uv_write(&self->writing, (uv_stream_t *)&self->tcp, &rest, 1, on_written);
}

/* Encrypts what was collected, once TLS is established, and writes it with what TLS itself says. */
static void flush_sealed(struct tt_connection *self) {
    struct tt_text *out = &self->tls->out;
    if (self->tls->is_established && self->out_bytes > 0) {
        if (!tt_tls_session_write(self->tls, self->out, self->out_bytes)) {
            fail(self);
            return;
        }
        self->out_bytes = 0;
    }
    if (out->length == 0)
        return;
    uv_buf_t all = uv_buf_init(out->bytes, (unsigned)out->length);
    int result = uv_try_write((uv_stream_t *)&self->tcp, &all, 1);
    size_t done = result > 0 ? (size_t)result : 0;
    if (done == out->length) {
        tt_text_clear(out);
        return;
    }
    if (result >= 0 || result == UV_EAGAIN)
        result = write_sealed_rest(self, done);
    if (result < 0)
        self->events->ended(self->links, self, result, NULL);
}

void tt_connection_flush(struct tt_connection *self) {
    if (self->is_closing || self->is_writing)
        return;
    if (self->tls) {
        flush_sealed(self);
        return;
    }
    if (self->out_bytes == 0)
        return;
    uv_buf_t all = uv_buf_init((char *)self->out, (unsigned)self->out_bytes);
    int result = uv_try_write((uv_stream_t *)&self->tcp, &all, 1);
    size_t done = result > 0 ? (size_t)result : 0;
    if (done == self->out_bytes) {
        self->out_bytes = 0;
        return;
    }
    if (result >= 0 || result == UV_EAGAIN)
        result = write_rest(self, done);
    if (result < 0)
        self->events->ended(self->links, self, result, NULL);
}

static void send_reply(struct tt_connection *self, const struct tt_handshake_reply *reply) {
    uint8_t *room = reply->count ? tt_connection_room(self, reply->count) : NULL;
    if (room)
        memcpy(room, reply->bytes, reply->count);
    tt_connection_flush(self);
}

/* ---- reading ---- */

/* A visitor's lines, each with its length before it. */
static enum tt_err read_visitor(struct tt_connection *self, struct tt_error *why) {
    const struct tt_node_links_options *options = &self->links->options;
    for (size_t there; !self->is_closing;) {
        const uint8_t *bytes = tt_frame_stream_peek(&self->in, &there);
        if (there < VISIT_HEAD_BYTES)
            return TT_OK;
        uint32_t length = tt_get_u32(bytes);
        char line[MAX_LINE_BYTES + 1];
        if (length > MAX_LINE_BYTES)
            return tt_fail(TT_ERR_INVALID, why, "a visitor sent a line of %u bytes; at most %d",
                           length, MAX_LINE_BYTES);
        if (there < VISIT_HEAD_BYTES + length)
            return TT_OK;
        memcpy(line, bytes + VISIT_HEAD_BYTES, length);
        line[length] = '\0';
        tt_frame_stream_skip(&self->in, VISIT_HEAD_BYTES + length);
        struct tt_text answer;
        tt_text_init(&answer);
        options->events->visited(options->context, line, &answer);
        uint8_t *room = tt_connection_room(self, VISIT_HEAD_BYTES + answer.length);
        if (room) {
            tt_put_u32(room, (uint32_t)answer.length);
            if (answer.length > 0)
                memcpy(room + VISIT_HEAD_BYTES, answer.bytes, answer.length);
        }
        tt_text_fini(&answer);
        tt_connection_flush(self);
    }
    return TT_OK;
}

static enum tt_err read_frames(struct tt_connection *self, struct tt_error *why) {
    const struct tt_node_links_options *options = &self->links->options;
    while (!self->is_closing) {
        struct tt_received received;
        bool has;
        enum tt_err err =
            tt_frame_stream_next(&self->in, self->links->records, &received, &has, why);
        if (err || !has)
            return err;
        options->events->received(options->context, self->peer, &received);
    }
    return TT_OK;
}

static enum tt_err read_handshake(struct tt_connection *self, struct tt_error *why) {
    struct tt_handshake_reply reply;
    while (!self->is_done) {
        size_t there, used;
        const uint8_t *bytes = tt_frame_stream_peek(&self->in, &there);
        enum tt_err err = tt_handshake_read(&self->handshake, bytes, there, &used, &reply, why);
        send_reply(self, &reply);
        if (err || used == 0 || self->is_closing)
            return err;
        tt_frame_stream_skip(&self->in, used);
        if (self->handshake.state != TT_HANDSHAKE_DONE)
            continue;
        self->is_done = true;
        self->peer = self->handshake.peer.node;
        self->is_visitor = self->peer == TT_CLUSTER_NO_NODE;
        if (!self->is_visitor && !self->events->welcome(self->links, self))
            return TT_OK;
    }
    return TT_OK;
}

static void take_in(struct tt_connection *self) {
    struct tt_error why;
    enum tt_err err = read_handshake(self, &why);
    if (!err && self->is_done && !self->is_closing)
        err = self->is_visitor ? read_visitor(self, &why) : read_frames(self, &why);
    if (err && !self->is_closing)
        self->events->ended(self->links, self, 0, &why);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
    (void)suggested;
    struct tt_connection *self = handle->data;
    size_t bytes = TT_NODE_READ_BYTES;
    uint8_t *room = self->tls ? self->links->sealed
                              : tt_frame_stream_room(&self->in, TT_NODE_READ_BYTES, &bytes);
    *out = uv_buf_init((char *)room, room ? (unsigned)bytes : 0);
}

/* Decrypts all bytes that came. */
static enum tt_tls_event unseal(struct tt_connection *self, const char *bytes, size_t count) {
    tt_tls_session_feed(self->tls, bytes, count);
    for (;;) {
        size_t room_bytes, plain;
        uint8_t *room = tt_frame_stream_room(&self->in, TT_NODE_READ_BYTES, &room_bytes);
        if (!room)
            return TT_TLS_END; /* the connection is of no use any more */
        enum tt_tls_event event = tt_tls_session_read(self->tls, (char *)room, room_bytes, &plain);
        if (event != TT_TLS_DATA)
            return event;
        tt_frame_stream_add(&self->in, plain);
    }
}

static void read_sealed(struct tt_connection *self, const char *bytes, size_t count) {
    enum tt_tls_event event = unseal(self, bytes, count);
    tt_connection_flush(self); /* the handshake of TLS, and what waited for it */
    if (self->is_closing)
        return;
    take_in(self);
    if (self->is_closing)
        return;
    if (event == TT_TLS_FAILED)
        fail(self);
    else if (event == TT_TLS_END)
        self->events->ended(self->links, self, UV_EOF, NULL);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
    struct tt_connection *self = stream->data;
    if (bytes < 0) {
        self->events->ended(self->links, self, (int)bytes, NULL);
        return;
    }
    if (self->tls) {
        read_sealed(self, buffer->base, (size_t)bytes);
        return;
    }
    tt_frame_stream_add(&self->in, (size_t)bytes);
    take_in(self);
}

/* False: out of memory. */
static bool begin_tls(struct tt_connection *self, bool is_dialer) {
    const struct tt_node_links_options *options = &self->links->options;
    const struct tt_cluster_tls *tls = tt_live_tls_get(options->tls, &self->links->tls_view);
    if (!tls->listener)
        return true;
    self->tls = is_dialer
                    ? tt_tls_session_connect(tls->dialer, options->file->places[self->peer].host)
                    : tt_tls_session_new(tls->listener, TT_TLS_HTTP1);
    return self->tls != NULL;
}

void tt_connection_begin(struct tt_connection *self, bool is_dialer) {
    const struct tt_node_links_options *options = &self->links->options;
    uint8_t nonce[TT_HANDSHAKE_NONCE_BYTES];
    ssize_t drawn = getrandom(nonce, sizeof(nonce), 0);
    tt_assert(drawn == (ssize_t)sizeof(nonce));
    uv_tcp_nodelay(&self->tcp, 1);
    struct tt_handshake_reply reply;
    tt_handshake_begin(&self->handshake, &options->identity, is_dialer,
                       is_dialer ? self->peer : TT_CLUSTER_NO_NODE, options->file->count,
                       options->key, nonce, &reply);
    int result = begin_tls(self, is_dialer)
                     ? uv_read_start((uv_stream_t *)&self->tcp, on_room, on_read)
                     : UV_ENOMEM;
    if (result < 0)
        self->events->ended(self->links, self, result, NULL);
    else
        send_reply(self, &reply);
}
