/* threaded */
/* D7: batches are measured while 1 to E executors are busy; the file keeps what came of it. How
 * long anything takes on a loaded machine proves nothing: test_demand_estimate has the figures. */
#include "profile/contention.h"

#include "base/instant.h"
#include "engine/emulated/emulated.h"
#include "profile/calibrate.h"
#include "profile/profile_keeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { EXECUTORS = 3 };

static struct tt_engine *engine;

static void own_done(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
    fail_msg("a task came to the engine's own `done`");
}

/* One device for all executors: they share its capacity. */
static int set_up(void **state) {
    (void)state;
    static const struct tt_engine_device device = {.executors = EXECUTORS};
    struct tt_engine_options options = {.executor_count = EXECUTORS,
                                        .queue_depth = 1,
                                        .done = own_done,
                                        .done_context = &engine,
                                        .devices = &device,
                                        .device_count = 1};
    struct tt_error why;
    return tt_emulated_engine_open(&options, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    assert_ptr_equal(engine->done, own_done); /* given back as it was */
    assert_ptr_equal(engine->done_context, &engine);
    engine->ops->close(engine);
    return 0;
}

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)length;
    (void)last_step;
    return (100 + 10 * (int64_t)rows + 50 * (int64_t)first_step) * TT_US;
}

static int32_t demand(void *context, int32_t rows, int32_t length, int32_t step) {
    (void)context;
    (void)rows;
    (void)length;
    return step == 0 ? 700000 : 900000;
}

static struct tt_engine_model *load(int32_t steps) {
    static const struct tt_signature signature = {
        .batched = true,
        .max_batch = 4,
        .input_count = 1,
        .output_count = 1,
        .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 2}}}},
        .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 2}}}},
    };
    struct tt_engine_emulation options = {
        .signature = &signature, .step_count = steps, .latency_ns = latency, .demand_ppm = demand};
    struct tt_engine_model *model;
    struct tt_error why;
    assert_int_equal(tt_emulated_engine_load(engine, &options, &model, &why), TT_OK);
    return model;
}

static void check_point(const struct tt_calibration_point *point, int64_t alone_ns) {
    int32_t before = 1;
    for (int32_t k = 0; k < point->busy_count; k++) {
        const struct tt_busy_times *busy = &point->busy[k];
        assert_true(busy->executors > before);
        assert_true(busy->executors <= EXECUTORS);
        before = busy->executors;
        assert_true(busy->runs >= 1);
        assert_true(busy->low_ns >= alone_ns); /* a device is never early */
        assert_true(busy->low_ns <= busy->median_ns);
        assert_true(busy->median_ns <= busy->high_ns);
    }
    if (point->demand_ppm == 0)
        return; /* no run was beside all others, which only a very slow machine does */
    assert_int_equal(before, EXECUTORS);
    assert_true(point->demand_low_ppm >= (TT_DEMAND_WHOLE + EXECUTORS - 1) / EXECUTORS);
    assert_true(point->demand_low_ppm <= point->demand_ppm);
    assert_true(point->demand_ppm <= point->demand_high_ppm);
    assert_true(point->demand_high_ppm <= TT_DEMAND_WHOLE);
}

static bool recall(void *context, struct tt_calibration_point *points, int32_t count) {
    return tt_profile_keeper_recall(context, points, count);
}

static void keep(void *context, const struct tt_calibration_point *points, int32_t count) {
    tt_profile_keeper_keep(context, points, count);
}

static struct tt_profile_file_origin origin_of(int32_t executors) {
    static const char *const names[] = {"first", "second"};
    return (struct tt_profile_file_origin){.source = "a test",
                                           .device = "emulated",
                                           .date = "2026-01-31",
                                           .max_batch = 4,
                                           .model_sha256 = "abcd",
                                           .stages = "stages 2: 7",
                                           .step_count = 2,
                                           .step_names = names,
                                           .processors = 8,
                                           .executors = executors};
}

static void calibrate(struct tt_engine_model *model, struct tt_profile_keeper *keeper,
                      int32_t executors, struct tt_calibration_point **out_points,
                      int32_t *out_count) {
    struct tt_calibrate_options options = {.max_batch = 2,
                                           .runs = 3,
                                           .least_ns = 5 * TT_MS,
                                           .max_ns = TT_S,
                                           .by_step = true,
                                           .executors = executors,
                                           .recall = recall,
                                           .keep = keep,
                                           .progress_context = keeper};
    struct tt_error why;
    if (tt_calibrate(model, &options, out_points, out_count, &why))
        fail_msg("%s", why.text);
}

/* Whole and steps are measured at 1, 2 and 3 executors. Interrupted, it continues with the same
 * figures; with another number of executors it starts again. */
static void test_measured_and_kept(void **state) {
    (void)state;
    char folder[] = "/tmp/tutti-contention-XXXXXX", path[64], part[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/p.pbtxt", folder);
    snprintf(part, sizeof(part), "%s.part", path);
    struct tt_engine_model *model = load(2);
    struct tt_profile_keeper keeper;
    struct tt_profile_file_origin origin = origin_of(EXECUTORS), fewer = origin_of(2);
    struct tt_calibration_point *points, *again;
    int32_t count, again_count;
    tt_profile_keeper_init(&keeper, &origin, path);
    calibrate(model, &keeper, EXECUTORS, &points, &count);
    assert_int_equal(count, 6);
    for (int32_t i = 0; i < count; i++) {
        int32_t step = points[i].step, rows = points[i].batch;
        check_point(&points[i], step < 0
                                    ? latency(NULL, rows, 0, 0, 0) + latency(NULL, rows, 0, 1, 1)
                                    : latency(NULL, rows, 0, step, step));
    }
    tt_profile_keeper_fini(&keeper);
    tt_profile_keeper_init(&keeper, &fewer, path);
    assert_null(keeper.before);
    tt_profile_keeper_fini(&keeper);
    tt_profile_keeper_init(&keeper, &origin, path);
    calibrate(model, &keeper, EXECUTORS, &again, &again_count);
    assert_int_equal(keeper.recalled, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(again[i].demand_ppm, points[i].demand_ppm);
        assert_int_equal(again[i].demand_low_ppm, points[i].demand_low_ppm);
        assert_int_equal(again[i].demand_high_ppm, points[i].demand_high_ppm);
        assert_int_equal(again[i].busy_count, points[i].busy_count);
        for (int32_t k = 0; k < again[i].busy_count; k++)
            assert_memory_equal(&again[i].busy[k], &points[i].busy[k], sizeof(again[i].busy[k]));
    }
    tt_profile_keeper_fini(&keeper);
    free(again);
    free(points);
    assert_int_equal(unlink(part), 0);
    assert_int_equal(rmdir(folder), 0);
    engine->ops->unload(model);
}

static void test_one_executor_measures_no_demand(void **state) {
    (void)state;
    struct tt_engine_model *model = load(1);
    struct tt_profile_keeper keeper;
    struct tt_profile_file_origin origin = origin_of(1);
    tt_profile_keeper_init(&keeper, &origin, NULL);
    struct tt_calibration_point *points;
    int32_t count;
    calibrate(model, &keeper, 1, &points, &count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(points[i].busy_count, 0);
        assert_int_equal(points[i].demand_ppm, 0);
    }
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_keeper_print(&keeper, &text);
    assert_null(strstr(tt_text_string(&text), "demand"));
    assert_null(strstr(tt_text_string(&text), "processors"));
    tt_text_fini(&text);
    tt_profile_keeper_fini(&keeper);
    free(points);
    engine->ops->unload(model);
}

/* An input that cannot be run fails once, with its message, and all executors come to rest. */
static void test_a_run_that_fails(void **state) {
    (void)state;
    struct tt_engine_model *model = load(1);
    int32_t numbers[2] = {0};
    struct tt_tensor_view view = {numbers, sizeof(numbers), {2, {1, 2}}};
    struct tt_contention_subject subject = {.model = model,
                                            .rows = 64, /* more than max_batch */
                                            .inputs = &view,
                                            .executors = EXECUTORS,
                                            .repetition = {3, 1000, 0, TT_S}};
    struct tt_calibration_point point = {.batch = 64, .median_ns = TT_MS};
    struct tt_error why = {{0}};
    assert_int_not_equal(tt_contention_measure(&subject, &point, &why), TT_OK);
    assert_non_null(strstr(why.text, "2 executors busy"));
    assert_int_equal(point.busy_count, 0);
    engine->ops->unload(model);
}

static void test_numbers_of_executors(void **state) {
    (void)state;
    assert_int_equal(tt_contention_next(1, 1), 0);
    assert_int_equal(tt_contention_next(1, 2), 2);
    assert_int_equal(tt_contention_next(2, 2), 0);
    assert_int_equal(tt_contention_next(2, 7), 4);
    assert_int_equal(tt_contention_next(4, 7), 7);
    int32_t levels = 0;
    for (int32_t busy = 1; busy > 0; busy = tt_contention_next(busy, TT_DEMAND_MAX_EXECUTORS))
        levels++;
    assert_true(levels - 1 <= TT_CALIBRATION_MAX_BUSY);
}

/* ---- the file ---- */

/* What is written is read; old files read as before; on another machine the demand is forgotten. */
static void test_file(void **state) {
    (void)state;
    const struct tt_calibration_point points[] = {
        {.step = -1,
         .batch = 1,
         .runs = 9,
         .median_ns = 1000,
         .low_ns = 900,
         .high_ns = 1100,
         .busy_count = 1,
         .busy = {{.executors = 2, .runs = 5, .median_ns = 1300, .low_ns = 1, .high_ns = 1400}},
         .demand_ppm = 650000,
         .demand_low_ppm = 600001,
         .demand_high_ppm = 1000000},
        {.step = -1, .batch = 4, .runs = 9, .median_ns = 4000, .low_ns = 900, .high_ns = 1100},
    };
    struct tt_profile_file_origin origin = origin_of(2);
    origin.step_count = 0;
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_file_print(&origin, points, 2, &text);
    char path[] = "/tmp/tutti-contention-XXXXXX";
    int made = mkstemp(path);
    assert_true(made >= 0);
    close(made);
    struct tt_error why;
    assert_int_equal(tt_text_write_file(path, &text, &why), TT_OK);
    struct tt_profile_file *file;
    if (tt_profile_file_open(path, 4, &file, &why))
        fail_msg("%s", why.text);
    assert_int_equal(tt_profile_demand(file->whole, 1, 0), 650000);
    assert_int_equal(tt_profile_demand(file->whole, 4, 0), TT_DEMAND_WHOLE);
    assert_false(tt_profile_file_demand_is_elsewhere(file, 8));
    assert_true(tt_profile_file_demand_is_elsewhere(file, 2));
    tt_profile_file_forget_demand(file);
    tt_profile_check(file->whole);
    for (int32_t b = 1; b <= 4; b++)
        assert_int_equal(tt_profile_demand(file->whole, b, 0), TT_DEMAND_WHOLE);
    tt_profile_file_close(file);
    tt_text_fini(&text);
    tt_text_init(&text);
    tt_text_puts(&text, "point { batch: 1 latency_ns: 5 runs: 3 low_ns: 4 high_ns: 6 }\n");
    assert_int_equal(tt_text_write_file(path, &text, &why), TT_OK);
    assert_int_equal(tt_profile_file_open(path, 0, &file, &why), TT_OK);
    assert_false(tt_profile_file_demand_is_elsewhere(file, 2));
    assert_int_equal(tt_profile_demand(file->whole, 1, 0), TT_DEMAND_WHOLE);
    tt_profile_file_close(file);
    tt_text_fini(&text);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_measured_and_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_executor_measures_no_demand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_that_fails, set_up, tear_down),
        cmocka_unit_test(test_numbers_of_executors),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
