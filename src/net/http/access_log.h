/* The line of the access log (net/kserve/access_line.h) for a request of HTTP.
 *
 * Life of a line: `tt_access_begin` when a request is complete keeps what its connection forgets;
 * `tt_access_end` writes the line. Implemented in access_log.c. */
#ifndef TT_NET_HTTP_ACCESS_LOG_H
#define TT_NET_HTTP_ACCESS_LOG_H

#include "net/kserve/access_line.h"

struct tt_exchange;

enum {
    TT_ACCESS_PATH_BYTES = 240, /* longer paths are cut off */
    TT_ACCESS_METHOD_BYTES = 16
};

/* What a request leaves behind until its end; the caller's memory. */
struct tt_access {
    int64_t began_at; /* the last byte of the request was there */
    char method[TT_ACCESS_METHOD_BYTES], path[TT_ACCESS_PATH_BYTES];
};
/* "" as method or path: the request line was not understood. */
void tt_access_begin(struct tt_access *self, const char *method, const char *path);

/* Writes the line. `body_bytes` of the reply were sent; -1: the client has gone before that. */
void tt_access_end(struct tt_access_log *self, const struct tt_access *access,
                   const struct tt_exchange *exchange, int64_t body_bytes);

#endif
