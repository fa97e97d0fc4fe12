/* threaded */
#include "profile/calibrate.h"

#include "base/instant.h"
#include "engine/emulated/emulated.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/profile_keeper.h"

#include <cmocka.h>

static struct tt_engine *engine;
static int32_t strangers; /* tasks that came to the engine's own `done` */

static void own_done(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
    strangers++;
}

static int set_up(void **state) {
    (void)state;
    struct tt_engine_options options = {1, 1, own_done, &strangers};
    struct tt_error why;
    return tt_emulated_engine_open(&options, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    return 0;
}

/* 100 us, 10 per row, 5 per element of length; each step a ms more than the one before. */
static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)last_step;
    return (100 + 10 * (int64_t)rows + 5 * (int64_t)length + 1000 * (int64_t)first_step) * TT_US;
}

static struct tt_engine_model *load_steps(int64_t dimension, int32_t steps) {
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
    struct tt_engine_emulation options = {&signature, steps, latency, NULL};
    struct tt_engine_model *model;
    struct tt_error why;
    assert_int_equal(tt_emulated_engine_load(engine, &options, &model, &why), TT_OK);
    return model;
}

static struct tt_engine_model *load(int64_t dimension) { return load_steps(dimension, 1); }

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
    struct tt_calibrate_options options = {.max_batch = 6, .runs = 3, .max_ns = TT_S};
    struct tt_calibration_point *points;
    int32_t count;
    struct tt_error why;
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
                                           .max_ns = TT_S,
                                           .progress = note_progress,
                                           .progress_context = &calls};
    struct tt_calibration_point *points;
    int32_t count;
    struct tt_error why;
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
    options = (struct tt_calibrate_options){.max_batch = 1, .runs = 1, .max_ns = 1};
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
                                           .max_ns = TT_S,
                                           .progress = stop_at_second,
                                           .progress_context = &calls};
    struct tt_calibration_point *points = NULL;
    int32_t count = -1;
    struct tt_error why;
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_ERR_CANCELLED);
    assert_int_equal(calls, 2);
    assert_null(points);
    assert_int_equal(count, -1);
    assert_ptr_equal(engine->done, own_done);
    engine->ops->unload(model);
}

/* ---- by step, kept and recalled ---- */

static struct tt_profile_file_origin origin_of(const char *digest) {
    static const char *const names[] = {"first \"a\"", "second"};
    return (struct tt_profile_file_origin){.source = "a test",
                                           .device = "emulated",
                                           .date = "2026-01-31",
                                           .max_batch = 4,
                                           .model_sha256 = digest,
                                           .stages = "stages 2: 7",
                                           .step_count = 2,
                                           .step_names = names};
}

static bool recall(void *context, struct tt_calibration_point *points, int32_t count) {
    return tt_profile_keeper_recall(context, points, count);
}

static void keep(void *context, const struct tt_calibration_point *points, int32_t count) {
    tt_profile_keeper_keep(context, points, count);
}

static bool stop_at_third(void *context, int32_t done, int32_t total, int32_t batch,
                          int32_t length) {
    (void)context;
    (void)total;
    (void)batch;
    (void)length;
    return done < 2;
}

/* D6: a measurement stopped after two of three batch sizes continues with the third. Steps are
 * measured one by one. The resulting file is the one that is read. */
static void test_steps_are_kept_and_recalled(void **state) {
    (void)state;
    char folder[] = "/tmp/tutti-calibrate-XXXXXX", path[64], part[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/p.pbtxt", folder);
    snprintf(part, sizeof(part), "%s.part", path);
    struct tt_engine_model *model = load_steps(3, 2);
    struct tt_calibration_point *points = NULL;
    int32_t count;
    struct tt_error why;
    struct tt_profile_keeper keeper;
    struct tt_profile_file_origin origin = origin_of("abcd");
    struct tt_calibrate_options options = {.max_batch = 4,
                                           .runs = 3,
                                           .max_ns = TT_S,
                                           .by_step = true,
                                           .progress = stop_at_third,
                                           .recall = recall,
                                           .keep = keep,
                                           .progress_context = &keeper};
    tt_profile_keeper_init(&keeper, &origin, path);
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_ERR_CANCELLED);
    assert_int_equal(keeper.count, 6);
    tt_profile_keeper_fini(&keeper);
    /* Of another model nothing is recalled. */
    struct tt_profile_file_origin other = origin_of("ef01");
    tt_profile_keeper_init(&keeper, &other, path);
    assert_null(keeper.before);
    tt_profile_keeper_fini(&keeper);
    tt_profile_keeper_init(&keeper, &origin, path);
    options.progress = NULL;
    assert_int_equal(tt_calibrate(model, &options, &points, &count, &why), TT_OK);
    assert_int_equal(count, 9);
    assert_int_equal(keeper.recalled, 6);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(points[i].step, i % 3 - 1);
        int64_t least = points[i].step < 0 ? 1200 * TT_US : (100 + 1000 * points[i].step) * TT_US;
        assert_true(points[i].low_ns >= least);
    }
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_keeper_print(&keeper, &text);
    assert_int_equal(tt_text_write_file(path, &text, &why), TT_OK);
    tt_profile_keeper_finished(&keeper);
    assert_int_not_equal(access(part, F_OK), 0);
    struct tt_profile_file *file;
    if (tt_profile_file_open(path, 4, &file, &why))
        fail_msg("%s", why.text);
    assert_int_equal(file->step_count, 2);
    assert_string_equal(file->message->step[0]->name, "first \"a\"");
    assert_int_equal(tt_profile_latency(file->steps[1], 1, 0), points[2].median_ns);
    assert_int_equal(tt_profile_latency(file->whole, 4, 0) >= points[0].median_ns, 1);
    struct tt_profile_subject subject = {"abcd", "emulated", "stages 2: 7"};
    assert_int_equal(tt_profile_file_check(file->message, &subject, &why), TT_OK);
    subject.stages = "stages 2: 8";
    assert_int_equal(tt_profile_file_check(file->message, &subject, &why), TT_ERR_INVALID);
    subject = (struct tt_profile_subject){"abcd", "another", "stages 2: 7"};
    assert_int_equal(tt_profile_file_check(file->message, &subject, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "'another'"));
    tt_profile_file_close(file);
    tt_text_fini(&text);
    free(points);
    tt_profile_keeper_fini(&keeper);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    engine->ops->unload(model);
}

/* D6: within a tenth of the best time per row, the smallest. */
static void test_preferred_batch(void **state) {
    (void)state;
    const struct tt_calibration_point points[] = {
        {.step = -1, .batch = 1, .median_ns = 1000}, {.step = -1, .batch = 2, .median_ns = 1400},
        {.step = -1, .batch = 4, .median_ns = 2180}, {.step = -1, .batch = 8, .median_ns = 4000},
        {.step = 0, .batch = 1, .median_ns = 100},   {.step = 0, .batch = 8, .median_ns = 800},
    };
    assert_int_equal(tt_profile_file_preferred(points, 6, -1), 4);
    assert_int_equal(tt_profile_file_preferred(points, 6, 0), 1);
    assert_int_equal(tt_profile_file_preferred(points, 6, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_doubling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_batches_and_lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_are_kept_and_recalled, set_up, tear_down),
        cmocka_unit_test(test_preferred_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
