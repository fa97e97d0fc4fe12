#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_library.h"
#include "unit/engine/engine_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_missing(void **state) {
    (void)state;
    struct tt_ort_library *library = NULL;
    struct tt_error why;
    struct tt_ort_library_options options = {.path = "/nowhere/libonnxruntime.so"};
    assert_int_equal(tt_ort_library_open(&options, &library, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "/nowhere/libonnxruntime.so"));
    assert_null(library);
    setenv("TUTTI_ONNXRUNTIME", "/nowhere/else.so", 1);
    assert_int_equal(tt_ort_library_open(NULL, &library, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "TUTTI_ONNXRUNTIME"));
    assert_non_null(strstr(why.text, "/nowhere/else.so"));
    unsetenv("TUTTI_ONNXRUNTIME");
}

static void test_another_library(void **state) {
    (void)state;
    struct tt_ort_library *library = NULL;
    struct tt_error why;
    struct tt_ort_library_options options = {.path = "libm.so.6"};
    assert_int_equal(tt_ort_library_open(&options, &library, &why), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "OrtGetApiBase"));
    assert_null(library);
}

static void test_open_once(void **state) {
    (void)state;
    struct tt_error why;
    unsetenv("ORT_DISABLE_TELEMETRY");
    for (int round = 0; round < 2; round++) {
        struct tt_ort_library *library = bench_library(), *second = NULL;
        assert_string_equal(getenv("ORT_DISABLE_TELEMETRY"), "1");
        assert_true(strncmp(library->version, "1.", 2) == 0);
        assert_non_null(strstr(library->path, "onnxruntime"));
        assert_int_equal(tt_ort_library_open(NULL, &second, &why), TT_ERR_BUSY);
        assert_null(second);
        tt_ort_library_close(library);
    }
}

static void test_plain_sentences(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"Non-zero status code returned while running Gather node. Name:'g' Status Message: "
         "indices "
         "element out of data bounds, idx=9 must be within the inclusive range [-3,2]",
         "Gather: indices element out of data bounds, idx=9 must be within the inclusive range "
         "[-3,2]"},
        {"Non-zero status code returned while running Add node. Name:'add' Status Message: "
         "/build/onnxruntime/core/providers/cpu/math/element_wise_ops.h:560 void "
         "onnxruntime::BroadcastIterator::Append(ptrdiff_t, ptrdiff_t) axis == 1 || axis == "
         "largest "
         "was false. Attempting to broadcast an axis by a dimension other than 1. 3 by 4\n",
         "Add: axis == 1 || axis == largest was false. Attempting to broadcast an axis by a "
         "dimension other than 1. 3 by 4"},
        {"Load model from /m/x.onnx failed:Protobuf parsing failed.", "Protobuf parsing failed."},
        {"Exception during initialization: /src/core/rnn.h:48 onnxruntime::RNN<T>::RNN(const "
         "onnxruntime::OpKernelInfo&) [with T = float] layout_ == 0 was false. Not there",
         "layout_ == 0 was false. Not there"},
        {"Invalid input name: z", "Invalid input name: z"},
        {"/a/b.cc:12 no signature here", "no signature here"},
        {"", ""},
        {"Exception during initialization: Failed to construct locale with name:en_US.UTF-8",
         "Failed to construct locale with name:en_US.UTF-8; install that locale (Debian: "
         "locales-all), or change `locale` in the model"},
        {"two\nlines\033[0m", "two lines [0m"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        char out[1024];
        tt_ort_plain_sentence(cases[i].from, out, sizeof(out));
        assert_string_equal(out, cases[i].to);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_another_library),
        cmocka_unit_test(test_open_once),
        cmocka_unit_test(test_plain_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
