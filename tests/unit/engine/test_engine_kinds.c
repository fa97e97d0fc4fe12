/* The registry of engines, and what callers get where a kind lacks an optional part. */
/* threaded */
#include "engine/engine_kind.h"
#include "unit/engine/engine_bench.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = 8,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 1}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 1}}}},
};

static int64_t at_once(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context, (void)rows, (void)length, (void)first_step, (void)last_step;
    return 1;
}

static void test_every_kind_is_complete(void **state) {
    (void)state;
    const struct tt_engine_list *list = tt_engines();
    assert_int_equal(list->count, tt_engine_kind_count());
    for (int32_t i = 0; i < list->count; i++) {
        const struct tt_engine_kind *kind = tt_engine_kind_at(i);
        assert_ptr_equal(list->traits[i], &kind->traits);
        assert_ptr_equal(tt_engine_kind_of(list->traits[i]), kind);
        assert_true(*kind->traits.name && *kind->traits.platform);
        assert_non_null(kind->open);
        assert_non_null(kind->load);
        assert_int_equal(kind->open_shared != NULL, kind->close_shared != NULL);
        assert_ptr_equal(tt_engine_list_find(list, kind->traits.name), &kind->traits);
    }
}

static void test_default_and_unknown_names(void **state) {
    (void)state;
    const struct tt_engine_list *list = tt_engines();
    assert_string_equal(tt_engine_list_find(list, "")->name, "onnxruntime");
    assert_ptr_equal(tt_engine_list_find(list, NULL), list->traits[0]);
    assert_null(tt_engine_list_find(list, "pytorch"));
    assert_true(tt_engine_kind_emulating()->traits.emulates);
}

static enum tt_err never_load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                              struct tt_engine_model **out_model, struct tt_error *why) {
    (void)engine, (void)spec, (void)out_model, (void)why;
    fail_msg("a kind is never asked for a form that it does not run");
    return TT_ERR_INTERNAL;
}

static void test_forms_that_a_kind_does_not_run(void **state) {
    (void)state;
    static const struct tt_engine_kind bare = {.traits = {.name = "bare"}, .load = never_load};
    const struct tt_engine_runtime runtime = {.kind = &bare};
    struct tt_engine_model *model = NULL;
    struct tt_error why;
    struct tt_engine_model_spec spec = {.form = TT_ENGINE_STAGES, .name = "m"};
    assert_int_equal(tt_engine_load(&runtime, NULL, &spec, &model, &why), TT_ERR_UNSUPPORTED);
    assert_string_equal(why.text, "m: backend 'bare' runs no models in stages");
    spec.form = TT_ENGINE_CELL_SET;
    assert_int_equal(tt_engine_load(&runtime, NULL, &spec, &model, &why), TT_ERR_UNSUPPORTED);
    assert_string_equal(why.text, "m: backend 'bare' runs no models of cells");
    assert_null(model);
}

static void test_a_loaded_model_moves_to_another_engine(void **state) {
    (void)state;
    struct bench bench;
    struct tt_error why;
    struct tt_engine_runtime runtime;
    struct tt_engine_runtime_options nothing = {0};
    struct tt_engine_options options = {1, BENCH_DEPTH, bench_done, &bench};
    struct tt_engine *first, *second;
    bench_init(&bench);
    assert_int_equal(tt_engine_runtime_open(tt_engine_kind_emulating(), &nothing, &runtime, &why),
                     TT_OK);
    assert_int_equal(tt_engine_open(&runtime, &options, &first, &why), TT_OK);
    assert_int_equal(tt_engine_open(&runtime, &options, &second, &why), TT_OK);
    struct tt_engine_emulation emulation = {.step_count = 1, .latency_ns = at_once};
    struct tt_engine_model_spec spec = {
        .name = "m", .signature = &signature, .batched = true, .emulation = &emulation};
    struct tt_engine_model *model = NULL;
    assert_int_equal(tt_engine_load(&runtime, first, &spec, &model, &why), TT_OK);
    tt_engine_adopt(&runtime, second, model);
    assert_ptr_equal(model->engine, second);
    first->ops->close(first);

    int32_t number = 42;
    struct tt_tensor_view input = {&number, sizeof(number), {2, {1, 1}}}, output;
    struct tt_engine_member member = {.rows = 1, .inputs = &input};
    struct tt_engine_task task = {.model = model, .member_count = 1, .members = &member};
    bench_run(&bench, &task);
    assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
    assert_int_equal(task.kind, TT_ENGINE_REQUESTS);
    second->ops->output(member.result, 0, 0, 1, &output);
    assert_memory_equal(output.bytes, &number, sizeof(number));
    second->ops->result_release(member.result);
    second->ops->unload(model);
    second->ops->close(second);
    tt_engine_runtime_close(&runtime);
    assert_null(runtime.kind);
    bench_fini(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_complete),
        cmocka_unit_test(test_default_and_unknown_names),
        cmocka_unit_test(test_forms_that_a_kind_does_not_run),
        cmocka_unit_test(test_a_loaded_model_moves_to_another_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
