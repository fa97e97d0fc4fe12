#include "serve/limits.h"

#include "base/err.h"

#define OF(member) offsetof(struct tt_limits, member)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define HOUR_MS INT64_C(3600000)

static const struct tt_limit limits[] = {
    {"max-connections", "", "connections at once; one more is answered 503 and closed",
     OF(connections), 16384, 1, 1000000},
    {"max-header-bytes", "bytes", "a request's line and headers", OF(header_bytes), 16 * KIB, 256,
     MIB},
    {"max-header-count", "", "a request's headers", OF(header_count), 100, 4, 10000},
    {"max-body-bytes", "bytes", "a request's body as it is sent", OF(body_bytes), 64 * MIB, 1,
     64 * GIB},
    {"max-unpacked-bytes", "bytes", "a compressed body when it is unpacked", OF(unpacked_bytes),
     64 * MIB, 1, 64 * GIB},
    {"max-receive-bytes", "bytes", "all bodies that are being received, together",
     OF(receive_bytes), GIB, 1, 1024 * GIB},
    {"max-pipeline-bytes", "bytes", "read ahead of a connection's request in flight",
     OF(pipeline_bytes), 64 * KIB, 0, GIB},
    {"max-json-depth", "", "arrays and objects within each other in a request", OF(json_depth), 100,
     4, 100},
    {"max-requests", "", "requests in flight, in all", OF(requests), TT_PORT_IN_FLIGHT_LIMIT, 1,
     1 << 20},
    {"max-model-requests", "", "requests in flight per model version", OF(model_requests),
     TT_PORT_IN_FLIGHT_LIMIT, 1, 1 << 20},
    {"max-queue-bytes", "bytes", "inputs of all requests in flight, together", OF(queue_bytes), GIB,
     1, 1024 * GIB},
    {"run-here-us", "us",
     "a batch that never took longer lately runs on the thread that brought it", OF(run_here_us),
     50, 0, 1000},
    {"lateness-us", "us",
     "batches that wait for the last instant start so much before it, since a wake-up may be late",
     OF(lateness_us), 500, 0, 1000000},
    {"idle-timeout-ms", "ms", "a connection without a request is kept", OF(idle_timeout_ms), 75000,
     10, 24 * HOUR_MS},
    {"header-timeout-ms", "ms", "a request's line and headers may take to come",
     OF(header_timeout_ms), 10000, 10, HOUR_MS},
    {"body-timeout-ms", "ms", "a body may take to come", OF(body_timeout_ms), 60000, 10, HOUR_MS},
    {"write-timeout-ms", "ms", "a client may take to read its answer", OF(write_timeout_ms), 60000,
     10, HOUR_MS},
};

int32_t tt_limit_count(void) { return (int32_t)TT_COUNT(limits); }
const struct tt_limit *tt_limit_at(int32_t index) { return &limits[index]; }

void tt_limits_default(struct tt_limits *out_limits) {
    for (int32_t i = 0; i < tt_limit_count(); i++)
        *tt_limit_of(out_limits, &limits[i]) = limits[i].default_value;
}
