/* Limits that follow the memory that the process may use. */
#include "serve/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int64_t gib = INT64_C(1) << 30;

static void test_defaults_follow_the_memory(void **state) {
    (void)state;
    struct tt_limits limits, defaults;
    tt_limits_default(&limits);
    tt_limits_default(&defaults);
    tt_limits_fit(&limits, 64 * gib);
    assert_int_equal(limits.model_bytes, 48 * gib);
    assert_int_equal(limits.models_bytes, 48 * gib);
    assert_int_equal(limits.receive_bytes, defaults.receive_bytes);
    assert_int_equal(limits.queue_bytes, defaults.queue_bytes);
    tt_limits_default(&limits);
    tt_limits_fit(&limits, gib / 2);
    assert_int_equal(limits.receive_bytes, gib / 16);
    assert_int_equal(limits.queue_bytes, gib / 16);
    assert_int_equal(limits.send_bytes, gib / 16);
    assert_int_equal(limits.body_bytes, defaults.body_bytes);
}

static void test_what_was_stated_stays(void **state) {
    (void)state;
    struct tt_limits limits;
    tt_limits_default(&limits);
    limits.model_bytes = 5;
    limits.receive_bytes = 3 * gib;
    tt_limits_fit(&limits, gib / 2);
    assert_int_equal(limits.model_bytes, 5);
    assert_int_equal(limits.receive_bytes, 3 * gib);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults_follow_the_memory),
                                       cmocka_unit_test(test_what_was_stated_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
