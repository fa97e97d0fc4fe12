/* Points become profiles, steps become a whole, runs become percentiles. */
#include "profile/profile_builder.h"
#include "profile/repetition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct tt_profile *line(int64_t alpha_ns, int64_t beta_ns, int32_t max_batch) {
    struct tt_profile *profile;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(alpha_ns, beta_ns, max_batch, &profile, &why), TT_OK);
    return profile;
}

static void test_points_in_any_order(void **state) {
    (void)state;
    struct tt_profile_builder builder = {0};
    struct tt_profile *profile;
    struct tt_error why;
    for (int32_t b = 200; b >= 1; b--)
        tt_profile_builder_add(&builder,
                               (struct tt_profile_point){.batch = b, .latency_ns = 10 + b});
    assert_int_equal(tt_profile_builder_finish(&builder, 0, &profile, &why), TT_OK);
    assert_int_equal(profile->max_batch, 200);
    assert_int_equal(tt_profile_latency(profile, 123, 0), 133);
    tt_profile_free(profile);
    /* A finished builder is empty again, and an empty one makes no profile. */
    assert_null(builder.points);
    assert_int_equal(tt_profile_builder_finish(&builder, 4, &profile, &why), TT_ERR_INVALID);
}

static void test_medians_of_a_step(void **state) {
    (void)state;
    const struct tt_calibration_point points[] = {
        {.step = TT_CALIBRATION_WHOLE, .batch = 1, .median_ns = 300},
        {.step = 0, .batch = 1, .median_ns = 100},
        {.step = 0, .batch = 2, .median_ns = 120},
        {.step = 1, .batch = 1, .median_ns = 200},
    };
    struct tt_profile *profile;
    struct tt_error why;
    assert_int_equal(tt_profile_from_calibration(points, 4, 0, 2, &profile, &why), TT_OK);
    assert_int_equal(tt_profile_latency(profile, 2, 0), 120);
    tt_profile_free(profile);
    assert_int_equal(tt_profile_from_calibration(points, 4, 2, 2, &profile, &why), TT_ERR_INVALID);
}

/* The first step runs once, the second as often as the input is long. */
static int64_t times(const void *context, int32_t step, int32_t length) {
    (void)context;
    return step == 0 ? 1 : length;
}

static void test_the_whole_is_the_sum_of_its_steps(void **state) {
    (void)state;
    struct tt_profile *steps[] = {line(1, 100, 8), line(2, 10, 4)};
    const int32_t lengths[] = {1, 5};
    struct tt_whole_profile model = {
        .step_count = 2, .steps = steps, .lengths = lengths, .length_count = 2, .times = times};
    struct tt_profile *whole;
    struct tt_error why;
    assert_int_equal(tt_whole_profile_sum(&model, &whole, &why), TT_OK);
    assert_int_equal(whole->max_batch, 4); /* of the step with the fewest rows */
    for (int32_t b = 1; b <= 4; b++) {
        assert_int_equal(tt_profile_latency(whole, b, 1), b + 100 + 2 * b + 10);
        assert_int_equal(tt_profile_latency(whole, b, 5), b + 100 + 5 * (2 * b + 10));
        assert_int_equal(tt_profile_demand(whole, b, 5), TT_DEMAND_WHOLE);
    }
    tt_profile_free(whole);
    /* As cells, larger batches than a step takes run in several tasks: 6 = 4 + 2 rows. */
    model.is_cells = true;
    model.max_batch = 6;
    assert_int_equal(tt_whole_profile_sum(&model, &whole, &why), TT_OK);
    assert_int_equal(tt_profile_latency(whole, 6, 1), 106 + 18 + 14);
    tt_profile_free(whole);
    tt_profile_free(steps[0]);
    tt_profile_free(steps[1]);
}

/* A file may say that steps take centuries, and a request may run them often. */
static void test_a_sum_that_is_too_long_is_refused(void **state) {
    (void)state;
    struct tt_profile *steps[] = {line(0, 100, 4), line(0, INT64_MAX / 16, 2)}, *whole = NULL;
    const int32_t length = 1 << 20;
    struct tt_whole_profile model = {.step_count = 2,
                                     .steps = steps,
                                     .lengths = &length,
                                     .length_count = 1,
                                     .max_batch = 4,
                                     .times = times,
                                     .is_cells = true};
    struct tt_error why;
    assert_int_equal(tt_whole_profile_sum(&model, &whole, &why), TT_ERR_INVALID);
    model.max_batch = 2;
    model.is_cells = false;
    assert_int_equal(tt_whole_profile_sum(&model, &whole, &why), TT_ERR_INVALID);
    assert_null(whole);
    tt_profile_free(steps[0]);
    tt_profile_free(steps[1]);
}

static void test_demand_is_the_mean_over_time(void **state) {
    (void)state;
    const struct tt_profile_point point = {.batch = 1, .latency_ns = 100, .demand_ppm = 200000};
    struct tt_profile_builder builder = {0};
    struct tt_profile *steps[2] = {line(0, 300, 1)}, *whole;
    struct tt_error why;
    const int32_t no_length = 0;
    tt_profile_builder_add(&builder, point);
    assert_int_equal(tt_profile_builder_finish(&builder, 0, &steps[1], &why), TT_OK);
    struct tt_whole_profile model = {.step_count = 2,
                                     .steps = steps,
                                     .lengths = &no_length,
                                     .length_count = 1,
                                     .max_batch = 1,
                                     .times = times};
    /* At length 0 the second step does not run. */
    assert_int_equal(tt_whole_profile_sum(&model, &whole, &why), TT_OK);
    assert_int_equal(tt_profile_demand(whole, 1, 0), TT_DEMAND_WHOLE);
    tt_profile_free(whole);
    const int32_t one = 1;
    model.lengths = &one;
    assert_int_equal(tt_whole_profile_sum(&model, &whole, &why), TT_OK);
    assert_int_equal(tt_profile_demand(whole, 1, 1), (300 * 1000000 + 100 * 200000) / 400);
    tt_profile_free(whole);
    tt_profile_free(steps[0]);
    tt_profile_free(steps[1]);
}

static void test_repetition(void **state) {
    (void)state;
    const struct tt_repetition repetition = {
        .runs = 3, .max_runs = 10, .least_ns = 500, .max_ns = 1000};
    assert_true(tt_repetition_again(&repetition, 0, 5000));  /* always once */
    assert_true(tt_repetition_again(&repetition, 2, 900));   /* too few runs */
    assert_true(tt_repetition_again(&repetition, 5, 499));   /* too short a time */
    assert_false(tt_repetition_again(&repetition, 5, 500));  /* enough of both */
    assert_false(tt_repetition_again(&repetition, 1, 1000)); /* too long a time */
    assert_false(tt_repetition_again(&repetition, 10, 1));   /* too many runs */
    int64_t times_ns[] = {9, 1, 8, 2, 7, 3, 6, 4, 5, 10, 0};
    struct tt_run_times of = tt_run_times_of(times_ns, 11);
    assert_int_equal(of.median_ns, 5);
    assert_int_equal(of.low_ns, 1);
    assert_int_equal(of.high_ns, 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_in_any_order),
        cmocka_unit_test(test_medians_of_a_step),
        cmocka_unit_test(test_the_whole_is_the_sum_of_its_steps),
        cmocka_unit_test(test_a_sum_that_is_too_long_is_refused),
        cmocka_unit_test(test_demand_is_the_mean_over_time),
        cmocka_unit_test(test_repetition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
