/* HTTP/1.1 requests from bytes, without sockets: one parser per connection, on llhttp in its strict
 * mode, that fills http_message.h; and the heads of answers.
 *
 * Life of a request: the caller feeds the bytes that it read. `tt_http1_feed` stops at
 * TT_HTTP1_HEAD (the head is complete and legal: time to answer `Expect: 100-continue`), then at
 * TT_HTTP1_MESSAGE (the body is complete). The request is then in `self->request` until
 * `tt_http1_reset` frees it. Bytes after the message (a pipelined request) stay with the caller,
 * which feeds them later. Between requests the parser holds no memory except its struct.
 * TT_HTTP1_BAD is final: the caller answers with the status of `tt_http1_problem` and closes.
 * So is TT_HTTP1_HTTP2, after which the bytes belong to another parser.
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

#include "net/http/http_message.h"
#include "net/http/http_reply.h"

#include <llhttp.h>

enum tt_http1_event {
    TT_HTTP1_MORE,
    TT_HTTP1_HEAD,
    TT_HTTP1_MESSAGE,
    TT_HTTP1_BAD,
    TT_HTTP1_HTTP2, /* with `takes_http2`: the client's preface of HTTP/2 came, whole */
};

/* What TT_HTTP1_HTTP2 has consumed; its length without the NUL. */
#define TT_HTTP1_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct tt_http1_request {
    struct tt_http_message message; /* the first member */
    bool keep_alive;                /* the client may send another request */

    /* The parser's own: */
    char value[TT_HTTP_VALUE_BYTES]; /* of the header being read */
    char name[48];                   /* likewise; what follows it is cleared at the beginning */
    size_t target_length, name_length, value_length;
    size_t head_bytes, extra_bytes;
    int32_t header_count;
    bool has_length, is_chunked, has_version;
    char tail[5]; /* the last bytes before those being fed, while the version is not reached */
};

struct tt_http1 {
    llhttp_t parser;
    const struct tt_http_message_limits *limits;
    struct tt_spares *spares;         /* where struct tt_http1_request is from; NULL: malloc() */
    tt_http_give_up_fn *give_up;      /* of its requests, whose `owner` is this; may be NULL */
    struct tt_http1_request *request; /* NULL between requests */
    const char *fed;                  /* the bytes being fed, during tt_http1_feed */
    bool takes_http2;                 /* else the preface of HTTP/2 is refused */
};

/* `limits` must outlive it. */
void tt_http1_init(struct tt_http1 *self, const struct tt_http_message_limits *limits);
void tt_http1_fini(struct tt_http1 *self);
/* Consumes bytes up to the next event; `out_used` is how many (all, if the event is MORE). After
 * HEAD it must be called again, even with no bytes left; after MESSAGE only after tt_http1_reset.
 */
enum tt_http1_event tt_http1_feed(struct tt_http1 *self, const char *bytes, size_t count,
                                  size_t *out_used);
/* Where the next bytes of the body belong, and how many to read at once; NULL: unknown. Borrowed
 * until the next feed. */
char *tt_http1_body_space(struct tt_http1 *self, size_t *out_bytes);
/* What came of the request's body; NULL: no request has begun. */
struct tt_text *tt_http1_body(struct tt_http1 *self);
/* After MESSAGE: frees the request. */
void tt_http1_reset(struct tt_http1 *self);
/* After MESSAGE: the request, which is the caller's now. tt_http1_reset() must follow. */
struct tt_http_message *tt_http1_take(struct tt_http1 *self);
/* After BAD: the status to answer with, and the sentence. */
int tt_http1_problem(const struct tt_http1 *self, const char **out_sentence);
/* True: a part of a request came since the last reset. */
bool tt_http1_started(const struct tt_http1 *self);

enum {
    TT_HTTP1_PIECE = 1 << 17,  /* of a body at once: what other clients wait for, some 0.1 ms */
    TT_HTTP1_HEAD_BYTES = 320, /* holds every head, but for the strings that it is given */
    TT_HTTP1_TRACE_BYTES = 100 /* and the lines of the trace without their state */
};

/* "OK" for 200; NULL: no status that this server answers with. */
const char *tt_http1_reason_phrase(int status);
/* Appends status line and headers, with the empty line. A stream is sent in chunks if it keeps the
 * connection, else its end is the connection's. */
void tt_http1_write_head(const struct tt_http_head *answer, struct tt_text *out_text);

#endif
