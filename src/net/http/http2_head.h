/* The head of an answer as the headers of HTTP/2; http1.h writes the same for HTTP/1.1.
 *
 * A head is filled and submitted within one call: it points into the answer and into itself, and
 * nghttp2 copies what it needs. Implemented in http2_head.c. */
#ifndef TT_NET_HTTP_HTTP2_HEAD_H
#define TT_NET_HTTP_HTTP2_HEAD_H

#include "net/http/http_reply.h"

#include <nghttp2/nghttp2.h>

enum {
    TT_HTTP2_HEAD_HEADERS = 20,
    TT_HTTP2_HEAD_NUMBERS = 4, /* status, length, length of the JSON, seconds */
    TT_HTTP2_HEAD_NUMBER_BYTES = 24
};

struct tt_http2_head {
    size_t count;
    nghttp2_nv headers[TT_HTTP2_HEAD_HEADERS];
    int32_t number_count;
    char numbers[TT_HTTP2_HEAD_NUMBERS][TT_HTTP2_HEAD_NUMBER_BYTES];
    char parent[TT_TRACEPARENT_BYTES];
};

/* `answer` is borrowed while the head is used. */
void tt_http2_head_write(const struct tt_http_head *answer, struct tt_http2_head *out_head);

#endif
