/* S9: forms of the advice about devices where its answer is known, and the actuator's hysteresis.
 */
#include "scale/autoscaler.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include "base/prng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX_BATCH = 32, TRIALS = 300 };

static struct tt_profile *linear(int64_t alpha_ns, int64_t beta_ns) {
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(alpha_ns, beta_ns, MAX_BATCH, &profile, NULL), TT_OK);
    return profile;
}

static struct tt_devices_model model_of(const struct tt_profile *profile, double slo_s,
                                        double rows_per_s) {
    return (struct tt_devices_model){.curve = tt_batch_curve_of(profile, 0, MAX_BATCH),
                                     .slo_s = slo_s,
                                     .rows_per_s = rows_per_s,
                                     .dispersion = 1};
}

static struct tt_devices_wanted wanted_of(const struct tt_devices_model *model) {
    struct tt_devices_load load = {.models = model, .model_count = 1};
    return tt_devices_wanted(&load, NULL);
}

/* A line is a line: exact at the points and between them, whatever the largest batch is. */
static void a_curve_has_the_profiles_latencies(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    for (int32_t max_batch = 1; max_batch <= MAX_BATCH; max_batch++) {
        struct tt_batch_curve curve = tt_batch_curve_of(profile, 0, max_batch);
        assert_true(tt_batch_curve_end(&curve) == max_batch);
        for (double rows = 1; rows <= max_batch; rows += 0.25) {
            assert_true(fabs(tt_batch_curve_centre(&curve, rows) - (rows * 1e-3 + 5e-3)) < 1e-9);
            assert_true(fabs(tt_batch_curve_tail(&curve, rows) - (rows * 1e-3 + 5e-3)) < 1e-9);
        }
    }
    tt_profile_free(profile);
}

/* The closed form of the staggered bound, (b - 1) / r + l(b) <= SLO, with the largest batch. */
static void work_is_that_of_the_batch_at_the_objective(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    /* At 1000 rows/s: (b - 1) ms + (b + 5) ms <= 24 ms, so b = 10 and l(b) = 15 ms. */
    struct tt_devices_model model = model_of(profile, 0.024, 1000);
    assert_true(fabs(wanted_of(&model).work - (1000 * 0.015 / 10)) < 1e-6);
    /* Without an objective: the largest batch. */
    model.slo_s = 0;
    assert_true(fabs(wanted_of(&model).work - (1000 * 0.037 / MAX_BATCH)) < 1e-6);
    assert_int_equal(wanted_of(&model).count, 2);
    tt_profile_free(profile);
}

static void nothing_offered_wants_one_device(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    struct tt_devices_model model = model_of(profile, 0.024, 0);
    struct tt_devices_wanted wanted = wanted_of(&model);
    assert_int_equal(wanted.count, 1);
    assert_true(wanted.confidence == 0);
    struct tt_devices_load none = {0};
    assert_int_equal(tt_devices_wanted(&none, NULL).count, 1);
    model = model_of(profile, 0.005, 100); /* one row takes 6 ms */
    assert_int_equal(wanted_of(&model).hopeless, 1);
    assert_int_equal(wanted_of(&model).count, 1);
    tt_profile_free(profile);
}

/* More load, more bursts or a tighter objective never want fewer devices. */
static void advice_is_monotone(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int32_t i = 0; i < TRIALS; i++) {
        struct tt_profile *profile = linear(1000 * (1 + (int64_t)tt_prng_below(&prng, 3000)),
                                            1000 * (int64_t)tt_prng_below(&prng, 20000));
        double l1 = tt_batch_curve_of(profile, 0, MAX_BATCH).tail_s[0];
        struct tt_devices_model model =
            model_of(profile, l1 * (1.5 + (double)tt_prng_below(&prng, 50) / 10), 1 + 30 / l1);
        int32_t before = wanted_of(&model).count;
        struct tt_devices_model other = model;
        other.rows_per_s *= 1.2;
        assert_true(wanted_of(&other).count >= before);
        other = model;
        other.dispersion = 4;
        assert_true(wanted_of(&other).count >= before);
        other = model;
        other.slo_s *= 0.8;
        assert_true(wanted_of(&other).hopeless || wanted_of(&other).count >= before);
        tt_profile_free(profile);
    }
}

static void confidence_follows_what_was_counted(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    struct tt_devices_model model = model_of(profile, 0.024, 4000);
    struct tt_devices_load load = {.models = &model, .model_count = 1, .window_s = 10};
    struct tt_devices_wanted shorter = {0}, longer = tt_devices_wanted(&load, NULL);
    /* A Poisson stream of 40,000 rows is known to 1 %: two standard errors. */
    assert_true(fabs(longer.confidence - (0.99)) < 1e-6);
    load.window_s = 0.1;
    shorter = tt_devices_wanted(&load, NULL);
    assert_true(fabs(shorter.confidence - (0.9)) < 1e-6);
    assert_true(shorter.most - shorter.fewest > longer.most - longer.fewest);
    assert_int_equal(shorter.count, longer.count);
    tt_profile_free(profile);
}

static void growth_counts_until_a_new_device_serves(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    struct tt_devices_model model = model_of(profile, 0.024, 4000), grown = model;
    grown.rows_per_s *= 1.5;
    struct tt_devices_load load = {.models = &model,
                                   .model_count = 1,
                                   .growth_per_s = 0.005,
                                   .start_up_s = 100,
                                   .start_cost_s = 20};
    struct tt_devices_wanted wanted = tt_devices_wanted(&load, NULL);
    assert_int_equal(wanted.count, wanted_of(&grown).count);
    assert_true(fabs(wanted.keep_s - 120) < 1e-9);
    load.growth_per_s = -1; /* devices are not given up for a forecast */
    assert_int_equal(tt_devices_wanted(&load, NULL).count, wanted_of(&model).count);
    tt_profile_free(profile);
}

/* Only a fleet that was as large as wanted, and yet failed, teaches something; then it is
 * forgotten. */
static void feedback_corrects_what_the_model_missed(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    struct tt_devices_model model = model_of(profile, 0.024, 12000);
    struct tt_devices_load load = {.models = &model, .model_count = 1};
    struct tt_devices_feedback feedback = {0};
    int32_t modelled = tt_devices_wanted(&load, NULL).count;
    tt_devices_feedback_learn(&feedback, &load, modelled - 1, 0.2, 10);
    assert_int_equal(tt_devices_wanted(&load, &feedback).count, modelled);
    tt_devices_feedback_learn(&feedback, &load, modelled, 0.05, 10);
    struct tt_devices_wanted more = tt_devices_wanted(&load, &feedback);
    assert_true(more.count > modelled);
    assert_true(more.count <= (int32_t)ceil(modelled * 1.06) + 1);
    struct tt_devices_feedback worse = {0};
    tt_devices_feedback_learn(&worse, &load, modelled, 0.2, 10);
    assert_true(worse.factor > feedback.factor);
    assert_true(more.confidence < 1);
    for (int32_t i = 0; i < 20; i++) /* hours without a fault */
        tt_devices_feedback_learn(&feedback, &load, more.count, 0, 3600);
    assert_int_equal(tt_devices_wanted(&load, &feedback).count, modelled);
    tt_profile_free(profile);
}

/* What devices cannot mend does not ask for them without end. */
static void feedback_ends_where_devices_do_not_help(void **state) {
    (void)state;
    struct tt_profile *profile = linear(1000000, 5000000);
    for (int32_t k = 0; k < 40; k++) {
        struct tt_devices_model model = model_of(profile, 0.024, 100 * pow(1.2, k));
        struct tt_devices_load load = {.models = &model, .model_count = 1};
        struct tt_devices_feedback feedback = {0};
        int32_t modelled = tt_devices_wanted(&load, NULL).count, in_force = modelled;
        for (int32_t i = 0; i < 50; i++) {
            tt_devices_feedback_learn(&feedback, &load, in_force, 0.5, 10);
            in_force = tt_devices_wanted(&load, &feedback).count;
        }
        assert_true(in_force > modelled);
        assert_true(in_force <= (int32_t)ceil(1.25 * 1.25 * modelled) + 1);
    }
    tt_profile_free(profile);
}

static struct tt_devices_wanted exactly(int32_t fewest, int32_t count, int32_t most) {
    return (struct tt_devices_wanted){
        .fewest = fewest, .count = count, .most = most, .work = 0.8 * count};
}

static void the_target_rises_at_once_and_falls_late(void **state) {
    (void)state;
    struct tt_autoscaler scaler;
    tt_autoscaler_init(&scaler, 10, 2, 40, 60);
    struct tt_devices_wanted same = exactly(9, 11, 12), more = exactly(15, 16, 18);
    struct tt_devices_wanted fewer = exactly(5, 6, 7), few = exactly(7, 8, 9);
    assert_int_equal(tt_autoscaler_step(&scaler, 0, &same, 0), 10);    /* not sure */
    assert_int_equal(tt_autoscaler_step(&scaler, 1, &same, 0.02), 11); /* but it shows */
    assert_int_equal(tt_autoscaler_step(&scaler, 2, &more, 0), 16);
    assert_int_equal(tt_autoscaler_step(&scaler, 10, &fewer, 0), 16);
    assert_int_equal(tt_autoscaler_step(&scaler, 50, &few, 0), 16);
    assert_int_equal(tt_autoscaler_step(&scaler, 69, &fewer, 0), 16);
    assert_int_equal(tt_autoscaler_step(&scaler, 70, &fewer, 0), 8); /* the highest of the minute */
    assert_int_equal(scaler.adjustments, 3);
    tt_autoscaler_step(&scaler, 80, &fewer, 0);
    tt_autoscaler_step(&scaler, 100, &few, 0); /* that may be needed: the minute begins again */
    assert_int_equal(tt_autoscaler_step(&scaler, 150, &fewer, 0), 8);
    struct tt_devices_wanted none = exactly(1, 1, 1), all = exactly(90, 99, 100);
    tt_autoscaler_init(&scaler, 10, 2, 40, 0);
    assert_int_equal(tt_autoscaler_step(&scaler, 0, &all, 0), 40);
    assert_int_equal(tt_autoscaler_step(&scaler, 1, &none, 0), 2);
}

/* A load at the edge between two targets. */
static void a_target_that_failed_is_not_tried_again(void **state) {
    (void)state;
    struct tt_autoscaler scaler;
    tt_autoscaler_init(&scaler, 10, 1, 40, 0);
    struct tt_devices_wanted eleven = exactly(10, 11, 12), ten = exactly(9, 10, 10);
    struct tt_devices_wanted five = exactly(5, 5, 5), none = exactly(1, 1, 1);
    eleven.work = 8, ten.work = 7.9;
    eleven.error = ten.error = five.error = 0.02;
    assert_int_equal(tt_autoscaler_step(&scaler, 0, &eleven, 0.02), 11);
    assert_int_equal(tt_autoscaler_step(&scaler, 10, &ten, 0), 11);
    five.work = 7.7; /* not surely less than it may have been */
    assert_int_equal(tt_autoscaler_step(&scaler, 20, &five, 0), 11);
    five.work = 7.6;
    assert_int_equal(tt_autoscaler_step(&scaler, 30, &five, 0), 5);
    tt_autoscaler_init(&scaler, 10, 1, 40, 0);
    assert_int_equal(tt_autoscaler_step(&scaler, 0, &eleven, 0.02), 11);
    assert_int_equal(tt_autoscaler_step(&scaler, 3599, &ten, 0), 11);
    assert_int_equal(tt_autoscaler_step(&scaler, 3600, &ten, 0), 10);
    assert_int_equal(tt_autoscaler_step(&scaler, 3601, &none, 0), 1);
}

static void a_target_out_of_bounds(void) {
    struct tt_autoscaler scaler;
    tt_autoscaler_init(&scaler, 10, 2, 40, 60);
    scaler.target = 41;
    tt_autoscaler_check(&scaler);
}

static void check_sees_broken_objects(void **state) {
    (void)state;
    assert_breaks(a_target_out_of_bounds, "a_target_out_of_bounds", "self->target <= self->most");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_has_the_profiles_latencies),
        cmocka_unit_test(work_is_that_of_the_batch_at_the_objective),
        cmocka_unit_test(nothing_offered_wants_one_device),
        cmocka_unit_test(advice_is_monotone),
        cmocka_unit_test(confidence_follows_what_was_counted),
        cmocka_unit_test(growth_counts_until_a_new_device_serves),
        cmocka_unit_test(feedback_corrects_what_the_model_missed),
        cmocka_unit_test(feedback_ends_where_devices_do_not_help),
        cmocka_unit_test(the_target_rises_at_once_and_falls_late),
        cmocka_unit_test(a_target_that_failed_is_not_tried_again),
        cmocka_unit_test(check_sees_broken_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
