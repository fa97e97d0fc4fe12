/* The ONNX project's own tests of its operators (Debian's libonnx-testdata), run through our
 * engine: each folder has a model, inputs and the outputs that must come. What cannot pass is
 * listed here with its reason; anything else that differs is a failure, and so is an entry of the
 * list that is no longer needed. */
#include "engine/onnxruntime/onnxruntime.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/onnx_tensor.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DATA "/usr/share/libonnx-testdata/data/node"

enum outcome { PASSED, NOT_TENSORS, NOT_LOADED, UNREADABLE, KNOWN, WRONG, OUTCOMES };

static const char *const outcome_names[OUTCOMES] = {
    [PASSED] = "passed",
    [NOT_TENSORS] = "skipped: sequences, optionals or element types that are not served",
    [NOT_LOADED] = "skipped: this ONNX Runtime lacks the operator for these types",
    [UNREADABLE] = "skipped: the test's files are not of the types that its model takes",
    [KNOWN] = "skipped: known to differ (see the list)",
    [WRONG] = "WRONG",
};

static const struct {
    const char *prefix; /* of the test's name */
    const char *reason;
} known[] = {
    {"test_adagrad", "training preview operators are not in inference builds"},
    {"test_adam", "training preview operators are not in inference builds"},
    {"test_momentum", "training preview operators are not in inference builds"},
    {"test_nesterov_momentum", "training preview operators are not in inference builds"},
    {"test_bernoulli", "random numbers: every generator draws its own"},
    {"test_training_dropout", "random numbers: every generator draws its own"},
    {"test_cast_FLOAT_to_STRING", "the runtime prints floats with other digits than numpy"},
    {"test_castlike_FLOAT_to_STRING", "the runtime prints floats with other digits than numpy"},
    {"test_cast_FLOAT_to_BFLOAT16",
     "the data was rounded by truncation, the runtime rounds to even"},
    {"test_gru_batchwise", "the runtime has no batch-first layout for recurrent operators"},
    {"test_lstm_batchwise", "the runtime has no batch-first layout for recurrent operators"},
    {"test_simple_rnn_batchwise", "the runtime has no batch-first layout for recurrent operators"},
    {"test_resize_downsample_scales_linear_align_corners",
     "scales the corners by the rounded size, not by 0.6 of it"},
    {"test_resize_downsample_scales_cubic_align_corners",
     "scales the corners by the rounded size, not by 0.6 of it"},
    {"test_maxunpool_export_with_output_shape",
     "the file reads indices in the small shape, the runtime in output_shape"},
    {"test_strnormalizer_export_monday", "needs the locale en_US.UTF-8, which a machine may lack"},
    /* In the data of Debian 13, seen with ONNX Runtime 1.21.0. */
    {"test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
     "another divisor in the windows that ceil_mode adds"},
    {"test_qlinearmatmul_2D_int8", "the int8 result comes back saturated at -128"},
    {"test_qlinearmatmul_3D_int8", "the int8 result comes back saturated at -128"},
};

static struct bench bench;
static struct tt_engine *engine;

static double half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static double element(const void *bytes, size_t index, enum tt_dtype dtype) {
    if (dtype == TT_DTYPE_FP64) {
        double value;
        memcpy(&value, (const char *)bytes + index * 8, 8);
        return value;
    }
    if (dtype == TT_DTYPE_FP32) {
        float value;
        memcpy(&value, (const char *)bytes + index * 4, 4);
        return (double)value;
    }
    uint16_t bits;
    memcpy(&bits, (const char *)bytes + index * 2, 2);
    if (dtype == TT_DTYPE_FP16)
        return half(bits);
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return (double)value;
}

/* The tolerances of ONNX's own runner, and 1e-6 of the largest value (where a Fourier transform's
 * exact answer is 0, rounding leaves that much); integers and strings exactly. False with the first
 * difference in `why`. */
static bool agrees(const struct tt_tensor_view *view, const struct onnx_tensor *expected,
                   struct tt_error *why) {
    enum tt_dtype dtype = expected->dtype;
    char got_shape[256], want_shape[256];
    if (view->size_bytes != expected->bytes.length || view->shape.rank != expected->shape.rank ||
        memcmp(view->shape.dims, expected->shape.dims, (size_t)view->shape.rank * 8) != 0) {
        tt_fail(TT_ERR_INVALID, why, "%zu bytes of shape %s, not %zu of %s (%s)", view->size_bytes,
                tt_shape_print(&view->shape, got_shape, sizeof(got_shape)), expected->bytes.length,
                tt_shape_print(&expected->shape, want_shape, sizeof(want_shape)),
                tt_dtype_name(dtype));
        return false;
    }
    const unsigned char *got_bytes = view->bytes;
    const unsigned char *want_bytes = (const unsigned char *)tt_text_string(&expected->bytes);
    bool real = dtype == TT_DTYPE_FP64 || dtype == TT_DTYPE_FP32 || dtype == TT_DTYPE_FP16 ||
                dtype == TT_DTYPE_BF16;
    for (size_t i = 0; !real && i < view->size_bytes; i++)
        if (got_bytes[i] != want_bytes[i]) {
            tt_fail(TT_ERR_INVALID, why, "byte %zu is %d, not %d (%s)", i, got_bytes[i],
                    want_bytes[i], tt_dtype_name(dtype));
            return false;
        }
    size_t count = real ? view->size_bytes / tt_dtype_bytes(dtype) : 0;
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double want = fabs(element(want_bytes, i, dtype));
        largest = isfinite(want) && want > largest ? want : largest;
    }
    for (size_t i = 0; i < count; i++) {
        double got = element(got_bytes, i, dtype);
        double want = element(want_bytes, i, dtype);
        bool same = got == want || (isnan(got) && isnan(want)) ||
                    fabs(got - want) <= 1e-7 + 1e-6 * largest + 1e-3 * fabs(want);
        if (!same) {
            tt_fail(TT_ERR_INVALID, why, "element %zu is %.9g, not %.9g (%s)", i, got, want,
                    tt_dtype_name(dtype));
            return false;
        }
    }
    return true;
}

/* Reads `count` files input_0.pb ... or output_0.pb ...; the number that could be read. */
static int32_t read_tensors(const char *folder, const char *what, int32_t count,
                            struct onnx_tensor *tensors) {
    for (int32_t i = 0; i < count; i++) {
        char path[1100];
        snprintf(path, sizeof(path), "%s/%s_%d.pb", folder, what, i);
        if (onnx_tensor_read(path, &tensors[i]))
            return i;
    }
    return count;
}

static enum outcome compare(struct tt_engine_member *member, const struct tt_signature *signature,
                            const char *folder, struct tt_error *why) {
    static struct onnx_tensor expected[TT_MAX_TENSORS];
    int32_t read = read_tensors(folder, "output", signature->output_count, expected);
    enum outcome outcome = read < signature->output_count ? UNREADABLE : PASSED;
    for (int32_t i = 0; i < read; i++) {
        struct tt_tensor_view view;
        engine->ops->output(member->result, i, 0, 1, &view);
        if (outcome == PASSED && !agrees(&view, &expected[i], why)) {
            tt_fail_in(TT_ERR_INVALID, why, "output '%s'", signature->outputs[i].name);
            outcome = WRONG;
        }
        tt_text_fini(&expected[i].bytes);
    }
    return outcome;
}

static enum outcome run_set(struct tt_engine_model *model, const char *folder,
                            struct tt_error *why) {
    static struct onnx_tensor tensors[TT_MAX_TENSORS];
    struct tt_tensor_view views[TT_MAX_TENSORS];
    const struct tt_signature *signature = engine->ops->signature(model);
    int32_t read = read_tensors(folder, "input", signature->input_count, tensors);
    enum outcome outcome = UNREADABLE;
    bool typed = true;
    for (int32_t i = 0; i < read; i++) {
        typed = typed && tensors[i].dtype == signature->inputs[i].dtype;
        views[i] = (struct tt_tensor_view){tt_text_string(&tensors[i].bytes),
                                           tensors[i].bytes.length, tensors[i].shape};
    }
    if (read == signature->input_count && typed) {
        struct tt_engine_member member = {.rows = 1, .inputs = views, .why = why};
        struct tt_engine_task task = {.model = model, .member_count = 1, .members = &member};
        bench_run(&bench, &task);
        outcome = member.err ? WRONG : compare(&member, signature, folder, why);
        if (member.result)
            engine->ops->result_release(member.result);
    }
    for (int32_t i = 0; i < read; i++)
        tt_text_fini(&tensors[i].bytes);
    return outcome;
}

static enum outcome run_node(const char *name, struct tt_error *why) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s/model.onnx", DATA, name);
    struct tt_ort_model_options options = {.path = path};
    struct tt_engine_model *model;
    enum tt_err err = tt_ort_engine_load(engine, &options, &model, why);
    if (err)
        return err != TT_ERR_UNSUPPORTED     ? WRONG
               : strstr(why->text, "served") ? NOT_TENSORS
                                             : NOT_LOADED;
    enum outcome outcome = PASSED;
    for (int set = 0; outcome == PASSED; set++) {
        snprintf(path, sizeof(path), "%s/%s/test_data_set_%d", DATA, name, set);
        if (access(path, F_OK) != 0)
            break;
        outcome = run_set(model, path, why);
    }
    engine->ops->unload(model);
    return outcome;
}

static int known_index(const char *name) {
    for (size_t i = 0; i < TT_COUNT(known); i++)
        if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) == 0)
            return (int)i;
    return -1;
}

static void test_nodes(void **state) {
    (void)state;
    DIR *directory = opendir(DATA);
    if (!directory) {
        print_message("libonnx-testdata is not installed: skipped\n");
        skip();
    }
    struct tt_ort_library *library = bench_library();
    bench_init(&bench);
    struct tt_error why;
    struct tt_engine_options options = {1, 1, bench_done, &bench};
    assert_int_equal(tt_ort_engine_open(library, &options, &engine, &why), TT_OK);
    int counts[OUTCOMES] = {0}, uses[TT_COUNT(known)] = {0};
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (strncmp(entry->d_name, "test_", 5) != 0)
            continue;
        why.text[0] = '\0';
        enum outcome outcome = run_node(entry->d_name, &why);
        int index = known_index(entry->d_name);
        if (outcome == WRONG && index >= 0) {
            uses[index]++;
            outcome = KNOWN;
        }
        if (outcome == WRONG || getenv("TUTTI_TEST_VERBOSE"))
            print_message("%s: %s: %s\n", entry->d_name, outcome_names[outcome], why.text);
        counts[outcome]++;
    }
    closedir(directory);
    engine->ops->close(engine);
    bench_fini(&bench);
    for (int i = 0; i < OUTCOMES; i++)
        print_message("%4d %s\n", counts[i], outcome_names[i]);
    for (size_t i = 0; i < TT_COUNT(known); i++)
        print_message("     %3d %s*: %s\n", uses[i], known[i].prefix, known[i].reason);
    print_message("     on ONNX Runtime %s\n", library->version);
    tt_ort_library_close(library);
    assert_int_equal(counts[WRONG], 0);
    assert_true(counts[PASSED] > 800);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
