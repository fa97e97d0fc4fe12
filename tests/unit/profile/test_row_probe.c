/* threaded */
/* Rows alone and together: which models the probe calls independent. */
#include "profile/row_probe.h"

#include "engine/engine_kind.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/tiny_onnx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct tt_engine_runtime runtime;
static struct tt_engine *engine;

static void no_task(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
    fail_msg("a completion went to the engine's own receiver");
}

static int set_up(void **state) {
    (void)state;
    struct tt_engine_runtime_options where = {.onnxruntime = bench_library_path()};
    struct tt_engine_options one = {.executor_count = 1, .queue_depth = 1, .done = no_task};
    struct tt_error why;
    if (tt_engine_runtime_open(tt_engine_kind_at(0), &where, &runtime, &why))
        return -1;
    return tt_engine_open(&runtime, &one, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    tt_engine_runtime_close(&runtime);
    return 0;
}

/* The probe's verdict on a file with these bytes, and its reason. */
static enum tt_rows probe(struct tt_text take_onnx, bool batched, int32_t max_batch, char *reason) {
    char path[] = "/tmp/tutti-row-probe-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, take_onnx.bytes, take_onnx.length), (ssize_t)take_onnx.length);
    close(file);
    tt_text_fini(&take_onnx);
    struct tt_engine_model_spec spec = {.form = TT_ENGINE_GRAPH,
                                        .name = "tried",
                                        .path = path,
                                        .batched = batched,
                                        .max_batch = max_batch};
    struct tt_engine_model *model = NULL;
    struct tt_error why;
    if (tt_engine_load(&runtime, engine, &spec, &model, &why))
        fail_msg("%s", why.text);
    unlink(path);
    enum tt_rows rows = tt_row_probe(model, 0, &why);
    snprintf(reason, sizeof(why.text), "%s", why.text);
    engine->ops->unload(model);
    return rows;
}

/* One node `operator` from x to y, both [-1, 4], with an integer attribute (NULL: none). */
static struct tt_text one_node(const char *operator, const char * attribute, int64_t value) {
    struct tiny_onnx model;
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_output(&model, "y", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_node(&model, operator, "x", NULL, "y", attribute, value);
    return tiny_onnx_end(&model);
}

static char reason[1024];

static void test_independent_rows(void **state) {
    (void)state;
    assert_int_equal(probe(one_node("Neg", NULL, 0), true, 8, reason), TT_ROWS_INDEPENDENT);
    assert_string_equal(reason, "");
    assert_int_equal(probe(one_node("Softmax", "axis", 1), true, 8, reason), TT_ROWS_INDEPENDENT);
    assert_int_equal(
        probe(tiny_onnx_unary("Identity", TINY_STRING, TINY_DIMS(-1, -1)), true, 8, reason),
        TT_ROWS_INDEPENDENT);
}

static void test_dependent_rows_are_found_with_the_output(void **state) {
    (void)state;
    assert_int_equal(probe(one_node("Softmax", "axis", 0), true, 8, reason), TT_ROWS_DEPENDENT);
    assert_string_equal(reason, "in output 'y' a row is not what it is alone");
}

/* Each row gets what came before it: the first row is what it is alone, the second is not. */
static void test_a_row_that_depends_on_earlier_ones_only(void **state) {
    (void)state;
    struct tiny_onnx model;
    int64_t axis = 0;
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_output(&model, "y", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_constant(&model, "axis", TINY_INT64, 0, NULL, &axis, sizeof(axis));
    tiny_onnx_node(&model, "CumSum", "x", "axis", "y", NULL, 0);
    struct tt_text forwards = tiny_onnx_end(&model);
    assert_int_equal(probe(forwards, true, 8, reason), TT_ROWS_DEPENDENT);
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_output(&model, "y", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_constant(&model, "axis", TINY_INT64, 0, NULL, &axis, sizeof(axis));
    tiny_onnx_node(&model, "CumSum", "x", "axis", "y", "reverse", 1);
    struct tt_text backwards = tiny_onnx_end(&model);
    assert_int_equal(probe(backwards, true, 8, reason), TT_ROWS_DEPENDENT);
}

static void test_a_model_that_draws_numbers_is_unknown(void **state) {
    (void)state;
    assert_int_equal(probe(one_node("RandomNormalLike", NULL, 0), true, 8, reason),
                     TT_ROWS_UNKNOWN);
    assert_non_null(strstr(reason, "differs between two runs of one row"));
}

/* It wants two rows at least, so that no row runs alone. */
static void test_a_model_that_does_not_run_is_unknown(void **state) {
    (void)state;
    struct tiny_onnx model;
    const int64_t shape[] = {2, -1};
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", TINY_FLOAT, TINY_DIMS(-1, 3));
    tiny_onnx_output(&model, "y", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_constant(&model, "shape", TINY_INT64, TINY_DIMS(2), shape, sizeof(shape));
    tiny_onnx_node(&model, "Reshape", "x", "shape", "z", NULL, 0);
    tiny_onnx_node(&model, "CumSum", "z", "axis", "w", NULL, 0);
    int64_t axis = 1;
    tiny_onnx_constant(&model, "axis", TINY_INT64, 0, NULL, &axis, sizeof(axis));
    tiny_onnx_node(&model, "MatMul", "x", "x", "y", NULL, 0);
    assert_int_equal(probe(tiny_onnx_end(&model), true, 8, reason), TT_ROWS_UNKNOWN);
    assert_non_null(strstr(reason, "it runs with no made-up input: "));
}

static void test_no_batch_needs_no_run(void **state) {
    (void)state;
    assert_int_equal(probe(one_node("Softmax", "axis", 0), true, 1, reason), TT_ROWS_INDEPENDENT);
    assert_int_equal(probe(one_node("Softmax", "axis", 0), false, 1, reason), TT_ROWS_INDEPENDENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_independent_rows),
        cmocka_unit_test(test_dependent_rows_are_found_with_the_output),
        cmocka_unit_test(test_a_row_that_depends_on_earlier_ones_only),
        cmocka_unit_test(test_a_model_that_draws_numbers_is_unknown),
        cmocka_unit_test(test_a_model_that_does_not_run_is_unknown),
        cmocka_unit_test(test_no_batch_needs_no_run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
