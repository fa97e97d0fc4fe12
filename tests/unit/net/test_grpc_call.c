/* gRPC without sockets: calls, statuses, streams, cancellation, compression, and clients that
 * abuse HTTP/2. */
#include "grpc_client.h"

#include "base/clock.h"
#include "base/prng.h"
#include "net/coding/content_coding.h"
#include "unit/seed.h"

#include "grpc_service.pb-c.h"

#include <uv.h>

#define KSERVE "/inference.GRPCInferenceService/"
#define INFER KSERVE "ModelInfer"
#define STREAM KSERVE "ModelStreamInfer"

static struct client client;
static struct tt_text body;

static int set_up(void **state) {
    (void)state;
    client_init(&client, 65535, false);
    tt_text_init(&body);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    client_fini(&client);
    tt_text_fini(&body);
    return 0;
}

/* Appends a ModelInferRequest with `count` floats for the model's input IN. */
static void put_request(const char *model, const char *id, int64_t count, float first) {
    Inference__ModelInferRequest request = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor
        input = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT,
        *inputs[] = {&input};
    int64_t shape[] = {1, count};
    float *values = malloc((size_t)count * sizeof(*values) + 1);
    for (int64_t i = 0; i < count; i++)
        values[i] = first + (float)i;
    ProtobufCBinaryData raw = {.data = (uint8_t *)values, .len = (size_t)count * sizeof(*values)};
    input.name = (char *)"IN";
    input.datatype = (char *)"FP32";
    input.n_shape = 2;
    input.shape = shape;
    request.model_name = (char *)(uintptr_t)model;
    request.id = (char *)(uintptr_t)id;
    request.n_inputs = 1;
    request.inputs = inputs;
    request.n_raw_input_contents = 1;
    request.raw_input_contents = &raw;
    size_t size_bytes = inference__model_infer_request__get_packed_size(&request);
    uint8_t *bytes = malloc(size_bytes);
    inference__model_infer_request__pack(&request, bytes);
    put_message(&body, false, bytes, size_bytes);
    free(bytes);
    free(values);
}

static void check_response(const char *bytes, long size_bytes, const char *id, int64_t count,
                           float first) {
    assert_true(size_bytes > 0);
    Inference__ModelInferResponse *answer =
        inference__model_infer_response__unpack(NULL, (size_t)size_bytes, (const uint8_t *)bytes);
    assert_non_null(answer);
    assert_string_equal(answer->id, id);
    assert_int_equal(answer->n_raw_output_contents, 1);
    assert_int_equal(answer->raw_output_contents[0].len, (size_t)count * 4);
    const float *values = (const float *)answer->raw_output_contents[0].data;
    for (int64_t i = 0; i < count; i++)
        assert_true(values[i] == first + (float)i);
    inference__model_infer_response__free_unpacked(answer, NULL);
}

static void check_status(int32_t id, int status, const char *message) {
    const struct client_stream *stream = client_stream(&client, id);
    assert_int_equal(stream->http_status, 200);
    assert_int_equal(stream->grpc_status, status);
    assert_string_equal(stream->message, message);
    assert_true(stream->is_closed);
}

static void test_unary(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 16, 600, 5000, 200000};
    for (size_t i = 0; i < TT_COUNT(counts); i++) {
        tt_text_clear(&body);
        put_request("identity", "seven", counts[i], 1);
        int32_t id = client_call(&client, INFER, body.bytes, body.length);
        client_pump(&client);
        check_status(id, 0, "");
        const char *bytes = "";
        size_t at = 0;
        long size_bytes = next_message(&client_stream(&client, id)->received, &at, &bytes);
        check_response(bytes, size_bytes, "seven", counts[i], 1);
        assert_true(at == client_stream(&client, id)->received.length);
    }
}

/* However the bytes are cut, the answers are the same. */
static void test_cut_anywhere(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(3), 0);
    for (int i = 0; i < 20; i++)
        put_request("identity", "x", 1 + (int64_t)tt_prng_below(&prng, 300), (float)i);
    for (int round = 0; round < 60; round++) {
        int32_t id = client_call(&client, STREAM, body.bytes, body.length);
        client_stream(&client, id)->chunk_bytes = 1 + (size_t)tt_prng_below(&prng, 700);
        client_pump(&client);
        check_status(id, 0, "");
        const char *bytes = "";
        size_t at = 0;
        int count = 0;
        while (next_message(&client_stream(&client, id)->received, &at, &bytes) >= 0)
            count++;
        assert_int_equal(count, 20);
    }
}

static void test_statuses(void **state) {
    (void)state;
    static const struct {
        struct client_headers headers;
        int http_status, grpc_status;
        const char *message;
    } cases[] = {
        {{.path = INFER, .method = "GET"}, 405, -1, ""},
        {{.path = INFER, .content_type = "application/json"}, 415, -1, ""},
        {{.path = KSERVE "Nothing"},
         200,
         12,
         "the server has no such method; its reflection service lists them"},
        {{.path = "/"},
         200,
         12,
         "the server has no such method; its reflection service lists them"},
        {{.path = INFER, .encoding = "br"},
         200,
         12,
         "grpc-encoding: only identity, gzip and deflate are understood"},
        {{.path = INFER, .timeout = "5"},
         200,
         3,
         "grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n"},
        {{.path = INFER, .timeout = "0n"}, 200, 4, "the time that grpc-timeout gives is over"},
        {{.path = KSERVE "CudaSharedMemoryStatus"},
         200,
         12,
         "CUDA shared memory is not supported; send the tensor in the body"},
    };
    put_request("identity", "", 2, 1);
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        int32_t id = client_call_with(&client, &cases[i].headers, body.bytes, body.length, false);
        client_pump(&client);
        const struct client_stream *stream = client_stream(&client, id);
        assert_int_equal(stream->http_status, cases[i].http_status);
        assert_int_equal(stream->grpc_status, cases[i].grpc_status);
        assert_string_equal(stream->message, cases[i].message);
        assert_true(stream->is_closed);
    }
}

static void test_wrong_bodies(void **state) {
    (void)state;
    int32_t none = client_call(&client, INFER, "", 0);
    int32_t cut = client_call(&client, INFER, "\0\0\0\0\5abc", 8);
    int32_t junk = client_call(&client, INFER, "\0\0\0\0\3\xff\xff\xff", 8);
    int32_t large = client_call(&client, INFER, "\0\x40\0\0\0", 5);
    int32_t small = client_call(&client, KSERVE "ServerLive", "\0\x40\0\0\0", 5);
    int32_t packed = client_call(&client, INFER, "\1\0\0\0\3abc", 8);
    client_pump(&client);
    check_status(none, 3, "the call has no message");
    check_status(cut, 3, "the call ends within a message");
    check_status(junk, 3, "the message is no ModelInferRequest in protobuf");
    check_status(large, 8, "the message has 1073741824 bytes; the limit is 1048576");
    check_status(small, 8, "the message has 1073741824 bytes; the limit is 65536");
    check_status(packed, 13, "a message is compressed, but the call has no grpc-encoding");
    put_request("identity", "", 1, 1);
    put_request("identity", "", 1, 1);
    int32_t two = client_call(&client, INFER, body.bytes, body.length);
    client_pump(&client);
    check_status(two, 3, "the call takes one message only");
}

static void test_errors_of_models(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int status;
    } cases[] = {{"nothing", 5}, {"loading", 14}, {"offender", 3}, {"addsub", 3}};
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        tt_text_clear(&body);
        put_request(cases[i].model, "", 2, 1);
        int32_t id = client_call(&client, INFER, body.bytes, body.length);
        client_pump(&client);
        assert_int_equal(client_stream(&client, id)->grpc_status, cases[i].status);
        assert_true(strlen(client_stream(&client, id)->message) > 10);
    }
}

static void test_timeout(void **state) {
    (void)state;
    const struct client_headers headers = {.path = INFER, .timeout = "20S"};
    put_request("identity", "", 2, 1);
    int32_t id = client_call_with(&client, &headers, body.bytes, body.length, false);
    client_pump(&client);
    check_status(id, 0, "");
    int64_t timeout_ns = client.serving.last_options.timeout_ns;
    assert_true(timeout_ns > 0);
    assert_true(timeout_ns <= INT64_C(20000000000));
}

/* A large message is read beside the loop. Its time counts from when it came. */
static void test_large_counts_from_its_arrival(void **state) {
    (void)state;
    uv_loop_t loop = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    client.calls.loop = &loop;
    tt_text_clear(&body);
    put_request("identity", "", 200000, 1);
    int64_t asked_at = tt_clock_now();
    int32_t id = client_call(&client, INFER, body.bytes, body.length);
    client_pump(&client);
    assert_int_equal(client_stream(&client, id)->grpc_status, -1); /* not yet */
    uv_run(&loop, UV_RUN_DEFAULT);
    client_pump(&client);
    check_status(id, 0, "");
    assert_true(fake_since_at(&client.serving) >= asked_at - FAKE_CAME_BEFORE_NS);
    client.calls.loop = NULL;
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* --- streams --- */

static int count_answers(int32_t id, int *out_errors) {
    const char *bytes = "";
    size_t at = 0;
    int count = 0;
    long size_bytes;
    *out_errors = 0;
    while ((size_bytes = next_message(&client_stream(&client, id)->received, &at, &bytes)) >= 0) {
        Inference__ModelStreamInferResponse *answer =
            inference__model_stream_infer_response__unpack(NULL, (size_t)size_bytes,
                                                           (const uint8_t *)bytes);
        assert_non_null(answer);
        count++;
        *out_errors += *answer->error_message != '\0';
        inference__model_stream_infer_response__free_unpacked(answer, NULL);
    }
    return count;
}

/* Beyond what a stream may have in work its requests wait, and none is lost. */
static void test_stream_of_many(void **state) {
    (void)state;
    enum { MANY = 2000 };
    const struct client_headers headers = {.path = STREAM};
    int errors;
    for (int i = 0; i < MANY; i++)
        put_request("held", "x", 8, 1);
    int32_t id = client_call_with(&client, &headers, body.bytes, body.length, true);
    client_pump(&client);
    assert_int_equal(client.serving.held_count, TT_GRPC_STREAM_REQUESTS);
    assert_int_equal(client.calls.in_flight.value, 1);
    while (client.serving.held_count) {
        assert_true(client.serving.held_count <= TT_GRPC_STREAM_REQUESTS);
        fake_release_held(&client.serving);
        client_pump(&client);
    }
    assert_int_equal(count_answers(id, &errors), MANY);
    assert_int_equal(errors, 0);
    assert_false(client_stream(&client, id)->is_closed);
    client_more(&client, id, "", 0, true);
    client_pump(&client);
    check_status(id, 0, "");
}

static void test_errors_in_a_stream(void **state) {
    (void)state;
    int errors;
    put_request("identity", "1", 2, 1);
    put_request("nothing", "2", 2, 1);
    put_request("offender", "3", 2, 1);
    put_request("identity", "4", 2, 1);
    int32_t id = client_call(&client, STREAM, body.bytes, body.length);
    client_pump(&client);
    check_status(id, 0, "");
    assert_int_equal(count_answers(id, &errors), 4);
    assert_int_equal(errors, 2);
}

/* --- clients that leave --- */

/* While a model refuses, calls ask it before their inputs are read: what is refused is not read,
 * what is not is read as always. */
static void test_refused_unread(void **state) {
    (void)state;
    static const char unread[] = "\x0a\x08identity\x2a\x01\xff"; /* its input is no message */
    struct tt_text wrong;
    tt_text_init(&wrong);
    put_message(&wrong, false, unread, sizeof(unread) - 1);
    put_request("identity", "seven", 3, 1);
    fake_set_asking(&client.serving, "identity", FAKE_ASKS_AND_REFUSES);
    int32_t before = client_call(&client, INFER, wrong.bytes, wrong.length);
    client_pump(&client);
    assert_int_equal(client_stream(&client, before)->grpc_status, 3); /* nothing was refused yet */
    client.calls.asks = true;
    int32_t good = client_call(&client, INFER, body.bytes, body.length);
    int32_t bad = client_call(&client, INFER, wrong.bytes, wrong.length);
    client_pump(&client);
    check_status(good, 4, "it would be late");
    check_status(bad, 4, "it would be late");
    assert_int_equal(fake_asked_rows(&client.serving, "identity"), 2);

    fake_set_asking(&client.serving, "identity", FAKE_ASKS_AND_TAKES);
    good = client_call(&client, INFER, body.bytes, body.length);
    bad = client_call(&client, INFER, wrong.bytes, wrong.length);
    client_pump(&client);
    check_status(good, 0, "");
    const char *bytes = "";
    size_t at = 0;
    long size_bytes = next_message(&client_stream(&client, good)->received, &at, &bytes);
    check_response(bytes, size_bytes, "seven", 3, 1);
    assert_int_equal(client_stream(&client, bad)->grpc_status, 3);
    assert_int_equal(fake_asked_rows(&client.serving, "identity"), 4);

    const struct client_headers over = {.path = INFER, .timeout = "0n"};
    int32_t late = client_call_with(&client, &over, body.bytes, body.length, false);
    client_pump(&client);
    check_status(late, 4, "the time that grpc-timeout gives is over");
    fake_set_asking(&client.serving, "identity", FAKE_ASKS_NOTHING);
    (void)client_call(&client, INFER, body.bytes, body.length);
    client_pump(&client);
    assert_int_equal(fake_asked_rows(&client.serving, "identity"), 4);
    assert_false(client.calls.asks); /* until another one is refused */
    assert_int_equal(client.serving.live_count, 0);
    tt_text_fini(&wrong);
}

/* The client resets the stream of a request that is held; nothing of it is left. */
static void reset_held(int32_t id) {
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    client_pump(&client);
    assert_int_equal(client.serving.held_count, 0);
    assert_int_equal(client.serving.live_count, 0);
    assert_int_equal(client.calls.call_count, 0);
    assert_int_equal(tt_counter_get(&client.calls.gone), 1);
}

static void test_cancelled_while_asking(void **state) {
    (void)state;
    put_request("held", "", 2, 1);
    client.calls.asks = true;
    fake_set_asking(&client.serving, "held", FAKE_ASKS_AND_TAKES);
    int32_t id = client_call(&client, INFER, body.bytes, body.length);
    client_pump(&client);
    assert_int_equal(client.serving.held_count, 1);
    assert_int_equal(fake_asked_rows(&client.serving, "held"), 1);
    reset_held(id);
}

static void test_cancelled(void **state) {
    (void)state;
    put_request("held", "", 2, 1);
    int32_t id = client_call(&client, INFER, body.bytes, body.length);
    client_pump(&client);
    assert_int_equal(client.serving.held_count, 1);
    reset_held(id);
}

/* The connection ends with requests in work; tear_down checks that nothing is left. */
static void test_gone(void **state) {
    (void)state;
    put_request("held", "", 2, 1);
    put_request("held", "", 2, 1);
    client_call(&client, STREAM, body.bytes, body.length);
    const struct client_headers headers = {.path = STREAM};
    client_call_with(&client, &headers, body.bytes, body.length - 3, true);
    client_pump(&client);
    assert_int_equal(client.serving.held_count, 3);
}

static void test_stopped(void **state) {
    (void)state;
    const struct client_headers headers = {.path = STREAM};
    put_request("held", "", 2, 1);
    int32_t busy = client_call_with(&client, &headers, body.bytes, body.length, true);
    int32_t idle = client_call_with(&client, &headers, "", 0, true);
    client_pump(&client);
    tt_grpc_calls_stop(&client.calls);
    tt_http2_session_stop(&client.server);
    client_pump(&client);
    check_status(idle, 14, "the server is stopping");
    assert_true(client.has_goaway);
    assert_false(client_stream(&client, busy)->is_closed);
    fake_release_held(&client.serving);
    client_pump(&client);
    check_status(busy, 0, "");
}

/* --- compression --- */

static void test_gzip(void **state) {
    (void)state;
    static const char *const codings[] = {"gzip", "deflate"};
    for (size_t i = 0; i < TT_COUNT(codings); i++) {
        const struct client_headers headers = {
            .path = INFER, .encoding = codings[i], .accepts = "identity,deflate,gzip"};
        enum tt_coding coding = tt_coding_parse(codings[i]);
        struct tt_text packed, framed, unpacked;
        struct tt_error why;
        tt_text_clear(&body);
        put_request("identity", "id", 5000, 0);
        tt_text_init(&packed);
        tt_text_init(&framed);
        tt_text_init(&unpacked);
        const struct tt_coding_piece piece = {body.bytes + 5, body.length - 5};
        tt_coding_pack(coding, &piece, 1, &packed);
        put_message(&framed, true, packed.bytes, packed.length);
        int32_t id = client_call_with(&client, &headers, framed.bytes, framed.length, false);
        client_pump(&client);
        check_status(id, 0, "");
        const struct client_stream *stream = client_stream(&client, id);
        assert_string_equal(stream->encoding, codings[i]);
        assert_int_equal(stream->received.bytes[0], 1);
        const char *bytes = "";
        size_t at = 0;
        long size_bytes = next_message(&stream->received, &at, &bytes);
        assert_int_equal(
            tt_coding_unpack(coding, bytes, (size_t)size_bytes, 1 << 20, &unpacked, &why), TT_OK);
        check_response(unpacked.bytes, (long)unpacked.length, "id", 5000, 0);
        tt_text_fini(&packed);
        tt_text_fini(&framed);
        tt_text_fini(&unpacked);
    }
}

/* --- health --- */

static void test_watch(void **state) {
    (void)state;
    static const char serving[] = "\0\0\0\0\2\x08\1", not_serving[] = "\0\0\0\0\2\x08\2",
                      unknown[] = "\0\0\0\0\2\x08\3";
    int32_t check = client_call(&client, "/grpc.health.v1.Health/Check", "\0\0\0\0\0", 5);
    int32_t server = client_call(&client, "/grpc.health.v1.Health/Watch", "\0\0\0\0\0", 5);
    int32_t other = client_call(&client, "/grpc.health.v1.Health/Watch", "\0\0\0\0\3\x0a\1x", 8);
    int32_t missing = client_call(&client, "/grpc.health.v1.Health/Check", "\0\0\0\0\3\x0a\1x", 8);
    client_pump(&client);
    check_status(check, 0, "");
    check_status(missing, 5, "Request for unknown model: 'x' is not found");
    const struct tt_text *received = &client_stream(&client, server)->received;
    assert_memory_equal(received->bytes, serving, 7);
    assert_memory_equal(client_stream(&client, other)->received.bytes, unknown, 7);
    tt_grpc_calls_watch(&client.calls);
    client_pump(&client);
    assert_int_equal(received->length, 7);
    tt_serving_retire(&client.serving);
    tt_grpc_calls_watch(&client.calls);
    client_pump(&client);
    assert_int_equal(received->length, 14);
    assert_memory_equal(received->bytes + 7, not_serving, 7);
}

/* --- abuse --- */

static int tear_down_window(void **state) { return tear_down(state); }

static int set_up_window(void **state) {
    (void)state;
    client_init(&client, 0, true);
    tt_text_init(&body);
    return 0;
}

/* A client without a window: its answers wait, are cancelled after the limit, and leave nothing. */
static void test_zero_window(void **state) {
    (void)state;
    int32_t ids[50];
    put_request("identity", "", 20000, 1);
    for (size_t i = 0; i < TT_COUNT(ids); i++)
        ids[i] = client_call(&client, INFER, body.bytes, body.length);
    client_pump(&client);
    assert_int_equal(client.serving.live_count, TT_COUNT(ids));
    client.timers.now_ms += 999;
    tt_http2_timers_expire(&client.timers, client_touch);
    client_pump(&client);
    assert_int_equal(client.serving.live_count, TT_COUNT(ids));
    client.timers.now_ms += 1;
    tt_http2_timers_expire(&client.timers, client_touch);
    client_pump(&client);
    assert_int_equal(client.serving.live_count, 0);
    for (size_t i = 0; i < TT_COUNT(ids); i++)
        assert_int_equal(client_stream(&client, ids[i])->error_code, NGHTTP2_CANCEL);
    assert_int_equal(client.calls.call_count, 0);
}

/* A stream that is not read: at most so many answers wait. */
static void test_unread_stream(void **state) {
    (void)state;
    for (int i = 0; i < 1000; i++)
        put_request("identity", "", 16, 1);
    client_call(&client, STREAM, body.bytes, body.length);
    client_pump(&client);
    assert_int_equal(client.serving.live_count, TT_GRPC_STREAM_REQUESTS);
    client.timers.now_ms += 1000;
    tt_http2_timers_expire(&client.timers, client_touch);
    client_pump(&client);
    assert_int_equal(client.serving.live_count, 0);
}

static void test_late_body(void **state) {
    (void)state;
    const struct client_headers headers = {.path = INFER};
    int32_t id = client_call_with(&client, &headers, "\0\0\0\0\5abc", 8, true);
    client_pump(&client);
    client.timers.now_ms += 1000;
    tt_http2_timers_expire(&client.timers, client_touch);
    client_pump(&client);
    assert_int_equal(client_stream(&client, id)->grpc_status, 4);
    assert_string_equal(client_stream(&client, id)->message, "the body took too long to come");
}

static void expect_calm(void) {
    client_pump(&client);
    assert_true(client.has_goaway);
    assert_int_equal(client.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void test_rapid_reset(void **state) {
    (void)state;
    put_request("held", "", 2, 1);
    int sent = 0;
    while (!client.has_goaway && sent < CLIENT_STREAMS - 1) {
        for (int i = 0; i < 100 && sent < CLIENT_STREAMS - 1; i++, sent++) {
            int32_t id = client_call(&client, INFER, body.bytes, body.length);
            client_send(&client);
            nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
            client_send(&client);
        }
        client_pump(&client);
        assert_true(client.serving.live_count <= 100);
    }
    expect_calm();
    assert_true(sent > TT_HTTP2_TOKENS / 2);
}

/* Frames that carry nothing, by hand: `frame` again and again until the server ends it. */
static void flood(const char *frame, size_t size_bytes, bool reads) {
    int sent = 0;
    client_pump(&client);
    while (!client.is_refused && !client.server.is_calmed && sent < 100000) {
        for (int i = 0; i < 500 && client_push(&client, frame, size_bytes); i++)
            sent++;
        if (reads)
            client_pull(&client);
    }
    assert_true(sent < 20000);
    client_pull(&client);
}

static void test_ping_flood(void **state) {
    (void)state;
    flood("\0\0\x08\x06\0\0\0\0\0abcdefgh", 17, true);
}

static void test_ping_flood_unread(void **state) {
    (void)state;
    flood("\0\0\x08\x06\0\0\0\0\0abcdefgh", 17, false);
}

static void test_settings_flood(void **state) {
    (void)state;
    flood("\0\0\0\x04\0\0\0\0\0", 9, true);
}

static void test_priority_flood(void **state) {
    (void)state;
    flood("\0\0\5\x02\0\0\0\0\3\0\0\0\0\x10", 14, true);
}

static void test_empty_data_flood(void **state) {
    (void)state;
    const struct client_headers headers = {.path = STREAM};
    client_call_with(&client, &headers, "", 0, true);
    flood("\0\0\0\0\0\0\0\0\1", 9, true);
}

/* HEADERS without its end, then CONTINUATION after CONTINUATION. */
static void test_continuation_flood(void **state) {
    (void)state;
    client_pump(&client);
    assert_true(client_push(&client, "\0\0\1\x01\0\0\0\0\1\x82", 10));
    int sent = 0;
    while (client_push(&client, "\0\0\1\x09\0\0\0\0\1\x82", 10) && sent < 1000)
        sent++;
    assert_true(sent < 20);
}

static void test_many_headers(void **state) {
    (void)state;
    nghttp2_nv headers[203] = {TT_HTTP2_HEADER(":method", "POST"),
                               TT_HTTP2_HEADER(":scheme", "http"), TT_HTTP2_HEADER(":path", INFER)};
    for (size_t i = 3; i < TT_COUNT(headers); i++)
        headers[i] = (nghttp2_nv)TT_HTTP2_HEADER("x", "y");
    int32_t id =
        nghttp2_submit_request(client.session, NULL, headers, TT_COUNT(headers), NULL, NULL);
    client_pump(&client);
    assert_true(client_stream(&client, id)->is_closed);
    assert_int_equal(client_stream(&client, id)->error_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(client.calls.call_count, 0);
}

static void test_no_http2(void **state) {
    (void)state;
    assert_false(client_push(&client, "GET / HTTP/1.1\r\n\r\n0123456789", 28));
}

/* --- statuses' text forms --- */

/* Every byte at every place of a sentence, among others that stand as they are. */
static void test_every_byte(void **state) {
    (void)state;
    enum { LENGTH = 19 };
    char sentence[LENGTH + 1], expected[LENGTH + 3];
    for (int place = 0; place < LENGTH; place++)
        for (int byte = 1; byte <= 255; byte++) {
            struct tt_text text;
            bool is_plain = byte >= 0x20 && byte < 0x7f && byte != '%';
            memset(sentence, '~', LENGTH);
            sentence[LENGTH] = '\0';
            sentence[place] = (char)byte;
            snprintf(expected, sizeof(expected), is_plain ? "%.*s%c%s" : "%.*s%%%02X%s", place,
                     sentence, byte, sentence + place + 1);
            tt_text_init(&text);
            tt_grpc_status_put(&text, sentence);
            assert_string_equal(tt_text_string(&text), expected);
            tt_text_fini(&text);
        }
}

static void test_forms(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    tt_grpc_status_put(&text, "5 % of \"x\"\n\xc3\xa4");
    assert_string_equal(tt_text_string(&text), "5 %25 of \"x\"%0A%C3%A4");
    tt_text_fini(&text);
    assert_true(tt_grpc_timeout_parse("5m", 2) == 5000000);
    assert_true(tt_grpc_timeout_parse("99999999H", 9) == INT64_MAX);
    assert_true(tt_grpc_timeout_parse("1u", 2) == 1000);
    static const char *const bad[] = {"", "5", "m", "-1m", "1x", "123456789S", "1 S"};
    for (size_t i = 0; i < TT_COUNT(bad); i++)
        assert_true(tt_grpc_timeout_parse(bad[i], strlen(bad[i])) == -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define WINDOW_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_window, tear_down_window)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_unary),
        TEST(test_cut_anywhere),
        TEST(test_statuses),
        TEST(test_wrong_bodies),
        TEST(test_errors_of_models),
        TEST(test_timeout),
        TEST(test_large_counts_from_its_arrival),
        TEST(test_stream_of_many),
        TEST(test_errors_in_a_stream),
        TEST(test_cancelled),
        TEST(test_gone),
        TEST(test_stopped),
        TEST(test_gzip),
        TEST(test_watch),
        WINDOW_TEST(test_zero_window),
        WINDOW_TEST(test_unread_stream),
        TEST(test_late_body),
        TEST(test_refused_unread),
        TEST(test_cancelled_while_asking),
        TEST(test_rapid_reset),
        TEST(test_ping_flood),
        TEST(test_ping_flood_unread),
        TEST(test_settings_flood),
        TEST(test_priority_flood),
        TEST(test_empty_data_flood),
        TEST(test_continuation_flood),
        TEST(test_many_headers),
        TEST(test_no_http2),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
