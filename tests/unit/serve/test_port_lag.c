#include "serve/port_lag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* One turn: it rests at `at`, wakes `wait_ns` later. Returns the instant. */
static int64_t turn(struct tt_port_lag *lag, int64_t at, int64_t wait_ns) {
    tt_port_lag_rest(lag, at);
    assert_true(tt_port_lag_rests(lag));
    tt_port_lag_wake(lag, at + wait_ns);
    assert_false(tt_port_lag_rests(lag));
    return at + wait_ns;
}

static void test_without_turns(void **state) {
    (void)state;
    struct tt_port_lag lag;
    tt_port_lag_init(&lag, 95);
    assert_int_equal(tt_port_lag_since(&lag, 7 * TT_S), 7 * TT_S);
    assert_int_equal(tt_port_lag_answer_ns(&lag), 0);
}

/* What is found after a wait has just come, however long the turn then takes. */
static void test_after_a_wait(void **state) {
    (void)state;
    struct tt_port_lag lag;
    tt_port_lag_init(&lag, 95);
    int64_t first = turn(&lag, TT_S, 3 * TT_MS);
    assert_int_equal(tt_port_lag_since(&lag, first), first);
    assert_int_equal(tt_port_lag_since(&lag, first + 20 * TT_MS), first);
    int64_t second = turn(&lag, first + 20 * TT_MS, TT_PORT_LAG_WAITED_NS);
    assert_int_equal(tt_port_lag_since(&lag, second + TT_MS), second);
}

/* What is found at once may have come since the look before, and not earlier. */
static void test_without_a_wait(void **state) {
    (void)state;
    struct tt_port_lag lag;
    tt_port_lag_init(&lag, 95);
    int64_t first = turn(&lag, TT_S, 3 * TT_MS);
    int64_t second = turn(&lag, first + 20 * TT_MS, TT_PORT_LAG_WAITED_NS - 1);
    assert_int_equal(tt_port_lag_since(&lag, second + TT_MS), first);
    int64_t third = turn(&lag, second + 10 * TT_MS, 0);
    assert_int_equal(tt_port_lag_since(&lag, third), second);
}

static void test_answers(void **state) {
    (void)state;
    struct tt_port_lag lag;
    tt_port_lag_init(&lag, 95);
    int64_t now = TT_S;
    for (int32_t i = 0; i < 40; i++) {
        now = turn(&lag, now, TT_MS) + 4 * TT_MS;
        tt_port_lag_answered(&lag, now - 3 * TT_MS, now);
    }
    assert_int_equal(tt_port_lag_answer_ns(&lag), 3 * TT_MS);
    /* A single slow turn of twenty changes nothing. */
    tt_port_lag_answered(&lag, now - 40 * TT_MS, now);
    assert_int_equal(tt_port_lag_answer_ns(&lag), 3 * TT_MS);
}

/* Refusals alone show how long turns take, so that what was believed is forgotten. */
static void test_refusals(void **state) {
    (void)state;
    struct tt_port_lag lag;
    tt_port_lag_init(&lag, 95);
    int64_t now = turn(&lag, TT_S, TT_MS);
    for (int32_t i = 0; i < 40; i++)
        tt_port_lag_answered(&lag, now - TT_S, now);
    assert_int_equal(tt_port_lag_answer_ns(&lag), TT_S);
    for (int32_t i = 0; i < 40; i++) {
        now = turn(&lag, now, TT_MS) + TT_MS / 5;
        tt_port_lag_answered(&lag, TT_NEVER, now);
    }
    assert_int_equal(tt_port_lag_answer_ns(&lag), TT_MS / 5);
}

static void test_nothing_is_learnt(void **state) {
    (void)state;
    struct tt_port_lag lag;
    tt_port_lag_init(&lag, 0);
    for (int32_t i = 0; i < 40; i++)
        tt_port_lag_answered(&lag, TT_S, 2 * TT_S);
    assert_int_equal(tt_port_lag_answer_ns(&lag), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_turns),  cmocka_unit_test(test_after_a_wait),
        cmocka_unit_test(test_without_a_wait), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_nothing_is_learnt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
