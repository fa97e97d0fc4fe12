/* The HTTP side end to end over loopback sockets, with models that live in memory. Nothing here
 * measures time: a test waits for what must come, and the harness ends what hangs. */
#include "listener_world.h"

#include "base/clock.h"
#include "base/log/line_file.h"
#include "net/http/dashboard_routes.h"

/* Compares a line of the access log behind its time; "#" stands for a number. Returns the next one.
 */
static const char *expect_line(const char *line, const char *expected) {
    const char *at = strstr(line, "Z\",");
    assert_non_null(at);
    assert_memory_equal(line, "{\"time\":\"2", 10);
    for (at += 3; *expected; expected++) {
        if (*expected != '#') {
            if (*at != *expected)
                fail_msg("expected %s at %.100s", expected, at);
            at++;
            continue;
        }
        assert_true(*at >= '0' && *at <= '9');
        while ((*at >= '0' && *at <= '9') || *at == '.')
            at++;
    }
    assert_int_equal(*at, '\n');
    return at + 1;
}

static void test_pages(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    static const struct {
        const char *request;
        int status;
        const char *body; /* a part of it */
    } cases[] = {
        {GET("/"), 200, "Tutti 0.1.0"},
        {GET("/v2"), 200, "{\"name\":\"tutti\",\"version\":\"0.1.0\",\"extensions\":["},
        {GET("/v2/"), 200, "tutti"},
        {GET("http://x/v2?a=b"), 200, "tutti"},
        {GET("/v2/health/live"), 200, ""},
        {GET("/v2/health/ready"), 200, ""},
        {GET("/v2/models/addsub"), 200,
         "{\"name\":\"addsub\",\"versions\":[\"1\"],\"platform\":\"onnxruntime_onnx\",\"inputs\":[{"
         "\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[-1,4]},"},
        {GET("/v2/models/%61ddsub/versions/1"), 200, "\"outputs\":[{\"name\":\"SUM\""},
        {GET("/v2/models/addsub/ready"), 200, ""},
        {GET("/v2/models/addsub/versions/1/ready"), 200, ""},
        {GET("/v2/models/loading/ready"), 400, "{\"error\":\"model 'loading' is being loaded\"}"},
        {GET("/v2/models/loading"), 503, "being loaded"},
        {GET("/v2/models/addsub/config"), 200, "\"max_batch_size\":8"},
        {GET("/v2/models/absent"), 404, "Request for unknown model: 'absent' is not found"},
        {GET("/v2/models/addsub/versions/9"), 404, "unknown model"},
        {GET("/v2/models/addsub/nothing"), 404, "{\"error\":\"Not Found\"}"},
        {GET("/v2/models/addsub/infer"), 405, "{\"error\":\"Method Not Allowed\"}"},
        {GET("/v2/repository/index"), 405, "Not Allowed"},
        {GET("/v2/models/%ff/ready"), 400, "malformed"},
        {GET("/v2/models/%c3%a9"), 404, "unknown model: '\xc3\xa9'"},
        {GET("/nowhere"), 404, "{\"error\":\"Not Found\"}"},
        {GET("/v1/models/addsub:predict"), 404, "POST /v2/models/NAME/infer (KServe v2)"},
        {GET("/v2/systemsharedmemory/status"), 404, "start it with --shared-memory"},
        {GET("/v2/cudasharedmemory/region/x/register"), 404, "CUDA shared memory is not supported"},
        {GET("/v2/%zz"), 400, "malformed"},
        {GET("/a/b/c/d/e/f/g/h/i"), 400, "malformed"},
        {GET("/metrics"), 200, "nv_inference_count{model=\"identity\"} 1\n"},
        {"PUT /v2 HTTP/1.1\r\nHost: x\r\n\r\n", 405, "Not Allowed"},
        {"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 200,
         "[{\"name\":\"identity\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"},"},
        {"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{\"a\": 1,",
         400, "JSON, byte 8"},
        {"POST /v2/models/absent/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 404,
         "unknown model"},
        {"POST /v2/models/loading/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 503,
         "being loaded"},
        {"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\n"
         "Content-Length: 2\r\n\r\n{}",
         415, "Content-Encoding"},
        {"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
         "Content-Length: 2\r\n\r\n{}",
         400, "damaged"},
        {"GET /v2/models/stats HTTP/1.1\r\nHost: x\r\n\r\n", 200,
         "\"success\":{\"count\":3,\"ns\":0},\"fail\":{\"count\":2,\"ns\":0},\"queue\":{\"count\":"
         "3,"
         "\"ns\":5000}"},
        {"GET /v2/models/identity/versions/1/stats HTTP/1.1\r\nHost: x\r\n\r\n", 200,
         "{\"batch_size\":2,\"compute_input\":{\"count\":2,\"ns\":0},\"compute_infer\":{\"count\":"
         "2,"
         "\"ns\":700}"},
        {"GET /v2/models/absent/stats HTTP/1.1\r\nHost: x\r\n\r\n", 404, "unknown model"},
        {GET("/v2/trace/setting"), 200,
         "{\"trace_level\":[\"OFF\"],\"trace_rate\":\"1000\",\"trace_count\":\"-1\","
         "\"log_frequency\":\"0\",\"trace_file\":\"\",\"trace_mode\":\"triton\"}"},
        {GET("/v2/models/addsub/trace/setting"), 200, "\"trace_level\":[\"OFF\"]"},
        {GET("/v2/models/nobody/trace/setting"), 404, "unknown model"},
        {"POST /v2/trace/setting HTTP/1.1\r\nHost: x\r\nContent-Length: 19\r\n\r\n"
         "{\"trace_rate\": \"5\"}",
         400, "trace_rate cannot be changed"},
        {"POST /v2/trace/setting HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
         "{\"trace_rate\": null}",
         200, "\"trace_rate\":\"1000\""},
        {"POST /v2/trace/setting HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n"
         "{\"colour\": \"1\"}",
         400, "unknown trace setting 'colour'"},
        {"GET /v2/logging HTTP/1.1\r\nHost: x\r\n\r\n", 400, "no log settings"},
        {"POST /v2/repository/models/identity/load HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
         "\r\n",
         200, ""},
        {"POST /v2/repository/models/offender/unload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
         "\r\n",
         400, "load failed for model 'offender'"},
        {"POST /v2/repository/models/identity/load HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
         "\r\n[]",
         400, "expected"},
        {"OPTIONS /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n"
         "Access-Control-Request-Method: POST\r\n\r\n",
         405, "Not Allowed"},
    };
    int fd = dial(&world); /* all on one connection: no error harms the next request */
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        say_text(fd, cases[i].request);
        int status = hear(fd, true, &head, &body);
        if (status != cases[i].status || !strstr(tt_text_string(&body), cases[i].body))
            print_error("%s-> %d %s\n", cases[i].request, status, tt_text_string(&body));
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(tt_text_string(&body), cases[i].body));
    }
    say_text(fd, "POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n"
                 "{\"ready\":true}");
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_null(strstr(tt_text_string(&body), "loading"));
    say_text(fd, "HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n" GET("/v2/health/live"));
    assert_int_equal(hear(fd, false, &head, &body), 200);
    assert_null(strstr(head.bytes, "Content-Length: 0"));
    assert_int_equal(hear(fd, true, &head, &body), 200);
    close(fd);
    world_close(&world, 5000);
}

static void test_infer_json_errors_then_good(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    int fd = dial(&world);
    struct tt_text request;
    tt_text_init(&request);
    for (int round = 0; round < 3; round++) {
        tt_text_clear(&request);
        post(&request, "/v2/models/identity/infer", "", "{\"inputs\": nonsense}");
        say(fd, request.bytes, request.length);
        assert_int_equal(hear(fd, true, &head, &body), 400);
        assert_string_equal(tt_text_string(&body),
                            "{\"error\":\"JSON, byte 11: expected an array ('['), found 'n'\"}");
        tt_text_clear(&request);
        post(&request, "/v2/models/offender/infer", "", IN1);
        say(fd, request.bytes, request.length);
        assert_int_equal(hear(fd, true, &head, &body), 400);
        assert_string_equal(tt_text_string(&body),
                            "{\"error\":\"model 'offender' takes offence\"}");
        tt_text_clear(&request);
        post(&request, "/v2/models/identity/versions/1/infer", "", IN1);
        say(fd, request.bytes, request.length);
        assert_int_equal(hear(fd, true, &head, &body), 200);
        assert_int_equal(fake_since_at(&world.serving), 0); /* it was read at once */
        assert_string_equal(tt_text_string(&body), OUT1("identity"));
        assert_non_null(strstr(head.bytes, "Content-Type: application/json\r\n"));
        assert_null(strstr(head.bytes, "Inference-Header"));
    }
    fake_set_busy(&world.serving, true);
    say_text(fd, GET("/v2/health/ready"));
    assert_int_equal(hear(fd, true, &head, &body), 503);
    assert_int_equal(body.length, 0);
    tt_text_clear(&request);
    post(&request, "/v2/models/identity/infer", "", IN1);
    say(fd, request.bytes, request.length);
    assert_int_equal(hear(fd, true, &head, &body), 503);
    assert_non_null(strstr(head.bytes, "Retry-After: 1\r\n"));
    tt_text_fini(&request);
    close(fd);
    world_close(&world, 5000);
}

/* A binary tensor far larger than any buffer, sent in odd pieces, comes back bit by bit. Its time
 * counts from when it came, not from when it was read. */
static void test_large_binary(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    int fd = dial(&world);
    enum { COUNT = 700001 };
    float *values = malloc(COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i * 0.25f;
    char json[256];
    int json_bytes =
        snprintf(json, sizeof(json),
                 "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,%d],\"datatype\":\"FP32\","
                 "\"parameters\":{\"binary_data_size\":%zu}}],\"outputs\":[{\"name\":"
                 "\"OUT\",\"parameters\":{\"binary_data\":true}}]}",
                 COUNT, COUNT * sizeof(float));
    for (int round = 0; round < 2; round++) {
        struct tt_text request;
        tt_text_init(&request);
        tt_text_printf(
            &request,
            "POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
            "Inference-Header-Content-Length: %d\r\n\r\n%s",
            (size_t)json_bytes + COUNT * sizeof(float), json_bytes, json);
        tt_text_append(&request, values, COUNT * sizeof(float));
        int64_t asked_at = tt_clock_now();
        for (size_t at = 0; at < request.length; at += 99991)
            say(fd, request.bytes + at, request.length - at < 99991 ? request.length - at : 99991);
        assert_int_equal(hear(fd, true, &head, &body), 200);
        assert_non_null(strstr(head.bytes, "Content-Type: application/octet-stream\r\n"));
        assert_true(fake_since_at(&world.serving) >= asked_at - FAKE_CAME_BEFORE_NS);
        char *inference = strstr(head.bytes, "Inference-Header-Content-Length: ");
        assert_non_null(inference);
        size_t answer_json = strtoul(inference + 33, NULL, 10);
        assert_int_equal(body.length, answer_json + COUNT * sizeof(float));
        assert_memory_equal(body.bytes + answer_json, values, COUNT * sizeof(float));
        tt_text_fini(&request);
    }
    free(values);
    close(fd);
    world_close(&world, 5000);
}

/* Answers come in the order of the requests, also when some are answered on the spot and garbage
 * comes last. */
static void test_pipelining(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    int fd = dial(&world);
    struct tt_text all;
    tt_text_init(&all);
    for (int i = 0; i < 200; i++) {
        if (i % 3 == 2)
            tt_text_puts(&all, GET("/v2/health/live"));
        else
            post(&all, "/v2/models/identity/infer", "", IN1);
    }
    tt_text_puts(&all, "garbage\r\n\r\n" GET("/v2"));
    say(fd, all.bytes, all.length);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(hear(fd, true, &head, &body), 200);
        assert_string_equal(tt_text_string(&body), i % 3 == 2 ? "" : OUT1("identity"));
    }
    assert_int_equal(hear(fd, true, &head, &body), 400);
    assert_non_null(strstr(head.bytes, "Connection: close\r\n"));
    assert_int_equal(hear(fd, true, &head, &body), 0);
    tt_text_fini(&all);
    close(fd);
    world_close(&world, 5000);
}

enum { SENT_AHEAD = 200, TURN_REQUESTS = 4 }; /* at most, of one connection in a turn of 1 ns */

/* Opens a world whose turns are so short that each one handles a few requests. */
static void open_short_turns(struct world *world) {
    struct tt_listener_options options;
    tt_listener_options_default(&options);
    options.turn_ns = 1;
    world_open(world, &options);
}

/* Requests sent ahead that are answered at once are spread over turns of the loop. */
static void test_sent_ahead_in_turns(void **state) {
    (void)state;
    struct world world;
    open_short_turns(&world);
    int fd = dial(&world);
    struct tt_text all;
    tt_text_init(&all);
    for (int i = 0; i < SENT_AHEAD; i++)
        tt_text_puts(&all, GET("/v2/health/live"));
    say(fd, all.bytes, all.length);
    for (int i = 0; i < SENT_AHEAD; i++)
        assert_int_equal(hear(fd, true, &head, &body), 200);
    tt_text_fini(&all);
    close(fd);
    struct tt_listener_counts counts = world_close(&world, 5000);
    assert_true(counts.turns >= SENT_AHEAD / TURN_REQUESTS);
}

/* A body is read in pieces of 128 KiB; what is left at the end of a turn waits for the next. */
static void test_large_body_in_turns(void **state) {
    (void)state;
    enum { BYTES = 8 << 20, PIECE = 1 << 17 };
    struct world world;
    open_short_turns(&world);
    int fd = dial(&world);
    struct tt_text all, padded;
    tt_text_init(&all);
    tt_text_init(&padded);
    for (int i = 0; i < BYTES / 1024; i++)
        tt_text_printf(&padded, "%1024s", "");
    tt_text_puts(&padded, IN1);
    post(&all, "/v2/models/identity/infer", "", tt_text_string(&padded));
    say(fd, all.bytes, all.length);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_string_equal(tt_text_string(&body), OUT1("identity"));
    tt_text_fini(&padded);
    tt_text_fini(&all);
    close(fd);
    struct tt_listener_counts counts = world_close(&world, 5000);
    assert_true(counts.turns >= BYTES / PIECE);
}

static void say_frame(struct tt_text *out, char kind, char flags, int32_t stream, const char *bytes,
                      size_t count) {
    const char frame[] = {
        0,           (char)(count >> 8),   (char)count,          kind,
        flags,       (char)(stream >> 24), (char)(stream >> 16), (char)(stream >> 8),
        (char)stream};
    tt_text_append(out, frame, sizeof(frame));
    tt_text_append(out, bytes, count);
}

static void hear_exactly(int fd, char *out, size_t count) {
    for (size_t at = 0; at < count;) {
        ssize_t got = recv(fd, out + at, count - at, 0);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

/* The same over HTTP/2, whose requests are a few bytes each. */
static void test_streams_in_turns(void **state) {
    (void)state;
    static const char fields[] = "\x82\x86\x04\x0f/v2/health/live\x41\x01x";
    struct world world;
    open_short_turns(&world);
    int fd = dial(&world);
    struct tt_text all;
    tt_text_init(&all);
    tt_text_puts(&all, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    say_frame(&all, 4, 0, 0, NULL, 0);
    for (int i = 0; i < SENT_AHEAD; i++) {
        if (i % 2) /* WINDOW_UPDATE, which begins no work */
            say_frame(&all, 8, 0, 0, "\0\0\0\1", 4);
        say_frame(&all, 1, 5, 2 * i + 1, fields, sizeof(fields) - 1);
    }
    say(fd, all.bytes, all.length);
    for (int ended = 0; ended < SENT_AHEAD;) {
        char frame[9], payload[16384];
        hear_exactly(fd, frame, sizeof(frame));
        hear_exactly(fd, payload, (size_t)(uint8_t)frame[1] << 8 | (uint8_t)frame[2]);
        assert_true(frame[3] != 3 && frame[3] != 7); /* neither RST_STREAM nor GOAWAY */
        ended += frame[3] == 1 && frame[4] & 1;
    }
    tt_text_fini(&all);
    close(fd);
    struct tt_listener_counts counts = world_close(&world, 5000);
    assert_int_equal(counts.http2_requests, SENT_AHEAD);
    assert_true(counts.turns >= SENT_AHEAD / TURN_REQUESTS);
}

/* More sent ahead than the limit while a request is held: reading stops, and nothing is lost. */
static void test_sent_ahead_beyond_the_limit(void **state) {
    (void)state;
    struct tt_listener_options options;
    tt_listener_options_default(&options);
    options.limits.pipeline_bytes = 100;
    struct world world;
    world_open(&world, &options);
    int fd = dial(&world);
    struct tt_text all;
    tt_text_init(&all);
    post(&all, "/v2/models/held/infer", "", IN1);
    for (int i = 0; i < 500; i++)
        post(&all, "/v2/models/identity/infer", "", IN1);
    say(fd, all.bytes, all.length);
    fake_wait(&world.serving, &world.serving.held_count, 1);
    fake_release_held(&world.serving);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_string_equal(tt_text_string(&body), OUT1("held"));
    for (int i = 0; i < 500; i++) {
        assert_int_equal(hear(fd, true, &head, &body), 200);
        assert_string_equal(tt_text_string(&body), OUT1("identity"));
    }
    tt_text_fini(&all);
    close(fd);
    world_close(&world, 5000);
}

static void test_chunked_and_continue(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    int fd = dial(&world);
    char request[512];
    const char *json = IN1;
    snprintf(
        request, sizeof(request),
        "POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\n%.5s\r\n%zx\r\n%s\r\n0\r\n\r\n",
        json, strlen(json) - 5, json + 5);
    for (size_t i = 0; i < strlen(request); i++)
        say(fd, request + i, 1);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_string_equal(tt_text_string(&body), OUT1("identity"));
    snprintf(request, sizeof(request),
             "POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
             "Content-Length: %zu\r\n\r\n",
             strlen(json));
    say_text(fd, request);
    assert_int_equal(hear(fd, true, &head, &body), 100);
    say_text(fd, json);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    /* A body over the limit is refused without asking for it. */
    say_text(fd, "POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                 "Content-Length: 99999999999\r\n\r\n");
    assert_int_equal(hear(fd, true, &head, &body), 413);
    assert_non_null(strstr(tt_text_string(&body), "over the limit of"));
    assert_int_equal(hear(fd, true, &head, &body), 0);
    close(fd);
    world_close(&world, 5000);
}

static void test_client_that_leaves_is_cancelled(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    struct tt_text request;
    tt_text_init(&request);
    post(&request, "/v2/models/held/infer", "", IN1);
    int gone = dial(&world), stays = dial(&world);
    say(gone, request.bytes, request.length);
    fake_wait(&world.serving, &world.serving.held_count, 1);
    say(stays, request.bytes, request.length);
    fake_wait(&world.serving, &world.serving.held_count, 2);
    close(gone);
    fake_wait(&world.serving, &world.serving.cancelled_count, 1);
    fake_wait(&world.serving, &world.serving.live_count, 1);
    fake_release_held(&world.serving);
    assert_int_equal(hear(stays, true, &head, &body), 200);
    /* One that leaves in the middle of its body */
    int half = dial(&world);
    say(half, request.bytes, request.length - 10);
    close(half);
    tt_text_fini(&request);
    close(stays);
    struct tt_listener_counts counts = world_close(&world, 5000);
    assert_int_equal(counts.answered, 1);
    assert_int_equal(counts.gone, 1);
}

static void wait_for_lines(const char *path, int wanted) {
    struct tt_text text;
    struct tt_error why;
    int count;
    do {
        count = 0;
        tt_text_init(&text);
        assert_int_equal(tt_text_read_file(path, 1 << 16, &text, &why), TT_OK);
        for (size_t i = 0; i < text.length; i++)
            count += text.bytes[i] == '\n';
        tt_text_fini(&text);
        usleep(1000);
    } while (count < wanted);
}

/* Lines of the access log: one per request, with its end; none has the memory of another one. */
static void test_access_log(void **state) {
    (void)state;
    char path[] = "/tmp/tutti-access-XXXXXX";
    close(mkstemp(path));
    struct tt_line_file_options file = {
        .path = path, .name = "a log", .room_bytes = 1 << 16, .writers = connection_threads};
    struct tt_listener_options options;
    struct tt_error why;
    tt_listener_options_default(&options);
    assert_int_equal(tt_line_file_open(&file, &options.access_lines, &why), TT_OK);
    struct world world;
    world_open(&world, &options);
    struct tt_text request;
    tt_text_init(&request);
    int fd = dial(&world);
    post(&request, "/v2/models/identity/infer", "", "{\"id\":\"a \\\"b\\\"\"," IN1_INPUTS);
    say(fd, request.bytes, request.length);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    say_text(fd, "HEAD /v2?q=\"1\" HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(hear(fd, false, &head, &body), 200);
    say_text(fd, GET("/v2/models/none"));
    assert_int_equal(hear(fd, true, &head, &body), 404);
    say_text(fd, "rubbish\r\n\r\n");
    assert_int_equal(hear(fd, true, &head, &body), 400);
    close(fd);
    wait_for_lines(path, 4); /* of another thread than the next one's */
    tt_text_clear(&request);
    post(&request, "/v2/models/held/infer", "", IN1);
    int gone = dial(&world);
    say(gone, request.bytes, request.length);
    fake_wait(&world.serving, &world.serving.held_count, 1);
    close(gone);
    fake_wait(&world.serving, &world.serving.cancelled_count, 1);
    tt_text_fini(&request);
    struct tt_listener_counts counts = world_close(&world, 5000);
    tt_line_file_close(options.access_lines);
    assert_int_equal(counts.by_status[200 - TT_HTTP_STATUS_FIRST], 2);
    assert_int_equal(counts.by_status[404 - TT_HTTP_STATUS_FIRST], 1);
    struct tt_text written;
    tt_text_init(&written);
    assert_int_equal(tt_text_read_file(path, 1 << 16, &written, &why), TT_OK);
    unlink(path);
    static const char *const lines[] = {
        "\"method\":\"POST\",\"path\":\"/v2/models/identity/"
        "infer\",\"status\":200,\"ms\":#,\"bytes\":#,"
        "\"client\":\"127.0.0.1\",\"model\":\"identity\",\"batch\":1,\"id\":\"a \\\"b\\\"\"}",
        "\"method\":\"HEAD\",\"path\":\"/"
        "v2?q=\\u00221\\u0022\",\"status\":200,\"ms\":#,\"bytes\":0,\"client\":\"127.0.0.1\"}",
        "\"method\":\"GET\",\"path\":\"/v2/models/none\",\"status\":404,\"ms\":#,\"bytes\":#,"
        "\"client\":\"127.0.0.1\",\"model\":\"none\"}",
        "\"method\":\"\",\"path\":\"\",\"status\":400,\"ms\":#,\"bytes\":#,\"client\":\"127.0.0."
        "1\"}",
        "\"method\":\"POST\",\"path\":\"/v2/models/held/"
        "infer\",\"status\":499,\"ms\":#,\"bytes\":0,"
        "\"client\":\"127.0.0.1\",\"model\":\"held\"}",
    };
    const char *at = written.bytes;
    for (size_t i = 0; i < TT_COUNT(lines); i++)
        at = expect_line(at, lines[i]);
    assert_int_equal(*at, '\0');
    tt_text_fini(&written);
}

static void test_stop_finishes_what_is_in_flight(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    struct tt_text request;
    tt_text_init(&request);
    post(&request, "/v2/models/held/infer", "", IN1);
    int busy = dial(&world), idle = dial(&world);
    say_text(idle, GET("/v2/health/live"));
    assert_int_equal(hear(idle, true, &head, &body), 200);
    say(busy, request.bytes, request.length);
    fake_wait(&world.serving, &world.serving.held_count, 1);
    tt_listener_stop(world.listener, 60000);
    assert_int_equal(hear(idle, true, &head, &body), 0); /* it is closed, so stopping has begun */
    fake_release_held(&world.serving);
    assert_int_equal(hear(busy, true, &head, &body), 200);
    assert_non_null(strstr(head.bytes, "Connection: close\r\n"));
    assert_int_equal(hear(busy, true, &head, &body), 0);
    tt_text_fini(&request);
    close(busy);
    close(idle);
    struct tt_listener_counts counts = world_close(&world, 60000);
    assert_int_equal(counts.answered, 2);
}

static void test_stop_cuts_off_after_its_grace(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    struct tt_text request;
    tt_text_init(&request);
    post(&request, "/v2/models/held/infer", "", IN1);
    int busy = dial(&world), half = dial(&world);
    say(half, request.bytes, 30);
    say(busy, request.bytes, request.length);
    fake_wait(&world.serving, &world.serving.held_count, 1);
    struct tt_listener_counts counts = world_close(&world, 20);
    assert_int_equal(counts.gone, 1);
    tt_text_fini(&request);
    close(busy);
    close(half);
}

static void test_timeouts_and_connection_limit(void **state) {
    (void)state;
    struct tt_listener_options options;
    tt_listener_options_default(&options);
    options.limits.idle_timeout_ms = options.limits.header_timeout_ms = 30;
    options.limits.body_timeout_ms = 30;
    options.limits.connections = 1;
    struct world world;
    world_open(&world, &options);
    int fd = dial(&world);
    say_text(fd, "GET /v2 HT");
    assert_int_equal(hear(fd, true, &head, &body), 408);
    assert_non_null(strstr(tt_text_string(&body), "headers took too long"));
    close(fd);
    do { /* until the first is gone, there is one connection too many */
        fd = dial(&world);
        say_text(fd, "POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
        int status = hear(fd, true, &head, &body);
        assert_true(status == 408 || status == 503);
        if (status == 408)
            break;
        assert_non_null(strstr(tt_text_string(&body), "too many connections"));
        close(fd);
    } while (true);
    assert_non_null(strstr(tt_text_string(&body), "body took too long"));
    assert_int_equal(hear(fd, true, &head, &body), 0);
    int second =
        dial(&world); /* while the first lingers or idles, or alone: it is closed in any case */
    int status;
    while ((status = hear(second, true, &head, &body)) != 0)
        assert_int_equal(status, 503);
    close(second);
    close(fd);
    world_close(&world, 5000);
}

static void test_open_errors(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    struct tt_listener_options options;
    tt_listener_options_default(&options);
    options.tcp_port = tt_listener_tcp_port(world.listener);
    struct tt_listener *second = NULL;
    struct tt_error why;
    assert_int_equal(tt_listener_open(&world.serving, &options, &second, &why), TT_ERR_IO);
    assert_null(second);
    assert_non_null(strstr(why.text, "address already in use"));
    options.tcp_port = 70000;
    assert_int_equal(tt_listener_open(&world.serving, &options, &second, &why), TT_ERR_INVALID);
    options.tcp_port = 0;
    options.host = "256.1.1.1.1";
    assert_int_equal(tt_listener_open(&world.serving, &options, &second, &why), TT_ERR_INVALID);
    options.host = "127.0.0.1"; /* opened, and never run */
    assert_int_equal(tt_listener_open(&world.serving, &options, &second, &why), TT_OK);
    tt_listener_close(second);
    tt_listener_close(NULL);
    world_close(&world, 0);
}

/* ---- requests that ask first ---- */

#define UNREAD "\"inputs\":[{\"nonsense\"]" /* what reading it would find wrong */

static void expect(int fd, int status, const char *said) {
    assert_int_equal(hear(fd, true, &head, &body), status);
    if (!strstr(tt_text_string(&body), said))
        print_error("%s\n", tt_text_string(&body));
    assert_non_null(strstr(tt_text_string(&body), said));
}

/* Sent together, answered in order: what is refused is not read, what is not is read as always. */
static void test_refused_unread(void **state) {
    (void)state;
    struct world world;
    struct tt_text requests;
    static const char refusal[] = "{\"error\":\"it would be late\"}";
    tt_text_init(&requests);
    world_open(&world, NULL);
    int fd = dial(&world);
    fake_set_asking(&world.serving, "identity", FAKE_ASKS_AND_REFUSES);
    fake_set_asking(&world.serving, "addsub", FAKE_ASKS_AND_TAKES);
    post(&requests, "/v2/models/identity/infer", "", IN1);
    post(&requests, "/v2/models/identity/infer", "", "{" UNREAD "}");
    post(&requests, "/v2/models/addsub/infer", "", "{" UNREAD "}");
    post(&requests, "/v2/models/nobody/infer", "", "{" UNREAD "}");
    post(&requests, "/v2/models/identity/infer", "",
         "{\"parameters\":{\"timeout\":-1}," UNREAD "}");
    post(&requests, "/v2/models/identity/infer", "",
         "{\"parameters\":{\"timeout\":2000000}," IN1_INPUTS);
    post(&requests, "/v2/models/identity/infer", "Expect: 100-continue\r\n", IN1);
    tt_text_puts(&requests, GET("/v2/health/live"));
    say(fd, requests.bytes, requests.length);
    expect(fd, 503, refusal);
    assert_non_null(strstr(head.bytes, "Retry-After: 1\r\n"));
    expect(fd, 503, refusal);
    expect(fd, 400, "JSON, byte ");
    expect(fd, 404, "unknown model");
    expect(fd, 400, "is -1; it must be an integer");
    expect(fd, 200, OUT1("identity")); /* it has more time than those that are refused */
    expect(fd, 503, refusal);
    expect(fd, 200, "");
    assert_int_equal(fake_asked_rows(&world.serving, "identity"), 3);
    assert_int_equal(fake_asked_rows(&world.serving, "addsub"), 1);
    close(fd);
    world_close(&world, 5000);
    tt_text_fini(&requests);
}

/* The rows of a binary body are known from its size. */
static void test_asks_for_its_rows(void **state) {
    (void)state;
    struct world world;
    struct tt_text request;
    static const char json[] =
        "{\"id\":\"seven\",\"inputs\":["
        "{\"name\":\"A\",\"shape\":[3,4],\"datatype\":\"INT32\",\"parameters\":"
        "{\"binary_data_size\":48}},"
        "{\"name\":\"B\",\"shape\":[3,4],\"datatype\":\"INT32\",\"parameters\":"
        "{\"binary_data_size\":48}}]}";
    const char zeros[9 * 32] = {0};
    tt_text_init(&request);
    world_open(&world, NULL);
    int fd = dial(&world);
    fake_set_asking(&world.serving, "addsub", FAKE_ASKS_AND_TAKES);
    for (size_t rows = 3; rows <= 9;
         rows += 6) { /* more than the largest batch: nothing is asked */
        tt_text_clear(&request);
        tt_text_printf(&request,
                       "POST /v2/models/addsub/infer HTTP/1.1\r\nHost: x\r\n"
                       "Inference-Header-Content-Length: %zu\r\nContent-Length: %zu\r\n\r\n%s",
                       sizeof(json) - 1, sizeof(json) - 1 + rows * 32, json);
        tt_text_append(&request, zeros, rows * 32);
        say(fd, request.bytes, request.length);
        expect(fd, rows == 3 ? 200 : 400,
               rows == 3 ? "{\"id\":\"seven\"," : "additional input data");
        assert_int_equal(fake_asked_rows(&world.serving, "addsub"), 3);
    }
    close(fd);
    world_close(&world, 5000);
    tt_text_fini(&request);
}

/* The client goes while its model is asked. */
static void test_leaves_while_asking(void **state) {
    (void)state;
    struct world world;
    struct tt_text request;
    tt_text_init(&request);
    world_open(&world, NULL);
    post(&request, "/v2/models/held/infer", "", IN1);
    for (int asking = FAKE_ASKS_AND_TAKES; asking <= FAKE_ASKS_AND_REFUSES; asking++) {
        int fd = dial(&world);
        fake_set_asking(&world.serving, "held", (enum fake_asking)asking);
        say(fd, request.bytes, request.length);
        fake_wait(&world.serving, &world.serving.held_count, 1);
        close(fd);
        fake_wait(&world.serving, &world.serving.cancelled_count, asking);
        fake_wait(&world.serving, &world.serving.live_count, 0);
    }
    struct tt_listener_counts counts = world_close(&world, 5000);
    assert_int_equal(counts.gone, 2);
    tt_text_fini(&request);
}

/* ---- the live page's port ---- */

#define ASK(method, path, headers)                                                                 \
    method " " path " HTTP/1.1\r\n" headers "Content-Length: 2\r\n\r\n{}"

struct dashboard_case {
    const char *request;
    int status;
    const char *said; /* a part of head or body */
};

static void check_dashboard(const struct tt_dashboard_access *access,
                            const struct dashboard_case *cases, size_t count) {
    struct world world;
    struct tt_listener_options options;
    tt_listener_options_default(&options);
    options.dashboard = access;
    world_open(&world, &options);
    for (size_t i = 0; i < count; i++) {
        int fd = dial(&world);
        say_text(fd, cases[i].request);
        int status = hear(fd, true, &head, &body);
        if (status != cases[i].status)
            print_error("%s\n%s\n", cases[i].request, tt_text_string(&body));
        assert_int_equal(status, cases[i].status);
        assert_true(strstr(tt_text_string(&head), cases[i].said) ||
                    strstr(tt_text_string(&body), cases[i].said));
        close(fd);
    }
    world_close(&world, 1000);
}

static void test_dashboard_shows_only(void **state) {
    (void)state;
    static const struct tt_dashboard_access access = {.host = "page.example"};
    static const struct dashboard_case cases[] = {
        {ASK("GET", "/", "Host: 127.0.0.1:1\r\n"), 200,
         "Content-Security-Policy: default-src 'none'"},
        {ASK("GET", "/", "Host: 127.0.0.1:1\r\n"), 200, "<!doctype html>"},
        {ASK("GET", "/dashboard.css", "Host: localhost\r\n"), 200, "Content-Type: text/css"},
        {ASK("GET", "/dashboard.js", "Host: [::1]:1\r\n"), 200, "Content-Type: text/javascript"},
        {ASK("GET", "/state", "Host: LOCALHOST:1\r\n"), 200, "{\"admin\":0,\"query\":\"\"}"},
        {ASK("GET", "/state?after=1", "Host: page.example:80\r\n"), 200, "\"query\":\"after=1\""},
        {ASK("GET", "/state?wrong", "Host: localhost\r\n"), 400, "a wrong query"},
        {ASK("POST", "/state", "Host: localhost\r\n"), 405, "Allow: GET, HEAD"},
        /* A site whose name was made to mean this machine. */
        {ASK("GET", "/", "Host: evil.example\r\n"), 403, "Host header has another name"},
        {ASK("GET", "/state", "Host: 127.0.0.1.evil.example:1\r\n"), 403, "another name"},
        {ASK("GET", "/state", "Host: localhost.evil.example\r\n"), 403, "another name"},
        {ASK("GET", "/metrics", "Host: evil.example\r\n"), 403, "another name"},
        {ASK("GET", "/state", "Host: \r\n"), 403, "another name"},
        {ASK("GET", "/state", "Host: [::1\r\n"), 403, "another name"},
        /* A site that makes a browser ask. */
        {ASK("GET", "/state", "Host: localhost:1\r\nOrigin: http://localhost:1\r\n"), 200, "admin"},
        {ASK("GET", "/state", "Host: localhost:1\r\nOrigin: http://localhost:2\r\n"), 403,
         "Origin"},
        {ASK("GET", "/state", "Host: localhost:1\r\nOrigin: null\r\n"), 403, "Origin"},
        {ASK("GET", "/state", "Host: localhost:1\r\nOrigin: http://evil.example\r\n"), 403,
         "Origin"},
        {ASK("POST", "/v2/models/identity/infer",
             "Host: localhost:1\r\nOrigin: http://evil.example\r\n"),
         403, "Origin"},
        /* It changes nothing, but for the others it is the ordinary port. */
        {ASK("POST", "/v2/repository/models/identity/load", "Host: localhost\r\n"), 403,
         "--dashboard-admin"},
        {ASK("POST", "/v2/repository/models/identity/%75nload", "Host: localhost\r\n"), 403,
         "--dashboard-admin"},
        {ASK("POST", "/v2/logging", "Host: localhost\r\n"), 403, "--dashboard-admin"},
        {ASK("POST", "/v2/trace/setting", "Host: localhost\r\n"), 403, "--dashboard-admin"},
        {ASK("POST", "/v2/models/identity/trace/setting", "Host: localhost\r\n"), 403,
         "--dashboard-admin"},
        {ASK("POST", "/v2/repository/index", "Host: localhost\r\n"), 200, "identity"},
        {ASK("GET", "/v2/models/identity", "Host: localhost\r\n"), 200, "FP32"},
        {ASK("POST", "/v2/models/identity/infer", "Host: localhost\r\n"), 400, "inputs"},
        {ASK("GET", "/metrics", "Host: localhost\r\n"), 200, "nv_inference_count"},
    };
    check_dashboard(&access, cases, TT_COUNT(cases));
}

static void test_dashboard_admin(void **state) {
    (void)state;
    static const struct tt_dashboard_access access = {.is_admin = true};
    static const struct dashboard_case cases[] = {
        {ASK("GET", "/state", "Host: localhost\r\n"), 200, "{\"admin\":1"},
        {ASK("POST", "/v2/repository/models/identity/load",
             "Host: localhost:1\r\nOrigin: http://localhost:1\r\n"),
         200, ""},
        {ASK("POST", "/v2/repository/models/identity/unload", "Host: localhost:1\r\n"), 200, ""},
        {ASK("POST", "/v2/repository/models/identity/load",
             "Host: localhost:1\r\nOrigin: http://evil.example\r\n"),
         403, "Origin"},
        {ASK("POST", "/v2/repository/models/identity/load",
             "Host: localhost:1\r\nOrigin: http://localhost:1\r\n"
             "Origin: http://evil.example\r\n"),
         403, "Origin"},
        {ASK("POST", "/v2/repository/models/identity/load",
             "Host: evil.example:1\r\nOrigin: http://evil.example:1\r\n"),
         403, "another name"},
    };
    check_dashboard(&access, cases, TT_COUNT(cases));
}

/* The ordinary port has no page, and answers whatever it is called. */
static void test_no_dashboard(void **state) {
    (void)state;
    static const struct dashboard_case cases[] = {
        {ASK("GET", "/state", "Host: localhost\r\n"), 404, "Not Found"},
        {ASK("GET", "/dashboard.js", "Host: localhost\r\n"), 404, "Not Found"},
        {ASK("GET", "/v2", "Host: evil.example\r\nOrigin: http://x\r\n"), 200, "tutti"},
    };
    check_dashboard(NULL, cases, TT_COUNT(cases));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_dashboard_shows_only),
        cmocka_unit_test(test_dashboard_admin),
        cmocka_unit_test(test_no_dashboard),
        cmocka_unit_test(test_infer_json_errors_then_good),
        cmocka_unit_test(test_large_binary),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_sent_ahead_in_turns),
        cmocka_unit_test(test_large_body_in_turns),
        cmocka_unit_test(test_streams_in_turns),
        cmocka_unit_test(test_sent_ahead_beyond_the_limit),
        cmocka_unit_test(test_chunked_and_continue),
        cmocka_unit_test(test_client_that_leaves_is_cancelled),
        cmocka_unit_test(test_access_log),
        cmocka_unit_test(test_stop_finishes_what_is_in_flight),
        cmocka_unit_test(test_stop_cuts_off_after_its_grace),
        cmocka_unit_test(test_timeouts_and_connection_limit),
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_refused_unread),
        cmocka_unit_test(test_asks_for_its_rows),
        cmocka_unit_test(test_leaves_while_asking),
    };
    alarm(120); /* a test that hangs is a test that fails */
    int failed = 0;
    for (connection_threads = 1; connection_threads <= 3; connection_threads += 2) {
        print_message("connection threads: %d\n", connection_threads);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    tt_text_fini(&head);
    tt_text_fini(&body);
    return failed;
}
