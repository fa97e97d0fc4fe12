#include "base/histogram.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void small_values_are_exact(void **state) {
    (void)state;
    struct tt_histogram h;
    tt_histogram_init(&h);
    assert_int_equal(tt_histogram_quantile(&h, 1, 2), 0);
    for (int64_t v = 1; v <= 100; v++)
        tt_histogram_add(&h, v);
    assert_int_equal(tt_histogram_quantile(&h, 1, 2), 50);
    assert_int_equal(tt_histogram_quantile(&h, 99, 100), 99);
    assert_int_equal(tt_histogram_quantile(&h, 1, 1), 100);
    assert_int_equal(tt_histogram_quantile(&h, 0, 1), 1);
    assert_int_equal(tt_histogram_mean(&h), 50);
    tt_histogram_fini(&h);
}

static void quantiles_are_within_a_256th(void **state) {
    (void)state;
    uint64_t seed = 20240611;
    printf("seed %llu\n", (unsigned long long)seed);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    enum { COUNT = 20000 };
    int64_t *values = malloc(COUNT * sizeof(*values));
    assert_non_null(values);
    struct tt_histogram h, halves[2];
    tt_histogram_init(&h);
    tt_histogram_init(&halves[0]);
    tt_histogram_init(&halves[1]);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (int64_t)(tt_prng_next(&prng) >> (1 + tt_prng_below(&prng, 63)));
        tt_histogram_add(&h, values[i]);
        tt_histogram_add(&halves[i & 1], values[i]);
    }
    tt_histogram_merge(&halves[0], &halves[1]);
    qsort(values, COUNT, sizeof(*values), compare);
    for (int64_t permille = 0; permille <= 1000; permille++) {
        int64_t rank = (COUNT * permille + 999) / 1000;
        int64_t exact = values[rank > 0 ? rank - 1 : 0];
        int64_t got = tt_histogram_quantile(&h, permille, 1000);
        assert_true(llabs(got - exact) <= exact / 256 + 1);
        assert_int_equal(got, tt_histogram_quantile(&halves[0], permille, 1000));
    }
    assert_int_equal(h.minimum, values[0]);
    assert_int_equal(h.maximum, values[COUNT - 1]);
    free(values);
    tt_histogram_fini(&h);
    tt_histogram_fini(&halves[0]);
    tt_histogram_fini(&halves[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(quantiles_are_within_a_256th),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
