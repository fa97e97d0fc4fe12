/* The address of a client, from real sockets of the loopback. */
#include "net/access/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* The address of a client that connects from `from` to itself, over UDP, which needs no peer. */
static struct tt_peer_address peer_of(int family, const void *address, socklen_t count) {
    int fd = socket(family, SOCK_DGRAM, 0);
    if (fd < 0)
        return (struct tt_peer_address){.is_known = false};
    int failed = connect(fd, address, count);
    struct tt_peer_address peer = tt_peer_address_of(fd);
    assert_int_equal(peer.is_known, !failed);
    close(fd);
    return peer;
}

static void test_both_families(void **state) {
    (void)state;
    char text[TT_PEER_ADDRESS_TEXT_BYTES];
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(9)};
    v4.sin_addr.s_addr = htonl(0x7f000102);
    struct tt_peer_address by_v4 = peer_of(AF_INET, &v4, sizeof(v4));
    assert_true(by_v4.is_known);
    tt_peer_address_write(&by_v4, text);
    assert_string_equal(text, "127.0.1.2");
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.1.2", &v6.sin6_addr), 1);
    struct tt_peer_address mapped = peer_of(AF_INET6, &v6, sizeof(v6));
    if (mapped.is_known) /* this machine has IPv6 */
        assert_memory_equal(&mapped, &by_v4, sizeof(mapped));
    v6.sin6_addr = in6addr_loopback;
    struct tt_peer_address by_v6 = peer_of(AF_INET6, &v6, sizeof(v6));
    tt_peer_address_write(&by_v6, text);
    assert_string_equal(text, by_v6.is_known ? "::1" : "");
}

static void test_those_without_an_address(void **state) {
    (void)state;
    char text[TT_PEER_ADDRESS_TEXT_BYTES] = "old";
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct tt_peer_address peer = tt_peer_address_of(pair[0]);
    assert_false(peer.is_known);
    tt_peer_address_write(&peer, text);
    assert_string_equal(text, "");
    close(pair[0]);
    close(pair[1]);
    assert_false(tt_peer_address_of(-1).is_known);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_families),
        cmocka_unit_test(test_those_without_an_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
