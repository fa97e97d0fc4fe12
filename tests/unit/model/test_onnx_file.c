/* The walker of ONNX files: what it reads, and that no bytes can harm it. */
#include "model/onnx/onnx_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/model/onnx_builder.h"
#include "unit/seed.h"

static struct tt_text sample(void) {
    struct tt_text graph = {0}, model = {0};
    onnx_value(&graph, 11, "weights", 1, "4,4"); /* old files list weights as inputs */
    onnx_value(&graph, 11, "x", 1, "batch,3,-,8");
    onnx_value(&graph, 11, "ids", 7, "batch");
    onnx_initializer(&graph, "weights");
    onnx_value(&graph, 12, "y", 10, "batch,10");
    onnx_value(&graph, 12, "z", 8, NULL);
    onnx_model(&model, &graph);
    return model;
}

static void test_reads_the_signature(void **state) {
    (void)state;
    struct tt_text model = sample();
    struct tt_onnx_file *file = NULL;
    struct tt_error why = {""};
    assert_int_equal(tt_onnx_file_parse("m", model.bytes, model.length, &file, &why), TT_OK);
    assert_int_equal(file->ir_version, 8);
    assert_int_equal(file->opset, 17);
    assert_int_equal(file->input_count, 2);
    assert_string_equal(file->inputs[0].spec.name, "x");
    assert_int_equal(file->inputs[0].spec.dtype, TT_DTYPE_FP32);
    char shape[200];
    assert_string_equal(tt_shape_print(&file->inputs[0].spec.shape, shape, sizeof(shape)),
                        "[-1,3,-1,8]");
    assert_string_equal(file->inputs[0].batch_name, "batch");
    assert_int_equal(file->inputs[1].spec.dtype, TT_DTYPE_INT64);
    assert_int_equal(file->output_count, 2);
    assert_int_equal(file->outputs[0].spec.dtype, TT_DTYPE_FP16);
    assert_int_equal(file->outputs[1].spec.dtype, TT_DTYPE_BYTES);
    assert_false(file->outputs[1].has_shape);
    free(file);
    tt_text_fini(&model);
}

static void assert_refused(struct tt_text *take_graph, enum tt_err expected, const char *sentence) {
    struct tt_text model = {0};
    onnx_model(&model, take_graph);
    struct tt_onnx_file *file = NULL;
    struct tt_error why = {""};
    assert_int_equal(tt_onnx_file_parse("m", model.bytes, model.length, &file, &why), expected);
    if (!strstr(why.text, sentence))
        print_error("%s\n", why.text);
    assert_non_null(strstr(why.text, sentence));
    tt_text_fini(&model);
}

static void test_refusals(void **state) {
    (void)state;
    struct tt_text graph = {0};
    assert_refused(&graph, TT_ERR_INVALID, "no output");
    onnx_value(&graph, 12, "c", 14, "1");
    assert_refused(&graph, TT_ERR_UNSUPPORTED, "'c' has ONNX element type 14");
    onnx_value(&graph, 12, "d", 1, "1,1,1,1,1,1,1,1,1");
    assert_refused(&graph, TT_ERR_UNSUPPORTED, "more than the 8 dimensions");
    onnx_value(&graph, 12, "e", 1, "1");
    onnx_value(&graph, 12, "e", 1, "1");
    assert_refused(&graph, TT_ERR_INVALID, "two outputs are named 'e'");
    for (int i = 0; i <= TT_MAX_TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "i%d", i);
        onnx_value(&graph, 11, name, 1, "1");
    }
    assert_refused(&graph, TT_ERR_UNSUPPORTED, "more than the 64 inputs");
    struct tt_error why;
    struct tt_onnx_file *file = NULL;
    assert_int_equal(tt_onnx_file_parse("m", "", 0, &file, &why), TT_ERR_INVALID);
    assert_int_equal(tt_onnx_file_parse("m", "<html>", 6, &file, &why), TT_ERR_INVALID);
    assert_int_equal(tt_onnx_file_read("/nonexistent/x", &file, &why), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_onnx_file_read("/tmp", &file, &why), TT_ERR_INVALID);
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    struct tt_text model = sample();
    int accepted = 0;
    for (size_t length = 0; length < model.length; length++) {
        char *copy = malloc(length + 1); /* its own block: ASan detects reads beyond it */
        memcpy(copy, model.bytes, length);
        char *exact = realloc(copy, length ? length : 1);
        struct tt_onnx_file *file = NULL;
        if (tt_onnx_file_parse("m", exact, length, &file, NULL) == TT_OK) {
            accepted++;
            free(file);
        }
        free(exact);
    }
    assert_true(accepted <= 2); /* after the graph: between two opset imports */
    tt_text_fini(&model);
}

static void test_random_damage(void **state) {
    (void)state;
    unsigned seed = (unsigned)test_seed((uint64_t)getpid());
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        struct tt_text model = sample();
        for (int i = 1 + rand_r(&seed) % 4; i > 0; i--)
            model.bytes[(size_t)rand_r(&seed) % model.length] = (char)rand_r(&seed);
        struct tt_onnx_file *file = NULL;
        if (tt_onnx_file_parse("m", model.bytes, model.length, &file, NULL) == TT_OK)
            free(file);
        else
            refused++;
        tt_text_fini(&model);
    }
    assert_true(refused > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_the_signature),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
