#include "net/http/http2_head.h"

#include <string.h>

/* nghttp2 copies the name, in lower case, and the value. */
static void put(struct tt_http2_head *self, const char *name, size_t name_bytes, const char *value,
                size_t value_bytes) {
    tt_assert(self->count < TT_HTTP2_HEAD_HEADERS);
    self->headers[self->count++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                                                .value = (uint8_t *)(uintptr_t)value,
                                                .namelen = name_bytes,
                                                .valuelen = value_bytes};
}

static void put_string(struct tt_http2_head *self, const char *name, const char *value) {
    put(self, name, strlen(name), value, strlen(value));
}

static void put_number(struct tt_http2_head *self, const char *name, int64_t value) {
    tt_assert(self->number_count < TT_HTTP2_HEAD_NUMBERS);
    char *number = self->numbers[self->number_count++];
    put(self, name, strlen(name), number, tt_text_write_integer(value, number));
}

static void put_trace(struct tt_http2_head *self, const struct tt_trace_context *context) {
    tt_traceparent_write(context, self->parent);
    put(self, "traceparent", strlen("traceparent"), self->parent, sizeof(self->parent));
    if (context->state_bytes)
        put(self, "tracestate", strlen("tracestate"), context->state, context->state_bytes);
}

/* Lines "Name: value", each with its end. */
static void put_lines(struct tt_http2_head *self, const char *line) {
    while (*line) {
        const char *colon = strstr(line, ": "), *end = strstr(line, "\r\n");
        tt_assert(colon != NULL);
        tt_assert(end > colon);
        put(self, line, (size_t)(colon - line), colon + 2, (size_t)(end - colon - 2));
        line = end + 2;
    }
}

void tt_http2_head_write(const struct tt_http_head *answer, struct tt_http2_head *out_head) {
    out_head->count = 0;
    out_head->number_count = 0;
    put_number(out_head, ":status", answer->status);
    if (answer->content_type)
        put_string(out_head, "content-type", answer->content_type);
    if (answer->json_bytes >= 0)
        put_number(out_head, "inference-header-content-length", answer->json_bytes);
    if (answer->coding != TT_CODING_IDENTITY)
        put_string(out_head, "content-encoding", tt_coding_name(answer->coding));
    if (answer->allow)
        put_string(out_head, "allow", answer->allow);
    if (answer->headers)
        put_lines(out_head, answer->headers);
    if (answer->trace)
        put_trace(out_head, answer->trace);
    if (answer->retry_after_s)
        put_number(out_head, "retry-after", answer->retry_after_s);
    if (!answer->is_stream)
        put_number(out_head, "content-length", (int64_t)answer->content_bytes);
}
