#include "net/http/http1.h"

#include "net/access/token_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Sets the answer to a bad request and makes llhttp stop. */
static int refuse(struct tt_http1_request *request, int status, const char *format, ...)
    TT_PRINTF(3, 4);
static int refuse(struct tt_http1_request *request, int status, const char *format, ...) {
    if (!request->problem_status) {
        va_list args;
        va_start(args, format);
        vsnprintf(request->problem, sizeof(request->problem), format, args);
        va_end(args);
        request->problem_status = status;
    }
    return HPE_USER;
}

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
    return refuse(request, 400,
                  "malformed HTTP/1.1 request: one space separates method, target and version");
}

static int on_url(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (request->target_length == 0 && offset_of(self, at) != strlen(request->method) + 1)
        return refuse_spaces(request);
    if (length >= TT_HTTP1_TARGET_BYTES - request->target_length)
        return refuse(request, 414, "the request's target is longer than %d bytes",
                      TT_HTTP1_TARGET_BYTES - 1);
    memcpy(request->target + request->target_length, at, length);
    request->target_length += length;
    return 0;
}

static int on_method(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1_request *request = self_of(parser)->request;
    size_t used = strlen(request->method);
    if (length >= sizeof(request->method) - used)
        length = sizeof(request->method) - used - 1;
    memcpy(request->method + used, at, length);
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
    size_t before = strlen(request->method) + 1 + request->target_length + 1;
    if (offset_of(self, at) != before + PROTOCOL_BYTES)
        return refuse_spaces(request);
    size_t here = (size_t)(at - self->fed);
    here = here < PROTOCOL_BYTES ? here : PROTOCOL_BYTES;
    size_t earlier = PROTOCOL_BYTES - here;
    if (memcmp(request->tail + sizeof(request->tail) - earlier, protocol, earlier) != 0 ||
        memcmp(at - here, protocol + earlier, here) != 0)
        return refuse(request, 400, "malformed HTTP/1.1 request: the protocol is not HTTP");
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
        return refuse(request, 431, "chunk extensions and trailers take more than %zu bytes",
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

static int64_t parse_count(const char *text) {
    int64_t value = 0;
    if (!*text)
        return -2;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *text - '0', &value))
            return -2;
    }
    return value;
}

/* Compares lengths first, since most headers are ignored. A truncated name is longer than all. */
#define IS_HEADER(request, wanted)                                                                 \
    ((request)->name_length == sizeof(wanted) - 1 &&                                               \
     strncasecmp((request)->name, wanted, sizeof(wanted) - 1) == 0)

/* Keeps the value of a header that may be there once. */
static void keep_once(char *to, const char *value, int32_t count) {
    size_t length = count == 1 ? strlen(value) : 0;
    if (length >= TT_HTTP1_ORIGIN_BYTES)
        length = 0;
    memcpy(to, value, length);
    to[length] = '\0';
}

/* The headers that show where a request comes from. */
static void take_origin(struct tt_http1_request *request, const char *value) {
    if (IS_HEADER(request, "Authorization")) {
        tt_token_read(value, strlen(value), &request->token);
        if (++request->token_count > 1)
            request->token.is_given = false;
        memset(request->value, 0, request->value_length);
    } else if (IS_HEADER(request, "Origin")) {
        keep_once(request->origin, value, ++request->origin_count);
    } else if (IS_HEADER(request, "Sec-Fetch-Site")) {
        request->is_cross_site |= strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0;
    }
}

static void take_trace(struct tt_http1_request *request, const char *value) {
    if (IS_HEADER(request, "traceparent"))
        tt_trace_headers_add_parent(&request->trace, value, strlen(value));
    else if (IS_HEADER(request, "tracestate"))
        tt_trace_headers_add_state(&request->trace, value, strlen(value));
}

/* Handles the headers that are not ignored. llhttp handles Content-Length, Connection and framing.
 */
static int take_header(struct tt_http1_request *request, const struct tt_http1_limits *limits) {
    bool whole = request->value_length < sizeof(request->value);
    request->value[whole ? request->value_length : 0] = '\0';
    char *value = request->value;
    for (size_t i = whole ? request->value_length : 0;
         i && (value[i - 1] == ' ' || value[i - 1] == '\t');)
        value[--i] = '\0';
    if (IS_HEADER(request, "Host")) {
        request->host_count++;
        if (limits->keeps_origin)
            keep_once(request->host, value, request->host_count);
    } else if (IS_HEADER(request, "Content-Length")) {
        request->has_length = true;
    } else if (IS_HEADER(request, "Transfer-Encoding")) {
        if (request->is_chunked || strcasecmp(value, "chunked") != 0)
            return refuse(request, 400,
                          "Transfer-Encoding: only \"chunked\", once and alone, is supported");
        request->is_chunked = true;
    } else if (IS_HEADER(request, "Expect")) {
        if (strcasecmp(value, "100-continue") != 0)
            return refuse(request, 417, "Expect: only \"100-continue\" is supported");
        request->expects_continue = true;
    } else if (IS_HEADER(request, "Content-Encoding")) {
        enum tt_coding coding = whole ? tt_coding_parse(value) : TT_CODING_UNKNOWN;
        if (request->coding != TT_CODING_IDENTITY && coding != TT_CODING_IDENTITY)
            coding = TT_CODING_UNKNOWN; /* several codings */
        request->coding = coding != TT_CODING_IDENTITY ? coding : request->coding;
    } else if (IS_HEADER(request, "Accept-Encoding")) {
        request->accepts = tt_coding_choose(value);
    } else if (IS_HEADER(request, "Inference-Header-Content-Length")) {
        if (request->json_bytes != -1)
            return refuse(request, 400, "Inference-Header-Content-Length is given twice");
        request->json_bytes = parse_count(value);
    } else {
        if (limits->keeps_trace)
            take_trace(request, value);
        if (limits->keeps_origin)
            take_origin(request, value);
    }
    return 0;
}

static int on_header_value_complete(llhttp_t *parser) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (in_trailer(request, parser))
        return 0;
    if (++request->header_count > self->limits->header_count)
        return refuse(request, 431, "more than %d headers", self->limits->header_count);
    int result = take_header(request, self->limits);
    request->name_length = request->value_length = 0;
    return result;
}

static void set_body_limit(struct tt_http1 *self) {
    struct tt_http1_request *request = self->request;
    const struct tt_http1_limits *limits = self->limits;
    bool may_be_large =
        request->is_chunked || self->parser.content_length > limits->small_body_bytes;
    tt_assert(request->target_length < TT_HTTP1_TARGET_BYTES);
    request->target[request->target_length] = '\0';
    request->body_limit = limits->body_bytes;
    if (limits->body_limit && may_be_large)
        request->body_limit = limits->body_limit(limits->context, request->target);
    tt_assert(request->body_limit <= limits->body_bytes);
}

static int check_head(struct tt_http1 *self) {
    struct tt_http1_request *request = self->request;
    llhttp_t *parser = &self->parser;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return refuse(request, 505, "HTTP/%d.%d is not supported; use HTTP/1.1", parser->http_major,
                      parser->http_minor);
    if (parser->method == HTTP_CONNECT)
        return refuse(request, 405, "this is not a proxy: CONNECT is not supported");
    if (request->host_count > 1 || (request->host_count == 0 && parser->http_minor == 1))
        return refuse(request, 400, "an HTTP/1.1 request has exactly one Host header; this has %d",
                      request->host_count);
    if (request->is_chunked && (request->has_length || parser->http_minor == 0))
        return refuse(request, 400,
                      "Transfer-Encoding does not go with %s: where the request ends is not clear",
                      request->has_length ? "Content-Length" : "HTTP/1.0");
    set_body_limit(self);
    if (request->has_length && parser->content_length > request->body_limit)
        return refuse(request, 413, "the body of %llu bytes is over the limit of %zu",
                      (unsigned long long)parser->content_length, request->body_limit);
    bool has_body = request->is_chunked || (request->has_length && parser->content_length > 0);
    request->expects_continue &= has_body && parser->http_minor == 1;
    parser->upgrade = 0; /* an offer to change the protocol is ignored, as RFC 9110 allows */
    return 0;
}

/* Takes bytes that have arrived from the budget of all bodies. */
static bool take_budget(struct tt_http1 *self, size_t bytes) {
    struct tt_body_budget *budget = self->limits->budget;
    struct tt_http1_request *request = self->request;
    if (!budget)
        return true;
    const struct tt_quota *quota = budget->share.quota;
    switch (tt_body_part_take(&request->part, budget, bytes)) {
    case TT_BODY_TAKEN: return true;
    case TT_BODY_OVER_SHARE:
        refuse(request, 429,
               "%s has reached its limit of %lld bytes of bodies in receipt at a time",
               request->part.identity->name, (long long)request->part.identity->bytes_limit);
        break;
    case TT_BODY_NO_ROOM:
        refuse(request, 503,
               "bodies that are being received take %lld bytes, and with this one more than the "
               "limit of %lld; try again later",
               (long long)tt_quota_used(quota), (long long)quota->limit);
        break;
    }
    return false;
}

static int on_headers_complete(llhttp_t *parser) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    if (check_head(self))
        return -1;
    /* Keeping an HTTP/1.0 connection would need a header; it is closed instead. */
    request->keep_alive = parser->http_minor == 1 && llhttp_should_keep_alive(parser);
    if (request->has_length && parser->content_length > 0 &&
        !tt_text_reserve(&request->body, parser->content_length)) {
        refuse(request, 503, "no memory for the body");
        return -1;
    }
    return HPE_PAUSED;
}

/* Rejects a chunk over the limit before it arrives. */
static int on_chunk_header(llhttp_t *parser) {
    struct tt_http1_request *request = self_of(parser)->request;
    if (parser->content_length > request->body_limit - request->body.length)
        return refuse(request, 413, "the body is over the limit of %zu bytes", request->body_limit);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http1 *self = self_of(parser);
    struct tt_http1_request *request = self->request;
    struct tt_text *body = &request->body;
    tt_assert(body->length <= request->body_limit);
    if (length > request->body_limit - body->length)
        return refuse(request, 413, "the body is over the limit of %zu bytes", request->body_limit);
    if (!take_budget(self, length))
        return HPE_USER;
    if (body->bytes && at == body->bytes + body->length) { /* read into its place */
        body->length += length;
        return 0;
    }
    tt_text_append(body, at, length);
    return body->failed ? refuse(request, 503, "no memory for the body") : 0;
}

static int on_message_complete(llhttp_t *parser) {
    tt_body_part_settle(&self_of(parser)->request->part);
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

void tt_http1_init(struct tt_http1 *self, const struct tt_http1_limits *limits) {
    llhttp_init(&self->parser, HTTP_REQUEST, &settings);
    self->limits = limits;
    self->request = NULL;
}

void tt_http1_request_free(struct tt_http1_request *take_request) {
    if (!take_request)
        return;
    tt_body_part_end(&take_request->part);
    tt_text_fini(&take_request->body);
    free(take_request);
}

struct tt_http1_request *tt_http1_take(struct tt_http1 *self) {
    struct tt_http1_request *request = self->request;
    tt_assert(request != NULL);
    self->request = NULL;
    request->parser = NULL;
    return request;
}

void tt_http1_fini(struct tt_http1 *self) {
    tt_http1_request_free(self->request);
    self->request = NULL;
}

void tt_http1_reset(struct tt_http1 *self) {
    tt_http1_fini(self);
    llhttp_init(&self->parser, HTTP_REQUEST, &settings);
}

bool tt_http1_started(const struct tt_http1 *self) { return self->request != NULL; }

static void evict_request(struct tt_body_part *part) {
    struct tt_http1 *self = TT_CONTAINER_OF(part, struct tt_http1_request, part)->parser;
    self->limits->evict(self);
}

static struct tt_http1_request *request_new(void) {
    struct tt_http1_request *request = malloc(sizeof(*request));
    if (!request)
        return NULL;
    size_t target_bytes =
        offsetof(struct tt_http1_request, method); /* long and mostly unused: not cleared */
    request->target[0] = request->host[0] = request->origin[0] = '\0';
    memset((char *)request + target_bytes, 0, sizeof(*request) - target_bytes);
    request->json_bytes = -1;
    tt_trace_headers_clear(&request->trace);
    return request;
}

static enum tt_http1_event bad(struct tt_http1 *self, llhttp_errno_t error) {
    struct tt_http1_request *request = self->request;
    if (error == HPE_PAUSED_H2_UPGRADE)
        refuse(request, 505, "HTTP/2 is not supported; use HTTP/1.1");
    else
        refuse(request, 400, "malformed HTTP/1.1 request: %s",
               self->parser.reason ? self->parser.reason : llhttp_errno_name(error));
    return TT_HTTP1_BAD;
}

static enum tt_http1_event ended_at(struct tt_http1 *self, llhttp_errno_t error, bool in_head) {
    struct tt_http1_request *request = self->request;
    if (in_head && request->head_bytes > self->limits->head_bytes) {
        refuse(request, 431, "request line and headers take more than %zu bytes",
               self->limits->head_bytes);
        return TT_HTTP1_BAD;
    }
    if (error == HPE_OK)
        return TT_HTTP1_MORE;
    if (error != HPE_PAUSED)
        return bad(self, error);
    request->target[request->target_length] = '\0';
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
        self->request = request_new();
        if (!self->request)
            return TT_HTTP1_BAD;
        self->request->parser = self;
        self->request->part.evict = self->limits->evict ? evict_request : NULL;
    }
    struct tt_http1_request *request = self->request;
    tt_assert(skipped <= count);
    if (request->problem_status)
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
        request->problem_status || self->parser.content_length == 0)
        return NULL;
    tt_assert(self->parser.content_length <= request->body.capacity - request->body.length);
    *out_bytes = self->parser.content_length; /* llhttp counts it down */
    return request->body.bytes + request->body.length;
}

int tt_http1_problem(const struct tt_http1 *self, const char **out_sentence) {
    if (!self->request) {
        *out_sentence = "no memory for another request";
        return 503;
    }
    *out_sentence = self->request->problem;
    return self->request->problem_status;
}

/* --- answers --- */

enum { HEAD_BYTES = 250 }; /* holds nearly every head */

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

static void put_number(struct tt_text *text, const char *name, int64_t value) {
    tt_text_puts(text, name);
    tt_text_put_integer(text, value);
    tt_text_append(text, "\r\n", 2);
}

static void put_trace(struct tt_text *text, const struct tt_trace_context *context) {
    char parent[TT_TRACEPARENT_BYTES];
    tt_traceparent_write(context, parent);
    tt_text_puts(text, "traceparent: ");
    tt_text_append(text, parent, sizeof(parent));
    if (context->state_bytes) {
        tt_text_puts(text, "\r\ntracestate: ");
        tt_text_append(text, context->state, context->state_bytes);
    }
    tt_text_append(text, "\r\n", 2);
}

void tt_http1_write_head(const struct tt_http1_answer *answer, struct tt_text *out_text) {
    tt_assert(answer->status >= 200);
    tt_text_reserve(out_text, HEAD_BYTES);
    tt_text_puts(out_text, "HTTP/1.1 ");
    tt_text_put_integer(out_text, answer->status);
    tt_text_append(out_text, " ", 1);
    const char *phrase = tt_http1_reason_phrase(answer->status);
    tt_text_puts(out_text, phrase ? phrase : "Unknown");
    if (answer->content_type) {
        tt_text_puts(out_text, "\r\nContent-Type: ");
        tt_text_puts(out_text, answer->content_type);
    }
    tt_text_append(out_text, "\r\n", 2);
    if (answer->json_bytes >= 0)
        put_number(out_text, "Inference-Header-Content-Length: ", answer->json_bytes);
    if (answer->coding != TT_CODING_IDENTITY) {
        tt_text_puts(out_text, "Content-Encoding: ");
        tt_text_puts(out_text, tt_coding_name(answer->coding));
        tt_text_append(out_text, "\r\n", 2);
    }
    if (answer->allow) {
        tt_text_puts(out_text, "Allow: ");
        tt_text_puts(out_text, answer->allow);
        tt_text_append(out_text, "\r\n", 2);
    }
    if (answer->headers)
        tt_text_puts(out_text, answer->headers);
    if (answer->trace)
        put_trace(out_text, answer->trace);
    if (answer->retry_after_s)
        put_number(out_text, "Retry-After: ", answer->retry_after_s);
    if (!answer->is_stream)
        put_number(out_text, "Content-Length: ", (int64_t)answer->content_bytes);
    else if (answer->keep_alive)
        tt_text_puts(out_text, "Transfer-Encoding: chunked\r\n");
    if (!answer->keep_alive)
        tt_text_puts(out_text, "Connection: close\r\n");
    tt_text_append(out_text, "\r\n", 2);
}
