/* Repositories made in a temporary directory: completion, conflicts, versions, settings, reports.
 */
#include "model/repository/repository.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/model/engines.h"
#include "unit/model/onnx_builder.h"

static char root[64];

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/tutti-repository-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void put(const char *path, const void *bytes, size_t length) {
    char full[256];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0755);
        *at = '/';
    }
    FILE *file = fopen(full, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static void put_text(const char *path, const char *text) { put(path, text, strlen(text)); }

static void put_onnx(const char *path, const char *input_dims, const char *output_dims) {
    struct tt_text graph = {0}, model = {0};
    onnx_value(&graph, 11, "x", 1, input_dims);
    onnx_value(&graph, 12, "y", 1, output_dims);
    onnx_model(&model, &graph);
    put(path, model.bytes, model.length);
    tt_text_fini(&model);
}

static struct tt_repository *scan(void) {
    struct tt_repository *repository = NULL;
    struct tt_error why = {""};
    assert_int_equal(
        tt_repository_scan(root, test_engines(), TT_MODEL_DEFAULT_MAX_BATCH, &repository, &why),
        TT_OK);
    return repository;
}

static void assert_finding(const struct tt_repository_model *model, const char *expected) {
    for (int32_t i = 0; i < model->findings.count; i++)
        if (strstr(model->findings.items[i].sentence, expected))
            return;
    for (int32_t i = 0; i < model->findings.count; i++)
        print_error("finding: %s\n", model->findings.items[i].sentence);
    fail_msg("no finding has: %s", expected);
}

static const struct tt_repository_model *only(const struct tt_repository *repository, bool ok) {
    assert_int_equal(repository->model_count, 1);
    const struct tt_repository_model *model = &repository->models[0];
    if (tt_repository_model_ok(model) != ok)
        print_error("%s\n", tt_findings_first_problem(&model->findings));
    assert_int_equal(tt_repository_model_ok(model), ok);
    return model;
}

static void test_derived_without_config(void **state) {
    (void)state;
    put_onnx("m/1/model.onnx", "N,3,-", "N,10");
    put_onnx("m/10/model.onnx", "N,3,-", "N,10");
    put_onnx("m/01/model.onnx", "1", "1"); /* not a version */
    struct tt_repository *repository = scan();
    const struct tt_repository_model *model = only(repository, true);
    assert_int_equal(model->version_count, 1);
    assert_int_equal(model->versions[0].number, 10);
    const struct tt_signature *signature = &model->config->signature;
    assert_true(signature->batched);
    assert_int_equal(signature->max_batch, 64);
    assert_int_equal(signature->inputs[0].shape.rank, 3);
    assert_int_equal(signature->inputs[0].shape.dims[0], -1);
    assert_int_equal(signature->inputs[0].shape.dims[1], 3);
    assert_true(model->config->batching.dynamic);
    assert_int_equal(model->config->group_count, 1);
    struct tt_text text = {0};
    assert_int_equal(tt_model_config_json(model->config, &text), TT_OK);
    json_t *json = json_loads(text.bytes, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json, "name")), "m");
    assert_int_equal(json_integer_value(json_object_get(json, "max_batch_size")), 64);
    json_t *input = json_array_get(json_object_get(json, "input"), 0);
    assert_string_equal(json_string_value(json_object_get(input, "data_type")), "TYPE_FP32");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(input, "dims"), 1)), -1);
    assert_true(json_is_false(json_object_get(input, "optional")));
    assert_true(json_is_object(json_object_get(json, "parameters")));
    assert_true(json_is_object(json_object_get(json, "dynamic_batching")));
    json_decref(json);
    tt_text_fini(&text);
    tt_repository_free(repository);
}

static void test_fixed_first_dimension_means_no_batching(void **state) {
    (void)state;
    put_onnx("m/1/model.onnx", "1,3", "1,2");
    struct tt_repository *repository = scan();
    const struct tt_signature *signature = &only(repository, true)->config->signature;
    assert_false(signature->batched);
    assert_int_equal(signature->max_batch, 1);
    assert_int_equal(signature->inputs[0].shape.rank, 2);
    tt_repository_free(repository);
}

static void test_whole_config(void **state) {
    (void)state;
    put_onnx("m/1/model.onnx", "N,4", "N,2");
    put_onnx("m/3/model.onnx", "N,4", "N,2");
    put_text("m/config.pbtxt",
             "platform: \"onnxruntime_onnx\" max_batch_size: 8\n"
             "input { name: \"x\" data_type: TYPE_FP32 dims: [2, 2] reshape { shape: [4] } }\n"
             "instance_group [ { count: 2 kind: KIND_CPU } ]\n"
             "version_policy { all { } }\n"
             "parameters { key: \"a\" value { string_value: \"b\" } }\n"
             "dynamic_batching { preferred_batch_size: [8, 4] max_queue_delay_microseconds: 100\n"
             "  priority_levels: 2 default_priority_level: 2\n"
             "  default_queue_policy { max_queue_size: 5 }\n"
             "  priority_queue_policy { key: 1 value { timeout_action: DELAY "
             "default_timeout_microseconds: 7 } } }\n"
             "optimization { }");
    put_text("m/tutti.pbtxt", "slo_us: 25000 policy { name: \"deferred\" option { key: \"k\" "
                              "value: \"v\" } } profile: \"p.pbtxt\"");
    struct tt_repository *repository = scan();
    const struct tt_repository_model *model = only(repository, true);
    const struct tt_model_config *config = model->config;
    assert_int_equal(model->version_count, 2);
    assert_int_equal(config->signature.max_batch, 8);
    assert_int_equal(config->signature.inputs[0].shape.rank, 3);
    assert_int_equal(config->engine_inputs[0].rank, 2);
    assert_int_equal(config->engine_inputs[0].dims[1], 4);
    assert_int_equal(config->signature.outputs[0].shape.dims[1], 2);
    assert_int_equal(config->batching.preferred[0], 4);
    assert_int_equal(config->batching.max_delay_ns, 100000);
    assert_int_equal(config->batching.rules[1].timeout_ns, 7000);
    assert_true(config->batching.rules[1].delay_late);
    assert_int_equal(config->batching.rules[2].max_count, 5);
    assert_int_equal(config->groups[0].count, 2);
    assert_int_equal(config->groups[0].kind, TT_INSTANCE_CPU);
    assert_int_equal(config->message->n_parameters, 1);
    assert_string_equal(config->message->parameters[0]->key, "a");
    assert_string_equal(config->message->parameters[0]->value->string_value, "b");
    assert_finding(model, "config.pbtxt:10:1: optimization has no effect");
    assert_int_equal(model->settings->slo_ns, 25000000);
    assert_string_equal(model->settings->policy, "deferred");
    assert_int_equal(model->settings->message->policy->n_option, 1);
    assert_string_equal(model->settings->message->policy->option[0]->key, "k");
    assert_string_equal(model->settings->message->policy->option[0]->value, "v");
    assert_string_equal(model->settings->profile, "p.pbtxt");
    tt_repository_free(repository);
}

/* Every problem of a model is found, not only the first. */
static void test_conflicts_are_explained(void **state) {
    (void)state;
    put_onnx("m/1/model.onnx", "N,3,32,32", "N,10");
    put_text("m/config.pbtxt", "name: \"other\"\n"
                               "max_batch_size: 4\n"
                               "input { name: \"x\"\n"
                               "  data_type: TYPE_FP16\n"
                               "  dims: [3, 32, 64] }\n"
                               "output { name: \"yy\" data_type: TYPE_FP32 dims: 10 }\n"
                               "dynamic_batching { preferred_batch_size: 5 }\n"
                               "platform: \"tensorrt_plan\"\n");
    put_text("m/tutti.pbtxt", "length { classes: [16, 16] pad: true }\nslo_us: -1");
    struct tt_repository *repository = scan();
    const struct tt_repository_model *model = only(repository, false);
    assert_finding(model,
                   "config.pbtxt:1:1: the name is 'other', but the model's directory is 'm'");
    assert_finding(model, "config.pbtxt:4:3: input 'x' is FP16 here, but FP32 in");
    assert_finding(model, "write TYPE_FP32");
    assert_finding(model, "config.pbtxt:5:3: input 'x' is [-1,3,32,64] here");
    assert_finding(model, "config.pbtxt:6:10: ");
    assert_finding(model, "has no output 'yy'");
    assert_finding(model, "config.pbtxt:7:20: the preferred batch size 5 is not between 1 and");
    assert_finding(model, "config.pbtxt:8:1: platform 'tensorrt_plan' cannot be served");
    assert_finding(model, "tutti.pbtxt:1:10: length class 16 follows 16");
    assert_finding(model, "tutti.pbtxt:2:1: slo_us is -1");
    tt_repository_free(repository);
}

static void test_batching_rules(void **state) {
    (void)state;
    put_onnx("fixed/1/model.onnx", "1,3", "1,2");
    put_text("fixed/config.pbtxt", "max_batch_size: 4");
    put_onnx("zero/1/model.onnx", "N,3", "N,2");
    put_text("zero/config.pbtxt", "max_batch_size: 0");
    put_onnx("whole/1/model.onnx", "N,3", "N,2");
    put_text("whole/config.pbtxt", "input { name: \"x\" dims: [-1, 3] }");
    put_onnx("sequence/1/model.onnx", "N,3", "N,2");
    put_text("sequence/config.pbtxt", "sequence_batching { }");
    struct tt_repository *repository = scan();
    const struct tt_repository_model *model = tt_repository_find(repository, "fixed");
    assert_false(tt_repository_model_ok(model));
    assert_finding(model, "config.pbtxt:1:1: max_batch_size is 4, but");
    assert_finding(model, "input 'x' has shape [1,3]");
    model = tt_repository_find(repository, "zero");
    assert_true(tt_repository_model_ok(model));
    assert_false(model->config->signature.batched);
    assert_int_equal(model->config->signature.inputs[0].shape.rank, 2);
    model = tt_repository_find(repository, "whole");
    assert_true(tt_repository_model_ok(model));
    assert_false(model->config->signature.batched);
    model = tt_repository_find(repository, "sequence");
    assert_false(tt_repository_model_ok(model));
    assert_finding(model, "sequence batching cannot be served");
    tt_repository_free(repository);
}

static void test_one_bad_model_does_not_stop_the_others(void **state) {
    (void)state;
    put_onnx("good/1/model.onnx", "N,3", "N,2");
    put_text("broken/1/model.onnx", "this is no model");
    put_text("syntax/config.pbtxt", "max_batch_size: \n");
    put_text("empty/readme", "");
    put_text("missing/2/other.onnx", "");
    put_onnx("versions/1/model.onnx", "N,3", "N,2");
    put_onnx("versions/2/model.onnx", "N,4", "N,2");
    put_text("versions/config.pbtxt", "version_policy { specific { versions: [1, 2, 7] } }");
    put_onnx(".hidden/1/model.onnx", "N,3", "N,2");
    put_text("a_file", "");
    struct tt_repository *repository = scan();
    assert_int_equal(repository->model_count, 6);
    assert_string_equal(repository->models[0].name, "broken");
    assert_true(tt_repository_model_ok(tt_repository_find(repository, "good")));
    assert_finding(tt_repository_find(repository, "broken"), "not a");
    assert_finding(tt_repository_find(repository, "syntax"), "config.pbtxt:2:1: field");
    assert_finding(tt_repository_find(repository, "empty"), "there is no version directory");
    assert_finding(tt_repository_find(repository, "missing"), "2/model.onnx: No such file");
    assert_finding(tt_repository_find(repository, "versions"), "version 7 is asked for");
    assert_finding(tt_repository_find(repository, "versions"), "input 'x' is [-1,4] here");
    struct tt_text report = {0};
    tt_repository_report(repository, &report);
    assert_non_null(strstr(tt_text_string(&report), "good: ok, version 1, batches of up to 64"));
    assert_non_null(strstr(tt_text_string(&report), "6 models, 5 with problems"));
    tt_text_clear(&report);
    assert_int_equal(tt_repository_report_json(repository, &report), TT_OK);
    json_t *json = json_loads(report.bytes, 0, NULL);
    assert_int_equal(json_array_size(json), 6);
    assert_true(json_is_false(json_object_get(json_array_get(json, 0), "ok")));
    json_decref(json);
    tt_text_fini(&report);
    tt_repository_free(repository);
}

static void test_unreadable_repository(void **state) {
    (void)state;
    struct tt_repository *repository = NULL;
    struct tt_error why;
    assert_int_equal(tt_repository_scan("/nonexistent", test_engines(), 64, &repository, &why),
                     TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "/nonexistent"));
}

static void test_lengths_must_fit_the_signature(void **state) {
    (void)state;
    put_onnx("good/1/model.onnx", "N,L", "N,2");
    put_text("good/tutti.pbtxt", "length { classes: [16, 32] pad: true }");
    put_onnx("fixed/1/model.onnx", "N,7", "N,2");
    put_text("fixed/tutti.pbtxt", "length { pad: true }");
    struct tt_repository *repository = scan();
    assert_true(tt_repository_model_ok(tt_repository_find(repository, "good")));
    assert_int_equal(tt_repository_find(repository, "good")->settings->classes[1], 32);
    assert_finding(tt_repository_find(repository, "fixed"), "no input has a free dimension");
    tt_repository_free(repository);
}

/* D8: the checks of exits that need no loaded model. */
static void test_exits_make_sense(void **state) {
    (void)state;
    put_onnx("good/1/model.onnx", "N,3", "N,2");
    put_text("good/tutti.pbtxt",
             "stages { count: 4 }\n"
             "exit { after_stage: 1 graph: \"a.onnx\" condition: \"sure\" }\n"
             "exit { after_stage: 1 moved { tensor: \"a\" since: \"b\" less_than: 0.1 } go_to: 3\n"
             "  give { tensor: \"c\" from: \"a\" } }");
    put_onnx("bad/1/model.onnx", "N,3", "N,2");
    put_text("bad/tutti.pbtxt", "exit { condition: \"sure\" }\n"
                                "exit { after_stage: -1 graph: \"a.onnx\" }\n"
                                "exit { after_stage: 2 go_to: 3\n"
                                "  moved { tensor: \"a\" since: \"b\" } give { tensor: \"c\" } }");
    struct tt_repository *repository = scan();
    assert_true(tt_repository_model_ok(tt_repository_find(repository, "good")));
    const struct tt_repository_model *bad = tt_repository_find(repository, "bad");
    assert_finding(bad, "tutti.pbtxt:1:6: an exit stands between stages, and the model has none");
    assert_finding(bad, "tutti.pbtxt:1:8: condition 'sure' wants the graph whose output it is");
    assert_finding(bad, "tutti.pbtxt:2:6: an exit wants one of condition and moved");
    assert_finding(bad, "tutti.pbtxt:2:8: stages are counted from 0, not from -1");
    assert_finding(bad, "tutti.pbtxt:3:23: from stage 2 to stage 3 skips no stage");
    assert_finding(bad, "tutti.pbtxt:4:9: moved wants two tensors, tensor and since, and");
    assert_finding(bad, "give wants tensor and from");
    tt_repository_free(repository);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        CASE(test_derived_without_config), CASE(test_fixed_first_dimension_means_no_batching),
        CASE(test_whole_config),           CASE(test_conflicts_are_explained),
        CASE(test_batching_rules),         CASE(test_one_bad_model_does_not_stop_the_others),
        CASE(test_unreadable_repository),  CASE(test_lengths_must_fit_the_signature),
        CASE(test_exits_make_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
