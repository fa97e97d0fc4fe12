/* A request of HTTP as it is received, in whatever version: its method, target and headers, and its
 * body, with the limits on them. http1.h and http_stream.h fill it; body_work.h reads it.
 *
 * Life: init; `_header` for each header; `_begin_body` when the last one came; `_add_body`; `_end`
 * when the body is complete; free. The first problem stays: `problem_status` and its sentence are
 * the reply, and nothing more is to be added.
 *
 * Bodies share a budget, and a large one counts against its holder (net/access/body_budget.h).
 * One that has to go in favour of others is given up by its owner.
 *
 * It reads no bytes of a connection. One thread. Implemented in http_message.c. */
#ifndef TT_NET_HTTP_HTTP_MESSAGE_H
#define TT_NET_HTTP_HTTP_MESSAGE_H

#include "base/text.h"
#include "net/access/body_budget.h"
#include "net/access/token.h"
#include "net/coding/content_coding.h"
#include "net/telemetry/trace_context.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_HTTP_TARGET_BYTES = 2048,
    TT_HTTP_ORIGIN_BYTES = 80,
    TT_HTTP_VALUE_BYTES = 520 /* of a header that is not ignored; longer tokens are unknown */
};

struct tt_http_message;
/* The limit of one request's body by its target; at most `body_bytes`. */
typedef size_t tt_http_body_limit_fn(void *context, const char *target);
/* The message has to go, in favour of another; the client gets 503 and the sentence. */
typedef void tt_http_give_up_fn(struct tt_http_message *message, const char *sentence);

struct tt_http_message_limits {
    size_t head_bytes; /* request line and headers; chunk extensions and trailers as much again */
    int32_t header_count;
    size_t body_bytes;
    /* Asked for bodies of more than `small_body_bytes`, and for those of unknown length; NULL:
     * `body_bytes` for all. */
    tt_http_body_limit_fn *body_limit;
    void *context;
    size_t small_body_bytes;
    /* Bytes of all bodies together. It counts what has arrived, not what a Content-Length promises:
     * a client that sends nothing takes nothing from the others. NULL: no limit. */
    struct tt_body_budget *budget;
    bool keeps_origin; /* messages get `host`, `origin`, `token` and `is_cross_site` */
    bool keeps_trace;  /* messages get `trace` */
};

struct tt_spares;
struct tt_http_message {
    char target[TT_HTTP_TARGET_BYTES]; /* as sent, NUL-terminated */
    /* With `keeps_origin`: the headers' values. "": absent, given twice, or as long as this. */
    char host[TT_HTTP_ORIGIN_BYTES], origin[TT_HTTP_ORIGIN_BYTES];
    struct tt_trace_headers trace; /* with `keeps_trace`; else empty */
    const struct tt_http_message_limits *limits;
    char method[16];
    bool expects_continue;  /* the client waits for 100 before it sends the body */
    enum tt_coding coding;  /* of the body */
    enum tt_coding accepts; /* for the answer */
    int64_t json_bytes;     /* Inference-Header-Content-Length; -1: absent; -2: no number */
    struct tt_token token;  /* of Authorization; given twice: none */
    bool is_cross_site;     /* a browser says in Sec-Fetch-Site that another site sends it */
    struct tt_text body;
    int32_t host_count, origin_count, token_count;
    size_t body_limit;        /* bytes; set by _begin_body */
    int64_t promised_bytes;   /* of the body, likewise; -1: unknown */
    struct tt_body_part part; /* of the common budget; `holder` may be set after _begin_body */
    struct tt_spares *spares; /* where its memory is from; NULL: the C library */
    tt_http_give_up_fn *give_up;
    void *owner;        /* for `give_up` */
    int problem_status; /* 0: none */
    char problem[224];
};

/* `limits` must outlive it. `give_up` NULL: it is not given up. */
void tt_http_message_init(struct tt_http_message *self, const struct tt_http_message_limits *limits,
                          tt_http_give_up_fn *give_up, void *owner);
/* Frees what it holds, and its memory, which goes to `spares`. NULL-safe. */
void tt_http_message_free(struct tt_http_message *take_self);
/* Sets the problem, unless there is one. Always false. */
bool tt_http_message_refuse(struct tt_http_message *self, int status, const char *format, ...)
    TT_PRINTF(3, 4);
/* `value` has no blanks at its ends and is overwritten if it is secret; `is_whole` false: it was
 * too long to be kept and is "". False: refused. */
bool tt_http_message_header(struct tt_http_message *self, const char *name, size_t name_bytes,
                            char *value, bool is_whole);
/* The head is complete. `body_bytes` as promised; -1: unknown. False: refused. */
bool tt_http_message_begin_body(struct tt_http_message *self, int64_t body_bytes);
/* Bytes of the body; those that lie in their place behind it already are not copied. False:
 * refused. */
bool tt_http_message_add_body(struct tt_http_message *self, const char *bytes, size_t count);
/* The body is complete: it is not given up any more, and keeps its part of the budget until free.
 */
void tt_http_message_end(struct tt_http_message *self);

#endif
