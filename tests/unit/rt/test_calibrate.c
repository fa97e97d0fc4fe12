/* threaded */
#include "rt/calibrate.h"

#include "base/instant.h"
#include "engine/emulated.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tt_engine *engine;
static int32_t strangers; /* tasks that came to the engine's own `done` */

static void own_done(void *context, struct tt_engine_task *task) {
    (void)context;
    (void)task;
    strangers++;
}

static int set_up(void **state) {
    (void)state;
    struct tt_emulated_engine_options options = {1, 1, own_done, &strangers};
    struct tt_message why;
    return tt_emulated_engine_open(&options, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    return 0;
}

/* 100 us, 10 per row, 5 per element of length. */
static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)first_step;
    (void)last_step;
    return (100 + 10 * (int64_t)rows + 5 * (int64_t)length) * TT_US;
}

static struct tt_engine_model *load(int64_t dimension) {
    static struct tt_signature signature;
    signature = (struct tt_signature){
        .batched = true,
        .max_batch = 64,
        .input_count = 2,
        .output_count = 1,
        .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, dimension}}},
                   {"s", TT_DTYPE_BYTES, {2, {-1, 2}}}},
        .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, dimension}}}},
    };
    struct tt_emulated_model_options options = {&signature, 1, latency, NULL};
    struct tt_engine_model *model;
    struct tt_message why;
    assert_int_equal(tt_emulated_engine_load(engine, &options, &model, &why), TT_OK);
    return model;
}

static void check_point(const struct tt_calibration_point *point, int32_t batch, int32_t length) {
    assert_int_equal(point->batch, batch);
    assert_int_equal(point->length, length);
    assert_true(point->runs >= 3);
    /* A device is never early; how late it is depends on the machine. */
    assert_true(point->low_ns >= latency(NULL, batch, length, 0, 0));
    assert_true(point->median_ns >= point->low_ns);
    assert_true(point->high_ns >= point->median_ns);
}

static void test_doubling(void **state) {
    (void)state;
    struct tt_engine_model *model = load(3);
    struct tt_calibrate_options options = {.max_batch = 6, .runs = 3, .most_ns = TT_S};
    struct tt_calibration_point *points;
    int32_t count;
    struct tt_message why;
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_OK);
    static const int32_t batches[] = {1, 2, 4, 6};
    assert_int_equal(count, TT_COUNT(batches));
    for (int32_t i = 0; i < count; i++)
        check_point(&points[i], batches[i], 0); /* nothing varies: no length */
    /* What becomes of it: a table that never decreases. */
    struct tt_profile_point table[TT_COUNT(batches)];
    for (int32_t i = 0; i < count; i++)
        table[i] =
            (struct tt_profile_point){.batch = points[i].batch, .latency_ns = points[i].median_ns};
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_points(table, count, 6, &profile, &why), TT_OK);
    for (int32_t b = 2; b <= 6; b++)
        assert_true(tt_profile_latency(profile, b, 0) >= tt_profile_latency(profile, b - 1, 0));
    tt_profile_free(profile);
    free(points);
    assert_int_equal(strangers, 0);
    assert_ptr_equal(engine->done, own_done); /* given back as it was */
    assert_ptr_equal(engine->done_context, &strangers);
    engine->ops->unload(model);
}

static bool note_progress(void *context, int32_t done, int32_t total, int32_t batch,
                          int32_t length) {
    int32_t *calls = context;
    assert_int_equal(done, *calls);
    assert_int_equal(total, 4);
    assert_int_equal(batch, done % 2 ? 5 : 1);
    assert_int_equal(length, done < 2 ? 8 : 32);
    ++*calls;
    return true;
}

static void test_given_batches_and_lengths(void **state) {
    (void)state;
    struct tt_engine_model *model = load(-1);
    static const int32_t batches[] = {1, 5}, lengths[] = {8, 32};
    int32_t calls = 0;
    struct tt_calibrate_options options = {.max_batch = 64,
                                           .batches = batches,
                                           .batch_count = 2,
                                           .lengths = lengths,
                                           .length_count = 2,
                                           .runs = 1,
                                           .least_ns = TT_MS,
                                           .most_ns = TT_S,
                                           .progress = note_progress,
                                           .progress_context = &calls};
    struct tt_calibration_point *points;
    int32_t count;
    struct tt_message why;
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(calls, 4);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(points[i].batch, batches[i % 2]);
        assert_int_equal(points[i].length, lengths[i / 2]);
        assert_true(points[i].low_ns >= latency(NULL, batches[i % 2], lengths[i / 2], 0, 0));
        assert_true(points[i].high_ns * points[i].runs >= TT_MS); /* least_ns was kept */
    }
    free(points);
    /* No lengths given although one varies: the usual one. */
    options = (struct tt_calibrate_options){.max_batch = 1, .runs = 1, .most_ns = 1};
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(points[0].length, 16);
    assert_int_equal(points[0].runs, 1);
    free(points);
    engine->ops->unload(model);
}

static bool stop_at_second(void *context, int32_t done, int32_t total, int32_t batch,
                           int32_t length) {
    (void)total;
    (void)batch;
    (void)length;
    ++*(int32_t *)context;
    return done < 1;
}

static void test_stopped(void **state) {
    (void)state;
    struct tt_engine_model *model = load(3);
    int32_t calls = 0;
    struct tt_calibrate_options options = {.max_batch = 64,
                                           .runs = 1,
                                           .most_ns = TT_S,
                                           .progress = stop_at_second,
                                           .progress_context = &calls};
    struct tt_calibration_point *points = NULL;
    int32_t count = -1;
    struct tt_message why;
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    assert_null(points);
    assert_int_equal(count, -1);
    assert_ptr_equal(engine->done, own_done);
    engine->ops->unload(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_doubling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_batches_and_lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
