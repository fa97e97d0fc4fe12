/* The latest batches and requests of every domain, kept in memory, and written as a trace that
 * Perfetto (ui.perfetto.dev) and chrome://tracing load.
 *
 * A tap observes one domain and keeps a record per finished batch and per request that left, in a
 * ring that overwrites its oldest records. It runs on the domain's thread and neither allocates nor
 * waits, except for a model's name when a model comes. Writing reads the rings while they change.
 * The trace has a track per executor with its batches, tracks per model with its requests from
 * arrival to end, and a flow from each request to the batch that computed it. Domains that are gone
 * stay visible until another domain needs their ring. Implemented in trace.c (taps) and
 * trace_write.c. */
#ifndef TT_RECORD_TRACE_H
#define TT_RECORD_TRACE_H

#include "base/text.h"
#include "core/observer.h"

enum {
    TT_TRACE_RECORDS = 32768, /* per domain, of 64 bytes, in a server */
    TT_TRACE_LANES = 64,      /* tracks per model: so many requests at once are shown */
};

struct tt_trace;
struct tt_trace_tap;

/* `records`: per domain, batches and requests together. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_new(int64_t records, struct tt_trace **out_trace,
                                       struct tt_error *why);
/* Every tap has been left. NULL-safe. */
void tt_trace_free(struct tt_trace *take_trace);
/* Observes the domain from now on, before its first event. Any thread. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_add(struct tt_trace *self, struct tt_mechanism *mechanism,
                                       const char *policy, struct tt_trace_tap **out_tap,
                                       struct tt_error *why);
/* The domain has no events any more. NULL-safe. */
void tt_trace_leave(struct tt_trace_tap *tap);

/* Appends what ended at `since_at` or later, as Chrome trace JSON (docs/FORMATS.md). Any thread.
 * Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_write(struct tt_trace *self, int64_t since_at,
                                         struct tt_text *out_json, struct tt_error *why);

#endif
