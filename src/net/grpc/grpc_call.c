#include "net/grpc/grpc_call.h"

#include "base/clock.h"
#include "base/instant.h"
#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_work.h"

#include <stdlib.h>
#include <string.h>

/* --- life --- */

static struct tt_grpc_call *call_of(struct tt_http2_stream *stream) {
    return TT_CONTAINER_OF(stream, struct tt_grpc_call, stream);
}

/* Its message gives way to those of others. */
static void evict(struct tt_body_part *part) {
    struct tt_grpc_call *self = TT_CONTAINER_OF(part, struct tt_grpc_call, receiver.part);
    tt_grpc_call_fail(self, TT_GRPC_UNAVAILABLE, tt_body_evicted);
    tt_grpc_receiver_fini(&self->receiver);
}

static struct tt_http2_stream *on_open(void *context, struct tt_http2_session *session) {
    (void)session;
    struct tt_grpc_calls *all = context;
    struct tt_list_node *node = tt_list_first(&all->free_calls);
    struct tt_grpc_call *self;
    if (node) {
        tt_list_remove(node);
        all->free_call_count--;
        self = TT_CONTAINER_OF(node, struct tt_grpc_call, node);
        memset(self, 0, sizeof(*self));
    } else {
        self = calloc(1, sizeof(*self));
    }
    if (!self)
        return NULL;
    self->all = all;
    self->health = -1;
    tt_list_init(&self->running);
    tt_grpc_receiver_init(&self->receiver, &all->budget, 0);
    self->receiver.part.evict = evict;
    tt_text_init(&self->ahead);
    tt_text_init(&self->sentence);
    all->call_count++;
    return &self->stream;
}

static void call_free(struct tt_grpc_call *self) {
    struct tt_grpc_calls *all = self->all;
    tt_grpc_receiver_fini(&self->receiver);
    tt_text_fini(&self->ahead);
    tt_text_fini(&self->sentence);
    tt_identity_unref(self->identity);
    tt_byte_holder_unref(self->address);
    free(self->trace);
    if (tt_list_linked(&self->node))
        tt_list_remove(&self->node);
    if (all->free_call_count < TT_GRPC_KEPT) {
        tt_list_push_front(&all->free_calls, &self->node);
        all->free_call_count++;
    } else {
        free(self);
    }
    all->call_count--;
    if (all->on_gone)
        all->on_gone(all->owner);
}

/* Inferences have lines of their own; so has each of a stream, which then has none. */
static void log_call(struct tt_grpc_call *self, int32_t http_status, enum tt_grpc_status status) {
    if (!tt_journal_is_on(&self->all->journal) || self->has_line)
        return;
    const struct tt_journal_entry entry = {.received_at = self->began_at,
                                           .began_at = self->began_at};
    const struct tt_access_line line = {.status = http_status,
                                        .grpc_status = (int32_t)status,
                                        .body_bytes = -1,
                                        .identity = self->identity ? self->identity->name : ""};
    tt_grpc_call_log(self, &entry, &line);
}

static void on_closed(struct tt_http2_stream *stream) {
    struct tt_grpc_call *self = call_of(stream);
    struct tt_grpc_calls *all = self->all;
    self->is_closed = self->is_over = true;
    if (self->is_counted)
        tt_address_limits_end(stream->session->place);
    if (tt_list_linked(&self->node))
        tt_list_remove(&self->node);
    if (self->has_request) {
        tt_counter_add(&all->in_flight, -1);
        tt_counter_add(stream->answered ? &all->answered : &all->gone, 1);
        if (!stream->answered && tt_list_empty(&self->running)) /* else they write theirs */
            log_call(self, TT_ACCESS_CLIENT_GONE, TT_GRPC_CANCELLED);
    }
    self->all->operations->cancel(self);
    tt_grpc_call_proceed(self);
}

/* --- statuses --- */

#define HEADER(name, value) TT_HTTP2_HEADER(name, value)

static const nghttp2_nv status_ok = HEADER(":status", "200");
static const nghttp2_nv content_type = HEADER("content-type", "application/grpc");
static const nghttp2_nv all_codings = HEADER("grpc-accept-encoding", "identity,deflate,gzip");

static int32_t fill_trailers(struct tt_grpc_call *self, enum tt_grpc_status status,
                             const char *sentence) {
    size_t length = tt_text_write_integer(status, self->status);
    self->trailers[0] = (nghttp2_nv)HEADER("grpc-status", "");
    self->trailers[0].value = (uint8_t *)self->status;
    self->trailers[0].valuelen = length;
    if (!sentence)
        return 1;
    tt_text_clear(&self->sentence);
    tt_grpc_status_put(&self->sentence, sentence);
    self->trailers[1] = (nghttp2_nv)HEADER("grpc-message", "");
    self->trailers[1].value = (uint8_t *)self->sentence.bytes;
    self->trailers[1].valuelen = self->sentence.length;
    /* Sentences differ: in the table of the connection they would only push other headers out. */
    self->trailers[1].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
    return self->sentence.failed || !self->sentence.length ? 1 : 2;
}

/* nghttp2 copies the values. */
static int32_t fill_trace(const struct tt_trace_context *context, char parent[TT_TRACEPARENT_BYTES],
                          nghttp2_nv out_headers[2]) {
    tt_traceparent_write(context, parent);
    out_headers[0] = (nghttp2_nv)HEADER("traceparent", "");
    out_headers[1] = (nghttp2_nv)HEADER("tracestate", "");
    out_headers[0].value = (uint8_t *)parent;
    out_headers[0].valuelen = TT_TRACEPARENT_BYTES;
    out_headers[1].value = (uint8_t *)(uintptr_t)context->state;
    out_headers[1].valuelen = context->state_bytes;
    out_headers[0].flags = out_headers[1].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    return context->state_bytes ? 2 : 1;
}

static void end_call(struct tt_grpc_call *self, enum tt_grpc_status status, const char *sentence) {
    struct tt_http2_stream *stream = &self->stream;
    if (self->is_over)
        return;
    self->is_over = true;
    log_call(self, 200, status);
    tt_http2_expect(stream, false);
    int32_t count = fill_trailers(self, status, sentence);
    if (stream->responded) {
        tt_http2_finish(stream, self->trailers, count);
    } else {
        char parent[TT_TRACEPARENT_BYTES];
        nghttp2_nv headers[7] = {status_ok, content_type};
        memcpy(headers + 2, self->trailers, (size_t)count * sizeof(*headers));
        if (self->coding == TT_CODING_UNKNOWN)
            headers[2 + count++] = all_codings;
        if (self->answer_trace)
            count += fill_trace(self->answer_trace, parent, headers + 2 + count);
        tt_http2_reject(stream, headers, (size_t)count + 2);
    }
    self->all->touch(stream->session);
}

void tt_grpc_call_fail(struct tt_grpc_call *self, enum tt_grpc_status status,
                       const char *sentence) {
    tt_assert(status != TT_GRPC_OK);
    self->all->operations->cancel(self);
    end_call(self, status, sentence);
}

void tt_grpc_call_finish(struct tt_grpc_call *self) { end_call(self, TT_GRPC_OK, NULL); }

/* A request that is no gRPC. */
static void refuse(struct tt_grpc_call *self, const nghttp2_nv *status) {
    self->is_over = true;
    tt_http2_reject(&self->stream, status, 1);
    self->all->touch(self->stream.session);
}

/* --- answers --- */

static void respond(struct tt_grpc_call *self) {
    static const nghttp2_nv gzip = HEADER("grpc-encoding", "gzip");
    static const nghttp2_nv deflate = HEADER("grpc-encoding", "deflate");
    char parent[TT_TRACEPARENT_BYTES];
    nghttp2_nv headers[5] = {status_ok, content_type};
    size_t count = 2;
    if (self->coding != TT_CODING_IDENTITY && self->accepts_coding)
        headers[count++] = self->coding == TT_CODING_GZIP ? gzip : deflate;
    if (self->answer_trace)
        count += (size_t)fill_trace(self->answer_trace, parent, headers + count);
    tt_http2_respond(&self->stream, headers, count);
}

void tt_grpc_call_send(struct tt_grpc_call *self, struct tt_http2_message *message) {
    tt_assert(!self->is_over);
    if (!self->stream.responded)
        respond(self);
    tt_http2_send(&self->stream, message);
    self->all->touch(self->stream.session);
}

static void page_release(struct tt_http2_message *message) {
    tt_http2_message_fini(message);
    free(message);
}

void tt_grpc_call_send_bytes(struct tt_grpc_call *self, const void *bytes, size_t size_bytes) {
    struct tt_http2_message *page = size_bytes <= UINT32_MAX ? malloc(sizeof(*page)) : NULL;
    if (page) {
        const unsigned char head[TT_GRPC_HEAD_BYTES] = {
            0, (unsigned char)(size_bytes >> 24), (unsigned char)(size_bytes >> 16),
            (unsigned char)(size_bytes >> 8), (unsigned char)size_bytes};
        tt_http2_message_init(page, page_release);
        tt_text_append(&page->text, head, sizeof(head));
        tt_text_append(&page->text, bytes, size_bytes);
        tt_http2_message_add_text(page);
    }
    if (page && !page->text.failed) {
        /* A long page goes as it is: packing it here would hold up the loop. */
        if (self->coding != TT_CODING_IDENTITY && self->accepts_coding &&
            size_bytes <= TT_GRPC_WORK_ANSWER)
            tt_grpc_message_pack(self->coding, page);
        tt_grpc_call_send(self, page);
        return;
    }
    if (page)
        page_release(page);
    tt_grpc_call_fail(self, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
}

/* --- messages --- */

static void answer_one(struct tt_grpc_call *self, const char *bytes, size_t size_bytes) {
    struct tt_text answer;
    struct tt_error why = {{0}};
    tt_text_init(&answer);
    enum tt_err err = self->method->answer(&self->all->service, bytes, size_bytes, &answer, &why);
    if (tt_operation_is_management(self->method->operation))
        tt_grpc_call_audit(self, !err, err ? why.text : "done");
    if (err) {
        tt_grpc_call_fail(self, tt_grpc_status_of(err), *why.text ? why.text : tt_err_name(err));
    } else {
        tt_grpc_call_send_bytes(self, answer.bytes, answer.length);
        if (self->method->kind != TT_GRPC_EACH && !self->is_over)
            tt_grpc_call_finish(self);
    }
    tt_text_fini(&answer);
}

static void on_commanded(void *context, struct tt_model_command *command) {
    struct tt_grpc_call *self = context;
    self->running_count--;
    tt_grpc_call_audit(self, !command->err, command->err ? command->why.text : "done");
    if (self->is_over) {
        /* The client has gone; the command was carried out all the same. */
    } else if (command->err) {
        tt_grpc_call_fail(self, tt_grpc_status_of(command->err), command->why.text);
    } else {
        tt_grpc_call_send_bytes(self, "", 0);
        if (!self->is_over)
            tt_grpc_call_finish(self);
    }
    tt_model_command_free(command);
    tt_grpc_call_proceed(self);
}

void tt_grpc_call_command(struct tt_grpc_call *self, struct tt_model_command *take_command) {
    self->running_count++;
    tt_port_submit_command(self->all->service.port, take_command, on_commanded, self);
}

static void start_command(struct tt_grpc_call *self, const char *bytes, size_t size_bytes) {
    struct tt_model_command *command;
    struct tt_error why;
    enum tt_err err =
        tt_grpc_read_command(self->method->kind == TT_GRPC_LOAD, bytes, size_bytes, &command, &why);
    if (err) {
        tt_grpc_call_audit(self, false, why.text);
        tt_grpc_call_fail(self, tt_grpc_status_of(err), why.text);
        return;
    }
    tt_grpc_call_command(self, command);
}

static bool takes_many(const struct tt_grpc_call *self) {
    return self->method->kind == TT_GRPC_STREAM || self->method->kind == TT_GRPC_EACH;
}

static void take_message(struct tt_grpc_call *self, const char *bytes, size_t size_bytes) {
    switch (self->method->kind) {
    case TT_GRPC_INFER:
    case TT_GRPC_STREAM: self->all->operations->infer(self, bytes, size_bytes); break;
    case TT_GRPC_LOAD:
    case TT_GRPC_UNLOAD: start_command(self, bytes, size_bytes); break;
    case TT_GRPC_WATCH: self->all->operations->watch(self, bytes, size_bytes); break;
    case TT_GRPC_STATISTICS:
    case TT_GRPC_INDEX:
        if (!self->all->operations->page(self, bytes, size_bytes))
            answer_one(self, bytes, size_bytes);
        break;
    case TT_GRPC_UNARY:
    case TT_GRPC_EACH: answer_one(self, bytes, size_bytes); break;
    }
}

static size_t message_limit(const struct tt_grpc_call *self, int64_t limit_bytes) {
    int64_t management_bytes = self->all->limits->management_bytes;
    enum tt_grpc_kind kind = self->method->kind;
    bool is_large = kind == TT_GRPC_INFER || kind == TT_GRPC_STREAM || kind == TT_GRPC_LOAD;
    return (size_t)(is_large || limit_bytes < management_bytes ? limit_bytes : management_bytes);
}

static void take_packed(struct tt_grpc_call *self) {
    struct tt_grpc_receiver *receiver = &self->receiver;
    struct tt_text unpacked;
    struct tt_error why;
    if (self->coding == TT_CODING_IDENTITY) {
        tt_grpc_call_fail(self, TT_GRPC_INTERNAL,
                          "a message is compressed, but the call has no grpc-encoding");
        return;
    }
    tt_text_init(&unpacked);
    size_t limit = message_limit(self, self->all->limits->unpacked_bytes);
    size_t here = self->all->operations->unpack_here(self, limit);
    enum tt_err err = tt_coding_unpack(self->coding, receiver->message, receiver->message_bytes,
                                       here, &unpacked, &why);
    if (err == TT_ERR_BUSY && here < limit)
        self->all->operations->take_large(self);
    else if (err)
        tt_grpc_call_fail(self,
                          err == TT_ERR_BUSY ? TT_GRPC_RESOURCE_EXHAUSTED : tt_grpc_status_of(err),
                          why.text);
    else
        take_message(self, unpacked.bytes ? unpacked.bytes : "", unpacked.length);
    tt_text_fini(&unpacked);
}

/* The receiver has a message. */
static void take_complete(struct tt_grpc_call *self) {
    const struct tt_grpc_receiver *receiver = &self->receiver;
    if (self->has_message && !takes_many(self)) {
        tt_grpc_call_fail(self, TT_GRPC_INVALID_ARGUMENT, "the call takes one message only");
        return;
    }
    self->has_message = true;
    if (self->all->operations->is_large(self))
        self->all->operations->take_large(self);
    else if (receiver->is_packed)
        take_packed(self);
    else
        take_message(self, receiver->message, receiver->message_bytes);
}

static bool is_full(const struct tt_grpc_call *self) {
    return self->is_reading || self->running_count + self->queued_count >= TT_GRPC_STREAM_REQUESTS;
}

/* Handles the messages in the bytes; returns how many bytes were used. */
static size_t feed(struct tt_grpc_call *self, const char *bytes, size_t count) {
    size_t at = 0, used;
    while (at < count && !self->is_over && !is_full(self)) {
        struct tt_error why;
        switch (tt_grpc_receiver_feed(&self->receiver, bytes + at, count - at, &used)) {
        case TT_GRPC_MORE: break;
        case TT_GRPC_MESSAGE: take_complete(self); break;
        case TT_GRPC_TOO_LARGE:
            tt_fail(TT_ERR_BUSY, &why, "the message has %zu bytes; the limit is %zu",
                    self->receiver.wanted_bytes, self->receiver.limit_bytes);
            tt_grpc_call_fail(self, TT_GRPC_RESOURCE_EXHAUSTED, why.text);
            break;
        case TT_GRPC_OVER_SHARE:
            (void)tt_byte_holder_refuse_body(self->receiver.part.holder, &why);
            tt_grpc_call_fail(self, TT_GRPC_RESOURCE_EXHAUSTED, why.text);
            break;
        case TT_GRPC_NO_ROOM:
            tt_grpc_call_fail(self, TT_GRPC_UNAVAILABLE,
                              "too many bytes are being received; try again later");
            break;
        }
        at += used;
    }
    return self->is_over ? count : at;
}

/* After the client's last byte was handled. */
static void check_end(struct tt_grpc_call *self) {
    if (self->is_over || (!self->stream.ended && !self->is_ending) || self->ahead.length)
        return;
    if (tt_grpc_receiver_is_partial(&self->receiver))
        tt_grpc_call_fail(self, TT_GRPC_INVALID_ARGUMENT, "the call ends within a message");
    else if (!takes_many(self) && !self->has_message)
        tt_grpc_call_fail(self, TT_GRPC_INVALID_ARGUMENT, "the call has no message");
    else if (takes_many(self) && self->running_count == 0 && self->queued_count == 0)
        tt_grpc_call_finish(self); /* a queued word may have others behind it */
}

static void expect_more(struct tt_grpc_call *self) {
    tt_http2_expect(&self->stream, !self->is_over && !self->ahead.length && !self->stream.ended &&
                                       (tt_grpc_receiver_is_partial(&self->receiver) ||
                                        (!self->has_message && !takes_many(self))));
}

void tt_grpc_call_proceed(struct tt_grpc_call *self) {
    if (self->is_closed) {
        if (self->running_count == 0 && self->queued_count == 0)
            call_free(self);
        return;
    }
    if (self->ahead.length && !is_full(self)) {
        struct tt_text ahead = self->ahead;
        tt_text_init(&self->ahead);
        size_t used = feed(self, ahead.bytes, ahead.length);
        tt_http2_consume(&self->stream, used);
        if (used < ahead.length)
            tt_text_append(&self->ahead, ahead.bytes + used, ahead.length - used);
        tt_text_fini(&ahead);
        self->all->touch(self->stream.session); /* the window may have grown */
        if (self->ahead.failed)
            tt_grpc_call_fail(self, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        expect_more(self);
    }
    check_end(self);
}

/* --- the stream's events --- */

static bool is(const char *bytes, size_t count, const char *word) {
    return strlen(word) == count && memcmp(bytes, word, count) == 0;
}

static bool is_grpc(const char *value, size_t value_bytes) {
    return is(value, value_bytes, "application/grpc") ||
           is(value, value_bytes, "application/grpc+proto");
}

static void take_trace(struct tt_grpc_call *self, bool is_parent, const char *value,
                       size_t value_bytes) {
    if (!tt_journal_is_on(&self->all->journal))
        return;
    if (!self->trace) {
        self->trace = malloc(sizeof(*self->trace));
        if (!self->trace)
            return; /* as if the client sent none */
        tt_trace_headers_clear(self->trace);
    }
    if (is_parent)
        tt_trace_headers_add_parent(self->trace, value, value_bytes);
    else
        tt_trace_headers_add_state(self->trace, value, value_bytes);
}

static void on_header(struct tt_http2_stream *stream, const char *name, size_t name_bytes,
                      const char *value, size_t value_bytes) {
    struct tt_grpc_call *self = call_of(stream);
    char coding[16] = "";
    switch (name_bytes) {
    case 5:
        if (is(name, name_bytes, ":path"))
            self->method = self->all->operations->find(value, value_bytes);
        break;
    case 7:
        if (is(name, name_bytes, ":method"))
            self->is_post = is(value, value_bytes, "POST");
        break;
    case 10:
        if (is(name, name_bytes, "tracestate"))
            take_trace(self, false, value, value_bytes);
        break;
    case 11:
        if (is(name, name_bytes, "traceparent"))
            take_trace(self, true, value, value_bytes);
        break;
    case 12:
        if (is(name, name_bytes, "content-type")) {
            self->is_grpc = is_grpc(value, value_bytes);
        } else if (is(name, name_bytes, "grpc-timeout")) {
            int64_t timeout_ns = tt_grpc_timeout_parse(value, value_bytes);
            self->timeout_ns = timeout_ns ? timeout_ns : 1; /* 0 is over at once, not none */
        }
        break;
    case 13:
        if (is(name, name_bytes, "authorization"))
            tt_token_read(value, value_bytes, &self->token);
        if (!is(name, name_bytes, "grpc-encoding"))
            break;
        memcpy(coding, value, value_bytes < sizeof(coding) ? value_bytes : 0);
        self->coding = tt_coding_parse(coding);
        break;
    case 20:
        if (is(name, name_bytes, "grpc-accept-encoding"))
            self->accepts_coding = true;
        break;
    default: break;
    }
}

/* As a request of the client's address; false: over its limit. */
static bool count(struct tt_grpc_call *self, struct tt_error *why) {
    struct tt_http2_session *session = self->stream.session;
    if (session->refusal) {
        (void)tt_fail(TT_ERR_BUSY, why, "%s", session->refusal);
        return false;
    }
    self->is_counted = tt_address_limits_begin(self->all->addresses, session->place, why);
    return self->is_counted;
}

static void on_request(struct tt_http2_stream *stream) {
    static const nghttp2_nv wrong_method = HEADER(":status", "405");
    static const nghttp2_nv wrong_type = HEADER(":status", "415");
    struct tt_grpc_call *self = call_of(stream);
    struct tt_grpc_calls *all = self->all;
    enum tt_grpc_status refusal;
    struct tt_error why;
    self->has_request = true;
    if (tt_journal_is_on(&all->journal))
        self->began_at = tt_clock_now();
    tt_counter_add(&all->requests, 1);
    tt_counter_add(&all->in_flight, 1);
    if (!self->is_post) {
        refuse(self, &wrong_method);
    } else if (!self->is_grpc) {
        refuse(self, &wrong_type);
    } else if (!self->method) {
        tt_grpc_call_fail(self, TT_GRPC_UNIMPLEMENTED,
                          "the server has no such method; its reflection service lists them");
    } else if (self->coding == TT_CODING_UNKNOWN) {
        tt_grpc_call_fail(self, TT_GRPC_UNIMPLEMENTED,
                          "grpc-encoding: only identity, gzip and deflate are understood");
    } else if (self->timeout_ns < 0) {
        tt_grpc_call_fail(self, TT_GRPC_INVALID_ARGUMENT,
                          "grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n");
    } else if (all->addresses && !count(self, &why)) {
        tt_grpc_call_fail(self, TT_GRPC_RESOURCE_EXHAUSTED, why.text);
    } else if ((refusal = tt_grpc_call_check(self, &why))) {
        tt_grpc_call_fail(self, refusal, why.text);
    } else {
        self->receiver.limit_bytes = message_limit(self, all->limits->body_bytes);
        self->address = tt_byte_holder_ref(tt_address_place_holder(stream->session->place));
        self->receiver.part.holder =
            tt_byte_holder_ref(tt_identity_holder(self->identity, self->address));
        if (self->timeout_ns)
            self->deadline_at = tt_instant_add(tt_clock_now(), self->timeout_ns);
        if (takes_many(self) || self->method->kind == TT_GRPC_WATCH)
            tt_list_push_back(&all->streams, &self->node);
        expect_more(self);
    }
}

static void on_data(struct tt_http2_stream *stream, const char *bytes, size_t count) {
    struct tt_grpc_call *self = call_of(stream);
    if (self->ahead.length || is_full(self)) {
        tt_text_append(&self->ahead, bytes, count); /* without credit, so it stays small */
    } else {
        size_t used = feed(self, bytes, count);
        tt_http2_consume(stream, used);
        if (used < count)
            tt_text_append(&self->ahead, bytes + used, count - used);
    }
    if (self->ahead.failed)
        tt_grpc_call_fail(self, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
    expect_more(self);
}

static void on_end(struct tt_http2_stream *stream) {
    struct tt_grpc_call *self = call_of(stream);
    check_end(self);
    expect_more(self);
}

static void on_late(struct tt_http2_stream *stream) {
    tt_grpc_call_fail(call_of(stream), TT_GRPC_DEADLINE_EXCEEDED, "the body took too long to come");
}

const struct tt_http2_handler tt_grpc_handler = {.open = on_open,
                                                 .header = on_header,
                                                 .request = on_request,
                                                 .data = on_data,
                                                 .end = on_end,
                                                 .late = on_late,
                                                 .closed = on_closed};
