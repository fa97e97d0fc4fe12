/* `tutti serve --access-log`: a line of JSON for each request of HTTP and each inference or other
 * call of gRPC that was answered, refused, or left by its client.
 *
 * A line is composed when the request has ended, and put into a bounded file of lines
 * (base/log/line_file.h), which drops lines rather than wait. One log belongs to one thread.
 *
 * It holds no tensor and no token; of a client it has the address, without the port, and the name
 * of its identity. Implemented in access_line.c. */
#ifndef TT_NET_KSERVE_ACCESS_LINE_H
#define TT_NET_KSERVE_ACCESS_LINE_H

#include "base/log/line_file.h"
#include "base/text.h"
#include "net/access/peer_address.h"
#include "net/kserve/kserve_request.h"
#include "net/telemetry/trace_context.h"

enum {
    TT_ACCESS_CLIENT_GONE = 499 /* the status of a request whose client left before its answer */
};

struct tt_access_log {
    struct tt_line_file *file; /* borrowed; NULL: no log, and nothing else is called */
    int32_t writer;            /* of the file: this log's thread */
    struct tt_text line;       /* of one request; its memory is kept */
};

void tt_access_log_init(struct tt_access_log *self, struct tt_line_file *file, int32_t writer);
void tt_access_log_fini(struct tt_access_log *self);

struct tt_access_line {
    const char *method, *path; /* "": the request line was not understood */
    int32_t status;            /* of HTTP */
    int32_t grpc_status;       /* -1: the request is not gRPC */
    int64_t began_at;          /* the request was there */
    int64_t body_bytes;        /* of the answer; -1: unknown */
    const struct tt_peer_address *client;
    const char *identity;                    /* the name of its token; "": it has none */
    const struct tt_trace_context *trace;    /* that it belongs to; NULL: none */
    bool is_inference;                       /* it asks for one, whatever came of it */
    const struct tt_kserve_request *request; /* its target and id; NULL: none */
    struct tt_inference *inference;          /* NULL: none was begun */
};

void tt_access_log_put(struct tt_access_log *self, const struct tt_access_line *line);

#endif
