/* E6: equations 1-5 of E2bird. */
#include "base/prng.h"
#include "lab/closed_form/overlap.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void test_both_readings_of_equation_1(void **state) {
    (void)state;
    struct tt_overlap_gain gain = tt_overlap_gain(1, 3); /* 4 becomes 3 */
    assert_true(fabs(gain.time_share - 0.25) < 1e-12);
    assert_true(fabs(gain.throughput_gain - 1.0 / 3) < 1e-12);
    gain = tt_overlap_gain(3, 1);
    assert_true(fabs(gain.throughput_gain - 1.0 / 3) < 1e-12);
    gain = tt_overlap_gain(0, 1);
    assert_true(gain.time_share == 0 && gain.throughput_gain == 0);
    gain = tt_overlap_gain(2, 2); /* the most there can be */
    assert_true(gain.time_share == 0.5 && gain.throughput_gain == 1);
}

static void test_two_workers_by_hand(void **state) {
    (void)state;
    /* Worker 1 has done 2 of 6, worker 2 has 4 to do; half each: 1 ends at 2 + 8, 2 after 8. */
    struct tt_overlap_pair pair = {
        .capacity = 1, .before = 2, .after = 4, .other = 4, .promise = 9};
    double first, second, least, most;
    tt_overlap_ends(&pair, 0.5, &first, &second);
    assert_true(fabs(first - 10) < 1e-12 && fabs(second - 8) < 1e-12);
    /* Worker 1 may take 7 for what is left: it needs 4 / 7; worker 2 is in time as the last. */
    assert_true(tt_overlap_bounds(&pair, &least, &most));
    assert_true(least == 0 && fabs(most - 3.0 / 7) < 1e-12);
    pair.promise = 5;
    assert_false(tt_overlap_bounds(&pair, &least, &most));
}

/* Equation 5 as printed, with W'1 and W'2 at the share in question. */
static bool printed_equation_5(const struct tt_overlap_pair *p, double u2) {
    double u0 = p->capacity, w1_other = u2 * p->after / (u0 - u2), w2_other = p->other - w1_other;
    return u2 <= u0 + p->after * u0 / (p->before - p->promise * u0) &&
           u2 >= w1_other * u0 / (p->promise * u0 - w2_other);
}

static void test_the_bounds_are_those_of_the_timeline(void **state) {
    (void)state;
    struct tt_prng prng;
    uint64_t seed = test_seed(20210601);
    tt_prng_init(&prng, seed, 0);
    int32_t inside = 0, outside = 0, printed = 0;
    for (int32_t i = 0; i < 200000; i++) {
        double v[5];
        for (int32_t k = 0; k < 5; k++)
            v[k] = (double)(1 + tt_prng_below(&prng, 1000)) / 100;
        struct tt_overlap_pair pair = {
            .capacity = 1, .before = v[0], .after = v[1], .other = v[2], .promise = 2 * v[3]};
        double share = v[4] / 10.01, first, second, least = 0, most = 0;
        tt_overlap_ends(&pair, share, &first, &second);
        bool in_time = first <= pair.promise && second <= pair.promise;
        bool within = tt_overlap_bounds(&pair, &least, &most) && share >= least && share <= most;
        bool at_the_edge = fabs(first - pair.promise) < 1e-9 || fabs(second - pair.promise) < 1e-9;
        if (at_the_edge)
            continue;
        assert_int_equal(within, in_time);
        inside += in_time;
        outside += !in_time;
        double done = share * pair.after / (1 - share);
        bool figure_8 =
            done < pair.other && pair.promise > pair.before && pair.promise > pair.other - done;
        if (figure_8) { /* worker 1 ends first, as the paper draws it */
            assert_int_equal(printed_equation_5(&pair, share), in_time);
            printed++;
        }
    }
    assert_true(inside > 1000 && outside > 1000 && printed > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_readings_of_equation_1),
        cmocka_unit_test(test_two_workers_by_hand),
        cmocka_unit_test(test_the_bounds_are_those_of_the_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
