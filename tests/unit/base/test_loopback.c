/* Which addresses are this machine's own. */
#include "base/loopback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cmocka.h>

static bool v4(const char *text) {
    struct sockaddr_storage address = {.ss_family = AF_INET};
    struct in_addr *to = &((struct sockaddr_in *)&address)->sin_addr;
    assert_int_equal(inet_pton(AF_INET, text, to), 1);
    return tt_address_is_loopback((const struct sockaddr *)&address);
}

static bool v6(const char *text) {
    struct sockaddr_storage address = {.ss_family = AF_INET6};
    struct in6_addr *to = &((struct sockaddr_in6 *)&address)->sin6_addr;
    assert_int_equal(inet_pton(AF_INET6, text, to), 1);
    return tt_address_is_loopback((const struct sockaddr *)&address);
}

static void all_of_127_is_loopback(void **state) {
    (void)state;
    assert_true(v4("127.0.0.1"));
    assert_true(v4("127.255.255.255"));
    assert_false(v4("126.255.255.255"));
    assert_false(v4("128.0.0.1"));
    assert_false(v4("0.0.0.0"));
    assert_false(v4("1.0.0.127"));
}

static void one_address_of_v6_is_loopback(void **state) {
    (void)state;
    assert_true(v6("::1"));
    assert_true(v6("::ffff:127.0.0.1"));
    assert_true(v6("::ffff:127.3.2.1"));
    assert_false(v6("::"));
    assert_false(v6("::2"));
    assert_false(v6("::127.0.0.1"));
    assert_false(v6("::ffff:10.0.0.127"));
    assert_false(v6("fe80::1"));
}

static void other_families_are_not(void **state) {
    (void)state;
    struct sockaddr_storage address = {.ss_family = AF_UNIX};
    assert_false(tt_address_is_loopback((const struct sockaddr *)&address));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_127_is_loopback),
        cmocka_unit_test(one_address_of_v6_is_loopback),
        cmocka_unit_test(other_families_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
