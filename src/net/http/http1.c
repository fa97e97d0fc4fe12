#include "net/http/http1.h"

#include "base/spares.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What llhttp's callbacks return for a request that is refused: it then stops. */
#define REFUSE(request, ...)                                                                       \
    ((void)tt_http_message_refuse(&(request)->message, __VA_ARGS__), HPE_USER)

static struct tt_http1 *self_of(llhttp_t *parser) {
    return TT_CONTAINER_OF(parser, struct tt_http1, parser);
}

/* --- callbacks of llhttp --- */

/* The place of `at` within the request. */
static size_t offset_of(const struct tt_http1 *self, const char *at) {
    return self->request->head_bytes + (size_t)(at - self->fed);
}

/* llhttp skips several spaces, which other servers in a chain may not. */
static int refuse_spaces(struct tt_http1_request *request) {
    return REFUSE(request, 400,
                  "malformed HTTP/1.1 request: one space separates method, target and version");
}

static int on_url(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (request->target_length == 0 && offset_of(self, at) != strlen(request->message.method) + 1)
        return refuse_spaces(request);
    if (length >= TT_HTTP_TARGET_BYTES - request->target_length)
        return REFUSE(request, 414, "the request's target is longer than %d bytes",
                      TT_HTTP_TARGET_BYTES - 1);
    memcpy(request->message.target + request->target_length, at, length);
    request->target_length += length;
    return 0;
}

static int on_method(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1_request *request = self_of(parser)->request;
    size_t used = strlen(request->message.method);
    if (length >= sizeof(request->message.method) - used)
        length = sizeof(request->message.method) - used - 1;
    memcpy(request->message.method + used, at, length);
    return 0;
}

/* llhttp accepts RTSP/1.0 and ICE/1.0 as well. */
static int on_version(llhttp_t *parser, const char *at, size_t length) {
    (void)length;
    static const char protocol[] = "HTTP/";
    enum { PROTOCOL_BYTES = sizeof(protocol) - 1 };
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (request->has_version)
        return 0;
    request->has_version = true;
    size_t before = strlen(request->message.method) + 1 + request->target_length + 1;
    if (offset_of(self, at) != before + PROTOCOL_BYTES)
        return refuse_spaces(request);
    size_t here = (size_t)(at - self->fed);
    here = here < PROTOCOL_BYTES ? here : PROTOCOL_BYTES;
    size_t earlier = PROTOCOL_BYTES - here;
    if (memcmp(request->tail + sizeof(request->tail) - earlier, protocol, earlier) != 0 ||
        memcmp(at - here, protocol + earlier, here) != 0)
        return REFUSE(request, 400, "malformed HTTP/1.1 request: the protocol is not HTTP");
    return 0;
}

/* Keeps the last bytes fed for on_version. */
static void keep_tail(struct tt_http1_request *request, const char *bytes, size_t count) {
    size_t taken = count < sizeof(request->tail) ? count : sizeof(request->tail);
    memmove(request->tail, request->tail + taken, sizeof(request->tail) - taken);
    memcpy(request->tail + sizeof(request->tail) - taken, bytes + count - taken, taken);
}

static bool in_trailer(const struct tt_http1_request *request, const llhttp_t *parser) {
    return request->is_chunked && (parser->flags & F_TRAILING);
}

/* Trailers and chunk extensions are ignored, but count against a limit. */
static int count_extra(struct tt_http1 *self, size_t length) {
    struct tt_http1_request *request = self->request;
    request->extra_bytes += length;
    if (request->extra_bytes > self->limits->head_bytes)
        return REFUSE(request, 431, "chunk extensions and trailers take more than %zu bytes",
                      self->limits->head_bytes);
    return 0;
}

static int on_extra(llhttp_t *parser, const char *at, size_t length) {
    (void)at;
    return count_extra(self_of(parser), length);
}

/* Appends as much as fits. */
static void keep(char *to, size_t capacity, size_t *kept, const char *at, size_t length) {
    size_t taken = length < capacity - *kept ? length : capacity - *kept;
    memcpy(to + *kept, at, taken);
    *kept += taken;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1_request *request = self_of(parser)->request;
    if (in_trailer(request, parser))
        return count_extra(self_of(parser), length);
    /* A name too long for the buffer is not one that take_header looks for. */
    keep(request->name, sizeof(request->name), &request->name_length, at, length);
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1_request *request = self_of(parser)->request;
    if (in_trailer(request, parser))
        return count_extra(self_of(parser), length);
    keep(request->value, sizeof(request->value), &request->value_length, at, length);
    return 0;
}

/* Compares lengths first, since most headers are ignored. A truncated name is longer than all. */
#define IS_HEADER(request, wanted)                                                                 \
    ((request)->name_length == sizeof(wanted) - 1 &&                                               \
     strncasecmp((request)->name, wanted, sizeof(wanted) - 1) == 0)

/* Handles the headers that are not ignored. llhttp handles Content-Length, Connection and framing.
 */
static int take_header(struct tt_http1_request *request) {
    bool is_whole = request->value_length < sizeof(request->value);
    size_t length = is_whole ? request->value_length : 0;
    char *value = request->value;
    while (length && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        length--;
    value[length] = '\0';
    if (IS_HEADER(request, "Content-Length")) {
        request->has_length = true;
    } else if (IS_HEADER(request, "Transfer-Encoding")) {
        if (request->is_chunked || strcasecmp(value, "chunked") != 0)
            return REFUSE(request, 400,
                          "Transfer-Encoding: only \"chunked\", once and alone, is supported");
        request->is_chunked = true;
    } else if (!tt_http_message_header(&request->message, request->name, request->name_length,
                                       value, is_whole)) {
        return HPE_USER;
    }
    return 0;
}

static int on_header_value_complete(llhttp_t *parser) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (in_trailer(request, parser))
        return 0;
    if (++request->header_count > self->limits->header_count)
        return REFUSE(request, 431, "more than %d headers", self->limits->header_count);
    int result = take_header(request);
    request->name_length = request->value_length = 0;
    return result;
}

/* -1: unknown. */
static int64_t promised_bytes(const struct tt_http1 *self) {
    const struct tt_http1_request *request = self->request;
    uint64_t length = request->has_length ? self->parser.content_length : 0;
    return request->is_chunked ? -1 : length < INT64_MAX ? (int64_t)length : INT64_MAX;
}

static int check_head(struct tt_http1 *self) {
    struct tt_http1_request *request = self->request;
    llhttp_t *parser = &self->parser;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return REFUSE(request, 505, "HTTP/%d.%d is not supported; use HTTP/1.1", parser->http_major,
                      parser->http_minor);
    if (parser->method == HTTP_CONNECT)
        return REFUSE(request, 405, "this is not a proxy: CONNECT is not supported");
    if (request->message.host_count > 1 ||
        (request->message.host_count == 0 && parser->http_minor == 1))
        return REFUSE(request, 400, "an HTTP/1.1 request has exactly one Host header; this has %d",
                      request->message.host_count);
    if (request->is_chunked && (request->has_length || parser->http_minor == 0))
        return REFUSE(request, 400,
                      "Transfer-Encoding does not go with %s: where the request ends is not clear",
                      request->has_length ? "Content-Length" : "HTTP/1.0");
    tt_assert(request->target_length < TT_HTTP_TARGET_BYTES);
    request->message.target[request->target_length] = '\0';
    if (!tt_http_message_begin_body(&request->message, promised_bytes(self)))
        return HPE_USER;
    bool has_body = request->is_chunked || (request->has_length && parser->content_length > 0);
    request->message.expects_continue &= has_body && parser->http_minor == 1;
    parser->upgrade = 0; /* an offer to change the protocol is ignored, as RFC 9110 allows */
    return 0;
}

static int on_headers_complete(llhttp_t *parser) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (check_head(self))
        return -1;
    /* Keeping an HTTP/1.0 connection would need a header; it is closed instead. */
    request->keep_alive = parser->http_minor == 1 && llhttp_should_keep_alive(parser);
    if (request->has_length && parser->content_length > 0 &&
        !tt_text_reserve(&request->message.body, parser->content_length)) {
        (void)REFUSE(request, 503, "no memory for the body");
        return -1;
    }
    return HPE_PAUSED;
}

/* Rejects a chunk over the limit before it arrives. */
static int on_chunk_header(llhttp_t *parser) {
    struct tt_http1_request *request = self_of(parser)->request;
    const struct tt_http_message *message = &request->message;
    if (parser->content_length > message->body_limit - message->body.length)
        return REFUSE(request, 413, "the body is over the limit of %zu bytes", message->body_limit);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1_request *request = self_of(parser)->request;
    return tt_http_message_add_body(&request->message, at, length) ? 0 : HPE_USER;
}

static int on_message_complete(llhttp_t *parser) {
    tt_http_message_end(&self_of(parser)->request->message);
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_method = on_method,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_chunk_extension_name = on_extra,
    .on_chunk_extension_value = on_extra,
    .on_version = on_version,
    .on_chunk_header = on_chunk_header,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* --- the parser --- */

void tt_http1_init(struct tt_http1 *self, const struct tt_http_message_limits *limits) {
    llhttp_init(&self->parser, HTTP_REQUEST, &settings);
    self->limits = limits;
    self->spares = NULL;
    self->give_up = NULL;
    self->takes_http2 = false;
    self->request = NULL;
}

struct tt_http_message *tt_http1_take(struct tt_http1 *self) {
    struct tt_http1_request *request = self->request;
    tt_assert(request != NULL);
    self->request = NULL;
    return &request->message;
}

void tt_http1_fini(struct tt_http1 *self) {
    if (self->request)
        tt_http_message_free(&self->request->message); /* the first member: frees both */
    self->request = NULL;
}

struct tt_text *tt_http1_body(struct tt_http1 *self) {
    return self->request ? &self->request->message.body : NULL;
}

void tt_http1_reset(struct tt_http1 *self) {
    tt_http1_fini(self);
    llhttp_init(&self->parser, HTTP_REQUEST, &settings);
}

bool tt_http1_started(const struct tt_http1 *self) { return self->request != NULL; }

static struct tt_http1_request *request_new(struct tt_http1 *self) {
    struct tt_http1_request *request =
        self->spares ? tt_spares_take(self->spares) : malloc(sizeof(*request));
    if (!request)
        return NULL;
    size_t skipped = offsetof(struct tt_http1_request, name); /* `value` is long: not cleared */
    tt_http_message_init(&request->message, self->limits, self->give_up, self);
    request->message.spares = self->spares;
    request->keep_alive = false;
    memset((char *)request + skipped, 0, sizeof(*request) - skipped);
    return request;
}

static enum tt_http1_event bad(struct tt_http1 *self, llhttp_errno_t error) {
    struct tt_http1_request *request = self->request;
    if (error == HPE_PAUSED_H2_UPGRADE)
        (void)REFUSE(request, 505,
                     "HTTP/2 begins with the first byte of a connection, or in the TLS handshake; "
                     "use HTTP/1.1 here");
    else
        (void)REFUSE(request, 400, "malformed HTTP/1.1 request: %s",
                     self->parser.reason ? self->parser.reason : llhttp_errno_name(error));
    return TT_HTTP1_BAD;
}

static enum tt_http1_event ended_at(struct tt_http1 *self, llhttp_errno_t error, bool in_head) {
    struct tt_http1_request *request = self->request;
    if (in_head && request->head_bytes > self->limits->head_bytes) {
        (void)REFUSE(request, 431, "request line and headers take more than %zu bytes",
                     self->limits->head_bytes);
        return TT_HTTP1_BAD;
    }
    if (error == HPE_OK)
        return TT_HTTP1_MORE;
    if (error == HPE_PAUSED_H2_UPGRADE && self->takes_http2)
        return TT_HTTP1_HTTP2;
    if (error != HPE_PAUSED)
        return bad(self, error);
    request->message.target[request->target_length] = '\0';
    llhttp_resume(&self->parser);
    return in_head ? TT_HTTP1_HEAD : TT_HTTP1_MESSAGE;
}

enum tt_http1_event tt_http1_feed(struct tt_http1 *self, const char *bytes, size_t count,
                                  size_t *out_used) {
    size_t skipped = 0;
    if (!self->request) {
        /* Empty lines before a request line are skipped (RFC 9112). */
        while (skipped < count && (bytes[skipped] == '\r' || bytes[skipped] == '\n'))
            skipped++;
        *out_used = skipped;
        if (skipped == count)
            return TT_HTTP1_MORE;
        self->request = request_new(self);
        if (!self->request)
            return TT_HTTP1_BAD;
    }
    struct tt_http1_request *request = self->request;
    tt_assert(skipped <= count);
    if (request->message.problem_status)
        return TT_HTTP1_BAD;
    bool in_head = request->head_bytes != SIZE_MAX;
    self->fed = bytes + skipped;
    llhttp_errno_t error = llhttp_execute(&self->parser, bytes + skipped, count - skipped);
    *out_used = count;
    if (error != HPE_OK) {
        const char *at = llhttp_get_error_pos(&self->parser);
        *out_used = at >= bytes && at <= bytes + count ? (size_t)(at - bytes) : count;
    }
    if (in_head) {
        request->head_bytes += *out_used - skipped;
        if (!request->has_version)
            keep_tail(request, self->fed, *out_used - skipped);
    }
    enum tt_http1_event event = ended_at(self, error, in_head);
    if (event == TT_HTTP1_HEAD)
        request->head_bytes = SIZE_MAX; /* from here on, the body's limits apply */
    return event;
}

char *tt_http1_body_space(struct tt_http1 *self, size_t *out_bytes) {
    struct tt_http1_request *request = self->request;
    if (!request || request->head_bytes != SIZE_MAX || !request->has_length ||
        request->message.problem_status || self->parser.content_length == 0)
        return NULL;
    tt_assert(self->parser.content_length <=
              request->message.body.capacity - request->message.body.length);
    uint64_t missing = self->parser.content_length; /* llhttp counts it down */
    *out_bytes = missing < TT_HTTP1_PIECE ? (size_t)missing : TT_HTTP1_PIECE;
    return request->message.body.bytes + request->message.body.length;
}

int tt_http1_problem(const struct tt_http1 *self, const char **out_sentence) {
    if (!self->request) {
        *out_sentence = "no memory for another request";
        return 503;
    }
    *out_sentence = self->request->message.problem;
    return self->request->message.problem_status;
}

/* --- answers --- */

const char *tt_http1_reason_phrase(int status) {
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return NULL;
    }
}

/* Writes the bytes at `at`, where there is room for them; returns the place behind them. */
static inline char *put(char *at, const char *string) {
    size_t count = __builtin_strlen(string); /* a constant for most callers */
    memcpy(at, string, count);
    return at + count;
}

static char *put_line(char *at, const char *name, const char *value) {
    at = put(at, name);
    at = put(at, value);
    return put(at, "\r\n");
}

static char *put_number(char *at, const char *name, int64_t value) {
    at = put(at, name);
    at += tt_text_write_integer(value, at);
    return put(at, "\r\n");
}

static char *put_status(char *at, int status) {
    const char *phrase = tt_http1_reason_phrase(status);
    if (status == 200) /* nearly all */
        return put(at, "HTTP/1.1 200 OK\r\n");
    at = put(at, "HTTP/1.1 ");
    at += tt_text_write_integer(status, at);
    return put_line(at, " ", phrase ? phrase : "Unknown");
}

static char *put_trace(char *at, const struct tt_trace_context *context) {
    at = put(at, "traceparent: ");
    tt_traceparent_write(context, at);
    at += TT_TRACEPARENT_BYTES;
    if (context->state_bytes) {
        at = put(at, "\r\ntracestate: ");
        memcpy(at, context->state, context->state_bytes);
        at += context->state_bytes;
    }
    return put(at, "\r\n");
}

static size_t length_of(const char *string) { return string ? strlen(string) : 0; }

/* At least as many as its head takes. */
static size_t most_bytes(const struct tt_http_head *answer) {
    return TT_HTTP1_HEAD_BYTES + length_of(answer->content_type) + length_of(answer->allow) +
           length_of(answer->headers) +
           (answer->trace ? TT_HTTP1_TRACE_BYTES + answer->trace->state_bytes : 0);
}

void tt_http1_write_head(const struct tt_http_head *answer, struct tt_text *out_text) {
    size_t limit_bytes = most_bytes(answer);
    char *begin = tt_text_reserve(out_text, limit_bytes), *at = begin;
    tt_assert(answer->status >= 200 && answer->status < 1000);
    if (!begin)
        return;
    at = put_status(at, answer->status);
    if (answer->content_type)
        at = put_line(at, "Content-Type: ", answer->content_type);
    if (answer->json_bytes >= 0)
        at = put_number(at, "Inference-Header-Content-Length: ", answer->json_bytes);
    if (answer->coding != TT_CODING_IDENTITY)
        at = put_line(at, "Content-Encoding: ", tt_coding_name(answer->coding));
    if (answer->allow)
        at = put_line(at, "Allow: ", answer->allow);
    if (answer->headers)
        at = put(at, answer->headers);
    if (answer->trace)
        at = put_trace(at, answer->trace);
    if (answer->retry_after_s)
        at = put_number(at, "Retry-After: ", answer->retry_after_s);
    if (!answer->is_stream)
        at = put_number(at, "Content-Length: ", (int64_t)answer->content_bytes);
    else if (answer->keep_alive)
        at = put(at, "Transfer-Encoding: chunked\r\n");
    if (!answer->keep_alive)
        at = put(at, "Connection: close\r\n");
    at = put(at, "\r\n");
    *at = '\0';
    tt_assert((size_t)(at - begin) <= limit_bytes);
    out_text->length += (size_t)(at - begin);
}
