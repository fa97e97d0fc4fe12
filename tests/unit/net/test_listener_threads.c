/* Several connection threads of one listener: how clients are spread over them, which limits hold
 * for all together, and what is done beside them. Over loopback sockets, with models that live in
 * memory; nothing here measures time. */
#include "listener_world.h"

#include "net/http/model_pages.h"

enum { SPREAD_THREADS = 4 };

static int32_t connections_of(const struct world *world, int32_t thread) {
    return tt_listener_thread_counts(world->listener, thread).connections;
}

static int dial_and_ask(const struct world *world) {
    int fd = dial(world);
    say_text(fd, GET("/v2/health/live"));
    assert_int_equal(hear(fd, true, &head, &body), 200);
    return fd;
}

/* A new client goes to the thread with the fewest connections. */
static void test_clients_are_spread(void **state) {
    (void)state;
    struct world world;
    int fds[3 * SPREAD_THREADS];
    connection_threads = SPREAD_THREADS;
    world_open(&world, NULL);
    for (size_t i = 0; i < TT_COUNT(fds); i++)
        fds[i] = dial_and_ask(&world);
    int64_t requests = 0;
    for (int32_t t = 0; t < SPREAD_THREADS; t++) {
        assert_int_equal(connections_of(&world, t), 3);
        requests += tt_listener_thread_counts(world.listener, t).requests;
    }
    assert_int_equal(requests, TT_COUNT(fds));
    for (size_t i = 1; i < TT_COUNT(fds); i += SPREAD_THREADS) /* those of one thread leave */
        close(fds[i]);
    int32_t emptied = -1;
    for (; emptied < 0; usleep(1000))
        for (int32_t t = 0; t < SPREAD_THREADS; t++)
            emptied = connections_of(&world, t) == 0 ? t : emptied;
    for (size_t i = 1; i < TT_COUNT(fds); i += SPREAD_THREADS)
        fds[i] = dial_and_ask(&world);
    for (int32_t t = 0; t < SPREAD_THREADS; t++)
        assert_int_equal(connections_of(&world, t), 3);
    say_text(fds[0], GET("/metrics"));
    assert_int_equal(hear(fds[0], true, &head, &body), 200);
    assert_non_null(
        strstr(tt_text_string(&body), "tutti_http_thread_connections{thread=\"3\"} 3\n"));
    assert_non_null(strstr(tt_text_string(&body), "\ntutti_http_connections 12\n"));
    for (size_t i = 0; i < TT_COUNT(fds); i++)
        close(fds[i]);
    world_close(&world, 5000);
}

enum { MANY = 5 * TT_SHARED_PAGE_MODELS };

static struct tt_catalogue *many_models(void) {
    struct tt_catalogue *catalogue = tt_catalogue_new(MANY);
    assert_non_null(catalogue);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof(name), "many_%02d", i);
        const struct tt_catalogue_entry entry = {.name = name, .version = "1"};
        assert_int_equal(tt_catalogue_add(catalogue, &entry), TT_OK);
    }
    tt_catalogue_seal(catalogue);
    return catalogue;
}

/* Pages that are written beside the loop are whole, in order with other answers of the connection,
 * and counted once, also if their client leaves. */
static void test_pages_of_many_models(void **state) {
    (void)state;
    struct world world;
    world_open(&world, NULL);
    fake_set_catalogue(&world.serving, many_models());
    for (int i = 0; i < 20; i++) {
        int fd = dial(&world);
        say_text(fd, i % 2 ? GET("/metrics") : GET("/v2/models/stats"));
        close(fd);
    }
    int fd = dial(&world);
    say_text(fd, GET("/metrics") GET("/v2/health/live") GET("/v2/models/stats"));
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_non_null(strstr(head.bytes, "Content-Type: text/plain; version=0.0.4"));
    const char *at = body.bytes;
    for (int i = 0; i < MANY; i++) {
        char sample[64];
        snprintf(sample, sizeof(sample), "\nnv_inference_count{model=\"many_%02d\"} 1\n", i);
        at = strstr(at, sample);
        assert_non_null(at);
    }
    assert_non_null(strstr(at, "\ntutti_scheduler_turns_total 1\n"));
    assert_non_null(strstr(at, "\ntutti_http_requests_total "));
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_int_equal(body.length, 0);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    assert_non_null(strstr(body.bytes, "\"model_stats\""));
    say_text(fd, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n" GET("/v2/health/live"));
    assert_int_equal(hear(fd, false, &head, &body), 200);
    assert_int_equal(hear(fd, true, &head, &body), 200);
    close(fd);
    world_close(&world, 5000);
}

/* When a client holds all other connections, the last ones answer health and metrics. */
static void test_reserved(void **state) {
    (void)state;
    enum { PLACES = 128, RESERVED = PLACES / 64 };
    struct tt_listener_options options;
    struct world world;
    int fds[PLACES - RESERVED], fd;
    tt_listener_options_default(&options);
    options.limits.connections = PLACES;
    world_open(&world, &options);
    for (size_t i = 0; i < TT_COUNT(fds); i++) {
        fds[i] = dial(&world);
        say_text(fds[i], GET("/v2"));
        assert_int_equal(hear(fds[i], true, &head, &body), 200);
    }
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {GET("/v2/health/ready"), 200},
        {GET("/v2/health/live"), 200},
        {GET("/metrics"), 200},
        {GET("/metrics?x"), 200},
        {GET("/metricsx"), 503},
        {GET("/v2"), 503},
        {"POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 503},
        {"GET /v2/health", 503}, /* not finished in time */
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        fd = dial(&world);
        say_text(fd, cases[i].request);
        if (hear(fd, true, &head, &body) != cases[i].status)
            fail_msg("%s: %s", cases[i].request, tt_text_string(&head));
        if (cases[i].status == 503)
            assert_non_null(strstr(tt_text_string(&body), "too many connections"));
        assert_int_equal(hear(fd, true, &head, &body), 0); /* one request only */
        close(fd);
    }
    for (size_t i = 0; i < TT_COUNT(fds); i++) {
        say_text(fds[i], GET("/v2"));
        assert_int_equal(hear(fds[i], true, &head, &body), 200);
        close(fds[i]);
    }
    world_close(&world, 5000);
}

/* Clients that hold all connections, the reserved ones too, and ask nothing there, are in no one's
 * way: the one that has waited longest gives its place to the next. */
static void test_reserved_are_taken_over(void **state) {
    (void)state;
    enum { PLACES = 50, IDLE = 3 };
    struct tt_listener_options options;
    struct world world;
    int fds[PLACES - 1], idle[IDLE];
    tt_listener_options_default(&options);
    options.limits.connections = PLACES;
    world_open(&world, &options);
    for (size_t i = 0; i < TT_COUNT(fds); i++) {
        fds[i] = dial(&world);
        say_text(fds[i], GET("/v2"));
        assert_int_equal(hear(fds[i], true, &head, &body), 200);
    }
    for (size_t i = 0; i < IDLE; i++)
        idle[i] = dial(&world); /* each takes the place of the one before */
    for (size_t i = 0; i < 2 * IDLE; i++) {
        int fd = dial(&world);
        say_text(fd, i % 2 ? GET("/v2/health/ready") : GET("/metrics"));
        assert_int_equal(hear(fd, true, &head, &body), 200);
        close(fd);
    }
    for (size_t i = 0; i < IDLE; i++) {
        assert_int_equal(hear(idle[i], true, &head, &body), 503);
        assert_non_null(strstr(tt_text_string(&body), "too many connections"));
        close(idle[i]);
    }
    say_text(fds[0], GET("/v2")); /* no other place was touched */
    assert_int_equal(hear(fds[0], true, &head, &body), 200);
    for (size_t i = 0; i < TT_COUNT(fds); i++)
        close(fds[i]);
    world_close(&world, 5000);
}

/* The limit of connections holds for all threads together, and a place that is left can be taken on
 * another thread. */
static void test_limit_of_all_threads(void **state) {
    (void)state;
    struct tt_listener_options options;
    tt_listener_options_default(&options);
    options.limits.connections = SPREAD_THREADS - 1;
    struct world world;
    int fds[SPREAD_THREADS - 1];
    connection_threads = SPREAD_THREADS;
    world_open(&world, &options);
    for (size_t i = 0; i < TT_COUNT(fds); i++)
        fds[i] = dial_and_ask(&world);
    int over = dial(&world);
    say_text(over, GET("/v2/health/live"));
    assert_int_equal(hear(over, true, &head, &body), 503);
    assert_non_null(strstr(tt_text_string(&body), "too many connections"));
    close(over);
    close(fds[0]);
    int status = 503;
    while (status == 503) { /* until the server has seen that the first one left */
        over = dial(&world);
        say_text(over, GET("/v2/health/live"));
        status = hear(over, true, &head, &body);
        close(over);
    }
    assert_int_equal(status, 200);
    for (size_t i = 1; i < TT_COUNT(fds); i++)
        close(fds[i]);
    world_close(&world, 5000);
}

/* Clients that send half a request, or do not read their answer, hold up no one: neither on their
 * own thread nor on another one. */
static void test_slow_clients_hold_no_one(void **state) {
    (void)state;
    enum { FLOATS = 4 << 20 };
    struct world world;
    int half[SPREAD_THREADS], deaf[SPREAD_THREADS];
    connection_threads = SPREAD_THREADS;
    world_open(&world, NULL);
    char json[256];
    int json_bytes =
        snprintf(json, sizeof(json),
                 "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,%d],\"datatype\":\"FP32\","
                 "\"parameters\":{\"binary_data_size\":%d}}],\"outputs\":[{\"name\":"
                 "\"OUT\",\"parameters\":{\"binary_data\":true}}]}",
                 FLOATS, FLOATS * 4);
    struct tt_text large;
    tt_text_init(&large);
    tt_text_printf(&large,
                   "POST /v2/models/identity/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                   "Inference-Header-Content-Length: %d\r\n\r\n%s",
                   json_bytes + FLOATS * 4, json_bytes, json);
    char *zeros = calloc(FLOATS, 4);
    tt_text_append(&large, zeros, (size_t)FLOATS * 4);
    free(zeros);
    for (int i = 0; i < SPREAD_THREADS; i++) {
        half[i] = dial(&world);
        say(half[i], large.bytes, 1000);
        deaf[i] = dial(&world);
        say(deaf[i], large.bytes, large.length);
    }
    for (int i = 0; i < 3 * SPREAD_THREADS; i++)
        close(dial_and_ask(&world));
    for (int i = 0; i < SPREAD_THREADS; i++) {
        assert_int_equal(hear(deaf[i], true, &head, &body), 200); /* its answer waited for it */
        close(half[i]);
        close(deaf[i]);
    }
    tt_text_fini(&large);
    struct tt_listener_counts counts = world_close(&world, 5000);
    assert_int_equal(counts.answered, 4 * SPREAD_THREADS);
}

/* What is in flight on any thread is finished before the server ends; a client that was accepted
 * and asks meanwhile is answered or closed, never left. */
static void test_stop_of_all_threads(void **state) {
    (void)state;
    struct world world;
    int busy[2 * SPREAD_THREADS];
    connection_threads = SPREAD_THREADS;
    world_open(&world, NULL);
    struct tt_text request;
    tt_text_init(&request);
    post(&request, "/v2/models/held/infer", "", IN1);
    for (size_t i = 0; i < TT_COUNT(busy); i++) {
        busy[i] = dial(&world);
        say(busy[i], request.bytes, request.length);
    }
    fake_wait(&world.serving, &world.serving.held_count, (int)TT_COUNT(busy));
    int late = dial(&world); /* accepted perhaps, and handed over while the server stops */
    tt_listener_stop(world.listener, 60000);
    assert_int_equal(hear(late, true, &head, &body), 0);
    fake_release_held(&world.serving);
    for (size_t i = 0; i < TT_COUNT(busy); i++) {
        assert_int_equal(hear(busy[i], true, &head, &body), 200);
        assert_int_equal(hear(busy[i], true, &head, &body), 0);
        close(busy[i]);
    }
    tt_text_fini(&request);
    close(late);
    struct tt_listener_counts counts = world_close(&world, 60000);
    assert_int_equal(counts.answered, TT_COUNT(busy));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_are_spread),
        cmocka_unit_test(test_pages_of_many_models),
        cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_reserved_are_taken_over),
        cmocka_unit_test(test_limit_of_all_threads),
        cmocka_unit_test(test_slow_clients_hold_no_one),
        cmocka_unit_test(test_stop_of_all_threads),
    };
    alarm(120); /* a test that hangs is a test that fails */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tt_text_fini(&head);
    tt_text_fini(&body);
    return failed;
}
