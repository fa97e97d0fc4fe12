/* Spans of `tutti serve`: the tracer that connection threads write to, and its exporter.
 *
 * Life: opened before the listeners, whose options then get the tracer; closed after them. Without
 * --otlp nothing exists. */
#ifndef TT_CMD_SERVE_TELEMETRY_H
#define TT_CMD_SERVE_TELEMETRY_H

#include "client/otlp_exporter.h"

struct tt_log;

struct tt_serve_telemetry_flags {
    const char *otlp; /* a URL; NULL: no spans */
    int64_t sample;   /* of TT_TRACER_ALL */
};

/* Another part of the metrics page; `append` may be NULL. */
struct tt_serve_metrics {
    void (*append)(const void *context, struct tt_text *page);
    const void *context;
};

struct tt_serve_telemetry {
    struct tt_tracer tracer;
    struct tt_otlp_exporter *exporter; /* NULL: no spans */
    struct tt_serve_metrics grpc, cluster;
};

/* The threads that write spans and lines of the access log, by number: those of HTTP from 0, then
 * as many of gRPC, then one each. */
enum tt_serve_writer {
    TT_SERVE_WRITER_GRPC,
    TT_SERVE_WRITER_ADMIN,
    TT_SERVE_WRITER_DASHBOARD,
    TT_SERVE_WRITERS, /* how many there are */
};

/* The first number of such threads; `threads`: of HTTP. */
static inline int32_t tt_serve_writer(enum tt_serve_writer which, int32_t threads) {
    return which == TT_SERVE_WRITER_GRPC ? threads : 2 * threads + (int32_t)which - 1;
}

/* `writers`: threads that write records. INVALID (the URL), NOT_FOUND, IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_serve_telemetry_open(struct tt_serve_telemetry *self,
                                                  const struct tt_serve_telemetry_flags *flags,
                                                  int32_t writers, struct tt_log *log,
                                                  struct tt_error *why);
void tt_serve_telemetry_close(struct tt_serve_telemetry *self);
/* For the listeners; NULL: no spans. */
struct tt_tracer *tt_serve_telemetry_tracer(struct tt_serve_telemetry *self);
/* Appends all parts; `telemetry` is a struct tt_serve_telemetry. */
void tt_serve_telemetry_metrics(const void *telemetry, struct tt_text *page);

#endif
