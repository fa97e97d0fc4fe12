/* Looking up nodes: what is found, what is not, and a lookup that is cancelled. libuv starts
 * threads. */
/* threaded */
#include "fleet/node_lookup.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct found {
    int32_t calls;
    uint16_t number;
    struct sockaddr_in address;
    char reason[200];
};

static void on_found(void *context, uint16_t number, const struct sockaddr *address, size_t bytes,
                     const char *reason) {
    struct found *self = context;
    self->calls++;
    self->number = number;
    if (address) {
        assert_int_equal(bytes, sizeof(self->address));
        memcpy(&self->address, address, bytes);
    } else {
        snprintf(self->reason, sizeof(self->reason), "%s", reason);
    }
}

static struct found look_up(const char *host, bool cancels) {
    struct tt_cluster_place place = {.tcp_port = 7100};
    snprintf(place.host, sizeof(place.host), "%s", host);
    const struct sockaddr_storage like = {.ss_family = AF_INET};
    struct found found = {.calls = 0};
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct tt_node_lookup *lookup = tt_node_lookup_begin(&loop, &place, 5, &like, on_found, &found);
    assert_non_null(lookup);
    if (cancels)
        tt_node_lookup_cancel(lookup);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    return found;
}

static void a_host_is_found(void **state) {
    (void)state;
    struct found found = look_up("127.0.0.9", false);
    assert_int_equal(found.calls, 1);
    assert_int_equal(found.number, 5);
    assert_int_equal(ntohs(found.address.sin_port), 7100);
    assert_int_equal(ntohl(found.address.sin_addr.s_addr), 0x7f000009);
}

/* The family is that of the node's own socket. */
static void a_host_is_not_found(void **state) {
    (void)state;
    struct found found = look_up("::1", false);
    assert_int_equal(found.calls, 1);
    assert_int_equal(found.address.sin_port, 0);
    assert_string_not_equal(found.reason, "");
}

static void a_cancelled_lookup_is_silent(void **state) {
    (void)state;
    assert_int_equal(look_up("127.0.0.9", true).calls, 0);
    tt_node_lookup_cancel(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_found),
        cmocka_unit_test(a_host_is_not_found),
        cmocka_unit_test(a_cancelled_lookup_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
