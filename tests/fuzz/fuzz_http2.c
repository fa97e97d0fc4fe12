/* HTTP/2 and REST: any bytes as a connection to the fake server, with limits that short requests
 * reach. Each request is answered, or its client has gone. Build with
 * -fsanitize=fuzzer,address,undefined. */
/* covers: net/http2/http2_session.c net/http/http_stream.c net/http/http2_head.c */
#include "fuzz/one_session.h"

#include "net/http/http_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_end(void *owner) { (void)owner; }

static void check(const struct tt_http_counters *counters) {
    static const struct tt_counter none;
    struct tt_listener_counts counts = {0};
    tt_http_counters_add(counters, &none, &counts);
    tt_assert(counts.requests == counts.answered + counts.gone);
    tt_assert(counts.requests == counts.http2_requests);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tt_serving serving;
    struct tt_port *port = NULL;
    struct tt_http_transactions transactions;
    struct tt_limits limits;
    struct tt_network_quotas quotas;
    struct tt_error why;
    uv_loop_t loop;
    if (size < 1)
        return 0;
    fake_serving_init(&serving);
    enum tt_err err = tt_serving_open_port(&serving, one_session_no_wake, NULL, &port, &why);
    tt_assert(err == TT_OK);
    int failed = uv_loop_init(&loop);
    tt_assert(failed == 0);
    tt_limits_default(&limits);
    limits.body_bytes = limits.unpacked_bytes = 4096;
    limits.receive_bytes = 6000;
    tt_network_quotas_init(&quotas, &limits);
    const struct tt_http_context context = {
        .service = {.serving = &serving, .port = port, .server_version = "0.1.0"},
        .json_depth = 8,
        .management_bytes = 1024};
    tt_http_transactions_init(&transactions, &loop, &limits, &quotas, &context, no_end, NULL);
    struct tt_http_streams streams = {.transactions = &transactions, .touch = one_session_touch};
    one_session_play(&tt_http_stream_handler, &streams, NULL, port, data, size);
    while (transactions.count > 0) { /* work of the pool for streams that are closed */
        uv_run(&loop, UV_RUN_ONCE);
        tt_port_drain(port);
    }
    check(&transactions.counts);
    tt_http_transactions_fini(&transactions);
    failed = uv_loop_close(&loop);
    tt_assert(failed == 0);
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}
