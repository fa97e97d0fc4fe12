/* A reply to one HTTP request, independent of the version of HTTP: status, headers that mean
 * something, and the body. http_transaction.h composes the answer from it; connection.h and
 * http_stream.h send that.
 *
 * Life: zero-initialised; filled by one of the functions below; the body is freed with
 * tt_text_fini. Implemented in http_reply.c. */
#ifndef TT_NET_HTTP_HTTP_REPLY_H
#define TT_NET_HTTP_HTTP_REPLY_H

#include "base/text.h"
#include "net/coding/content_coding.h"
#include "net/telemetry/trace_context.h"

#include <stdint.h>

struct tt_reply {
    int status;
    const char *content_type; /* static; NULL: no body */
    struct tt_text body;
    const char *allow;     /* static; methods, for a 405; NULL: none */
    const char *headers;   /* static; further headers, each with its end of line; NULL: none */
    int32_t retry_after_s; /* 0: none */
};

/* The head of an answer, of any version of HTTP: a reply as it is sent. */
struct tt_http_head {
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

/* The status and the body {"error": sentence}, in place of what the reply held. */
void tt_reply_fail(struct tt_reply *reply, int status, const char *sentence);
/* The same, with the status that belongs to `err`. "" as the sentence: the error's name. */
void tt_reply_error(struct tt_reply *reply, enum tt_err err, const char *sentence);
/* 405 with the methods that are allowed. */
void tt_reply_wrong_method(struct tt_reply *reply, const char *allow);
/* Status 200 and JSON; returns where the body goes. */
struct tt_text *tt_reply_json(struct tt_reply *reply);

#endif
