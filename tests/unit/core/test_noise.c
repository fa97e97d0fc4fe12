/* Noise of devices: the quantiles of the log-normal factor, the share of outliers, and no draw
 * where there is no noise. */
#include "core/noise.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DRAWS = 20000, WORK_NS = 1000000 };

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* exp(+-spread) are the quantiles 15.9 % and 84.1 %. */
static void the_factor_is_log_normal(void **state) {
    (void)state;
    static const struct {
        int32_t spread_permille;
        int64_t low_ns, high_ns; /* WORK_NS times exp(-+spread) */
    } cases[] = {{30, 970446, 1030455}, {100, 904837, 1105171}, {500, 606531, 1648721}};
    static int64_t drawn[DRAWS];
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct tt_noise noise = {.spread_permille = cases[c].spread_permille};
        for (int32_t i = 0; i < DRAWS; i++)
            drawn[i] = tt_noise_of(&noise, &prng, WORK_NS);
        qsort(drawn, DRAWS, sizeof(drawn[0]), compare);
        int64_t wide = WORK_NS * cases[c].spread_permille / 1000 / 20; /* six standard errors */
        assert_in_range(drawn[DRAWS / 2], WORK_NS - wide, WORK_NS + wide);
        assert_in_range(drawn[DRAWS * 159 / 1000], cases[c].low_ns - wide, cases[c].low_ns + wide);
        assert_in_range(drawn[DRAWS * 841 / 1000], cases[c].high_ns - 2 * wide,
                        cases[c].high_ns + 2 * wide);
    }
}

static void outliers_are_as_many_as_told(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(2), 0);
    struct tt_noise noise = {.outlier_permille = 100, .outlier_times = 3};
    int32_t outliers = 0;
    for (int32_t i = 0; i < DRAWS; i++) {
        int64_t ns = tt_noise_of(&noise, &prng, WORK_NS);
        assert_true(ns == WORK_NS || ns == 3 * WORK_NS);
        outliers += ns != WORK_NS;
    }
    assert_in_range(outliers, DRAWS / 10 - DRAWS / 70, DRAWS / 10 + DRAWS / 70);
}

static void without_noise_nothing_is_drawn(void **state) {
    (void)state;
    struct tt_prng prng, before;
    tt_prng_init(&prng, test_seed(3), 0);
    before = prng;
    struct tt_noise noise = {0};
    assert_int_equal(tt_noise_of(&noise, &prng, WORK_NS), WORK_NS);
    assert_memory_equal(&prng, &before, sizeof(prng));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_factor_is_log_normal),
        cmocka_unit_test(outliers_are_as_many_as_told),
        cmocka_unit_test(without_noise_nothing_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
