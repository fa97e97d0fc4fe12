#include "serve/pace.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_pace(void **state) {
    (void)state;
    struct tt_pace pace = {0};
    assert_int_equal(tt_pace_retry_after_s(&pace, 1000000), 1); /* nothing is known */
    int64_t now = TT_S;
    for (int32_t i = 0; i < 200; i++)
        tt_pace_answered(&pace, now += 100 * TT_MS);
    assert_int_equal(tt_pace_retry_after_s(&pace, 0), 1);
    assert_int_equal(tt_pace_retry_after_s(&pace, 10), 1);
    assert_int_equal(tt_pace_retry_after_s(&pace, 11), 2);
    assert_int_equal(tt_pace_retry_after_s(&pace, 200), 20);
    assert_int_equal(tt_pace_retry_after_s(&pace, 100000), 60);
    assert_int_equal(tt_pace_retry_after_s(&pace, INT32_MAX), 60);
    /* After a pause of an hour the pace is nearly what it was. */
    tt_pace_answered(&pace, now += 3600 * TT_S);
    assert_in_range(tt_pace_retry_after_s(&pace, 100), 10, 16);
    /* It follows. */
    for (int32_t i = 0; i < 200; i++)
        tt_pace_answered(&pace, now += TT_MS);
    assert_int_equal(tt_pace_retry_after_s(&pace, 900), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
