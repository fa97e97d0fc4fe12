/* HTTP/2 and gRPC: any bytes as a connection to the fake server. Build with
 * -fsanitize=fuzzer,address,undefined. */
/* covers: net/grpc/grpc_call.c net/grpc/grpc_methods.c net/grpc/grpc_receiver.c
 * net/grpc/grpc_repository.c */
#include "fuzz/one_session.h"

#include "net/grpc/grpc_operations.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void watch(void *context) { tt_grpc_calls_watch(context); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tt_serving serving;
    struct tt_port *port = NULL;
    struct tt_grpc_calls calls;
    struct tt_limits limits;
    struct tt_network_quotas quotas;
    struct tt_error why;
    if (size < 1)
        return 0;
    fake_serving_init(&serving);
    enum tt_err err = tt_serving_open_port(&serving, one_session_no_wake, NULL, &port, &why);
    tt_assert(err == TT_OK);
    tt_limits_default(&limits);
    const struct tt_kserve_service service = {
        .serving = &serving, .port = port, .server_version = "0.1.0"};
    tt_network_quotas_init(&quotas, &limits);
    tt_grpc_calls_init(&calls, &tt_grpc_operations, &service, &limits, &quotas, NULL);
    calls.touch = one_session_touch;
    one_session_play(&tt_grpc_handler, &calls, watch, port, data, size);
    tt_assert(calls.call_count == 0);
    tt_grpc_calls_fini(&calls);
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}
