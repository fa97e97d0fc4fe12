/* The client with a server that sends for ever, as fast as it can: a poll ends, and so does the
 * call. */
#include "client/http_client.h"

#include "base/clock.h"
#include "base/instant.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define GIVE_UP_NS (100 * TT_MS)

struct sender {
    int listener;
    pthread_t thread;
    const char *head;
    size_t sent_bytes; /* after the join */
};

static void *sender_main(void *context) {
    static char block[1 << 20];
    struct sender *self = context;
    char request[4096];
    memset(block, '0', sizeof(block));
    int fd = accept(self->listener, NULL, NULL);
    ssize_t count = read(fd, request, sizeof(request));
    count = count > 0 ? send(fd, self->head, strlen(self->head), MSG_NOSIGNAL) : count;
    while (count > 0 && (count = send(fd, block, sizeof(block), MSG_NOSIGNAL)) > 0)
        self->sent_bytes += (size_t)count;
    close(fd);
    return NULL;
}

static void listen_anywhere(struct sender *self, struct tt_http_address *out_address) {
    char url[64];
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(any);
    struct tt_error why;
    self->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(self->listener, (struct sockaddr *)&any, bytes), 0);
    assert_int_equal(listen(self->listener, 1), 0);
    assert_int_equal(getsockname(self->listener, (struct sockaddr *)&any, &bytes), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(any.sin_port));
    assert_int_equal(tt_http_address_parse(url, 80, out_address, &why), TT_OK);
    assert_int_equal(pthread_create(&self->thread, NULL, sender_main, self), 0);
}

static void on_done(void *context, struct tt_http_call *call) {
    (void)call;
    *(bool *)context = true;
}

/* Each poll reads a bounded part of what came, so that the caller has its turn. */
static void hold(const char *head) {
    struct sender sender = {.head = head};
    struct tt_http_address address;
    struct tt_http_client *client;
    struct tt_error why;
    bool is_over = false;
    int64_t polls = 0;
    listen_anywhere(&sender, &address);
    const struct tt_http_client_options options = {.address = &address,
                                                   .connection_limit = 1,
                                                   .give_up_ns = GIVE_UP_NS,
                                                   .done = on_done,
                                                   .done_context = &is_over};
    assert_int_equal(tt_http_client_open(&options, &client, &why), TT_OK);
    char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct tt_http_call call = {.parts = {{request, strlen(request)}},
                                .part_count = 1,
                                .since_at = tt_clock_now(),
                                .keep_bytes = 1000};
    tt_http_client_start(client, &call);
    while (!is_over) {
        tt_http_client_poll(client, tt_instant_add(tt_clock_now(), GIVE_UP_NS));
        polls++;
    }
    assert_int_equal(call.outcome, TT_HTTP_GAVE_UP);
    assert_true(call.body.length <= 1000);
    tt_text_fini(&call.body);
    tt_http_client_close(client);
    assert_int_equal(pthread_join(sender.thread, NULL), 0);
    close(sender.listener);
    /* At most 1 MiB in each, but for what lies in the sockets when it ends. */
    assert_true(sender.sent_bytes >> 20 <= (size_t)polls + 16);
}

static void test_endless_length(void **state) {
    (void)state;
    hold("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}
static void test_endless_header(void **state) {
    (void)state;
    hold("HTTP/1.1 200 OK\r\nX: ");
}
static void test_endless_body(void **state) {
    (void)state;
    hold("HTTP/1.1 200 OK\r\n\r\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endless_length),
        cmocka_unit_test(test_endless_header),
        cmocka_unit_test(test_endless_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
