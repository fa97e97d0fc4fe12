/* `tutti serve --access-log`: a line of JSON for each HTTP request that was answered, refused, or
 * left by its client.
 *
 * Life of a line: `tt_access_begin` when a request is complete keeps what its connection forgets;
 * `tt_access_end` composes the line and puts it into a bounded file of lines
 * (base/log/line_file.h), which drops lines rather than wait. One log belongs to one thread of a
 * listener, which is one writer of the file.
 *
 * It holds no tensor, no header and no address of a client. Implemented in access_log.c. */
#ifndef TT_NET_HTTP_ACCESS_LOG_H
#define TT_NET_HTTP_ACCESS_LOG_H

#include "base/log/line_file.h"
#include "base/text.h"

struct tt_exchange;

enum {
    TT_ACCESS_PATH_BYTES = 240, /* longer paths are cut off */
    TT_ACCESS_METHOD_BYTES = 16,
    TT_ACCESS_CLIENT_GONE = 499, /* the status of a request whose client left before its answer */
};

struct tt_access_log {
    struct tt_line_file *file; /* borrowed; NULL: no log, and nothing else is called */
    int32_t writer;            /* of the file: this log's thread */
    struct tt_text line;       /* of one request; its memory is kept */
};

void tt_access_log_init(struct tt_access_log *self, struct tt_line_file *file, int32_t writer);
void tt_access_log_fini(struct tt_access_log *self);

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
