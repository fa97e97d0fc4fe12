/* What a dial finds of a peer that reset its connection: it listens, has ended, is ending, does not
 * answer; and a dial that is cancelled. */
#include "fleet/peer_probe.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Of a peer that lives, all of it is waited; of others, it never ends. */
enum { SHORT_MS = 20, LONG_MS = 3600 * 1000 };

struct found {
    int32_t calls;
    uint16_t number;
    bool has_ended;
};

static void on_probed(void *context, uint16_t number, bool has_ended) {
    struct found *self = context;
    *self = (struct found){self->calls + 1, number, has_ended};
}

/* What happens to the peer's socket in turn `ends_in` of the loop; 0: nothing. */
struct ending {
    uv_idle_t idle; /* no turn waits */
    uv_check_t check;
    int fd, ends_in;
};

static void on_idle(uv_idle_t *idle) { (void)idle; }

static void on_turn(uv_check_t *check) {
    struct ending *self = check->data;
    if (--self->ends_in > 0)
        return;
    close(self->fd);
    uv_close((uv_handle_t *)&self->idle, NULL);
    uv_close((uv_handle_t *)&self->check, NULL);
}

static void begin_ending(struct ending *self, uv_loop_t *loop) {
    uv_idle_init(loop, &self->idle);
    uv_check_init(loop, &self->check);
    self->check.data = self;
    uv_idle_start(&self->idle, on_idle);
    uv_check_start(&self->check, on_turn);
}

static struct found probe_until(struct sockaddr_in to, uint64_t wait_ms, bool cancels,
                                struct ending ending) {
    struct sockaddr_storage address = {0};
    memcpy(&address, &to, sizeof(to));
    struct found found = {.calls = 0};
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct tt_peer_probe *self =
        tt_peer_probe_begin(&loop, 5, &address, wait_ms, on_probed, &found);
    assert_non_null(self);
    if (cancels)
        tt_peer_probe_cancel(self);
    if (ending.ends_in > 0)
        begin_ending(&ending, &loop);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    return found;
}

static struct found probe(struct sockaddr_in to, uint64_t wait_ms, bool cancels) {
    return probe_until(to, wait_ms, cancels, (struct ending){.ends_in = 0});
}

/* A socket that has a port of its own, and listens or does not. */
static int take_port(bool listens, struct sockaddr_in *out_address) {
    *out_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(*out_address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)out_address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)out_address, &bytes), 0);
    assert_int_equal(listens ? listen(fd, 1) : 0, 0);
    return fd;
}

static void a_peer_that_listens_lives(void **state) {
    (void)state;
    struct sockaddr_in address;
    int fd = take_port(true, &address);
    struct found found = probe(address, SHORT_MS, false);
    assert_int_equal(found.calls, 1);
    assert_int_equal(found.number, 5);
    assert_false(found.has_ended);
    close(fd);
}

static void a_peer_that_refuses_has_ended(void **state) {
    (void)state;
    struct sockaddr_in address;
    int fd = take_port(false, &address);
    struct found found = probe(address, LONG_MS, false);
    assert_int_equal(found.calls, 1);
    assert_true(found.has_ended);
    close(fd);
}

/* Its system takes the dial, and resets it when it has closed the listener. */
static void a_peer_that_is_ending_has_ended(void **state) {
    (void)state;
    for (int turns = 1; turns < 4; turns++) {
        struct sockaddr_in address;
        struct ending ending = {.fd = take_port(true, &address), .ends_in = turns};
        struct found found = probe_until(address, LONG_MS, false, ending);
        assert_int_equal(found.calls, 1);
        assert_true(found.has_ended);
    }
}

/* Its queue of connections is full, so the system does not answer a dial. */
static void a_peer_without_an_answer_may_live(void **state) {
    (void)state;
    struct sockaddr_in address;
    int fd = take_port(true, &address), fillers[8];
    for (size_t i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        assert_true(fillers[i] >= 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof(address));
    }
    struct found found = probe(address, SHORT_MS, false);
    assert_int_equal(found.calls, 1);
    assert_false(found.has_ended);
    for (size_t i = 0; i < 8; i++)
        close(fillers[i]);
    close(fd);
}

static void a_cancelled_probe_is_silent(void **state) {
    (void)state;
    struct sockaddr_in address;
    int fd = take_port(true, &address);
    assert_int_equal(probe(address, LONG_MS, true).calls, 0);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_listens_lives),
        cmocka_unit_test(a_peer_that_refuses_has_ended),
        cmocka_unit_test(a_peer_that_is_ending_has_ended),
        cmocka_unit_test(a_peer_without_an_answer_may_live),
        cmocka_unit_test(a_cancelled_probe_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
