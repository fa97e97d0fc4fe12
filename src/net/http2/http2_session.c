#include "net/http2/http2_session.h"

#include <stdlib.h>
#include <string.h>

/* --- limits against abuse --- */

static void refill(struct tt_http2_session *self) {
    int64_t now_ms = self->timers->now_ms, passed_ms = now_ms - self->refilled_at_ms;
    if (passed_ms < 1)
        return;
    int64_t more = passed_ms > TT_HTTP2_TOKENS ? TT_HTTP2_TOKENS
                                               : passed_ms * TT_HTTP2_TOKENS_PER_SECOND / 1000;
    self->refilled_at_ms = now_ms;
    int64_t resets = self->reset_tokens + more, frames = self->frame_tokens + more;
    self->reset_tokens = resets < TT_HTTP2_TOKENS ? resets : TT_HTTP2_TOKENS;
    self->frame_tokens = frames < TT_HTTP2_TOKENS ? frames : TT_HTTP2_TOKENS;
}

/* Ends the connection. */
static void calm(struct tt_http2_session *self) {
    if (!self->is_calmed)
        nghttp2_session_terminate_session(self->nghttp2, NGHTTP2_ENHANCE_YOUR_CALM);
    self->is_calmed = true;
}

static void spend(struct tt_http2_session *self, int64_t *tokens) {
    if (--*tokens < 0)
        calm(self);
}

/* --- time limits --- */

static void wait_for(struct tt_http2_stream *stream, enum tt_http2_wait wait) {
    struct tt_http2_timers *timers = stream->session->timers;
    if (stream->wait != TT_HTTP2_WAIT_NONE)
        tt_list_remove(&stream->timed_node);
    stream->wait = wait;
    stream->since_ms = timers->now_ms;
    if (wait != TT_HTTP2_WAIT_NONE)
        tt_list_push_back(&timers->waits[wait], &stream->timed_node);
}

void tt_http2_timers_init(struct tt_http2_timers *self, int64_t head_ms, int64_t receive_ms,
                          int64_t send_ms) {
    for (int i = 0; i < TT_HTTP2_WAIT_COUNT; i++)
        tt_list_init(&self->waits[i]);
    self->limits_ms[TT_HTTP2_WAIT_HEAD] = head_ms;
    self->limits_ms[TT_HTTP2_WAIT_RECEIVE] = receive_ms;
    self->limits_ms[TT_HTTP2_WAIT_SEND] = send_ms;
    self->now_ms = 0;
}

void tt_http2_timers_expire(struct tt_http2_timers *self,
                            void touched(struct tt_http2_session *session)) {
    for (int i = 0; i < TT_HTTP2_WAIT_COUNT; i++) {
        struct tt_list_node *node;
        while ((node = tt_list_first(&self->waits[i])) != NULL) {
            struct tt_http2_stream *stream =
                TT_CONTAINER_OF(node, struct tt_http2_stream, timed_node);
            struct tt_http2_session *session = stream->session;
            if (self->now_ms - stream->since_ms < self->limits_ms[i])
                break;
            wait_for(stream, TT_HTTP2_WAIT_NONE);
            if (i == TT_HTTP2_WAIT_HEAD)
                calm(session);
            else if (i == TT_HTTP2_WAIT_RECEIVE)
                session->handler->late(stream);
            else
                tt_http2_reset(stream, NGHTTP2_CANCEL);
            touched(session);
        }
    }
}

/* --- streams --- */

static struct tt_http2_stream *stream_of(struct tt_http2_session *self, int32_t id) {
    return nghttp2_session_get_stream_user_data(self->nghttp2, id);
}

static void stream_init(struct tt_http2_stream *stream, struct tt_http2_session *self, int32_t id) {
    *stream = (struct tt_http2_stream){.session = self, .id = id, .wait = TT_HTTP2_WAIT_NONE};
    tt_list_init(&stream->messages);
    tt_list_push_back(&self->open, &stream->node);
    self->stream_count++;
    wait_for(stream, TT_HTTP2_WAIT_HEAD);
}

/* Nothing of the message waits any more. */
static void move_message(struct tt_http2_session *self, struct tt_http2_message *message) {
    tt_list_remove(&message->node);
    tt_list_push_back(&self->sent, &message->node);
    tt_assert(self->held_bytes >= message->held_bytes);
    self->held_bytes -= message->held_bytes;
}

static void move_messages(struct tt_http2_stream *stream) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&stream->messages)) != NULL)
        move_message(stream->session, TT_CONTAINER_OF(node, struct tt_http2_message, node));
}

static void stream_close(struct tt_http2_stream *stream) {
    if (stream->is_closed)
        return;
    stream->is_closed = true;
    wait_for(stream, TT_HTTP2_WAIT_NONE);
    move_messages(stream);
    tt_list_remove(&stream->node);
    tt_list_push_back(&stream->session->closed, &stream->node);
}

/* --- nghttp2's callbacks --- */

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *context) {
    struct tt_http2_session *self = context;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct tt_http2_stream *stream =
        self->is_calmed ? NULL : self->handler->open(self->context, self);
    if (!stream)
        return nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_REFUSED_STREAM);
    stream_init(stream, self, frame->hd.stream_id);
    return nghttp2_session_set_stream_user_data(nghttp2, frame->hd.stream_id, stream);
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                     void *context) {
    (void)flags;
    struct tt_http2_session *self = context;
    struct tt_http2_stream *stream = stream_of(self, frame->hd.stream_id);
    if (!stream || stream->is_closed)
        return 0;
    stream->header_count++;
    stream->header_bytes += name_bytes + value_bytes + 32; /* as SETTINGS_MAX_HEADER_LIST_SIZE */
    if (stream->header_bytes > self->limits->header_bytes ||
        stream->header_count > self->limits->header_count) {
        stream->is_too_large = true;
        if (self->handler->too_large && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            return 0;
        nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, stream->id,
                                  NGHTTP2_ENHANCE_YOUR_CALM);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        self->handler->header(stream, (const char *)name, name_bytes, (const char *)value,
                              value_bytes);
    return 0;
}

static void on_request_end(struct tt_http2_session *self, struct tt_http2_stream *stream) {
    if (stream->ended)
        return;
    stream->ended = true;
    self->handler->end(stream);
}

static void on_request(struct tt_http2_session *self, struct tt_http2_stream *stream) {
    wait_for(stream, TT_HTTP2_WAIT_NONE);
    if (!stream->is_too_large)
        self->handler->request(stream);
    else if (self->handler->too_large)
        self->handler->too_large(stream);
}

static int on_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *context) {
    (void)nghttp2;
    struct tt_http2_session *self = context;
    struct tt_http2_stream *stream =
        frame->hd.stream_id ? stream_of(self, frame->hd.stream_id) : NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (stream && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            on_request(self, stream);
        break;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            spend(self, &self->frame_tokens);
        break;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
    case NGHTTP2_PRIORITY: spend(self, &self->frame_tokens); break;
    case NGHTTP2_RST_STREAM:
        if (stream && !stream->answered)
            spend(self, &self->reset_tokens);
        break;
    default: break;
    }
    if (stream && !stream->is_closed &&
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        on_request_end(self, stream);
    return 0;
}

static int on_data(nghttp2_session *nghttp2, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t count, void *context) {
    (void)flags;
    struct tt_http2_session *self = context;
    struct tt_http2_stream *stream = stream_of(self, stream_id);
    nghttp2_session_consume_connection(nghttp2, count);
    if (stream && !stream->is_closed)
        self->handler->data(stream, (const char *)bytes, count);
    return 0;
}

static int on_stream_close(nghttp2_session *nghttp2, int32_t stream_id, uint32_t error_code,
                           void *context) {
    (void)nghttp2;
    (void)error_code;
    struct tt_http2_stream *stream = stream_of(context, stream_id);
    if (stream)
        stream_close(stream);
    return 0;
}

/* --- what a stream sends --- */

static int end_stream(struct tt_http2_stream *stream, uint32_t *data_flags) {
    *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->trailer_count) {
        *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        return nghttp2_submit_trailer(stream->session->nghttp2, stream->id, stream->trailers,
                                      (size_t)stream->trailer_count);
    }
    return 0;
}

static ssize_t on_read(nghttp2_session *nghttp2, int32_t stream_id, uint8_t *buffer, size_t length,
                       uint32_t *data_flags, nghttp2_data_source *source, void *context) {
    (void)nghttp2;
    (void)stream_id;
    (void)buffer;
    (void)context;
    struct tt_http2_stream *stream = source->ptr;
    size_t ready = 0;
    struct tt_list_node *node = tt_list_first(&stream->messages);
    for (; node && ready < length; node = tt_list_next(&stream->messages, node))
        ready += TT_CONTAINER_OF(node, struct tt_http2_message, node)->left_bytes;
    bool is_all = ready <= length && !node;
    if (!ready && !stream->finished) {
        stream->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (ready)
        *data_flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->finished && is_all && end_stream(stream, data_flags) != 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)(ready < length ? ready : length);
}

static int on_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *head,
                        size_t length, nghttp2_data_source *source, void *context) {
    (void)nghttp2;
    (void)frame;
    struct tt_http2_session *self = context;
    struct tt_http2_stream *stream = source->ptr;
    struct tt_http2_output *output = self->output;
    tt_assert(output != NULL);
    if (!tt_http2_output_has_room(output))
        return NGHTTP2_ERR_WOULDBLOCK;
    tt_http2_output_copy(output, head, 9);
    while (length) {
        struct tt_list_node *node = tt_list_first(&stream->messages);
        tt_assert(node != NULL);
        struct tt_http2_message *message = TT_CONTAINER_OF(node, struct tt_http2_message, node);
        size_t count;
        const char *bytes = tt_http2_message_take(message, length, &count);
        if (count < TT_HTTP2_COPY_BYTES)
            tt_http2_output_copy(output, bytes, count);
        else
            tt_http2_output_borrow(output, bytes, count);
        length -= count;
        if (message->left_bytes == 0)
            move_message(self, message);
    }
    wait_for(stream, tt_list_empty(&stream->messages) ? TT_HTTP2_WAIT_NONE : TT_HTTP2_WAIT_SEND);
    return 0;
}

static int on_frame_sent(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *context) {
    struct tt_http2_session *self = context;
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    struct tt_http2_stream *stream = stream_of(self, frame->hd.stream_id);
    if (!stream)
        return 0;
    stream->answered = true;
    /* The rest of a request that has its answer is not wanted. */
    return stream->ended ? 0
                         : nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, stream->id,
                                                     NGHTTP2_NO_ERROR);
}

/* --- the session --- */

static int make(struct tt_http2_session *self, struct tt_http2_memory *memory) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option = NULL;
    int failed = nghttp2_session_callbacks_new(&callbacks);
    if (failed)
        return failed;
    failed = nghttp2_option_new(&option);
    if (!failed) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_max_outbound_ack(option, 1000);
        nghttp2_option_set_max_settings(option, 32);
        nghttp2_option_set_max_continuations(option, 8);
        nghttp2_option_set_stream_reset_rate_limit(option, TT_HTTP2_TOKENS,
                                                   TT_HTTP2_TOKENS_PER_SECOND);
        nghttp2_option_set_max_deflate_dynamic_table_size(option, 4096);
        failed = nghttp2_session_server_new3(&self->nghttp2, callbacks, self, option,
                                             memory ? &memory->nghttp2 : NULL);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return failed;
}

enum tt_err tt_http2_session_init(struct tt_http2_session *self,
                                  const struct tt_http2_handler *handler,
                                  const struct tt_http2_limits *limits,
                                  struct tt_http2_timers *timers, struct tt_http2_memory *memory,
                                  void *context) {
    *self = (struct tt_http2_session){.handler = handler,
                                      .limits = limits,
                                      .timers = timers,
                                      .context = context,
                                      .reset_tokens = TT_HTTP2_TOKENS,
                                      .frame_tokens = TT_HTTP2_TOKENS,
                                      .refilled_at_ms = timers->now_ms,
                                      .frame_left = NGHTTP2_CLIENT_MAGIC_LEN};
    tt_list_init(&self->open);
    tt_list_init(&self->closed);
    tt_list_init(&self->sent);
    if (make(self, memory) != 0)
        return TT_ERR_NO_MEMORY;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)limits->streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, TT_HTTP2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_bytes}};
    int failed =
        nghttp2_submit_settings(self->nghttp2, NGHTTP2_FLAG_NONE, settings, TT_COUNT(settings));
    if (!failed)
        failed = nghttp2_session_set_local_window_size(self->nghttp2, NGHTTP2_FLAG_NONE, 0,
                                                       TT_HTTP2_CONNECTION_WINDOW);
    if (failed) {
        nghttp2_session_del(self->nghttp2);
        return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

void tt_http2_session_fini(struct tt_http2_session *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->open)) != NULL)
        stream_close(TT_CONTAINER_OF(node, struct tt_http2_stream, node));
    tt_http2_session_written(self);
    tt_assert(self->stream_count == 0);
    nghttp2_session_del(self->nghttp2);
    self->nghttp2 = NULL;
}

/* How many of the bytes belong to the frame that is being received. */
static size_t frame_rest(struct tt_http2_session *self, const char *bytes, size_t count) {
    size_t at = 0;
    if (self->frame_left == 0) {
        size_t wanted = TT_HTTP2_FRAME_HEAD - self->frame_head_bytes;
        at = count < wanted ? count : wanted;
        memcpy(self->frame_head + self->frame_head_bytes, bytes, at);
        self->frame_head_bytes += at;
        if (self->frame_head_bytes < TT_HTTP2_FRAME_HEAD)
            return at;
        const uint8_t *head = self->frame_head;
        self->frame_left = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        self->frame_head_bytes = 0;
    }
    size_t some = count - at < self->frame_left ? count - at : self->frame_left;
    self->frame_left -= some;
    return at + some;
}

/* True if the frame with this head may complete a request or a message. */
static bool may_begin_work(const uint8_t *head) {
    uint8_t type = head[3], flags = head[4];
    return type == NGHTTP2_DATA ||
           (type == NGHTTP2_HEADERS && (flags & NGHTTP2_FLAG_END_STREAM) != 0);
}

/* How many of the bytes to take at once: frames of which one may begin work, few in any case. */
static size_t next_frames(struct tt_http2_session *self, const char *bytes, size_t count) {
    size_t some = 0;
    bool begins = false, has_next;
    do {
        some += frame_rest(self, bytes + some, count - some);
        begins |= may_begin_work(self->frame_head);
        has_next = self->frame_left == 0 && count - some >= TT_HTTP2_FRAME_HEAD;
    } while (has_next && some < TT_HTTP2_FRAMES_BYTES &&
             !(begins && may_begin_work((const uint8_t *)bytes + some)));
    return some;
}

enum tt_err tt_http2_session_receive(struct tt_http2_session *self, const char *bytes, size_t count,
                                     size_t *out_used) {
    size_t used = 0;
    ssize_t taken = 0;
    refill(self);
    do {
        size_t some = self->turn ? next_frames(self, bytes + used, count - used) : count;
        taken = nghttp2_session_mem_recv(self->nghttp2, (const uint8_t *)bytes + used, some);
        used += some;
    } while (taken >= 0 && used < count && !self->is_calmed && !tt_loop_turn_is_over(self->turn));
    tt_http2_session_written(self);             /* no output is under way: closed streams can go */
    *out_used = self->is_calmed ? count : used; /* the rest is not understood any more */
    return taken < 0 ? TT_ERR_INVALID : TT_OK;
}

bool tt_http2_session_pull(struct tt_http2_session *self, struct tt_http2_output *output) {
    tt_assert(!self->output);
    self->output = output;
    bool is_more = true;
    while (tt_http2_output_has_room(output)) {
        const uint8_t *bytes;
        size_t before = output->total_bytes; /* on_send_data() adds to it */
        ssize_t count = nghttp2_session_mem_send(self->nghttp2, &bytes);
        if (count > 0)
            tt_http2_output_copy(output, bytes, (size_t)count);
        if (count <= 0 && before == output->total_bytes) {
            is_more = false;
            break;
        }
    }
    self->output = NULL;
    return is_more;
}

void tt_http2_session_written(struct tt_http2_session *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->sent)) != NULL) {
        struct tt_http2_message *message = TT_CONTAINER_OF(node, struct tt_http2_message, node);
        tt_list_remove(node);
        message->release(message);
    }
    while ((node = tt_list_first(&self->closed)) != NULL) {
        struct tt_http2_stream *stream = TT_CONTAINER_OF(node, struct tt_http2_stream, node);
        tt_list_remove(node);
        self->stream_count--;
        self->handler->closed(stream);
    }
}

bool tt_http2_session_reads(const struct tt_http2_session *self) {
    return nghttp2_session_want_read(self->nghttp2) != 0;
}

bool tt_http2_session_is_over(const struct tt_http2_session *self) {
    return !nghttp2_session_want_read(self->nghttp2) && !nghttp2_session_want_write(self->nghttp2);
}

void tt_http2_session_stop(struct tt_http2_session *self) {
    nghttp2_submit_goaway(self->nghttp2, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(self->nghttp2), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

void tt_http2_session_ping(struct tt_http2_session *self) {
    nghttp2_submit_ping(self->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

/* --- a stream, for the handler --- */

/* Without memory the stream ends. */
static void check(struct tt_http2_stream *stream, int failed) {
    if (failed)
        tt_http2_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

void tt_http2_respond(struct tt_http2_stream *stream, const nghttp2_nv *headers, size_t count) {
    if (stream->is_closed)
        return;
    tt_assert(!stream->responded);
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = on_read};
    stream->responded = true;
    check(stream,
          nghttp2_submit_response(stream->session->nghttp2, stream->id, headers, count, &provider));
}

static void resume(struct tt_http2_stream *stream) {
    if (!stream->is_deferred)
        return;
    stream->is_deferred = false;
    check(stream, nghttp2_session_resume_data(stream->session->nghttp2, stream->id));
}

void tt_http2_send(struct tt_http2_stream *stream, struct tt_http2_message *take_message) {
    tt_assert(!stream->finished);
    tt_list_push_back(stream->is_closed ? &stream->session->sent : &stream->messages,
                      &take_message->node);
    if (stream->is_closed)
        return;
    take_message->held_bytes = take_message->left_bytes;
    stream->session->held_bytes += take_message->held_bytes;
    if (stream->wait != TT_HTTP2_WAIT_SEND)
        wait_for(stream, TT_HTTP2_WAIT_SEND);
    resume(stream);
}

void tt_http2_finish(struct tt_http2_stream *stream, const nghttp2_nv *trailers, int32_t count) {
    if (stream->is_closed)
        return;
    tt_assert(stream->responded);
    tt_assert(!stream->finished);
    stream->finished = true;
    stream->trailers = trailers;
    stream->trailer_count = count;
    resume(stream);
}

void tt_http2_inform(struct tt_http2_stream *stream, const nghttp2_nv *headers, size_t count) {
    tt_assert(!stream->responded);
    if (!stream->is_closed)
        check(stream, nghttp2_submit_headers(stream->session->nghttp2, NGHTTP2_FLAG_NONE,
                                             stream->id, NULL, headers, count, NULL));
}

void tt_http2_reject(struct tt_http2_stream *stream, const nghttp2_nv *headers, size_t count) {
    if (stream->is_closed)
        return;
    tt_assert(!stream->responded);
    stream->responded = stream->finished = true;
    check(stream,
          nghttp2_submit_response(stream->session->nghttp2, stream->id, headers, count, NULL));
}

void tt_http2_reset(struct tt_http2_stream *stream, uint32_t error_code) {
    if (!stream->is_closed)
        nghttp2_submit_rst_stream(stream->session->nghttp2, NGHTTP2_FLAG_NONE, stream->id,
                                  error_code);
}

void tt_http2_expect(struct tt_http2_stream *stream, bool more) {
    if (stream->is_closed || stream->wait == TT_HTTP2_WAIT_SEND)
        return;
    if (more || stream->wait != TT_HTTP2_WAIT_NONE)
        wait_for(stream, more ? TT_HTTP2_WAIT_RECEIVE : TT_HTTP2_WAIT_NONE);
}

void tt_http2_consume(struct tt_http2_stream *stream, size_t count) {
    if (!stream->is_closed && count)
        nghttp2_session_consume_stream(stream->session->nghttp2, stream->id, count);
}
