/* The variates against theory: moments and quantiles. The tolerances are five standard errors or
 * more, the seeds are fixed and printed, and the integers drawn are the same everywhere, so these
 * cannot fail by chance. */
#include "lab/load/draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tt_draw_tables tables;

static double q40(int64_t value) { return (double)value / (double)TT_DRAW_ONE; }

static void log2_is_right(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, 1, 0);
    for (int i = 0; i < 200000; i++) {
        uint64_t value = tt_prng_next(&prng) >> tt_prng_below(&prng, 64);
        if (value == 0)
            continue;
        double exact = (double)log2l((long double)value);
        assert_true(fabs(q40(tt_draw_log2(&tables, value)) - exact) < ldexp(1, -36));
    }
    assert_true(tt_draw_log2(&tables, 1) == 0);
    assert_true(llabs(tt_draw_log2(&tables, 1024) - 10 * TT_DRAW_ONE) <= 2);
    assert_true(q40(tt_draw_log2(&tables, UINT64_MAX)) <= 64.0 + 1e-11);
}

static void exp2_is_right(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, 2, 0);
    int64_t factor = INT64_C(1) << 40;
    for (int i = 0; i < 200000; i++) {
        int64_t x = (int64_t)tt_prng_below(&prng, (uint64_t)40 * TT_DRAW_ONE) - 20 * TT_DRAW_ONE;
        double exact = exp2(q40(x)) * (double)factor;
        double got = (double)tt_draw_scale_exp2(&tables, factor, x);
        assert_true(fabs(got - exact) <= exact * ldexp(1, -36) + 1);
    }
    assert_true(tt_draw_scale_exp2(&tables, factor, 0) == factor);
    assert_true(tt_draw_scale_exp2(&tables, 12345, 3 * TT_DRAW_ONE) == 8 * 12345);
    assert_true(tt_draw_scale_exp2(&tables, factor, 30 * TT_DRAW_ONE) == INT64_MAX);
    assert_true(tt_draw_scale_exp2(&tables, factor, -1200 * TT_DRAW_ONE) == 0);
    assert_true(tt_draw_scale_exp2(&tables, 1, 300 * TT_DRAW_ONE) == INT64_MAX);
}

static void the_exponential_has_its_quantiles(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    struct tt_prng prng;
    tt_prng_init(&prng, 3, 0);
    double sum = 0, squares = 0;
    int below_median = 0, above_p99 = 0;
    for (int i = 0; i < COUNT; i++) {
        double x = q40(tt_draw_exponential(&tables, &prng));
        sum += x;
        squares += x * x;
        below_median += x < log(2);
        above_p99 += x > log(100);
    }
    assert_true(fabs(sum / COUNT - 1) < 0.005);
    assert_true(fabs(squares / COUNT - 2) < 0.025);
    assert_true(abs(below_median - COUNT / 2) < 2500);
    assert_true(abs(above_p99 - COUNT / 100) < 500);
}

/* The regularised lower incomplete gamma function, by its series. */
static double gamma_below(double shape, double x) {
    double term = 1 / shape, sum = term;
    for (int n = 1; n < 2000; n++) {
        term *= x / (shape + n);
        sum += term;
    }
    return sum * exp(-x + shape * log(x) - lgamma(shape));
}

static void gamma_has_its_distribution(void **state) {
    (void)state;
    enum { COUNT = 400000 };
    const double shapes[] = {0.05, 0.1, 0.3, 0.86, 1, 1.5, 4, 50};
    const double at[] = {1e-9, 1e-6, 1e-3, 0.03, 0.2, 0.7, 1, 1.3, 2.5, 6, 20};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
        double shape = shapes[s];
        struct tt_draw_gamma gamma;
        tt_draw_gamma_init(&gamma, &tables, (int64_t)(shape * 1e6 + 0.5));
        struct tt_prng prng;
        tt_prng_init(&prng, 4, s);
        printf("shape %g, seed 4 stream %zu\n", shape, s);
        double sum = 0, squares = 0;
        int below[sizeof(at) / sizeof(*at)] = {0};
        for (int i = 0; i < COUNT; i++) {
            double x = q40(tt_draw_gamma_unit(&gamma, &tables, &prng));
            sum += x;
            squares += x * x;
            for (size_t k = 0; k < sizeof(at) / sizeof(*at); k++)
                below[k] += x < at[k];
        }
        double mean = sum / COUNT, variance = squares / COUNT - mean * mean;
        assert_true(fabs(mean - 1) < 5 * sqrt(1 / shape / COUNT));
        double kurtosis = 3 + 6 / shape;
        assert_true(fabs(variance * shape - 1) < 6 * sqrt(kurtosis / COUNT));
        for (size_t k = 0; k < sizeof(at) / sizeof(*at); k++) {
            double p = gamma_below(shape, at[k] * shape);
            double sigma = sqrt(p * (1 - p) / COUNT) + 1e-6;
            if (fabs((double)below[k] / COUNT - p) > 5 * sigma)
                fail_msg("shape %g: %g below %g, want %g", shape, (double)below[k] / COUNT, at[k],
                         p);
        }
    }
}

static void the_same_seed_draws_the_same(void **state) {
    (void)state;
    struct tt_draw_gamma gamma;
    tt_draw_gamma_init(&gamma, &tables, 300000);
    struct tt_prng prng;
    tt_prng_init(&prng, 99, 0);
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < 10000; i++) {
        hash = (hash ^ (uint64_t)tt_draw_gamma_unit(&gamma, &tables, &prng)) * 1099511628211u;
        hash = (hash ^ (uint64_t)tt_draw_exponential(&tables, &prng)) * 1099511628211u;
    }
    printf("hash %llx\n", (unsigned long long)hash);
    assert_true(hash == UINT64_C(0x767ebf72c9734f3e));
}

int main(void) {
    tt_draw_tables_init(&tables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log2_is_right),
        cmocka_unit_test(exp2_is_right),
        cmocka_unit_test(the_exponential_has_its_quantiles),
        cmocka_unit_test(gamma_has_its_distribution),
        cmocka_unit_test(the_same_seed_draws_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
