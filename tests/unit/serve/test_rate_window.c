/* S9: the rate, burstiness and growth that a window of arrivals shows. */
#include "base/prng.h"
#include "serve/rate_window.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { START_S = 1000 };

/* `rows` arrivals of one row, evenly over the second. */
static void second_of(struct tt_rate_window *window, int64_t second, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        tt_rate_window_arrived(window, second * TT_S + i * TT_S / rows, 1);
}

static void an_empty_window_knows_nothing(void **state) {
    (void)state;
    struct tt_rate_window window = {0};
    struct tt_rate_sum sum = tt_rate_window_sum(&window, START_S * TT_S);
    assert_true(sum.rows_per_s == 0 && sum.window_s == 0 && sum.dispersion == 1);
    tt_rate_window_arrived(&window, START_S * TT_S + 1, 5); /* no whole second yet */
    assert_true(tt_rate_window_sum(&window, START_S * TT_S + 2).window_s == 0);
}

static void the_rate_is_that_of_the_last_whole_seconds(void **state) {
    (void)state;
    struct tt_rate_window window = {0};
    for (int64_t s = START_S; s < START_S + 100; s++)
        second_of(&window, s, s < START_S + 90 ? 20 : 50);
    int64_t now = (START_S + 100) * TT_S;
    tt_rate_window_arrived(&window, now, 1000000); /* the current second does not count */
    struct tt_rate_sum sum = tt_rate_window_sum(&window, now + 1);
    assert_true(sum.rows_per_s == 50);
    assert_true(sum.window_s == TT_RATE_WINDOW_S);
    assert_true(sum.growth_per_s2 == 0);                 /* a step, not a ramp */
    sum = tt_rate_window_sum(&window, now + 100 * TT_S); /* all of it is old */
    assert_true(sum.rows_per_s == 0);
}

static void steady_growth_is_seen(void **state) {
    (void)state;
    struct tt_rate_window window = {0};
    for (int64_t s = START_S; s < START_S + 60; s++)
        second_of(&window, s, 100 + 3 * (s - START_S));
    struct tt_rate_sum sum = tt_rate_window_sum(&window, (START_S + 60) * TT_S);
    assert_float_equal(sum.growth_per_s2, 3, 0.01);
}

/* Independent counts with mean 40: 0 or 80 have variance over mean 40; even ones 0. A step of the
 * rate adds one difference only. */
static void dispersion_tells_bursts_from_steps(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    struct tt_rate_window even = {0}, stepped = {0};
    double sum = 0;
    enum { WINDOWS = 50 };
    for (int64_t s = START_S; s < START_S + 60; s++) {
        second_of(&even, s, 40);
        second_of(&stepped, s, s < START_S + 30 ? 40 : 120);
    }
    for (int32_t w = 0; w < WINDOWS; w++) {
        struct tt_rate_window bursty = {0};
        for (int64_t s = START_S; s < START_S + 60; s++)
            second_of(&bursty, s, tt_prng_below(&prng, 2) ? 80 : 0);
        sum += tt_rate_window_sum(&bursty, (START_S + 60) * TT_S).dispersion / WINDOWS;
    }
    assert_true(tt_rate_window_sum(&even, (START_S + 60) * TT_S).dispersion == 0);
    assert_true(tt_rate_window_sum(&stepped, (START_S + 60) * TT_S).dispersion < 1);
    assert_true(sum > 30 && sum < 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_window_knows_nothing),
        cmocka_unit_test(the_rate_is_that_of_the_last_whole_seconds),
        cmocka_unit_test(steady_growth_is_seen),
        cmocka_unit_test(dispersion_tells_bursts_from_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
