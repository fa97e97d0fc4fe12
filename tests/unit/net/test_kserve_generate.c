/* The flat JSON of the generate extension: what becomes an input, a parameter or an error, and how
 * outputs are written. */
#include "fake_serving.h"

#include "net/kserve/kserve_generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct tt_serving serving;
static struct tt_port *port;
static struct tt_error why;
static struct tt_inference_options asked;

static void no_wake(void *context) { (void)context; }

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *reason) {
    (void)inference;
    (void)reason;
    *(enum tt_err *)context = err;
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

/* Runs one request. A copy on the heap shows reads past its end. */
static enum tt_err ask(const char *model_name, const char *body, struct tt_text *out) {
    struct tt_served_model *model;
    struct tt_inference *inference = NULL;
    struct tt_kserve_request request;
    size_t length = strlen(body);
    char *copy = malloc(length ? length : 1);
    memcpy(copy, body, length);
    assert_int_equal(tt_serving_find(port, model_name, "", &model, NULL), TT_OK);
    tt_kserve_request_init(&request);
    strcpy(request.target.model, model_name);
    why.text[0] = '\0';
    enum tt_err err = tt_kserve_generate_read(&request, tt_served_model_signature(model), copy,
                                              length, 100, &why);
    if (!err)
        err = tt_kserve_begin(&request, port, model, &inference, &why);
    free(copy);
    asked = request.options;
    if (!err) {
        enum tt_err done_err = TT_ERR_INTERNAL;
        struct tt_kserve_answer answer;
        tt_inference_submit(inference, &request.options, on_done, &done_err);
        tt_port_drain(port);
        assert_int_equal(done_err, TT_OK);
        tt_kserve_answer_fill(&answer, &request, model, inference);
        err = tt_kserve_generate_write(&answer, out, &why);
        tt_inference_release(inference);
    }
    tt_kserve_request_fini(&request);
    assert_int_equal(serving.live_count, 0);
    return err;
}

static void check_answer(const char *model, const char *body, const char *expected) {
    struct tt_text out;
    tt_text_init(&out);
    enum tt_err err = ask(model, body, &out);
    if (err)
        print_error("%s\n-> %s\n", body, why.text);
    assert_int_equal(err, TT_OK);
    assert_string_equal(tt_text_string(&out), expected);
    tt_text_fini(&out);
}

static void check_refused(const char *model, const char *body, enum tt_err expected,
                          const char *sentence) {
    struct tt_text out;
    tt_text_init(&out);
    assert_int_equal(ask(model, body, &out), expected);
    if (!strstr(why.text, sentence))
        fail_msg("%s\n-> %s", body, why.text);
    tt_text_fini(&out);
}

#define HEAD(model) "{\"model_name\":\"" model "\",\"model_version\":\"1\","

static void values_become_inputs(void **state) {
    (void)state;
    check_answer("identity", "{\"IN\":[1,2.5,3]}", HEAD("identity") "\"OUT\":[1.0,2.5,3.0]}");
    check_answer("identity", " { \"IN\" : [ [1 , 2] ] } ", HEAD("identity") "\"OUT\":[1.0,2.0]}");
    check_answer("identity", "{\"IN\":7}", HEAD("identity") "\"OUT\":7.0}");
    check_answer("identity", "{\"IN\":[7]}", HEAD("identity") "\"OUT\":7.0}");
    check_answer("strings", "{\"IN\":\"a \\\"b\\\" \\u00e9\"}",
                 HEAD("strings") "\"OUT\":\"a \\\"b\\\" \xc3\xa9\"}");
    check_answer("addsub", "{\"B\":[1,1,1,1],\"A\":[1,2,3,4]}",
                 HEAD("addsub") "\"SUM\":[2,3,4,5],\"DIFF\":[0,1,2,3]}");
}

static void other_members_are_parameters(void **state) {
    (void)state;
    check_answer("identity",
                 "{\"id\":\"x\",\"priority\":3,\"max_tokens\":[1,{\"a\":2}],\"IN\":1,"
                 "\"parameters\":{\"timeout\":25,\"free\":null}}",
                 "{\"id\":\"x\",\"model_name\":\"identity\",\"model_version\":\"1\",\"OUT\":1.0}");
    assert_int_equal(asked.priority, 3);
    assert_int_equal(asked.timeout_ns, 25000);
    check_answer("identity", "{\"parameters\":{\"IN\":[4,5]}}",
                 HEAD("identity") "\"OUT\":[4.0,5.0]}");
    /* Within "parameters" these two are parameters like others. */
    check_answer("identity", "{\"IN\":1,\"parameters\":{\"id\":[],\"parameters\":{}}}",
                 HEAD("identity") "\"OUT\":1.0}");
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    check_refused("addsub", "{\"A\":[1,2,3]}", TT_ERR_INVALID,
                  "input 'A' has 3 values; it takes 4");
    check_refused("addsub", "{\"A\":[1,2,3,4]}", TT_ERR_INVALID,
                  "input 'B' is missing; it is a member of the body");
    check_refused("identity", "{\"in\":1}", TT_ERR_INVALID,
                  "input 'IN' is missing; it is a member of the body");
    check_refused("addsub", "{\"A\":[1,2,3,4],\"A\":[1,2,3,4]}", TT_ERR_INVALID,
                  "input 'A' is given twice");
    check_refused("addsub", "{\"A\":[1,2,3,1.5],\"B\":[1,2,3,4]}", TT_ERR_INVALID, "input 'A'");
    check_refused("addsub", "{\"A\":\"text\",\"B\":[1,2,3,4]}", TT_ERR_INVALID, "input 'A'");
    check_refused("strings", "{\"IN\":1}", TT_ERR_INVALID, "input 'IN'");
    check_refused("identity", "{\"IN\":[1]", TT_ERR_INVALID, "JSON, byte 9");
    check_refused("identity", "{\"IN\":[1]} x", TT_ERR_INVALID, "JSON, byte 11");
    check_refused("identity", "", TT_ERR_INVALID, "JSON, byte 0");
    check_refused("identity", "[]", TT_ERR_INVALID, "JSON, byte 0");
    check_refused("identity", "{\"IN\":[[[[[[[[[1]]]]]]]]]}", TT_ERR_INVALID, "nested deeper");
    check_refused("identity", "{\"IN\":1,\"id\":\"a\",\"id\":\"b\"}", TT_ERR_INVALID, "twice");
    check_refused("identity", "{\"IN\":1,\"sequence_id\":5}", TT_ERR_UNSUPPORTED, "sequence");
    check_refused("identity", "{\"IN\":1,\"parameters\":{\"triton_x\":5}}", TT_ERR_INVALID,
                  "\"parameters\"");
    check_refused("identity", "{\"IN\":1,\"timeout\":-1}", TT_ERR_INVALID, "timeout");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_become_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_members_are_parameters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
