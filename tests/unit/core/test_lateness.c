/* Lateness of decisions: what moves it, and what does not. */
#include "core/lateness.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void decide(struct tt_lateness *lateness, int64_t due_at, int64_t late_ns) {
    lateness->due_at = due_at;
    tt_lateness_decided(lateness, due_at + late_ns);
}

static void punctual_stays_punctual(void **state) {
    (void)state;
    struct tt_lateness lateness;
    tt_lateness_init(&lateness, 0, 95);
    for (int64_t i = 0; i < 1000; i++) {
        decide(&lateness, i * TT_MS, 0);
        assert_int_equal(lateness.believed_ns, 0);
    }
    decide(&lateness, TT_NEVER, INT64_MIN); /* nothing was due */
    assert_int_equal(lateness.believed_ns, 0);
}

static void it_follows_and_survives_an_outlier(void **state) {
    (void)state;
    struct tt_lateness lateness;
    tt_lateness_init(&lateness, 500 * TT_US, 95);
    for (int64_t i = 0; i < 30; i++) /* of 32 values two are still the given one */
        decide(&lateness, i * TT_MS, 60 * TT_US);
    assert_int_equal(lateness.believed_ns, 500 * TT_US);
    decide(&lateness, 30 * TT_MS, 60 * TT_US);
    assert_int_equal(lateness.believed_ns, 60 * TT_US);
    for (int64_t i = 31; i < 200; i++) /* a stall in 32 decisions, and noise below 10 us */
        decide(&lateness, i * TT_MS, i % 32 == 0 ? TT_S : (60 + i % 9) * TT_US);
    assert_int_equal(lateness.believed_ns, 60 * TT_US);
    for (int64_t i = 200; i < 240; i++)
        decide(&lateness, i * TT_S, 20 * TT_S);
    assert_int_equal(lateness.believed_ns, TT_LATENESS_MAX_NS);
}

/* An event brought the decision before its instant: that says nothing about wake-ups. */
static void early_decisions_do_not_count(void **state) {
    (void)state;
    struct tt_lateness lateness;
    tt_lateness_init(&lateness, 500 * TT_US, 95);
    for (int64_t i = 0; i < 100; i++)
        decide(&lateness, i * TT_MS, -1);
    assert_int_equal(lateness.believed_ns, 500 * TT_US);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(punctual_stays_punctual),
        cmocka_unit_test(it_follows_and_survives_an_outlier),
        cmocka_unit_test(early_decisions_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
