/* threaded */
#include "profile/find_profile.h"

#include "base/instant.h"
#include "engine/emulated/emulated.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_BATCH = 4 };

static struct tt_engine *engine;

static void done(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
}

static int set_up(void **state) {
    (void)state;
    struct tt_engine_options options = {1, 1, done, NULL};
    struct tt_error why;
    return tt_emulated_engine_open(&options, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    return 0;
}

/* 100 us, 10 per row and 5 per element of length. */
static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)first_step;
    (void)last_step;
    return (100 + 10 * (int64_t)rows + 5 * (int64_t)length) * TT_US;
}

static void say(void *context, enum tt_log_level level, const char *line) {
    (void)context;
    (void)level;
    fail_msg("%s", line);
}

/* The profile that a model with inputs of [rows, dimension] is served with: it has no file, and its
 * objective needs one. */
static struct tt_profile *find(int64_t dimension, const int32_t *classes, int32_t class_count,
                               bool pad) {
    static const struct tt_engine_traits real = {.name = "real"};
    static struct tt_signature signature;
    signature = (struct tt_signature){.batched = true,
                                      .max_batch = MAX_BATCH,
                                      .input_count = 1,
                                      .output_count = 1,
                                      .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, dimension}}}},
                                      .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, dimension}}}}};
    struct tt_model_settings settings = {
        .slo_ns = TT_S, .policy = "", .profile = "", .class_count = class_count, .pad = pad};
    for (int32_t i = 0; i < class_count; i++)
        settings.classes[i] = classes[i];
    struct tt_model_config config = {.engine = &real, .signature = signature};
    struct tt_repository_model model = {
        .name = "m", .directory = "/nonexistent/m", .config = &config, .settings = &settings};
    struct tt_engine_emulation emulation = {&signature, 1, latency, NULL};
    struct tt_find_profile_options options = {
        .model = &model, .path = "/nonexistent/m/1/model.onnx", .stages = "", .say = say};
    struct tt_profile *whole, **steps;
    struct tt_error why;
    assert_int_equal(tt_emulated_engine_load(engine, &emulation, &options.loaded, &why), TT_OK);
    assert_int_equal(tt_find_profile(&options, &whole, &steps, &why), TT_OK);
    assert_null(steps);
    options.loaded->engine->ops->unload(options.loaded);
    tt_profile_check(whole);
    assert_int_equal(whole->max_batch, MAX_BATCH);
    return whole;
}

static bool has_length(const struct tt_profile *profile, int32_t length) {
    return profile->lengths[tt_profile_length_index(profile, length)] == length;
}

static void any_length_is_measured_at_three(void **state) {
    (void)state;
    struct tt_profile *profile = find(-1, NULL, 0, false);
    assert_true(has_length(profile, 1) && has_length(profile, 16) && has_length(profile, 128));
    assert_int_equal(profile->lengths[profile->length_count - 1], 128);
    assert_true(has_length(profile, 17)); /* between the measured ones */
    for (int32_t row = 1; row < profile->length_count; row++)
        assert_true(profile->lengths[row] - profile->lengths[row - 1] <= 8);
    /* A device is never early; larger batches of other lengths are not measured. */
    assert_true(tt_profile_latency(profile, 1, 1) >= latency(NULL, 1, 1, 0, 0));
    assert_true(tt_profile_latency(profile, 4, 16) >= latency(NULL, 4, 16, 0, 0));
    assert_true(tt_profile_latency(profile, 1, 128) >= latency(NULL, 1, 128, 0, 0));
    double there =
        (double)tt_profile_latency(profile, 4, 128) / (double)tt_profile_latency(profile, 1, 128);
    double usual =
        (double)tt_profile_latency(profile, 4, 16) / (double)tt_profile_latency(profile, 1, 16);
    assert_true(there > 0.999 * usual && there < 1.001 * usual);
    tt_profile_free(profile);
}

static void classes_are_measured_alone(void **state) {
    (void)state;
    static const int32_t classes[] = {8, 64};
    struct tt_profile *filled = find(-1, classes, 2, true);
    assert_int_equal(filled->length_count, 2); /* every input has one of these lengths */
    assert_true(filled->lengths[0] == 8 && filled->lengths[1] == 64);
    tt_profile_free(filled);
    struct tt_profile *any = find(-1, classes, 2, false);
    assert_true(has_length(any, 8) && has_length(any, 9) && has_length(any, 64));
    assert_true(any->lengths[0] == 8 && any->lengths[any->length_count - 1] == 64);
    tt_profile_free(any);
}

static void one_shape_has_no_length(void **state) {
    (void)state;
    struct tt_profile *profile = find(3, NULL, 0, false);
    assert_int_equal(profile->length_count, 1);
    assert_int_equal(profile->lengths[0], 0);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_length_is_measured_at_three, set_up, tear_down),
        cmocka_unit_test_setup_teardown(classes_are_measured_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_shape_has_no_length, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
