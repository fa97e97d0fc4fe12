/* HTTP/1.1 requests from bytes, without sockets: one parser per connection, on llhttp in its strict
 * mode; and the heads of answers.
 *
 * Life of a request: the caller feeds the bytes that it read. `tt_http1_feed` stops at
 * TT_HTTP1_HEAD (the head is complete and legal: time to answer `Expect: 100-continue`), then at
 * TT_HTTP1_MESSAGE (the body is complete). The request is then in `self->request` until
 * `tt_http1_reset` frees it. Bytes after the message (a pipelined request) stay with the caller,
 * which feeds them later. Between requests the parser holds no memory except its struct.
 * TT_HTTP1_BAD is final: the caller answers with the status of `tt_http1_problem` and closes.
 *
 * A body of known length can be read from the socket straight into its place, which
 * `tt_http1_body_space` returns; bytes fed from there are not copied again.
 *
 * Two servers in a chain must agree on where a request ends (request smuggling), so every ambiguous
 * form is rejected: Content-Length with Transfer-Encoding, two Content-Lengths, Transfer-Encoding
 * other than exactly `chunked`, lines that end in a bare LF, folded headers, white space before the
 * colon, none or several Hosts, several spaces in the request line. Implemented in http1.c. */
#ifndef TT_NET_HTTP_HTTP1_H
#define TT_NET_HTTP_HTTP1_H

#include "base/text.h"
#include "net/access/token.h"
#include "net/coding/content_coding.h"
#include "net/sockets/body_budget.h"
#include "net/telemetry/trace_context.h"

#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>

/* The limit of one request's body by its target; at most `body_bytes`. */
typedef size_t tt_http1_body_limit_fn(void *context, const char *target);
/* Gives up the request whose body is being received, so that others have room. */
struct tt_http1;
typedef void tt_http1_evict_fn(struct tt_http1 *self);

struct tt_http1_limits {
    size_t head_bytes; /* request line and headers; chunk extensions and trailers as much again */
    int32_t header_count;
    size_t body_bytes;
    /* Asked for bodies of more than `small_body_bytes`, and for chunked ones; NULL: `body_bytes`
     * for all. */
    tt_http1_body_limit_fn *body_limit;
    void *context;
    size_t small_body_bytes;
    /* Bytes of all bodies together. It counts what has arrived, not what a Content-Length promises:
     * a client that sends nothing takes nothing from the others. NULL: no limit. */
    struct tt_body_budget *budget;
    tt_http1_evict_fn *evict; /* NULL: no request is given up */
    bool keeps_origin;        /* requests get `host`, `origin`, `token` and `is_cross_site` */
    bool keeps_trace;         /* requests get `trace` */
};

enum tt_http1_event { TT_HTTP1_MORE, TT_HTTP1_HEAD, TT_HTTP1_MESSAGE, TT_HTTP1_BAD };

enum {
    TT_HTTP1_TARGET_BYTES = 2048,
    TT_HTTP1_ORIGIN_BYTES = 80,
    TT_HTTP1_VALUE_BYTES = 520 /* of a header that is not ignored; longer tokens are unknown */
};

struct tt_http1_request {
    char target[TT_HTTP1_TARGET_BYTES]; /* as sent, NUL-terminated */
    /* With `keeps_origin`: the headers' values. "": absent, given twice, or as long as this. */
    char host[TT_HTTP1_ORIGIN_BYTES], origin[TT_HTTP1_ORIGIN_BYTES];
    char value[TT_HTTP1_VALUE_BYTES]; /* the parser's own: of the header being read */
    struct tt_trace_headers trace;    /* with `keeps_trace`; else empty */
    char method[16];
    bool keep_alive;        /* the client may send another request */
    bool expects_continue;  /* the client waits for 100 before it sends the body */
    enum tt_coding coding;  /* of the body */
    enum tt_coding accepts; /* for the answer */
    int64_t json_bytes;     /* Inference-Header-Content-Length; -1: absent; -2: no number */
    struct tt_token token;  /* of Authorization; given twice: none */
    bool is_cross_site;     /* a browser says in Sec-Fetch-Site that another site sends it */
    struct tt_text body;

    /* The parser's own: */
    char name[48]; /* of the header being read */
    size_t target_length, name_length, value_length;
    size_t head_bytes, extra_bytes;
    size_t body_limit;        /* bytes */
    struct tt_http1 *parser;  /* while it is being received */
    struct tt_body_part part; /* of the common budget; `identity` may be set after HEAD */
    int32_t header_count, host_count, origin_count, token_count;
    bool has_length, is_chunked, has_version;
    char tail[5]; /* the last bytes before those being fed, while the version is not reached */
    int problem_status;
    char problem[224];
};

struct tt_http1 {
    llhttp_t parser;
    const struct tt_http1_limits *limits;
    struct tt_http1_request *request; /* NULL between requests */
    const char *fed;                  /* the bytes being fed, during tt_http1_feed */
};

/* `limits` must outlive it. */
void tt_http1_init(struct tt_http1 *self, const struct tt_http1_limits *limits);
void tt_http1_fini(struct tt_http1 *self);
/* Consumes bytes up to the next event; `out_used` is how many (all, if the event is MORE). After
 * HEAD it must be called again, even with no bytes left; after MESSAGE only after tt_http1_reset.
 */
enum tt_http1_event tt_http1_feed(struct tt_http1 *self, const char *bytes, size_t count,
                                  size_t *out_used);
/* Where the next bytes of the body belong, and how many are missing; NULL: unknown. Borrowed until
 * the next feed. */
char *tt_http1_body_space(struct tt_http1 *self, size_t *out_bytes);
/* After MESSAGE: frees the request. */
void tt_http1_reset(struct tt_http1 *self);
/* After MESSAGE: the request, which is the caller's now; it keeps its part of the budget until
 * tt_http1_request_free(), on the parser's thread. tt_http1_reset() must follow. */
struct tt_http1_request *tt_http1_take(struct tt_http1 *self);
void tt_http1_request_free(struct tt_http1_request *take_request); /* NULL-safe */
/* After BAD: the status to answer with, and the sentence. */
int tt_http1_problem(const struct tt_http1 *self, const char **out_sentence);
/* True: a part of a request came since the last reset. */
bool tt_http1_started(const struct tt_http1 *self);

struct tt_http1_answer {
    int status;
    const char *content_type; /* NULL: none */
    enum tt_coding coding;
    size_t content_bytes;
    bool is_stream;      /* the body goes on: in chunks, or, without keep_alive, to the end */
    int64_t json_bytes;  /* Inference-Header-Content-Length; < 0: none */
    const char *allow;   /* methods, for a 405; NULL: none */
    const char *headers; /* further ones, each with its end of line; NULL: none */
    const struct tt_trace_context *trace; /* to answer with; NULL: none */
    int32_t retry_after_s;                /* 0: none */
    bool keep_alive;
};

/* "OK" for 200; NULL: no status that this server answers with. */
const char *tt_http1_reason_phrase(int status);
/* Appends status line and headers, with the empty line. A stream is sent in chunks if it keeps the
 * connection, else its end is the connection's. */
void tt_http1_write_head(const struct tt_http1_answer *answer, struct tt_text *out_text);

#endif
