/* A gRPC client in memory for tests: nghttp2's client side, whose bytes go to a struct
 * tt_http2_session with the handler of gRPC, without a socket. Behind it is the fake server of
 * fake_serving.h. */
#ifndef TT_TESTS_GRPC_CLIENT_H
#define TT_TESTS_GRPC_CLIENT_H

#include "fake_serving.h"

#include "net/grpc/grpc_operations.h"
#include "net/http2/http2_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { CLIENT_STREAMS = 4096 };

struct client_stream {
    int http_status, grpc_status; /* -1: none came */
    char message[512], encoding[16];
    struct tt_text received;
    bool is_closed;
    uint32_t error_code;
    const char *body; /* to be sent */
    size_t body_bytes, body_sent, chunk_bytes;
    bool keeps_open;
};

struct client {
    struct tt_serving serving;
    struct tt_port *port;
    struct tt_limits limits;
    struct tt_network_quotas quotas;
    struct tt_grpc_calls calls;
    struct tt_http2_limits http2_limits;
    struct tt_http2_timers timers;
    struct tt_http2_memory memory;
    struct tt_http2_session server;
    struct tt_http2_output output;
    nghttp2_session *session;
    struct client_stream streams[CLIENT_STREAMS]; /* by id / 2 */
    bool is_refused;                              /* the server takes no more bytes */
    uint32_t goaway_code;
    bool has_goaway, holds_credit;
};

static inline struct client_stream *client_stream(struct client *self, int32_t id) {
    assert_true(id / 2 < CLIENT_STREAMS);
    return &self->streams[id / 2];
}

static inline void client_wake(void *context) { (void)context; }
static inline void client_touch(struct tt_http2_session *session) { (void)session; }

static inline int client_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                                   const uint8_t *name, size_t name_bytes, const uint8_t *value,
                                   size_t value_bytes, uint8_t flags, void *context) {
    (void)session;
    (void)name_bytes;
    (void)flags;
    struct client_stream *stream = client_stream(context, frame->hd.stream_id);
    const char *key = (const char *)name;
    if (strcmp(key, ":status") == 0)
        stream->http_status = atoi((const char *)value);
    else if (strcmp(key, "grpc-status") == 0)
        stream->grpc_status = atoi((const char *)value);
    else if (strcmp(key, "grpc-message") == 0)
        snprintf(stream->message, sizeof(stream->message), "%.*s", (int)value_bytes, value);
    else if (strcmp(key, "grpc-encoding") == 0)
        snprintf(stream->encoding, sizeof(stream->encoding), "%.*s", (int)value_bytes, value);
    return 0;
}

static inline int client_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                                 const uint8_t *bytes, size_t count, void *context) {
    (void)session;
    (void)flags;
    tt_text_append(&client_stream(context, id)->received, bytes, count);
    return 0;
}

static inline int client_on_close(nghttp2_session *session, int32_t id, uint32_t error_code,
                                  void *context) {
    (void)session;
    struct client_stream *stream = client_stream(context, id);
    stream->is_closed = true;
    stream->error_code = error_code;
    return 0;
}

static inline int client_on_frame(nghttp2_session *session, const nghttp2_frame *frame,
                                  void *context) {
    (void)session;
    struct client *self = context;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        self->has_goaway = true;
        self->goaway_code = frame->goaway.error_code;
    }
    return 0;
}

static inline ssize_t client_read(nghttp2_session *session, int32_t id, uint8_t *buffer,
                                  size_t length, uint32_t *data_flags, nghttp2_data_source *source,
                                  void *context) {
    (void)session;
    (void)source;
    struct client_stream *stream = client_stream(context, id);
    size_t left = stream->body_bytes - stream->body_sent;
    size_t count = left < length ? left : length;
    if (stream->chunk_bytes && count > stream->chunk_bytes)
        count = stream->chunk_bytes;
    if (count == 0 && stream->keeps_open)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(buffer, stream->body + stream->body_sent, count);
    stream->body_sent += count;
    if (stream->body_sent == stream->body_bytes && !stream->keeps_open)
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

/* `window` bytes per stream; with `holds_credit` the client never gives more. */
static inline void client_init(struct client *self, uint32_t window, bool holds_credit) {
    memset(self, 0, sizeof(*self));
    fake_serving_init(&self->serving);
    assert_int_equal(tt_serving_open_port(&self->serving, client_wake, NULL, &self->port, NULL),
                     TT_OK);
    tt_limits_default(&self->limits);
    self->limits.body_bytes = 1 << 20;
    self->limits.unpacked_bytes = 1 << 20;
    const struct tt_kserve_service service = {
        .serving = &self->serving, .port = self->port, .server_version = "0.1.0"};
    tt_network_quotas_init(&self->quotas, &self->limits);
    tt_grpc_calls_init(&self->calls, &tt_grpc_operations, &service, &self->limits, &self->quotas,
                       NULL);
    self->calls.touch = client_touch;
    self->http2_limits =
        (struct tt_http2_limits){.streams = 1024, .header_count = 100, .header_bytes = 16384};
    tt_http2_timers_init(&self->timers, 1000, 1000, 1000);
    tt_http2_memory_init(&self->memory);
    assert_int_equal(tt_http2_session_init(&self->server, &tt_grpc_handler, &self->http2_limits,
                                           &self->timers, &self->memory, &self->calls),
                     TT_OK);
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, client_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, client_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, client_on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_on_frame);
    nghttp2_option_set_no_auto_window_update(option, holds_credit);
    nghttp2_session_client_new2(&self->session, callbacks, self, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    nghttp2_submit_settings(self->session, NGHTTP2_FLAG_NONE, settings, 1);
    for (int i = 0; i < CLIENT_STREAMS; i++)
        self->streams[i].http_status = self->streams[i].grpc_status = -1;
}

/* Also of a client that has left: nothing may be left behind. */
static inline void client_fini(struct client *self) {
    tt_http2_session_fini(&self->server);
    tt_port_drain(self->port);
    nghttp2_session_del(self->session);
    assert_int_equal(self->calls.call_count, 0);
    assert_int_equal(tt_counter_get(&self->calls.in_flight), 0);
    assert_int_equal(tt_counter_get(&self->calls.requests),
                     tt_counter_get(&self->calls.answered) + tt_counter_get(&self->calls.gone));
    tt_grpc_calls_fini(&self->calls);
    tt_http2_memory_fini(&self->memory);
    for (int i = 0; i < CLIENT_STREAMS; i++)
        tt_text_fini(&self->streams[i].received);
    tt_port_close(self->port);
    fake_serving_fini(&self->serving);
}

/* Bytes to the server; false: it takes no more. */
static inline bool client_push(struct client *self, const void *bytes, size_t count) {
    /* An exact copy on the heap: the sanitizer sees what is read behind the end or kept. */
    char *copy = malloc(count ? count : 1);
    memcpy(copy, bytes, count);
    size_t used;
    if (!self->is_refused)
        self->is_refused = tt_http2_session_receive(&self->server, copy, count, &used) != TT_OK;
    free(copy);
    return !self->is_refused;
}

/* What the server has to send, to the client. True: there was something. */
static inline bool client_pull(struct client *self) {
    bool found = false, is_more = true;
    while (is_more) {
        tt_http2_output_clear(&self->output);
        is_more = tt_http2_session_pull(&self->server, &self->output);
        for (int32_t i = 0; i < self->output.count; i++) {
            found = true;
            ssize_t taken = nghttp2_session_mem_recv(self->session,
                                                     (const uint8_t *)self->output.pieces[i].bytes,
                                                     self->output.pieces[i].size_bytes);
            assert_true(taken == (ssize_t)self->output.pieces[i].size_bytes);
        }
        tt_http2_session_written(&self->server);
    }
    return found;
}

static inline bool client_send(struct client *self) {
    const uint8_t *bytes;
    ssize_t count;
    bool found = false;
    while ((count = nghttp2_session_mem_send(self->session, &bytes)) > 0) {
        found = true;
        if (!client_push(self, bytes, (size_t)count))
            break;
    }
    return found;
}

/* Until nothing moves any more. */
static inline void client_pump(struct client *self) {
    bool moved = true;
    while (moved) {
        moved = client_send(self) && !self->is_refused;
        tt_port_drain(self->port);
        moved |= client_pull(self);
    }
}

struct client_headers {
    const char *path, *method, *content_type, *encoding, *timeout, *accepts;
};

/* Starts a call; `body` stays the caller's until the call has ended. */
static inline int32_t client_call_with(struct client *self, const struct client_headers *headers,
                                       const void *body, size_t body_bytes, bool keeps_open) {
    const char *const pairs[][2] = {
        {":method", headers->method ? headers->method : "POST"},
        {":scheme", "http"},
        {":path", headers->path},
        {":authority", "test"},
        {"content-type", headers->content_type ? headers->content_type : "application/grpc"},
        {"te", "trailers"},
        {"grpc-encoding", headers->encoding},
        {"grpc-timeout", headers->timeout},
        {"grpc-accept-encoding", headers->accepts},
    };
    nghttp2_nv values[TT_COUNT(pairs)];
    size_t count = 0;
    for (size_t i = 0; i < TT_COUNT(pairs); i++)
        if (pairs[i][1])
            values[count++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)pairs[i][0],
                                           .value = (uint8_t *)(uintptr_t)pairs[i][1],
                                           .namelen = strlen(pairs[i][0]),
                                           .valuelen = strlen(pairs[i][1])};
    nghttp2_data_provider provider = {.read_callback = client_read};
    int32_t id = nghttp2_submit_request(self->session, NULL, values, count, &provider, NULL);
    assert_true(id > 0);
    struct client_stream *stream = client_stream(self, id);
    stream->body = body;
    stream->body_bytes = body_bytes;
    stream->keeps_open = keeps_open;
    return id;
}

static inline int32_t client_call(struct client *self, const char *path, const void *body,
                                  size_t body_bytes) {
    const struct client_headers headers = {.path = path};
    return client_call_with(self, &headers, body, body_bytes, false);
}

/* More bytes of a call that was kept open; `last`: it ends with them. */
static inline void client_more(struct client *self, int32_t id, const void *body, size_t body_bytes,
                               bool last) {
    struct client_stream *stream = client_stream(self, id);
    assert_true(stream->body_sent == stream->body_bytes);
    stream->body = body;
    stream->body_bytes = body_bytes;
    stream->body_sent = 0;
    stream->keeps_open = !last;
    nghttp2_session_resume_data(self->session, id);
}

/* Appends gRPC's head and the bytes. */
static inline void put_message(struct tt_text *out, bool is_packed, const void *bytes,
                               size_t size_bytes) {
    const unsigned char head[] = {is_packed, (unsigned char)(size_bytes >> 24),
                                  (unsigned char)(size_bytes >> 16),
                                  (unsigned char)(size_bytes >> 8), (unsigned char)size_bytes};
    tt_text_append(out, head, sizeof(head));
    tt_text_append(out, bytes, size_bytes);
}

/* The next message of a text, and moves *at behind it; its length, or -1: none. */
static inline long next_message(const struct tt_text *text, size_t *at, const char **out_bytes) {
    if (text->length - *at < 5)
        return -1;
    const unsigned char *head = (const unsigned char *)text->bytes + *at;
    size_t size_bytes =
        (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    assert_true(text->length - *at - 5 >= size_bytes);
    *out_bytes = text->bytes + *at + 5;
    *at += 5 + size_bytes;
    return (long)size_bytes;
}

#endif
