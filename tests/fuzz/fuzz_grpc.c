/* HTTP/2 and gRPC: any bytes as a connection to the fake server. Build with
 * -fsanitize=fuzzer,address,undefined. The first byte says how the rest is cut. The client's
 * preface and SETTINGS come first, unless the first byte is 0, so that frames are reached. */
#include "unit/net/fake_serving.h"

#include "net/grpc/grpc_operations.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_wake(void *context) { (void)context; }
static void no_touch(struct tt_http2_session *session) { (void)session; }

static bool feed(struct tt_http2_session *session, struct tt_port *port, const void *bytes,
                 size_t count) {
    static struct tt_http2_output output;
    char *copy = malloc(count ? count : 1);
    memcpy(copy, bytes, count);
    enum tt_err err = tt_http2_session_receive(session, copy, count);
    free(copy);
    tt_port_drain(port);
    for (bool is_more = true; is_more;) {
        tt_http2_output_clear(&output);
        is_more = tt_http2_session_pull(session, &output);
        tt_http2_session_written(session);
    }
    return !err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct tt_serving serving;
    struct tt_port *port = NULL;
    struct tt_grpc_calls calls;
    struct tt_http2_timers timers;
    struct tt_http2_session session;
    struct tt_limits limits;
    struct tt_network_quotas quotas;
    struct tt_error why;
    const struct tt_http2_limits http2_limits = {100, 100, 16384};
    if (size < 1)
        return 0;
    fake_serving_init(&serving);
    enum tt_err err = tt_serving_open_port(&serving, no_wake, NULL, &port, &why);
    tt_assert(err == TT_OK);
    tt_limits_default(&limits);
    const struct tt_kserve_service service = {
        .serving = &serving, .port = port, .server_version = "0.1.0"};
    tt_network_quotas_init(&quotas, &limits);
    tt_grpc_calls_init(&calls, &tt_grpc_operations, &service, &limits, &quotas, NULL);
    calls.touch = no_touch;
    tt_http2_timers_init(&timers, 1000, 1000, 1000);
    err = tt_http2_session_init(&session, &tt_grpc_handler, &http2_limits, &timers, NULL, &calls);
    tt_assert(err == TT_OK);
    bool goes_on = !data[0] || feed(&session, port, preface, sizeof(preface) - 1);
    size_t step = 1 + (size_t)data[0] * 4;
    for (size_t at = 1; at < size && goes_on; at += step)
        goes_on = feed(&session, port, data + at, size - at < step ? size - at : step);
    tt_grpc_calls_watch(&calls);
    timers.now_ms += 1000;
    tt_http2_timers_expire(&timers, no_touch);
    tt_http2_session_fini(&session);
    tt_port_drain(port);
    tt_assert(calls.call_count == 0);
    tt_grpc_calls_fini(&calls);
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}
