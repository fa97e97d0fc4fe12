/* What a second transport calls: requests built by hand, without JSON and HTTP, and the operations
 * as plain structs. */
#include "fake_serving.h"

#include "net/kserve/kserve_bodies.h"
#include "net/kserve/kserve_operations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct tt_serving serving;
static struct tt_port *port;
static struct tt_log_settings log_settings;
static struct tt_kserve_service service;
static struct tt_error why;
static bool is_done;

static void no_wake(void *context) { (void)context; }

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *reason) {
    (void)context;
    (void)inference;
    (void)reason;
    assert_int_equal(err, TT_OK);
    is_done = true;
}

static int set_up(void **state) {
    (void)state;
    fake_serving_init(&serving);
    tt_log_settings_init(&log_settings);
    if (tt_serving_open_port(&serving, no_wake, NULL, &port, NULL))
        return -1;
    service = (struct tt_kserve_service){.serving = &serving,
                                         .port = port,
                                         .server_version = "0.1.0",
                                         .log_settings = &log_settings};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tt_port_close(port);
    fake_serving_fini(&serving);
    return 0;
}

static struct tt_kserve_input *add_input(struct tt_kserve_request *request, const char *name,
                                         const char *datatype, int64_t columns, const void *data,
                                         size_t data_bytes) {
    struct tt_kserve_input *input = &request->inputs[request->input_count++];
    *input = (struct tt_kserve_input){.name = name,
                                      .name_bytes = strlen(name),
                                      .datatype = datatype,
                                      .datatype_bytes = strlen(datatype),
                                      .dtype = tt_dtype_parse(datatype, strlen(datatype)),
                                      .shape = {.rank = 2, .dims = {1, columns}},
                                      .data = data,
                                      .data_bytes = data_bytes,
                                      .size_bytes = data_bytes};
    return input;
}

static enum tt_err begin(struct tt_kserve_request *request, const char *name,
                         struct tt_served_model **out_model, struct tt_inference **out_inference) {
    strcpy(request->target.model, name);
    request->target.version[0] = '\0';
    assert_int_equal(tt_serving_find(port, name, "", out_model, &why), TT_OK);
    return tt_kserve_begin(request, port, *out_model, out_inference, &why);
}

static const int32_t ones[] = {1, 2, 3, 4}, tens[] = {10, 20, 30, 40};

static void test_request_without_json(void **state) {
    (void)state;
    struct tt_kserve_request request;
    struct tt_served_model *model;
    struct tt_inference *inference;
    tt_kserve_request_init(&request);
    add_input(&request, "B", "INT32", 4, tens, sizeof(tens));
    add_input(&request, "A", "INT32", 4, ones, sizeof(ones));
    request.outputs[request.output_count++] =
        (struct tt_kserve_output){.name = "DIFF", .name_bytes = 4};
    tt_text_puts(&request.id, "seven");
    request.options.priority = 2;
    assert_int_equal(begin(&request, "addsub", &model, &inference), TT_OK);
    is_done = false;
    tt_inference_submit(inference, &request.options, on_done, NULL);
    tt_port_drain(port);
    assert_true(is_done);
    assert_int_equal(serving.last_options.priority, 2);
    struct tt_kserve_answer answer;
    tt_kserve_answer_fill(&answer, &request, model, inference);
    assert_string_equal(answer.model_name, "addsub");
    assert_string_equal(answer.model_version, "1");
    assert_string_equal(tt_text_string(answer.id), "seven");
    char id[8];
    assert_string_equal(tt_kserve_request_id(&request, id, sizeof(id)), "seven");
    assert_int_equal(answer.output_count, 1);
    assert_string_equal(answer.outputs[0].spec->name, "DIFF");
    const int32_t expected[] = {-9, -18, -27, -36};
    assert_int_equal(answer.outputs[0].view.size_bytes, sizeof(expected));
    assert_memory_equal(answer.outputs[0].view.bytes, expected, sizeof(expected));
    tt_inference_release(inference);
    tt_kserve_request_fini(&request);
}

/* What a trace shows of an id: all of it, or its beginning up to a whole character; of one in JSON,
 * what it means. */
static void ids_are_bounded_and_unescaped(void **state) {
    (void)state;
    static const struct {
        const char *id;
        int32_t margin;
        const char *shown;
    } cases[] = {
        {"", 0, ""},
        {"seven", 0, "seven"},
        {"\"seven\"", 1, "seven"},
        {"\"a\\\"b\\u00e9\"", 1, "a\"b\xc3\xa9"},
        {"0123456789012345678901234567890123456789012345", 0,
         "0123456789012345678901234567890123456789012"},
        /* The last character would end one byte too late. */
        {"\"012345678901234567890123456789012345678901\xc3\xa9\"", 1,
         "012345678901234567890123456789012345678901"},
    };
    for (size_t c = 0; c < TT_COUNT(cases); c++) {
        struct tt_kserve_request request;
        tt_kserve_request_init(&request);
        tt_text_puts(&request.id, cases[c].id);
        request.id_margin = cases[c].margin;
        tt_kserve_request_identify(&request);
        assert_string_equal(request.options.id, cases[c].shown);
        tt_kserve_request_fini(&request);
    }
}

/* What the log shows. */
static void ids_are_unescaped_where_they_fit(void **state) {
    (void)state;
    static const struct {
        const char *id;
        int32_t margin;
        const char *shown;
    } cases[] = {{"", 0, ""},
                 {"a\\b", 0, "a\\b"},
                 {"\"\"", 1, ""},
                 {"\"a\\\"b\\u00e9\"", 1, "a\"b\xc3\xa9"},
                 {"0123456789abcdef", 0, "0123456789abcde"},
                 {"\"\\u00e9\\u00e9\\u00e9\"", 1, "\\u00e9\\u00e9\\u0"}};
    for (size_t c = 0; c < TT_COUNT(cases); c++) {
        struct tt_kserve_request request;
        char shown[16];
        tt_kserve_request_init(&request);
        tt_text_puts(&request.id, cases[c].id);
        request.id_margin = cases[c].margin;
        assert_ptr_equal(tt_kserve_request_id(&request, shown, sizeof(shown)), shown);
        assert_string_equal(shown, cases[c].shown);
        tt_kserve_request_fini(&request);
    }
}

static enum tt_err count_up(const struct tt_kserve_input *input, void *to, size_t size_bytes,
                            struct tt_error *reason) {
    int32_t *values = to;
    assert_int_equal(size_bytes, sizeof(ones));
    for (int32_t i = 0; i < 4; i++)
        values[i] = input->decode_argument + i;
    return input->decode_argument < 0 ? tt_fail(TT_ERR_INVALID, reason, "negative") : TT_OK;
}

static void test_decoder(void **state) {
    (void)state;
    for (int32_t argument = -1; argument <= 1; argument += 2) {
        struct tt_kserve_request request;
        struct tt_served_model *model;
        struct tt_inference *inference;
        tt_kserve_request_init(&request);
        add_input(&request, "A", "INT32", 4, ones, sizeof(ones));
        struct tt_kserve_input *input = add_input(&request, "B", "INT32", 4, NULL, 0);
        input->decode = count_up;
        input->decode_argument = argument;
        input->size_bytes = sizeof(ones);
        enum tt_err err = begin(&request, "addsub", &model, &inference);
        assert_int_equal(err, argument < 0 ? TT_ERR_INVALID : TT_OK);
        if (!err) {
            size_t size_bytes;
            assert_memory_equal(tt_inference_input(inference, 1, &size_bytes), ones, sizeof(ones));
            tt_inference_release(inference);
        }
        tt_kserve_request_fini(&request);
        assert_int_equal(serving.live_count, 0); /* also after a decoder that failed */
    }
}

static void test_wrong_inputs(void **state) {
    (void)state;
    static const struct {
        const char *model, *name, *datatype;
        int64_t columns;
        size_t data_bytes;
        const char *says;
    } cases[] = {
        {"addsub", "C", "INT32", 4, 16, "inputs[1]: unexpected inference input 'C'"},
        {"addsub", "A", "INT32", 4, 16, "input 'A' is given twice"},
        {"addsub", "B", "FP32", 4, 16, "data-type is 'FP32', but model 'addsub' expects 'INT32'"},
        {"addsub", "B", "INT32", 4, 15,
         "input 'B' has 15 bytes, but shape [1,4] of INT32 takes 16"},
        {"addsub", "B", "INT32", INT64_MAX, 16, "too large"},
        {"addsub", "B", "INT32", -1, 16, "too large"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_kserve_request request;
        struct tt_served_model *model;
        struct tt_inference *inference;
        tt_kserve_request_init(&request);
        add_input(&request, "A", "INT32", 4, ones, sizeof(ones));
        add_input(&request, cases[i].name, cases[i].datatype, cases[i].columns, tens,
                  cases[i].data_bytes);
        assert_int_equal(begin(&request, cases[i].model, &model, &inference), TT_ERR_INVALID);
        if (!strstr(why.text, cases[i].says))
            print_error("%s; wanted %s\n", why.text, cases[i].says);
        assert_non_null(strstr(why.text, cases[i].says));
        tt_kserve_request_fini(&request);
    }
}

static void test_operations(void **state) {
    (void)state;
    struct tt_kserve_server server;
    tt_kserve_server(&service, &server);
    assert_string_equal(server.version, "0.1.0");
    assert_true(server.extension_count > 0);
    assert_true(tt_kserve_live(&service));
    assert_true(tt_kserve_ready(&service));

    struct tt_kserve_target target = {.model = "addsub"}, nobody = {.model = "nobody"},
                            loading = {.model = "loading"};
    assert_int_equal(tt_kserve_model_ready(&service, &target, &why), TT_OK);
    assert_int_equal(tt_kserve_model_ready(&service, &nobody, &why), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_kserve_model_ready(&service, &loading, &why), TT_ERR_UNAVAILABLE);

    struct tt_kserve_metadata metadata;
    assert_int_equal(tt_kserve_metadata_init(&metadata, &service, &nobody, &why), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_kserve_metadata_init(&metadata, &service, &target, &why), TT_OK);
    assert_string_equal(metadata.name, "addsub");
    assert_int_equal(metadata.version_count, 1);
    assert_string_equal(metadata.versions[0].text, "1");
    assert_int_equal(metadata.signature->input_count, 2);
    tt_kserve_metadata_fini(&metadata);

    struct tt_kserve_statistics statistics;
    assert_int_equal(tt_kserve_statistics_init(&statistics, &service, &target, &why), TT_OK);
    assert_int_equal(statistics.count, 1);
    assert_int_equal(statistics.models[0].success.count, 3);
    assert_int_equal(statistics.models[0].fail.count, 2);
    assert_int_equal(statistics.models[0].batch_count, 1);
    assert_int_equal(statistics.models[0].batches[0].rows, 2);
    assert_int_equal(statistics.models[0].batches[0].infer_ns, 700);
    tt_kserve_statistics_fini(&statistics);

    struct tt_kserve_index index;
    assert_int_equal(tt_kserve_index_init(&index, &service, false, &why), TT_OK);
    assert_int_equal(index.count, FAKE_MODELS + 1);
    assert_string_equal(index.entries[FAKE_MODELS].state, "LOADING");
    tt_kserve_index_fini(&index);
    assert_int_equal(tt_kserve_index_init(&index, &service, true, &why), TT_OK);
    assert_int_equal(index.count, FAKE_MODELS);
    tt_kserve_index_fini(&index);
}

static void test_settings(void **state) {
    (void)state;
    struct tt_kserve_log_settings settings;
    const struct tt_kserve_log_settings change = {
        .sets = TT_KSERVE_LOG_INFO | TT_KSERVE_LOG_VERBOSE, .info = false, .verbose_level = 3};
    assert_int_equal(tt_kserve_log_settings_change(&service, &change, &why), TT_OK);
    assert_int_equal(tt_kserve_log_settings(&service, &settings, &why), TT_OK);
    assert_false(settings.info);
    assert_true(settings.error);
    assert_int_equal(settings.verbose_level, 3);
    service.log_settings = NULL;
    assert_int_equal(tt_kserve_log_settings(&service, &settings, &why), TT_ERR_UNSUPPORTED);
    assert_int_equal(tt_kserve_trace_settings_change("trace_rate", &why), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "/v2/debug/trace"));
}

static void check_load(const char *body, enum tt_err wanted, const char *says, const char *file) {
    struct tt_model_command *command;
    assert_int_equal(tt_model_command_new("m", true, &command), TT_OK);
    char *exact = malloc(strlen(body) + !*body); /* a read past its end is seen */
    memcpy(exact, body, strlen(body));
    why.text[0] = '\0';
    enum tt_err err = tt_kserve_read_load(exact, strlen(body), command, &why);
    if (err != wanted || !strstr(why.text, says))
        print_error("%s\n-> %s; wanted %s\n", body, why.text, says);
    assert_int_equal(err, wanted);
    assert_non_null(strstr(why.text, says));
    if (file) {
        assert_int_equal(command->file_count, 1);
        assert_string_equal(command->files[0].path, "1/a.onnx");
        assert_int_equal(command->files[0].size_bytes, strlen(file));
        assert_memory_equal(command->files[0].bytes, file, strlen(file));
    }
    free(exact);
    tt_model_command_free(command);
}

#define LOAD(members) "{\"parameters\":{" members "}}"
#define FILE1 "\"file:1/a.onnx\":"

static void test_load_bodies(void **state) {
    (void)state;
    check_load("", TT_OK, "", NULL);
    check_load("{}", TT_OK, "", NULL);
    check_load(LOAD("\"unload_dependents\":false"), TT_OK, "", NULL);
    check_load(LOAD(FILE1 "\"aGVsbG8=\""), TT_OK, "", "hello");
    check_load(LOAD(FILE1 "\"aGVs\\nbG8=\\r\\n\""), TT_OK, "", "hello"); /* with line breaks */
    check_load(LOAD(FILE1 "\"\""), TT_OK, "", "");
    check_load(LOAD(FILE1 "\"aGV*\""), TT_ERR_INVALID, "is not base64", NULL);
    check_load(LOAD(FILE1 "5"), TT_ERR_INVALID, "must be a string in base64", NULL);
    check_load(LOAD(FILE1 "\"\"," FILE1 "\"\""), TT_ERR_INVALID, "given twice", NULL);
    check_load(LOAD("\"config\":\"{}\",\"config\":\"{}\""), TT_ERR_INVALID, "given twice", NULL);
    check_load(LOAD("\"config\":\"a\\u0000b\""), TT_ERR_INVALID, "UTF-8", NULL);
    check_load(LOAD("\"config\":\"\xff\""), TT_ERR_INVALID, "UTF-8", NULL);
    check_load(LOAD("\"colour\":1"), TT_ERR_INVALID, "unknown parameter 'colour'", NULL);
    check_load("{\"parameters\":{},\"parameters\":{}}", TT_ERR_INVALID, "given twice", NULL);
    check_load("[]", TT_ERR_INVALID, "expected an object", NULL);
    check_load(LOAD(FILE1 "\"aGVsbG8=\"") "x", TT_ERR_INVALID, "the end of the text", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_bounded_and_unescaped),
        cmocka_unit_test(ids_are_unescaped_where_they_fit),
        cmocka_unit_test_setup_teardown(test_request_without_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_decoder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settings, set_up, tear_down),
        cmocka_unit_test(test_load_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
