/* threaded */
/* The exporter beside threads that put records, and a collector that takes, refuses or vanishes:
 * each request is exported, given up or lost, and is counted once. */
#include "client/otlp_exporter.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* A collector: one connection after the other, a status for each post. */
struct collector {
    int fd;
    int tcp_port;
    atomic_int status; /* 0: it closes the connection instead */
    atomic_int posts;
    pthread_t thread;
};

static bool read_post(int fd) {
    static char bytes[1 << 20];
    size_t have = 0;
    for (;;) {
        ssize_t got = read(fd, bytes + have, sizeof(bytes) - 1 - have);
        if (got <= 0)
            return false;
        have += (size_t)got;
        bytes[have] = '\0';
        const char *end = strstr(bytes, "\r\n\r\n"), *length = strstr(bytes, "Content-Length: ");
        if (end && length && have >= (size_t)(end + 4 - bytes) + strtoul(length + 16, NULL, 10))
            return true;
        assert_true(have < sizeof(bytes) - 1);
    }
}

static void *collector_main(void *context) {
    struct collector *self = context;
    int fd;
    while ((fd = accept(self->fd, NULL, NULL)) >= 0) {
        while (read_post(fd)) {
            char answer[80];
            int status = atomic_load(&self->status);
            atomic_fetch_add(&self->posts, 1);
            if (status == 0)
                break;
            int count = snprintf(answer, sizeof(answer),
                                 "HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}", status);
            if (write(fd, answer, (size_t)count) != count)
                break;
        }
        close(fd);
    }
    return NULL;
}

static void collector_open(struct collector *self, int status) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t count = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    atomic_init(&self->status, status);
    atomic_init(&self->posts, 0);
    self->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(self->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(self->fd, 8), 0);
    assert_int_equal(getsockname(self->fd, (struct sockaddr *)&address, &count), 0);
    self->tcp_port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&self->thread, NULL, collector_main, self), 0);
}

static void collector_close(struct collector *self) {
    shutdown(self->fd, SHUT_RDWR);
    pthread_join(self->thread, NULL);
    close(self->fd);
}

/* Two threads put records while the exporter sends. */
enum { WRITERS = 2, RECORDS = 3000 };

struct writer {
    struct tt_tracer *tracer;
    int32_t index;
};

static void *writer_main(void *context) {
    const struct writer *self = context;
    const struct tt_trace_strings strings = {.method = "POST", .path = "/infer", .model = "m"};
    for (int i = 0; i < RECORDS; i++) {
        struct tt_traced traced;
        const struct tt_trace_facts facts = {
            .received_at = i + 1, .ended_at = i + 2, .deadline_at = TT_NEVER, .grpc_status = -1};
        tt_tracer_begin(self->tracer, self->index, NULL, &traced);
        tt_tracer_put(self->tracer, self->index, &traced, &facts, &strings, NULL, 0);
    }
    return NULL;
}

static atomic_int line_count;

static void on_line(void *context, enum tt_log_level level, const char *line) {
    (void)context;
    (void)level;
    assert_true(strlen(line) > 10);
    atomic_fetch_add(&line_count, 1);
}

static void write_all(struct tt_tracer *tracer) {
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (int32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.tracer = tracer, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    }
    for (int32_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

/* What the writers put, beside the exporter or before it, to a collector; the counts when it has
 * failed, or when all are accounted for. */
static struct tt_otlp_counts run(struct collector *collector, size_t room_bytes, bool is_before) {
    struct tt_tracer tracer = {0};
    struct tt_otlp_exporter *exporter;
    struct tt_otlp_counts counts;
    struct tt_error why;
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", collector->tcp_port);
    atomic_store(&line_count, 0);
    assert_int_equal(tt_tracer_init(&tracer, WRITERS, room_bytes, TT_TRACER_ALL, 1), TT_OK);
    const struct tt_otlp_options options = {
        .url = url, .tracer = &tracer, .service_version = "1", .round_ns = TT_MS, .say = on_line};
    if (is_before)
        write_all(&tracer);
    assert_int_equal(tt_otlp_exporter_open(&options, &exporter, &why), TT_OK);
    if (!is_before)
        write_all(&tracer);
    bool may_fail = atomic_load(&collector->status) != 200;
    do {
        usleep(1000);
        counts = tt_otlp_exporter_counts(exporter);
    } while (may_fail ? counts.failures == 0
                      : counts.exported + counts.given_up + counts.lost < WRITERS * RECORDS);
    tt_otlp_exporter_close(exporter);
    tt_tracer_fini(&tracer);
    return counts;
}

static void test_a_collector_that_takes(void **state) {
    (void)state;
    struct collector collector;
    collector_open(&collector, 200);
    struct tt_otlp_counts counts = run(&collector, 1 << 21, false);
    collector_close(&collector);
    assert_int_equal(counts.exported, WRITERS * RECORDS);
    assert_int_equal(counts.lost, 0);
    assert_int_equal(counts.failures, 0);
    assert_true(atomic_load(&collector.posts) > 1);
    assert_int_equal(atomic_load(&line_count), 0);
}

static void test_small_rings_lose_and_count(void **state) {
    (void)state;
    struct collector collector;
    collector_open(&collector, 200);
    struct tt_otlp_counts counts = run(&collector, 8192, true);
    collector_close(&collector);
    assert_int_equal(counts.exported + counts.lost, WRITERS * RECORDS);
    assert_true(counts.lost > 0);
    assert_true(counts.exported > 0);
}

/* A status that passes, one that does not, and a connection that ends: each is said once. */
static void test_collectors_that_do_not_take(void **state) {
    (void)state;
    static const int statuses[] = {503, 400, 0};
    for (size_t i = 0; i < TT_COUNT(statuses); i++) {
        struct collector collector;
        collector_open(&collector, statuses[i]);
        struct tt_otlp_counts counts = run(&collector, 1 << 21, false);
        collector_close(&collector);
        assert_int_equal(counts.exported, 0);
        assert_true(counts.failures > 0);
        assert_int_equal(atomic_load(&line_count), 1);
    }
}

static void test_malformed_urls(void **state) {
    (void)state;
    static const char *const urls[] = {
        "127.0.0.1:4318",       "ftp://127.0.0.1",      "http://",
        "http://127.0.0.1:0/x", "http://127.0.0.1/a b", "http://user@127.0.0.1/x"};
    struct tt_tracer tracer = {0};
    struct tt_otlp_exporter *exporter;
    for (size_t i = 0; i < TT_COUNT(urls); i++) {
        struct tt_error why = {{0}};
        const struct tt_otlp_options options = {.url = urls[i], .tracer = &tracer};
        assert_int_equal(tt_otlp_exporter_open(&options, &exporter, &why), TT_ERR_INVALID);
        assert_true(strlen(why.text) > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_collector_that_takes),
        cmocka_unit_test(test_small_rings_lose_and_count),
        cmocka_unit_test(test_collectors_that_do_not_take),
        cmocka_unit_test(test_malformed_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
