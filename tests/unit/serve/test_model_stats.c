/* Histograms of durations: every duration is counted below the bound that the table names, and a
 * quantile read from the buckets is as near as model_stats.h promises. */
#include "serve/model_stats.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BOUNDS = TT_DURATION_BUCKETS - 1 };

/* Searched from the first bound on. */
static int32_t naive_bucket(int64_t ns) {
    for (int32_t i = 0; i < BOUNDS; i++)
        if (ns <= tt_duration_bounds_ns[i])
            return i;
    return BOUNDS;
}

static void expect_in(int64_t ns) {
    struct tt_duration_histogram histogram;
    memset(&histogram, 0, sizeof(histogram));
    tt_duration_histogram_add(&histogram, ns);
    for (int32_t i = 0; i < TT_DURATION_BUCKETS; i++)
        assert_int_equal(tt_counter_get(&histogram.counts[i]), i == naive_bucket(ns));
    assert_int_equal(tt_counter_get(&histogram.sum_ns), ns);
}

static void test_every_duration_has_its_bucket(void **state) {
    (void)state;
    for (int32_t i = 0; i < BOUNDS; i++)
        for (int64_t off = -1; off <= 1; off++)
            expect_in(tt_duration_bounds_ns[i] + off);
    expect_in(-5 * TT_S);
    expect_in(INT64_MAX);
    uint64_t seed = test_seed(1);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    for (int i = 0; i < 20000; i++)
        expect_in((int64_t)(tt_prng_next(&prng) >> (tt_prng_next(&prng) % 63)));
}

static void test_bounds_are_near_each_other(void **state) {
    (void)state;
    assert_int_equal(tt_duration_bounds_ns[0], 0);
    assert_int_equal(tt_duration_bounds_ns[1], 100 * TT_US);
    assert_int_equal(tt_duration_bounds_ns[BOUNDS - 1], 10 * TT_S);
    for (int32_t i = 2; i < BOUNDS; i++) {
        int64_t before = tt_duration_bounds_ns[i - 1], bound = tt_duration_bounds_ns[i];
        assert_true(bound > before);
        assert_true(100 * bound <= 128 * before);
    }
}

static void test_coarse_bounds(void **state) {
    (void)state;
    static const int64_t wanted_us[] = {0,       250,     500,     1000,    2000,   5000,
                                        10000,   20000,   50000,   100000,  200000, 500000,
                                        1000000, 2000000, 5000000, 10000000};
    size_t count = 0;
    for (int32_t i = 0; i < BOUNDS; i++)
        if (tt_duration_bound_is_coarse(i)) {
            assert_true(count < sizeof(wanted_us) / sizeof(*wanted_us));
            assert_int_equal(tt_duration_bounds_ns[i], wanted_us[count++] * TT_US);
        }
    assert_int_equal(count, sizeof(wanted_us) / sizeof(*wanted_us));
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The p99 of durations between 100 us and 10 s, as a reader of the buckets sees it. */
static void test_the_error_of_a_p99(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static int64_t durations[COUNT];
    uint64_t seed = test_seed(1);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    for (int round = 0; round < 200; round++) {
        struct tt_duration_histogram histogram;
        memset(&histogram, 0, sizeof(histogram));
        int64_t most = 101 * TT_US + (int64_t)(tt_prng_next(&prng) % (uint64_t)(9 * TT_S));
        for (int i = 0; i < COUNT; i++) {
            uint64_t range = (uint64_t)(most - 100 * TT_US);
            durations[i] = 100 * TT_US + 1 + (int64_t)(tt_prng_next(&prng) % range);
            tt_duration_histogram_add(&histogram, durations[i]);
        }
        qsort(durations, COUNT, sizeof(*durations), by_value);
        int64_t exact = durations[COUNT * 99 / 100 - 1], seen = 0;
        int32_t bucket = 0;
        while ((seen += tt_counter_get(&histogram.counts[bucket])) < COUNT * 99 / 100)
            bucket++;
        assert_true(tt_duration_bounds_ns[bucket] >= exact);
        assert_true(100 * tt_duration_bounds_ns[bucket] <= 128 * exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_duration_has_its_bucket),
        cmocka_unit_test(test_bounds_are_near_each_other),
        cmocka_unit_test(test_coarse_bounds),
        cmocka_unit_test(test_the_error_of_a_p99),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
