/* Sends the records of a tracer to a collector: OTLP over HTTP, in JSON, on a thread of its own.
 *
 * Life: opened with the collector's URL, and the tracer, which connection threads write to; the
 * thread takes what they wrote in rounds, sends at most TT_OTLP_BATCH_BYTES of records at a
 * time, and waits for the answer; closed after the last request. The close sends what is left, for
 * at most TT_OTLP_CLOSE_NS; looking up the collector's name may add to it.
 *
 * A collector that is away, or answers 429, 502, 503 or 504, is tried again after 1 s, 2 s, 4 s ...
 * 30 s, TT_OTLP_TRIES times in all; then the batch is given up. Another status gives it up at once.
 * The first failure and the return are logged. Meanwhile the rings fill up and requests are counted
 * as lost: no thread waits for a collector.
 *
 * It follows no redirect. https needs a collector whose certificate the system trusts. Implemented
 * in otlp_exporter.c. */
#ifndef TT_CLIENT_OTLP_EXPORTER_H
#define TT_CLIENT_OTLP_EXPORTER_H

#include "base/instant.h"
#include "base/log/log_settings.h"
#include "net/telemetry/otlp_json.h"

enum {
    TT_OTLP_BATCH_BYTES = 65536, /* some 200 requests; their body has about ten times as many */
    TT_OTLP_TRIES = 6
};
#define TT_OTLP_CLOSE_NS (2 * TT_S)

struct tt_otlp_options {
    const char *url;          /* http[s]://HOST[:PORT][/PATH]; without PATH /v1/traces */
    struct tt_tracer *tracer; /* borrowed */
    const char *service_version;
    int64_t round_ns; /* between two looks for records; 0: a second */
    /* Messages for people, on the exporter's thread; may be NULL. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_otlp_exporter;

struct tt_otlp_counts {
    int64_t exported; /* requests whose spans the collector took */
    int64_t given_up; /* requests whose spans it did not take */
    int64_t lost;     /* requests for which a thread's ring had no room */
    int64_t failures; /* posts that failed */
};

/* Errors: INVALID (the URL, or an unknown host), NOT_FOUND, IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_otlp_exporter_open(const struct tt_otlp_options *options,
                                                struct tt_otlp_exporter **out_exporter,
                                                struct tt_error *why);
/* The writers have put their last records. NULL-safe. */
void tt_otlp_exporter_close(struct tt_otlp_exporter *take_self);
/* Any thread. */
struct tt_otlp_counts tt_otlp_exporter_counts(const struct tt_otlp_exporter *self);
/* Appends the counts to a page of metrics. Any thread. */
void tt_otlp_exporter_metrics(const struct tt_otlp_exporter *self, struct tt_text *page);

#endif
