/* One request and its answer, over a connection of its own; the caller waits. It uses
 * http_client.h. Implemented in http_fetch.c. */
#ifndef TT_CLIENT_HTTP_FETCH_H
#define TT_CLIENT_HTTP_FETCH_H

#include "base/text.h"
#include "base/threads/flag.h"
#include "client/http_address.h"

struct tt_http_ask {
    const struct tt_http_address *address;
    const char *method, *path;
    const char *headers;      /* more lines, each with its end; NULL: none */
    const char *body;         /* NULL: none */
    const char *content_type; /* of the body */
    int64_t give_up_ns;
    const struct tt_flag *stopping; /* raised: the request is given up, CANCELLED; NULL: never */
};

/* Any status is an answer. *out_body is set; the caller frees it. UNAVAILABLE: no connection, or
 * one that broke; TIMEOUT: no answer in `give_up_ns`; INVALID: it is not HTTP, or too long. */
TT_MUST_CHECK enum tt_err tt_http_ask(const struct tt_http_ask *ask, int32_t *out_status,
                                      struct tt_text *out_body, struct tt_error *why);

/* Gets `path` (or posts `body`, where it is not NULL). `out_body` is set if the answer's status is
 * 200; the caller frees it. UNAVAILABLE: no connection, a connection that broke, or status 503.
 * TIMEOUT: no answer in `give_up_ns`. INVALID: another status, with the server's sentence, or not
 * HTTP. */
TT_MUST_CHECK enum tt_err tt_http_fetch(const struct tt_http_address *address, const char *path,
                                        const char *body, int64_t give_up_ns,
                                        struct tt_text *out_body, struct tt_error *why);

/* What a server said, as much of it as fits into `out`, for people: what is not printable ASCII is
 * '.', so that it moves no cursor and begins no line. Returns `out`. */
const char *tt_http_shown(const char *text, size_t length, char *out, size_t out_bytes);

#endif
