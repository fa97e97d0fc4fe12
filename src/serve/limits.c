#include "serve/limits.h"

#include "base/err.h"
#include "core/belief.h"

#define OF(member) offsetof(struct tt_limits, member)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define HOUR_MS INT64_C(3600000)

enum { SMALLEST_RESERVING = 8 }; /* connections of which one is reserved */

static const struct tt_limit limit_rows[] = {
    {"max-connections", "",
     "open connections; one more gets 503 and is closed, and the last 1 of 64 (at least 1, at most "
     "64; below 8 connections none) serve health and metrics only",
     OF(connections), 16384, 1, 1000000},
    {"limit-per-address", "",
     "connections of one client address at a time, and as many requests over HTTP/2 and gRPC; one "
     "more gets 429 or RESOURCE_EXHAUSTED; an IPv6 address counts by its first 64 bits; 0: no "
     "limit",
     OF(per_address), 0, 0, 1000000},
    {"limit-bytes-per-address", "bytes",
     "bodies in receipt and answers on their way, together, of one client address; one more body "
     "or answer gets 429 or RESOURCE_EXHAUSTED; those up to 64 KiB are not counted, nor is what "
     "counts for bytes= in the file of tokens; 0: no limit",
     OF(bytes_per_address), 0, 0, 1024 * GIB},
    {"max-streams", "",
     "requests at a time on one HTTP/2 connection; more are refused (REFUSED_STREAM)", OF(streams),
     1024, 1, 65536},
    {"max-header-bytes", "bytes", "request line and headers of a request; more: 431",
     OF(header_bytes), 16 * KIB, 256, MIB},
    {"max-header-count", "", "headers of a request; more: 431", OF(header_count), 100, 4, 10000},
    {"max-body-bytes", "bytes", "body of a request as it is sent; a longer one: 413",
     OF(body_bytes), 64 * MIB, 1, 64 * GIB},
    {"max-management-bytes", "bytes",
     "body of a request other than inference and load, which is read on the connections' thread; a "
     "longer one: 413; a load brings at most 1000 files and 65,536 values of configuration: else "
     "400",
     OF(management_bytes), 64 * KIB, 1, GIB},
    {"max-unpacked-bytes", "bytes", "compressed body after decompression; a longer one: 413",
     OF(unpacked_bytes), 64 * MIB, 1, 64 * GIB},
    {"max-receive-bytes", "bytes",
     "all bodies in receipt, together, as they have arrived or unpacked, and the files of loads "
     "that wait; beyond it the largest body, or the load, gets 503",
     OF(receive_bytes), GIB, 1, 1024 * GIB},
    {"max-send-bytes", "bytes",
     "all answers that clients do not take, together, by the bytes that wait in the server; beyond "
     "it the connection that has held the most for the longest is closed",
     OF(send_bytes), GIB, 1, 1024 * GIB},
    {"max-pipeline-bytes", "bytes",
     "bytes read ahead on a connection while its request is in flight; then it is not read",
     OF(pipeline_bytes), 64 * KIB, 0, GIB},
    {"max-json-depth", "", "nesting of arrays and objects in a request; deeper: 400",
     OF(json_depth), 100, 4, 100},
    {"max-requests", "", "requests in flight in total; one more: 503", OF(requests),
     TT_PORT_IN_FLIGHT_LIMIT, 1, 1 << 20},
    {"max-model-requests", "", "requests in flight per model version; one more: 503",
     OF(model_requests), TT_PORT_IN_FLIGHT_LIMIT, 1, 1 << 20},
    {"max-queue-bytes", "bytes", "inputs of all requests in flight, together; more: 503",
     OF(queue_bytes), GIB, 1, 1024 * GIB},
    {"max-stream-words", "",
     "words of a streamed answer that its client has not read; one more cancels the request",
     OF(stream_words), 1024, 1, 1 << 20},
    {"run-here-us", "us",
     "a batch whose recent runs were all shorter runs on the thread that submits it",
     OF(run_here_us), 50, 0, 1000},
    {"lateness-us", "us",
     "batches start this much before their latest start time, because wake-ups may be late; it is "
     "the value to begin with where run times are learnt",
     OF(lateness_us), 500, 0, 1000000},
    {"control-delay-us", "us",
     "transmission time of a message to an executor; batches are decided this much earlier",
     OF(control_delay_us), 0, 0, 10000000},
    {"data-delay-us", "us", "transmission time of one row's input to an executor, on top of that",
     OF(data_delay_us), 0, 0, 100000},
    {"learn-percent", "%",
     "quantile of a batch's recent run times within which it is believed to end; 0: policies "
     "believe the profile, whatever batches take",
     OF(learn_percent), TT_BELIEF_PERCENT, 0, TT_BELIEF_MAX_PERCENT},
    {"max-run-ms", "ms",
     "a batch that runs longer is stopped, and its model serves no more; max_run_ms of tutti.pbtxt "
     "takes precedence; 0: 100 times what the profile says, at least 10 s",
     OF(max_run_ms), 0, 0, 24 * HOUR_MS},
    {"max-model-bytes", "bytes",
     "memory of a model version as estimated from its file, and of its trial load; one that needs "
     "more is not loaded; 0: three quarters of what the process may use",
     OF(model_bytes), 0, 0, 1024 * GIB},
    {"max-models-bytes", "bytes",
     "memory of all model versions together; a version beyond it, as estimated, is not loaded, and "
     "a run beyond it fails; 0: "
     "three quarters of what the process may use",
     OF(models_bytes), 0, 0, 1024 * GIB},
    {"max-load-ms", "ms", "time of a trial load (--isolate-loads); a longer one is ended",
     OF(load_ms), 600000, 100, 24 * HOUR_MS},
    {"idle-timeout-ms", "ms", "time until an idle connection is closed", OF(idle_timeout_ms), 75000,
     10, 24 * HOUR_MS},
    {"header-timeout-ms", "ms",
     "time to receive the request line and headers; then 408; also for a handshake of TLS, which "
     "is ended",
     OF(header_timeout_ms), 10000, 10, HOUR_MS},
    {"body-timeout-ms", "ms", "time to receive a body; then 408", OF(body_timeout_ms), 60000, 10,
     HOUR_MS},
    {"write-timeout-ms", "ms",
     "time for a client to read its response; then its connection is closed", OF(write_timeout_ms),
     60000, 10, HOUR_MS},
};

void tt_network_quotas_init(struct tt_network_quotas *self, const struct tt_limits *of) {
    tt_quota_init(&self->connections, of->connections);
    tt_quota_init(&self->receive_bytes, of->receive_bytes);
    tt_quota_init(&self->send_bytes, of->send_bytes);
    tt_largest_init(&self->bodies);
    tt_largest_init(&self->answers);
}

int32_t tt_limit_count(void) { return (int32_t)TT_COUNT(limit_rows); }
const struct tt_limit *tt_limit_at(int32_t index) { return &limit_rows[index]; }

void tt_limits_default(struct tt_limits *out_limits) {
    for (int32_t i = 0; i < tt_limit_count(); i++)
        *tt_limit_of(out_limits, &limit_rows[i]) = limit_rows[i].default_value;
}

static void lower_default(struct tt_limits *limits, size_t offset, int64_t most) {
    for (int32_t i = 0; i < tt_limit_count(); i++) {
        int64_t *value = tt_limit_of(limits, tt_limit_at(i));
        if (tt_limit_at(i)->offset == offset && *value == tt_limit_at(i)->default_value &&
            *value > most)
            *value = most > MIB ? most : MIB;
    }
}

void tt_limits_fit(struct tt_limits *limits, int64_t usable_bytes) {
    int64_t models = usable_bytes / 4 * 3;
    limits->model_bytes = limits->model_bytes ? limits->model_bytes : models;
    limits->models_bytes = limits->models_bytes ? limits->models_bytes : models;
    lower_default(limits, OF(receive_bytes), usable_bytes / 8);
    lower_default(limits, OF(send_bytes), usable_bytes / 8);
    lower_default(limits, OF(queue_bytes), usable_bytes / 8);
}

int64_t tt_network_reserve(int64_t connections) {
    int64_t share = connections / 64;
    if (connections < SMALLEST_RESERVING)
        return 0;
    return share < 1 ? 1 : share < 64 ? share : 64;
}
