#include "net/http/http_message.h"

#include "net/access/byte_holder.h"

#include "base/spares.h"
#include "net/access/token_file.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void evict(struct tt_body_part *part) {
    struct tt_http_message *self = TT_CONTAINER_OF(part, struct tt_http_message, part);
    self->give_up(self, tt_body_evicted);
}

void tt_http_message_init(struct tt_http_message *self, const struct tt_http_message_limits *limits,
                          tt_http_give_up_fn *give_up, void *owner) {
    size_t skipped = offsetof(struct tt_http_message, limits); /* long and mostly unused */
    self->target[0] = self->host[0] = self->origin[0] = '\0';
    memset((char *)self + skipped, 0, sizeof(*self) - skipped);
    self->limits = limits;
    self->give_up = give_up;
    self->part.evict = give_up ? evict : NULL;
    self->owner = owner;
    self->json_bytes = -1;
    tt_trace_headers_clear(&self->trace);
}

void tt_http_message_free(struct tt_http_message *take_self) {
    if (!take_self)
        return;
    tt_body_part_end(&take_self->part);
    tt_text_fini(&take_self->body);
    if (take_self->spares)
        tt_spares_give(take_self->spares, take_self);
    else
        free(take_self);
}

bool tt_http_message_refuse(struct tt_http_message *self, int status, const char *format, ...) {
    if (self->problem_status)
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(self->problem, sizeof(self->problem), format, args);
    va_end(args);
    self->problem_status = status;
    return false;
}

/* --- headers --- */

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

struct header {
    const char *name;
    size_t name_bytes;
    char *value;
    bool is_whole;
};

/* Compares lengths first, since most headers are ignored. */
#define IS_HEADER(header, wanted)                                                                  \
    ((header)->name_bytes == sizeof(wanted) - 1 &&                                                 \
     strncasecmp((header)->name, wanted, sizeof(wanted) - 1) == 0)

/* Keeps the value of a header that may be there once. */
static void keep_once(char *to, const char *value, int32_t count) {
    size_t length = count == 1 ? strlen(value) : 0;
    if (length >= TT_HTTP_ORIGIN_BYTES)
        length = 0;
    memcpy(to, value, length);
    to[length] = '\0';
}

/* The headers that show where a request comes from. */
static void take_origin(struct tt_http_message *self, const struct header *header) {
    char *value = header->value;
    if (IS_HEADER(header, "Authorization")) {
        tt_token_read(value, strlen(value), &self->token);
        if (++self->token_count > 1)
            self->token.is_given = false;
        memset(value, 0, strlen(value));
    } else if (IS_HEADER(header, "Origin")) {
        keep_once(self->origin, value, ++self->origin_count);
    } else if (IS_HEADER(header, "Sec-Fetch-Site")) {
        self->is_cross_site |= strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0;
    }
}

static void take_trace(struct tt_http_message *self, const struct header *header) {
    if (IS_HEADER(header, "traceparent"))
        tt_trace_headers_add_parent(&self->trace, header->value, strlen(header->value));
    else if (IS_HEADER(header, "tracestate"))
        tt_trace_headers_add_state(&self->trace, header->value, strlen(header->value));
}

bool tt_http_message_header(struct tt_http_message *self, const char *name, size_t name_bytes,
                            char *value, bool is_whole) {
    const struct header made = {name, name_bytes, value, is_whole}, *header = &made;
    if (IS_HEADER(header, "Host")) {
        self->host_count++;
        if (self->limits->keeps_origin)
            keep_once(self->host, value, self->host_count);
    } else if (IS_HEADER(header, "Expect")) {
        if (strcasecmp(value, "100-continue") != 0)
            return tt_http_message_refuse(self, 417, "Expect: only \"100-continue\" is supported");
        self->expects_continue = true;
    } else if (IS_HEADER(header, "Content-Encoding")) {
        enum tt_coding coding = is_whole ? tt_coding_parse(value) : TT_CODING_UNKNOWN;
        if (self->coding != TT_CODING_IDENTITY && coding != TT_CODING_IDENTITY)
            coding = TT_CODING_UNKNOWN; /* several codings */
        self->coding = coding != TT_CODING_IDENTITY ? coding : self->coding;
    } else if (IS_HEADER(header, "Accept-Encoding")) {
        self->accepts = tt_coding_choose(value);
    } else if (IS_HEADER(header, "Inference-Header-Content-Length")) {
        if (self->json_bytes != -1)
            return tt_http_message_refuse(self, 400,
                                          "Inference-Header-Content-Length is given twice");
        self->json_bytes = parse_count(value);
    } else {
        if (self->limits->keeps_trace)
            take_trace(self, header);
        if (self->limits->keeps_origin)
            take_origin(self, header);
    }
    return true;
}

/* --- the body --- */

bool tt_http_message_begin_body(struct tt_http_message *self, int64_t body_bytes) {
    const struct tt_http_message_limits *limits = self->limits;
    bool may_be_large = body_bytes < 0 || body_bytes > (int64_t)limits->small_body_bytes;
    self->promised_bytes = body_bytes;
    self->body_limit = limits->body_bytes;
    if (limits->body_limit && may_be_large)
        self->body_limit = limits->body_limit(limits->context, self->target);
    tt_assert(self->body_limit <= limits->body_bytes);
    if (body_bytes > 0 && (uint64_t)body_bytes > self->body_limit)
        return tt_http_message_refuse(self, 413, "the body of %lld bytes is over the limit of %zu",
                                      (long long)body_bytes, self->body_limit);
    return true;
}

/* Takes bytes that have arrived from the budget of all bodies. */
static bool take_budget(struct tt_http_message *self, size_t bytes) {
    struct tt_body_budget *budget = self->limits->budget;
    if (!budget)
        return true;
    const struct tt_quota *quota = budget->share.quota;
    struct tt_error why;
    switch (tt_body_part_take(&self->part, budget, bytes)) {
    case TT_BODY_TAKEN: break;
    case TT_BODY_OVER_SHARE:
        (void)tt_byte_holder_refuse_body(self->part.holder, &why);
        return tt_http_message_refuse(self, 429, "%s", why.text);
    case TT_BODY_NO_ROOM:
        return tt_http_message_refuse(
            self, 503,
            "bodies that are being received take %lld bytes, and with this one more than the "
            "limit of %lld; try again later",
            (long long)tt_quota_used(quota), (long long)quota->limit);
    }
    return true;
}

bool tt_http_message_add_body(struct tt_http_message *self, const char *bytes, size_t count) {
    struct tt_text *body = &self->body;
    tt_assert(body->length <= self->body_limit);
    if (count > self->body_limit - body->length)
        return tt_http_message_refuse(self, 413, "the body is over the limit of %zu bytes",
                                      self->body_limit);
    if (!take_budget(self, count))
        return false;
    if (body->bytes && bytes == body->bytes + body->length) { /* read into its place */
        body->length += count;
        return true;
    }
    tt_text_append(body, bytes, count);
    return !body->failed || tt_http_message_refuse(self, 503, "no memory for the body");
}

void tt_http_message_end(struct tt_http_message *self) { tt_body_part_settle(&self->part); }
