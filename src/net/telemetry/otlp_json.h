/* Records of the tracer as the body of an OTLP/HTTP export: ExportTraceServiceRequest in its JSON
 * encoding, which every collector takes as it takes protobuf, and which people can read.
 *
 * A request becomes a tree of spans whose times nest: the request itself, a child of the client's
 * span; in it `receive` (first byte to inputs in place), `queue` (to its first batch), `batch` (to
 * the end of its last batch) with `run` in it (the model), and `send` (until the answer is
 * written). A request that did not come so far has the first of them only; an ensemble
 * has `step MODEL` for each step that began, in place of `queue` and `batch`; a step that is an
 * ensemble itself is one span. What a request came to
 * is in the attributes of its own span.
 *
 * It reads no clock. Implemented in otlp_json.c. */
#ifndef TT_NET_TELEMETRY_OTLP_JSON_H
#define TT_NET_TELEMETRY_OTLP_JSON_H

#include "net/telemetry/tracer.h"

/* The sender of the spans; strings are the caller's. */
struct tt_otlp_resource {
    const char *service_version, *host_name;
    int64_t process_id;
};

/* Appends the body for `record_count` records. `wall_offset_ns`: the wall clock less the clock of
 * the records. Without memory `out_text` says so. */
void tt_otlp_write(const struct tt_otlp_resource *resource, const struct tt_text *records,
                   int32_t record_count, int64_t wall_offset_ns, struct tt_text *out_text);

#endif
