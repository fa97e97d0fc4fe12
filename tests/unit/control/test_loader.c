/* threaded */
#include "serve/inference.h"
#include "serve/served_model_state.h"
#include "unit/control/model_folder.h"

#include "base/clock.h"
#include "base/processors.h"
#include "control/control.h"
#include "serve/domain.h"
#include "serve/served_model.h"
#include "unit/control/cell_folder.h"

/* x to a = -x and b = |x|. */
static struct tt_text two_outputs(void) {
    struct tiny_onnx model;
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", TINY_FLOAT, TINY_DIMS(-1, 2));
    tiny_onnx_output(&model, "a", TINY_FLOAT, TINY_DIMS(-1, 2));
    tiny_onnx_output(&model, "b", TINY_FLOAT, TINY_DIMS(-1, 2));
    tiny_onnx_node(&model, "Neg", "x", NULL, "a", NULL, 0);
    tiny_onnx_node(&model, "Abs", "x", NULL, "b", NULL, 0);
    return tiny_onnx_end(&model);
}

static struct tt_control *open_loader_with(bool measure_stale) {
    struct tt_control_options options = {
        .repositories = roots,
        .repository_count = 1,
        .loader = {
            .executors = 1, .measure_stale = measure_stale, .say = say, .say_context = &said}};
    struct tt_control *loaded = NULL;
    struct tt_error why = {{0}};
    if (tt_control_open(&options, &loaded, &why))
        fail_msg("%s", why.text);
    return loaded;
}

static struct tt_control *open_loader(void) { return open_loader_with(false); }

static void no_wake(void *context) { (void)context; }

static struct tt_port *port;

static enum tt_err find(struct tt_control *loaded, const char *name, const char *version,
                        struct tt_served_model **out_model, struct tt_error *why) {
    if (!port)
        assert_int_equal(
            tt_serving_open_port(tt_control_serving(loaded), no_wake, NULL, &port, why), TT_OK);
    return tt_serving_find(port, name, version, out_model, why);
}

static void close_all(struct tt_control *loaded) {
    tt_port_close(port);
    port = NULL;
    tt_control_close(loaded);
}

static void expect_unavailable(struct tt_control *loaded, const char *name, const char *reason) {
    struct tt_served_model *model;
    struct tt_error why = {{0}};
    assert_int_equal(find(loaded, name, "", &model, &why), TT_ERR_UNAVAILABLE);
    if (!strstr(why.text, reason))
        fail_msg("'%s' lacks '%s'", why.text, reason);
    if (!strstr(tt_text_string(&said), reason))
        fail_msg("nothing was said of '%s'", reason);
}

static struct tt_served_model *expect_ready(struct tt_control *loaded, const char *name) {
    struct tt_served_model *model = NULL;
    struct tt_error why = {{0}};
    if (find(loaded, name, "", &model, &why))
        fail_msg("%s", why.text);
    return model;
}

static void keep_answer(void *context, struct tt_inference *inference, enum tt_err err,
                        const char *why) {
    (void)why;
    assert_int_equal(err, TT_OK);
    struct tt_tensor_view view;
    tt_inference_output(inference, 0, &view);
    assert_int_equal(view.size_bytes, 2 * sizeof(float));
    memcpy(context, view.bytes, view.size_bytes);
    tt_inference_release(inference);
}

/* Sends {1, -2} and gives the first output. Closing the port waits for the answer. */
static void ask(struct tt_control *loaded, const char *name, float *out_answer) {
    struct tt_error why;
    struct tt_served_model *model = expect_ready(loaded, name);
    struct tt_inference_shape shape = {0, {2, {1, 2}}};
    size_t none = 0, bytes;
    struct tt_inference *inference;
    assert_int_equal(tt_inference_begin(port, model, &shape, &none, 1, &inference, &why), TT_OK);
    float *input = tt_inference_input(inference, 0, &bytes);
    assert_int_equal(bytes, 2 * sizeof(float));
    input[0] = 1;
    input[1] = -2;
    tt_inference_submit(inference, &(struct tt_inference_options){0}, keep_answer, out_answer);
    tt_port_close(port);
    port = NULL;
}

static void test_good_beside_broken(void **state) {
    (void)state;
    make_model("good", negate(2), NULL, NULL);
    struct tt_text broken;
    tt_text_init(&broken);
    tt_text_puts(&broken, "this is no model");
    make_model("broken", broken, NULL, NULL);
    make_model("magic", negate(2), NULL, "policy { name: \"magic\" }");
    make_model("option", negate(2), NULL,
               "policy { name: \"serial\" option { key: \"speed\" value: \"high\" } }");
    struct tt_control *loaded = open_loader();
    assert_int_equal(tt_control_model_count(loaded), 4);
    assert_int_equal(tt_control_ready_count(loaded), 1);
    expect_unavailable(loaded, "broken", "model.onnx");
    expect_unavailable(loaded, "magic", "no policy is called 'magic'; there are: ");
    expect_unavailable(loaded, "magic", "window");
    expect_unavailable(loaded, "option", "speed");
    struct tt_served_model *model = expect_ready(loaded, "good");
    struct tt_error why;
    assert_int_equal(find(loaded, "good", "2", &model, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "'good' version 2"));
    float answer[2] = {0};
    ask(loaded, "good", answer);
    assert_true(answer[0] == -1);
    assert_true(answer[1] == 2);
    close_all(loaded);
}

static void test_shorter_output_list(void **state) {
    (void)state;
    make_model("two", two_outputs(),
               "max_batch_size: 4\n"
               "output [ { name: \"b\" data_type: TYPE_FP32 dims: [ 2 ] } ]\n",
               NULL);
    struct tt_control *loaded = open_loader();
    struct tt_served_model *model = expect_ready(loaded, "two");
    assert_int_equal(tt_served_model_signature(model)->output_count, 1);
    assert_string_equal(tt_served_model_signature(model)->outputs[0].name, "b");
    float answer[2] = {0};
    ask(loaded, "two", answer);
    assert_true(answer[0] == 1);
    assert_true(answer[1] == 2);
    close_all(loaded);
}

/* What varies batches only under policies that look at it, or when padded. */
static void test_varying_shapes(void **state) {
    (void)state;
    make_model("refused", negate(-1), "max_batch_size: 4", "policy { name: \"deferred\" }");
    make_model("off", negate(-1), "max_batch_size: 4",
               "policy { name: \"window\" option { key: \"same_length\" value: \"off\" } }");
    make_model("fallback", negate(-1), "max_batch_size: 4", "slo_us: 50000");
    make_model("padded", negate(-1), "max_batch_size: 4", "slo_us: 50000 length { pad: true }");
    make_model("told", negate(-1),
               "max_batch_size: 4\ninput [ { name: \"x\" data_type: TYPE_FP32 dims: [ 2 ] } ]",
               "slo_us: 50000");
    struct tt_control *loaded = open_loader();
    expect_unavailable(loaded, "refused", "policy 'deferred' puts requests of any shapes");
    expect_unavailable(loaded, "off", "policy 'window' with same_length off");
    expect_ready(loaded, "fallback");
    assert_non_null(strstr(said.bytes, "model fallback version 1: policy window"));
    expect_ready(loaded, "padded");
    assert_non_null(strstr(said.bytes, "model padded version 1: policy adaptive"));
    /* The configuration fixes what the graph leaves open, and clients are held to it. */
    struct tt_served_model *told = expect_ready(loaded, "told");
    assert_non_null(strstr(said.bytes, "model told version 1: policy adaptive"));
    assert_int_equal(tt_served_model_signature(told)->inputs[0].shape.dims[1], 2);
    close_all(loaded);
}

static void test_reshape(void **state) {
    (void)state;
    make_model("reshaped", negate(2),
               "max_batch_size: 4\n"
               "input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 1, 2 ] "
               "reshape { shape: [ 2 ] } } ]\n",
               NULL);
    struct tt_control *loaded = open_loader();
    expect_unavailable(loaded, "reshaped", "tensor 'x' has a reshape");
    close_all(loaded);
}

/* x to Sin, Neg, Exp, Cos: nothing that the optimiser would join. */
static struct tt_text chain(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 1);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, 2));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 2));
    const char *at = "x", *ops[] = {"Sin", "Neg", "Exp", "Cos"};
    for (int i = 0; i < 4; i++)
        at = tiny_op(&m, ops[i], i == 3 ? "y" : NULL, at, NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* D1: what tutti.pbtxt asks for is cut, checked, kept, and answers as the whole does. */
static void test_stages(void **state) {
    (void)state;
    make_model("whole", chain(), NULL, NULL);
    make_model("staged", chain(), NULL, "stages { count: 3 }");
    make_model("decides", chain(), "max_batch_size: 4", "slo_us: 50000 stages { per_node: true }");
    make_model("toomany", chain(), NULL, "stages { count: 9 }");
    make_model("liar", tiny_liar(), NULL, "stages { count: 2 }");
    make_model("both", chain(), NULL, "stages { count: 2 per_node: true }");
    float whole[2] = {0}, staged[2] = {0};
    for (int turn = 0; turn < 2; turn++) {
        tt_text_clear(&said);
        struct tt_control *loaded = open_loader();
        assert_non_null(strstr(said.bytes, turn ? "model staged: 3 stages, as they were cut before"
                                                : "model staged: 3 stages, cut now and checked"));
        expect_unavailable(loaded, "toomany",
                           "9 stages are asked for, but the graph has at most 4");
        expect_unavailable(loaded, "liar", "Softmax 'Softmax/over_rows'");
        expect_unavailable(loaded, "both", "stages wants one of count, auto, per_node, by_batch");
        ask(loaded, "whole", whole);
        ask(loaded, "staged", staged);
        assert_memory_equal(whole, staged, sizeof(whole));
        memset(staged, 0, sizeof(staged));
        struct tt_served_model *decides = expect_ready(loaded, "decides");
        assert_int_equal(decides->step_model.step_count, 4);
        for (int32_t s = 0; s < 4; s++) /* measured one by one */
            assert_ptr_not_equal(decides->step_model.steps[s].profile, decides->profile);
        ask(loaded, "decides", staged);
        assert_memory_equal(whole, staged, sizeof(whole));
        close_all(loaded);
    }
}

static void test_stale_profile(void **state) {
    (void)state;
    make_model("stale", negate(2), NULL, "slo_us: 50000");
    make_model("byhand", negate(2), NULL, "slo_us: 50000");
    static const char points[] = "device: \"abacus\" point { batch: 1 latency_ns: 5000 }\n";
    static const char of_another[] = "model_sha256: \"0123456789abcdef\"\n"
                                     "device: \"abacus\" point { batch: 1 latency_ns: 5000 }\n";
    write_bytes("byhand", "profile.pbtxt", points, strlen(points));
    write_bytes("stale", "profile.pbtxt", of_another, strlen(of_another));
    struct tt_control *loaded = open_loader();
    expect_ready(loaded, "byhand");
    expect_unavailable(loaded, "stale", "it was measured of another model file (0123456789ab");
    expect_unavailable(loaded, "stale", "or serve with --measure-stale");
    close_all(loaded);
    loaded = open_loader_with(true);
    expect_ready(loaded, "stale");
    assert_non_null(strstr(said.bytes, "measuring now"));
    close_all(loaded);
}

static int32_t demand_of(struct tt_control *loaded, const char *name) {
    struct tt_served_model *model;
    struct tt_error why = {{0}};
    if (find(loaded, name, "", &model, &why))
        fail_msg("%s", why.text);
    return tt_profile_demand(model->profile, 1, 0);
}

/* D7: a measured demand counts on a machine with as many processors; on another one a batch needs
 * the whole device, and the log says so. One written by hand counts everywhere. */
static void test_demand_of_other_processors(void **state) {
    (void)state;
    static const char format[] =
        "processors: %d executors: 2 point { batch: 1 latency_ns: 5000 demand: 0.25 }\n";
    char here[128], elsewhere[128];
    static const char by_hand[] = "point { batch: 1 latency_ns: 5000 demand: 0.25 }\n";
    snprintf(here, sizeof(here), format, tt_processors_usable());
    snprintf(elsewhere, sizeof(elsewhere), format, tt_processors_usable() + 1);
    make_model("here", negate(2), NULL, "slo_us: 50000");
    make_model("elsewhere", negate(2), NULL, "slo_us: 50000");
    make_model("byhand", negate(2), NULL, "slo_us: 50000");
    write_bytes("here", "profile.pbtxt", here, strlen(here));
    write_bytes("elsewhere", "profile.pbtxt", elsewhere, strlen(elsewhere));
    write_bytes("byhand", "profile.pbtxt", by_hand, strlen(by_hand));
    struct tt_control *loaded = open_loader();
    assert_int_equal(demand_of(loaded, "here"), 250000);
    assert_int_equal(demand_of(loaded, "byhand"), 250000);
    assert_int_equal(demand_of(loaded, "elsewhere"), TT_DEMAND_WHOLE);
    assert_non_null(strstr(said.bytes, "elsewhere/profile.pbtxt: demands were measured with"));
    assert_null(strstr(said.bytes, "/here/profile.pbtxt: demands"));
    assert_null(strstr(said.bytes, "/byhand/profile.pbtxt: demands"));
    close_all(loaded);
}

/* L2: where a policy decides by the times of stages, a file that knows the whole model only is no
 * profile of it; where it does not, it will do. */
static void test_profile_without_the_stages(void **state) {
    (void)state;
    static const char points[] = "device: \"abacus\" point { batch: 1 latency_ns: 5000 }\n";
    make_model("blind", chain(), NULL, "policy { name: \"lazy\" } stages { per_node: true }");
    make_model("plain", chain(), NULL, "policy { name: \"window\" } stages { per_node: true }");
    write_bytes("blind", "profile.pbtxt", points, strlen(points));
    write_bytes("plain", "profile.pbtxt", points, strlen(points));
    struct tt_control *loaded = open_loader();
    expect_ready(loaded, "plain");
    expect_unavailable(loaded, "blind", "it says nothing of the model's 4 stages");
    expect_unavailable(loaded, "blind", "tutti profile");
    close_all(loaded);
}

/* L2: said when it loads; answered all the same. */
static void test_objective_below_one_request(void **state) {
    (void)state;
    static const char points[] = "device: \"abacus\" point { batch: 1 latency_ns: 900000000 }\n";
    make_model("hasty", negate(2), NULL, "slo_us: 20 policy { name: \"lazy\" }");
    write_bytes("hasty", "profile.pbtxt", points, strlen(points));
    struct tt_control *loaded = open_loader();
    assert_non_null(strstr(said.bytes, "model hasty version 1: slo_us is 20, and one request alone "
                                       "takes 900000 us"));
    float answer[2] = {0};
    ask(loaded, "hasty", answer);
    assert_true(answer[0] == -1 && answer[1] == 2);
    close_all(loaded);
}

static void test_no_repository(void **state) {
    (void)state;
    struct tt_control_options options = {.repositories = (const char *[]){"/nowhere/at/all"},
                                         .repository_count = 1,
                                         .loader = {.executors = 1, .say = say}};
    struct tt_control *loaded = NULL;
    struct tt_error why = {{0}};
    assert_int_not_equal(tt_control_open(&options, &loaded, &why), TT_OK);
    assert_null(loaded);
    assert_non_null(strstr(why.text, "/nowhere/at/all"));
}

static const char emulated_config[] = "backend: \"emulated\" max_batch_size: 4\n"
                                      "input { name: \"x\" data_type: TYPE_FP32 dims: 2 }\n"
                                      "output { name: \"y\" data_type: TYPE_FP32 dims: 2 }\n";

/* No file, no runtime: it answers with its input once its profile's time is over. */
static void test_emulated(void **state) {
    (void)state;
    static const char *const names[] = {"copies", "timeless", "formless"};
    for (int32_t i = 0; i < 3; i++) {
        make_directory(names[i], NULL);
        make_directory(names[i], "1");
        const char *config =
            i == 2 ? "backend: \"emulated\" input { name: \"x\" }" : emulated_config;
        write_bytes(names[i], "config.pbtxt", config, strlen(config));
    }
    static const char profile[] = "linear { beta_ms: 3 }";
    write_bytes("copies", "profile.pbtxt", profile, strlen(profile));
    struct tt_control *loaded = open_loader();
    struct tt_served_model *model = expect_ready(loaded, "copies");
    assert_string_equal(tt_served_model_platform(model), "emulated");
    assert_int_equal(tt_served_model_signature(model)->max_batch, 4);
    float answer[2] = {0};
    int64_t began_at = tt_clock_now();
    ask(loaded, "copies", answer);
    assert_true(tt_clock_now() >= began_at + 3 * TT_MS);
    assert_true(answer[0] == 1 && answer[1] == -2);
    expect_unavailable(loaded, "timeless", "an emulated model takes as long as its profile says");
    expect_unavailable(loaded, "formless", "an emulated model needs inputs and outputs");
    close_all(loaded);
}

static void make_emulated(const char *name, const char *profile, const char *tutti) {
    make_directory(name, NULL);
    make_directory(name, "1");
    write_bytes(name, "config.pbtxt", emulated_config, strlen(emulated_config));
    write_bytes(name, "profile.pbtxt", profile, strlen(profile));
    write_bytes(name, "tutti.pbtxt", tutti, strlen(tutti));
}

/* S11, L1: an emulated model has the steps of its profile, and each takes its own time. What the
 * server cannot emulate is refused. */
static void test_emulated_steps(void **state) {
    (void)state;
    static const char steps[] = "point { batch: 1 latency_ns: 6000000 }\n"
                                "step { name: 'a' point { batch: 1 latency_ns: 1000000 } }\n"
                                "step { name: 'b' point { batch: 1 latency_ns: 2000000 } }\n"
                                "step { name: 'c' point { batch: 1 latency_ns: 3000000 } }\n";
    make_emulated("nodes", steps, "policy { name: 'lazy' }");
    make_emulated("cut", steps, "stages { count: 3 }");
    make_emulated("cells", steps, "unfold { kind: CHAIN } cell { file: 'cell.onnx' }");
    make_emulated("wrong", "step { name: 'a' }", "");
    struct tt_control *loaded = open_loader();
    const struct tt_served_model *model = expect_ready(loaded, "nodes");
    assert_int_equal(model->step_model.step_count, 3);
    assert_int_equal(tt_profile_latency(model->step_model.steps[2].profile, 1, 0), 3 * TT_MS);
    assert_int_equal(tt_profile_latency(model->step_model.whole, 1, 0), 6 * TT_MS);
    float answer[2] = {0};
    int64_t began_at = tt_clock_now();
    ask(loaded, "nodes", answer);
    assert_true(tt_clock_now() >= began_at + 6 * TT_MS);
    assert_true(answer[0] == 1 && answer[1] == -2);
    expect_unavailable(loaded, "cut",
                       "a model with backend 'emulated' has no graph to cut: leave `stages` out");
    expect_unavailable(loaded, "cells",
                       "a model with backend 'emulated' has no files of cells: leave `unfold`");
    expect_unavailable(loaded, "wrong", "profile.pbtxt");
    close_all(loaded);
}

static const struct tt_domain *domain_of(struct tt_control *loaded, const char *name) {
    struct tt_served_model *model = NULL;
    struct tt_error why = {{0}};
    if (find(loaded, name, "", &model, &why))
        fail_msg("%s", why.text);
    return model->domain;
}

/* S11: the devices that an emulated model states are those of its domain. Models with others are
 * not in this domain. What makes no sense is refused, with its place. */
static void test_emulated_devices(void **state) {
    (void)state;
    static const char profile[] = "point { batch: 1 latency_ns: 1000000 demand: 0.25 }";
    static const char shared[] = "policy { name: 'window' } emulation { device_executors: 2 "
                                 "copy_in { fixed_us: 10 gb_per_s: 12 } input_bytes: %d }";
    char first[200], second[200];
    snprintf(first, sizeof(first), shared, 1000);
    snprintf(second, sizeof(second), shared, 2000);
    make_emulated("first", profile, first);
    make_emulated("second", profile, second);
    make_emulated("alone", profile, "policy { name: 'window' }");
    make_emulated("negative", profile, "emulation { device_executors: -1 }");
    make_emulated("slow", profile, "emulation { input_bytes: 1 copy_in { gb_per_s: -3 } }");
    make_emulated("idle", profile, "emulation { copy_out { gb_per_s: 1 } }");
    make_model("computed", negate(2), NULL, "emulation { device_executors: 2 }");
    struct tt_control *loaded = open_loader();
    expect_ready(loaded, "first");
    const struct tt_domain *domain = domain_of(loaded, "first");
    assert_ptr_equal(domain, domain_of(loaded, "second")); /* the bytes are a model's own */
    assert_ptr_not_equal(domain, domain_of(loaded, "alone"));
    for (int32_t e = 0; e < domain->executor_count; e++)
        assert_int_equal(domain->mechanism.executors[e].device, e / 2);
    float answer[2] = {0};
    ask(loaded, "first", answer);
    assert_true(answer[0] == 1 && answer[1] == -2);
    expect_unavailable(loaded, "negative", "tutti.pbtxt:1:13: device_executors is -1");
    expect_unavailable(loaded, "slow", "gb_per_s from 0 to 1e6, not 0 and -3");
    expect_unavailable(loaded, "idle", "copy_out needs output_bytes");
    expect_unavailable(loaded, "computed",
                       "is for models with backend \"emulated\", not \"onnxruntime\"");
    close_all(loaded);
}

/* C4: executors have their next cells before they are idle, unless the settings say otherwise. */
static void test_cells_go_one_batch_ahead(void **state) {
    (void)state;
    static const char letter[] = "policy { name: 'cellular' option { key: 'ahead' value: '0' } }";
    make_cells_under("standard", CHAIN, "", NULL);
    make_cells_under("named", CHAIN, "policy { name: 'cellular' }", NULL);
    make_cells_under("letter", CHAIN, letter, NULL);
    struct tt_control *loaded = open_loader();
    const struct tt_domain *default_value = domain_of(loaded, "standard");
    assert_ptr_equal(domain_of(loaded, "named"), default_value);
    assert_ptr_not_equal(domain_of(loaded, "letter"), default_value);
    static const struct tt_option defaults[] = {
        {"ahead", "1"}, {"choose", "pays"}, {"max_tasks", "1"}};
    int32_t count = TT_COUNT(defaults);
    assert_int_equal(default_value->option_count, count);
    for (int32_t i = 0; i < count; i++) {
        assert_string_equal(default_value->options[i].key, defaults[i].key);
        assert_string_equal(default_value->options[i].value, defaults[i].value);
    }
    close_all(loaded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_beside_broken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shorter_output_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_varying_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reshape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stale_profile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_demand_of_other_processors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_profile_without_the_stages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_objective_below_one_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_repository, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_emulated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_emulated_devices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_emulated_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cells_go_one_batch_ahead, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
