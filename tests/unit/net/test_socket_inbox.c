/* threaded */
/* Clients that are handed to another loop, which is woken: they arrive whole and in order, a full
 * inbox says so, and what is left over is closed. Wakes that come together cost one. */
#include "net/sockets/loop_wake.h"
#include "net/sockets/socket_inbox.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOCKETS = 5000 };

struct receiver {
    uv_loop_t loop;
    struct tt_loop_wake wake;
    struct tt_socket_inbox *inbox;
    int32_t taken, wrong, wakes;
};

static void close_handle(uv_handle_t *handle, void *context) {
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Numbers stand for descriptors. */
static struct tt_handed_socket socket_at(int32_t index) {
    return (struct tt_handed_socket){.fd = index, .which = index % 2, .is_full = index % 3 == 0};
}

static void on_woken(void *context) {
    struct receiver *self = context;
    struct tt_handed_socket got;
    self->wakes++;
    while (tt_socket_inbox_take(self->inbox, &got)) {
        struct tt_handed_socket wanted = socket_at(self->taken++);
        self->wrong +=
            got.fd != wanted.fd || got.which != wanted.which || got.is_full != wanted.is_full;
    }
    if (self->taken == SOCKETS)
        uv_stop(&self->loop);
}

static void open_receiver(struct receiver *self) {
    struct tt_error why;
    *self = (struct receiver){.inbox = NULL};
    assert_int_equal(uv_loop_init(&self->loop), 0);
    tt_loop_wake_init(&self->wake);
    assert_int_equal(tt_loop_wake_open(&self->wake, &self->loop, on_woken, self), 0);
    assert_int_equal(tt_socket_inbox_open(&self->inbox, &why), TT_OK);
}

static void close_receiver(struct receiver *self) {
    uv_walk(&self->loop, close_handle, NULL);
    while (uv_run(&self->loop, UV_RUN_DEFAULT) != 0)
        continue;
    tt_socket_inbox_close(self->inbox);
    assert_int_equal(uv_loop_close(&self->loop), 0);
    tt_loop_wake_fini(&self->wake);
}

static void *receive_all(void *context) {
    struct receiver *self = context;
    uv_run(&self->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void test_all_arrive_in_order(void **state) {
    (void)state;
    struct receiver receiver;
    pthread_t thread;
    open_receiver(&receiver);
    assert_int_equal(pthread_create(&thread, NULL, receive_all, &receiver), 0);
    for (int32_t i = 0; i < SOCKETS; i++) {
        while (!tt_socket_inbox_put(receiver.inbox, socket_at(i)))
            usleep(100); /* it is full */
        tt_loop_wake_send(&receiver.wake);
    }
    pthread_join(thread, NULL);
    assert_int_equal(receiver.taken, SOCKETS);
    assert_int_equal(receiver.wrong, 0);
    assert_in_range(receiver.wakes, 1, SOCKETS);
    close_receiver(&receiver);
}

static void test_wakes_that_come_together(void **state) {
    (void)state;
    struct receiver receiver;
    open_receiver(&receiver);
    for (int32_t i = 0; i < 3; i++)
        tt_loop_wake_send(&receiver.wake);
    uv_run(&receiver.loop, UV_RUN_NOWAIT);
    uv_run(&receiver.loop, UV_RUN_NOWAIT);
    assert_int_equal(receiver.wakes, 1);
    tt_loop_wake_send(&receiver.wake);
    uv_run(&receiver.loop, UV_RUN_NOWAIT);
    assert_int_equal(receiver.wakes, 2);
    close_receiver(&receiver);
}

static void test_full_and_left_over(void **state) {
    (void)state;
    struct receiver receiver;
    struct tt_handed_socket got;
    int32_t count = 0;
    open_receiver(&receiver);
    assert_false(tt_socket_inbox_take(receiver.inbox, &got));
    while (count < SOCKETS && tt_socket_inbox_put(receiver.inbox, socket_at(count)))
        count++;
    assert_in_range(count, 1, SOCKETS - 1);
    for (int32_t i = 0; i < count; i++) {
        assert_true(tt_socket_inbox_take(receiver.inbox, &got));
        assert_int_equal(got.fd, i);
    }
    assert_false(tt_socket_inbox_take(receiver.inbox, &got));
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    assert_true(tt_socket_inbox_put(receiver.inbox, (struct tt_handed_socket){.fd = ends[1]}));
    receiver.taken = -1;
    uv_walk(&receiver.loop, close_handle, NULL); /* the loop ends before it looks */
    while (uv_run(&receiver.loop, UV_RUN_DEFAULT) != 0)
        continue;
    assert_int_equal(receiver.taken, -1);
    tt_socket_inbox_close(receiver.inbox);
    assert_int_equal(uv_loop_close(&receiver.loop), 0);
    tt_loop_wake_fini(&receiver.wake);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the other end is closed */
    close(ends[0]);
    tt_socket_inbox_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_arrive_in_order),
        cmocka_unit_test(test_wakes_that_come_together),
        cmocka_unit_test(test_full_and_left_over),
    };
    alarm(60); /* a test that hangs is a test that fails */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
