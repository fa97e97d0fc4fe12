/* Instants: saturation, and TT_NEVER staying what it says. */
#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void units_are_nanoseconds(void **state) {
    (void)state;
    assert_int_equal(1000 * TT_US, TT_MS);
    assert_int_equal(1000 * TT_MS, TT_S);
    assert_int_equal(TT_S, 1000000000);
}

static void adding_is_plain_where_it_fits(void **state) {
    (void)state;
    assert_true(tt_instant_add(3, 4) == 7);
    assert_true(tt_instant_add(3, -4) == -1);
    assert_true(tt_instant_add(INT64_MAX - 5, 4) == INT64_MAX - 1);
    assert_true(tt_instant_add(INT64_MIN + 5, -5) == INT64_MIN);
}

static void adding_saturates_at_both_ends(void **state) {
    (void)state;
    assert_true(tt_instant_add(INT64_MAX - 5, 6) == TT_NEVER);
    assert_true(tt_instant_add(5, INT64_MAX) == TT_NEVER);
    assert_true(tt_instant_add(INT64_MIN + 5, -6) == INT64_MIN);
    assert_true(tt_instant_add(-6, INT64_MIN + 5) == INT64_MIN);
}

static void never_stays_never(void **state) {
    (void)state;
    assert_true(tt_instant_add(TT_NEVER, 0) == TT_NEVER);
    assert_true(tt_instant_add(TT_NEVER, TT_S) == TT_NEVER);
    assert_true(tt_instant_add(TT_NEVER, -TT_S) == TT_NEVER);
    assert_true(tt_instant_min(TT_NEVER, 7) == 7);
    assert_true(tt_instant_max(TT_NEVER, 7) == TT_NEVER);
}

static void min_and_max_take_either_side(void **state) {
    (void)state;
    assert_true(tt_instant_min(-3, 2) == -3);
    assert_true(tt_instant_min(2, -3) == -3);
    assert_true(tt_instant_max(-3, 2) == 2);
    assert_true(tt_instant_max(2, -3) == 2);
    assert_true(tt_instant_max(2, 2) == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_nanoseconds),
        cmocka_unit_test(adding_is_plain_where_it_fits),
        cmocka_unit_test(adding_saturates_at_both_ends),
        cmocka_unit_test(never_stays_never),
        cmocka_unit_test(min_and_max_take_either_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
