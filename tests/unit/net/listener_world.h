/* A listener over loopback sockets with models that live in memory (fake_serving.h), on a thread of
 * its own, and clients of it. Nothing here measures time. Include it in exactly one source of a
 * program. All functions are inline; there is no .c file. */
#ifndef TT_TESTS_LISTENER_WORLD_H
#define TT_TESTS_LISTENER_WORLD_H

#include "fake_serving.h"

#include "net/http/listener.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int32_t connection_threads; /* of the listeners of this run */

struct world {
    struct tt_serving serving;
    struct tt_listener *listener;
    pthread_t thread;
};

static inline void *run_listener(void *context) {
    tt_listener_run(context);
    return NULL;
}

static inline void world_open(struct world *world, const struct tt_listener_options *given) {
    struct tt_listener_options options;
    struct tt_error why;
    tt_listener_options_default(&options);
    if (given)
        options = *given;
    options.tcp_port = 0;
    options.threads = connection_threads;
    options.server_version = "0.1.0";
    fake_serving_init(&world->serving);
    assert_int_equal(tt_listener_open(&world->serving, &options, &world->listener, &why), TT_OK);
    assert_true(tt_listener_tcp_port(world->listener) > 0);
    assert_int_equal(pthread_create(&world->thread, NULL, run_listener, world->listener), 0);
}

/* Stops, and checks that every request was accounted for. */
static inline struct tt_listener_counts world_close(struct world *world, int64_t grace_ms) {
    tt_listener_stop(world->listener, grace_ms);
    pthread_join(world->thread, NULL);
    struct tt_listener_counts counts = tt_listener_counts(world->listener);
    assert_int_equal(counts.connections, 0);
    assert_int_equal(counts.in_flight, 0);
    assert_int_equal(counts.requests, counts.answered + counts.gone);
    int64_t by_status = 0;
    for (size_t i = 0; i < TT_COUNT(counts.by_status); i++)
        by_status += counts.by_status[i];
    assert_int_equal(by_status, counts.answered);
    tt_listener_close(world->listener);
    fake_serving_fini(&world->serving);
    return counts;
}

static inline int dial(const struct world *world) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)tt_listener_tcp_port(world->listener)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static inline void say(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes += sent;
        count -= (size_t)sent;
    }
}

static inline void say_text(int fd, const char *text) { say(fd, text, strlen(text)); }

/* One answer: head and body, by its Content-Length. Returns the status; 0 at the end of the
 * connection. */
static inline int hear(int fd, bool has_body, struct tt_text *out_head, struct tt_text *out_body) {
    tt_text_clear(out_head);
    tt_text_clear(out_body);
    while (out_head->length < 4 ||
           memcmp(out_head->bytes + out_head->length - 4, "\r\n\r\n", 4) != 0) {
        char c;
        ssize_t got = recv(fd, &c, 1, 0);
        if (got <= 0)
            return 0;
        tt_text_append(out_head, &c, 1);
    }
    int status = atoi(out_head->bytes + 9);
    char *length_at = strstr(out_head->bytes, "Content-Length: ");
    size_t length = has_body && length_at ? strtoul(length_at + 16, NULL, 10) : 0;
    char *inference = strstr(out_head->bytes, "Inference-Header-Content-Length: ");
    if (inference && length_at == inference + 17)
        length = strtoul(strstr(inference + 34, "Content-Length: ") + 16, NULL, 10);
    while (out_body->length < length) {
        char block[4096];
        size_t want = length - out_body->length;
        ssize_t got = recv(fd, block, want < sizeof(block) ? want : sizeof(block), 0);
        assert_true(got > 0);
        tt_text_append(out_body, block, (size_t)got);
    }
    return status;
}

static struct tt_text head, body;

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static inline void post(struct tt_text *out, const char *path, const char *extra,
                        const char *json) {
    tt_text_printf(out, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", path,
                   extra, strlen(json), json);
}

#define IN1_INPUTS                                                                                 \
    "\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[7]}]}"
#define IN1 "{" IN1_INPUTS
#define OUT1(model)                                                                                \
    "{\"model_name\":\"" model "\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"OUT\","        \
    "\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[7.0]}]}"

#endif
