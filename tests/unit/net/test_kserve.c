/* The protocol's bodies: what is taken, what is refused with which words, and what the answer looks
 * like. */
#include "fake_serving.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct tt_serving serving;
static struct tt_port *port;
static struct tt_error why;
static struct tt_inference *finished;
static enum tt_err finished_err;

static void no_wake(void *context) { (void)context; }

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *reason) {
    (void)context;
    (void)reason;
    finished = inference;
    finished_err = err;
}

static int set_up(void **state) {
    (void)state;
    fake_serving_init(&serving);
    return tt_serving_open_port(&serving, no_wake, NULL, &port, NULL);
}

static int tear_down(void **state) {
    (void)state;
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}

/* Runs one request; the answer (JSON, then binary parts) goes to `out`. A copy on the heap shows
 * reads past its end. */
static enum tt_err ask(const char *model_name, const char *body, size_t length, int64_t json_bytes,
                       struct tt_text *out) {
    struct tt_served_model *model;
    assert_int_equal(tt_serving_find(port, model_name, "", &model, NULL), TT_OK);
    char *copy = malloc(length ? length : 1);
    memcpy(copy, body, length);
    struct tt_kserve_request request;
    tt_kserve_request_init(&request);
    why.text[0] = '\0';
    struct tt_inference *inference = NULL;
    strcpy(request.target.model, model_name);
    const struct tt_kserve_json_body read = {copy, length, json_bytes, TT_JSON_MAX_DEPTH};
    enum tt_err err = tt_kserve_json_read(&request, tt_served_model_signature(model), &read, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(copy);
    if (!err) {
        tt_inference_submit(inference, &request.options, on_done, NULL);
        tt_port_drain(port);
        assert_ptr_equal(finished, inference);
        assert_int_equal(finished_err, TT_OK);
        struct tt_kserve_answer answer;
        struct tt_kserve_parts parts;
        tt_kserve_answer_fill(&answer, &request, model, inference);
        err = tt_kserve_json_write(&answer, out, &parts, &why);
        for (int32_t i = 0; i < parts.count && !err; i++)
            tt_text_append(out, parts.parts[i].bytes, parts.parts[i].size_bytes);
        tt_inference_release(inference);
    }
    tt_kserve_request_fini(&request);
    assert_int_equal(serving.live_count, 0);
    return err;
}

static void check_answer(const char *model, const char *body, const char *expected) {
    struct tt_text out;
    tt_text_init(&out);
    enum tt_err err = ask(model, body, strlen(body), -1, &out);
    if (err)
        print_error("%s\n-> %s\n", body, why.text);
    assert_int_equal(err, TT_OK);
    assert_string_equal(tt_text_string(&out), expected);
    tt_text_fini(&out);
}

#define IN4 "{\"name\":\"IN\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[[1,2],[3,4.5]]}"
#define A4 "{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[1,4],\"data\":[1,2,3,4]}"
#define B4 "{\"data\":[10,20,30,40],\"shape\":[1,4],\"datatype\":\"INT32\",\"name\":\"B\"}"

static void test_json_there_and_back(void **state) {
    (void)state;
    check_answer("identity", "{\"inputs\":[" IN4 "]}",
                 "{\"model_name\":\"identity\",\"model_version\":\"1\",\"outputs\":[{\"name\":"
                 "\"OUT\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[1.0,2.0,3.0,4.5]}]}");
    check_answer("addsub",
                 " {\"outputs\":[{\"name\":\"DIFF\"}],\"inputs\":[" B4 "," A4
                 "],\"id\":\"a\\\"\\u0041"
                 "\",\"unknown\":[{\"x\":null}]} ",
                 "{\"id\":\"a\\\"\\u0041\",\"model_name\":\"addsub\",\"model_version\":\"1\","
                 "\"outputs\":[{\"name\":\"DIFF\",\"datatype\":\"INT32\",\"shape\":[1,4],\"data\":"
                 "[-9,-18,-27,-36]}]}");
    check_answer(
        "strings",
        "{\"id\":\"\",\"inputs\":[{\"name\":\"IN\",\"shape\":[2,1],\"datatype\":\"BYTES\","
        "\"data\":[\"]\\\"\",\"b\"]}]}",
        "{\"id\":\"\",\"model_name\":\"strings\",\"model_version\":\"1\",\"outputs\":[{"
        "\"name\":\"OUT\",\"datatype\":\"BYTES\",\"shape\":[2,1],\"data\":[\"]\\\"\",\"b\"]"
        "}]}");
}

static void test_binary_there_and_back(void **state) {
    (void)state;
    const char json[] =
        "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[{\"name\":\"A\","
        "\"shape\":[1,4],\"datatype\":\"INT32\",\"parameters\":{\"binary_data_size\":"
        "16}}," B4 "]}";
    const int32_t a[] = {1, 2, 3, 4}, sums[] = {11, 22, 33, 44, -9, -18, -27, -36};
    char body[1024];
    memcpy(body, json, sizeof(json) - 1);
    memcpy(body + sizeof(json) - 1, a, sizeof(a));
    size_t length = sizeof(json) - 1 + sizeof(a);
    struct tt_text out;
    tt_text_init(&out);
    assert_int_equal(ask("addsub", body, length, sizeof(json) - 1, &out), TT_OK);
    const char expected[] =
        "{\"model_name\":\"addsub\",\"model_version\":\"1\",\"outputs\":[{"
        "\"name\":\"SUM\",\"datatype\":\"INT32\",\"shape\":[1,4],\"parameters\":"
        "{\"binary_data_size\":16}},{\"name\":\"DIFF\",\"datatype\":\"INT32\","
        "\"shape\":[1,4],\"parameters\":{\"binary_data_size\":16}}]}";
    assert_int_equal(out.length, sizeof(expected) - 1 + sizeof(sums));
    assert_memory_equal(out.bytes, expected, sizeof(expected) - 1);
    assert_memory_equal(out.bytes + sizeof(expected) - 1, sums, sizeof(sums));
    tt_text_clear(&out);
    /* Sizes that lie, either way */
    assert_int_equal(ask("addsub", body, length - 1, sizeof(json) - 1, &out), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "only 15 bytes are left"));
    assert_int_equal(ask("addsub", body, length + 1, sizeof(json) - 1, &out), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "unexpected additional input data"));
    assert_int_equal(ask("addsub", body, length, -1, &out), TT_ERR_INVALID);
    assert_int_equal(ask("addsub", body, length, (int64_t)length + 1, &out), TT_ERR_INVALID);
    assert_int_equal(ask("addsub", body, length, -2, &out), TT_ERR_INVALID);
    tt_text_fini(&out);
}

static void test_raw_binary(void **state) {
    (void)state;
    const float values[] = {1, 2, 3};
    struct tt_text out;
    tt_text_init(&out);
    assert_int_equal(ask("identity", (const char *)values, sizeof(values), 0, &out), TT_OK);
    assert_non_null(strstr(out.bytes, "\"shape\":[1,3],\"parameters\":{\"binary_data_size\":12}"));
    assert_memory_equal(out.bytes + out.length - 12, values, 12);
    tt_text_clear(&out);
    assert_int_equal(ask("strings", "hello", 5, 0, &out), TT_OK);
    assert_memory_equal(out.bytes + out.length - 9, "\5\0\0\0hello", 9);
    assert_int_equal(ask("identity", "abc", 3, 0, &out), TT_ERR_INVALID);
    assert_int_equal(ask("addsub", "abcd", 4, 0, &out), TT_ERR_INVALID);
    tt_text_fini(&out);
}

static void test_options(void **state) {
    (void)state;
    struct tt_text out;
    tt_text_init(&out);
    const char body[] = "{\"inputs\":[" IN4 "],\"parameters\":{\"timeout\":1500,\"priority\":2,"
                        "\"sequence_id\":0,\"mine\":{\"x\":[1]}}}";
    assert_int_equal(ask("identity", body, sizeof(body) - 1, -1, &out), TT_OK);
    assert_int_equal(serving.last_options.timeout_ns, 1500000);
    assert_int_equal(serving.last_options.priority, 2);
    tt_text_fini(&out);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        enum tt_err err;
        const char *model, *body, *says;
    } cases[] = {
        {TT_ERR_INVALID, "identity", "", "expected an object"},
        {TT_ERR_INVALID, "identity", "[]", "expected an object"},
        {TT_ERR_INVALID, "identity", "{}", "input 'IN' is missing"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[]}", "expected 1 inputs but got 0"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":{}}", "expected an array"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "]", "the text ends here"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "]} x", "the end of the text"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 ",]}", "after ','"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "," IN4 "]}", "given twice"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "],\"inputs\":[]}", "given twice"},
        {TT_ERR_INVALID, "addsub", "{\"inputs\":[" A4 "]}", "input 'B' is missing"},
        {TT_ERR_INVALID, "addsub", "{\"inputs\":[" IN4 "]}", "unexpected inference input 'IN'"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[{\"name\":\"IN\",\"datatype\":\"FP32\"}]}",
         "\"shape\" is missing"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1],\"datatype\":\"FP32\"}]}", "no data"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1],\"datatype\":\"INT32\",\"data\":[1]}]}",
         "data-type is 'INT32', but model 'identity' expects 'FP32'"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1]}]}",
         "holds 1 values; the shape needs 2"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1,2]}]}",
         "more values than the 1"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,99999999],\"datatype\":\"FP32\",\"data\":[1]}]"
         "}",
         "cannot hold as many"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[4294967296,4294967296],\"datatype\":\"FP32\","
         "\"data\":[1]}]}",
         "too large"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[-1,1],\"datatype\":\"FP32\",\"data\":[1]}]}",
         "\"shape\" is -1"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1,1,1,1,1,1,1,1],\"datatype\":\"FP32\","
         "\"data\":[1]}]}",
         "more than 8 dimensions"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
         "unexpected shape"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[9,1],\"datatype\":\"FP32\",\"data\":"
         "[1,1,1,1,1,1,1,1,1]}]}",
         "batch-size must be <= 8"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1],"
         "\"parameters\":{\"binary_data_size\":4}}]}",
         "has both"},
        {TT_ERR_UNSUPPORTED, "identity",
         "{\"inputs\":[{\"name\":\"IN\",\"shape\":[1,1],\"datatype\":\"FP32\",\"parameters\":"
         "{\"shared_memory_region\":\"r\"}}]}",
         "shared memory is not supported"},
        {TT_ERR_UNSUPPORTED, "identity",
         "{\"inputs\":[" IN4
         "],\"outputs\":[{\"name\":\"OUT\",\"parameters\":{\"classification\":3}}"
         "]}",
         "\"classification\" is not supported"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "],\"outputs\":[{\"name\":\"NO\"}]}",
         "unexpected inference output 'NO'"},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[" IN4 "],\"outputs\":[{\"name\":\"OUT\"},{\"name\":\"OUT\"}]}",
         "given twice"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "],\"outputs\":[{}]}", "missing"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "],\"parameters\":{\"timeout\":-1}}",
         "\"timeout\" is -1"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "],\"parameters\":{\"timeout\":\"5\"}}",
         "\"timeout\""},
        {TT_ERR_INVALID, "identity",
         "{\"inputs\":[" IN4 "],\"parameters\":{\"binary_data_output\":1}}", "true or false"},
        {TT_ERR_INVALID, "identity", "{\"inputs\":[" IN4 "],\"parameters\":{\"triton_x\":1}}",
         "reserved"},
        {TT_ERR_UNSUPPORTED, "identity",
         "{\"inputs\":[" IN4 "],\"parameters\":{\"sequence_id\":7}}",
         "sequences are not supported"},
        {TT_ERR_INVALID, "identity", "{\"id\":5,\"inputs\":[" IN4 "]}", "\"id\""},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_text out;
        tt_text_init(&out);
        enum tt_err err = ask(cases[i].model, cases[i].body, strlen(cases[i].body), -1, &out);
        if (err != cases[i].err || !strstr(why.text, cases[i].says))
            print_error("%s\n-> %s, '%s'; wanted '%s'\n", cases[i].body, tt_err_name(err), why.text,
                        cases[i].says);
        assert_int_equal(err, cases[i].err);
        assert_non_null(strstr(why.text, cases[i].says));
        tt_text_fini(&out);
    }
    char deep[3000] = "{\"x\":";
    memset(deep + 5, '[', 2000);
    struct tt_text out;
    tt_text_init(&out);
    assert_int_equal(ask("identity", deep, 2005, -1, &out), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "nested deeper"));
}

/* Every prefix of a good request is bad, and reads nothing behind its end. */
static void test_every_prefix_is_bad(void **state) {
    (void)state;
    const char body[] = "{\"id\":\"x\",\"inputs\":[" IN4 "],\"outputs\":[{\"name\":\"OUT\"}]}";
    struct tt_text out;
    tt_text_init(&out);
    for (size_t length = 0; length < sizeof(body) - 1; length++)
        assert_int_equal(ask("identity", body, length, -1, &out), TT_ERR_INVALID);
    assert_int_equal(ask("identity", body, sizeof(body) - 1, -1, &out), TT_OK);
    tt_text_fini(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_there_and_back),
        cmocka_unit_test(test_binary_there_and_back),
        cmocka_unit_test(test_raw_binary),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_every_prefix_is_bad),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
