#include "model/text/json_textproto.h"

#include "model/config/config.h"
#include "model/text/protobuf_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tt_error why;

/* Reads JSON through its text form. */
static Inference__ModelConfig *read_json(const char *json) {
    struct tt_text text;
    tt_text_init(&text);
    if (tt_json_textproto(json, strlen(json), &inference__model_config__descriptor, &text, &why))
        fail_msg("%s", why.text);
    ProtobufCMessage *message;
    if (tt_textproto_read("json", tt_text_string(&text), text.length,
                          &inference__model_config__descriptor, &message, &why))
        fail_msg("%s\n%s", why.text, text.bytes);
    tt_text_fini(&text);
    return (Inference__ModelConfig *)message;
}

static void test_values(void **state) {
    (void)state;
    Inference__ModelConfig *config = read_json(
        "{\"name\": \"a \\\"b\\\" \\\\ \\u00fc\\n\", \"maxBatchSize\": \"8\", \"platform\": null,"
        " \"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, \"4\"],"
        "              \"is_shape_tensor\": true}, {\"name\": \"y\", \"dataType\": 11}],"
        " \"dynamic_batching\": {\"preferred_batch_size\": [2, 4], \"priority_levels\": 2,"
        "    \"priority_queue_policy\": {\"2\": {\"max_queue_size\": 7}}},"
        " \"parameters\": {\"k\\\"ey\": {\"string_value\": \"v\"}}}");
    assert_string_equal(config->name, "a \"b\" \\ \xc3\xbc\n");
    assert_int_equal(config->max_batch_size, 8);
    assert_int_equal(config->n_input, 2);
    assert_int_equal(config->input[0]->n_dims, 2);
    assert_int_equal(config->input[0]->dims[1], 4);
    assert_true(config->input[0]->is_shape_tensor);
    assert_int_equal(config->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
    assert_int_equal(config->dynamic_batching->preferred_batch_size[1], 4);
    assert_int_equal(config->dynamic_batching->n_priority_queue_policy, 1);
    assert_int_equal(config->dynamic_batching->priority_queue_policy[0]->key, 2);
    assert_int_equal(config->dynamic_batching->priority_queue_policy[0]->value->max_queue_size, 7);
    assert_string_equal(config->parameters[0]->key, "k\"ey");
    assert_string_equal(config->parameters[0]->value->string_value, "v");
    protobuf_c_message_free_unpacked(&config->base, NULL);
}

/* The server accepts the configuration that it prints. */
static void test_round_trip(void **state) {
    (void)state;
    static const char text[] =
        "name: \"m\" max_batch_size: 16 "
        "input [ { name: \"x\" data_type: TYPE_INT64 dims: [ -1, 3 ] reshape { shape: [ 9 ] } } ] "
        "output [ { name: \"y\" data_type: TYPE_STRING dims: [ 1 ] label_filename: \"l\" } ] "
        "instance_group [ { count: 2 kind: KIND_CPU } ] "
        "version_policy { specific { versions: [ 1, 3 ] } } "
        "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 "
        "  preserve_ordering: true priority_levels: 3 default_priority_level: 2 "
        "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 } "
        "  priority_queue_policy { key: 1 value { max_queue_size: 4 } } } "
        "parameters { key: \"a\" value { string_value: \"b\" } } "
        "model_warmup [ { name: \"w\" batch_size: 1 inputs { key: \"x\" "
        "  value { data_type: TYPE_INT64 dims: [ 2, 3 ] random_data: true } } } ]";
    ProtobufCMessage *message;
    assert_int_equal(tt_textproto_read("text", text, strlen(text),
                                       &inference__model_config__descriptor, &message, &why),
                     TT_OK);
    json_t *json = tt_protobuf_json(message);
    char *shown = json_dumps(json, 0);
    Inference__ModelConfig *again = read_json(shown);
    json_t *second = tt_protobuf_json(&again->base);
    assert_true(json_equal(json, second));
    json_decref(second);
    json_decref(json);
    free(shown);
    protobuf_c_message_free_unpacked(message, NULL);
    protobuf_c_message_free_unpacked(&again->base, NULL);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *json, *sentence;
    } cases[] = {{"", "JSON, line"},
                 {"{\"name\": 1,}", "JSON, line"},
                 {"[]", "object"},
                 {"{\"colour\": 1}", "unknown field 'colour'"},
                 {"{\"input\": {}}", "'input' must be a list"},
                 {"{\"input\": [1]}", "'input' must be an object"},
                 {"{\"max_batch_size\": []}", "'max_batch_size' must be a single value"},
                 {"{\"input\": [{\"dims\": 1}]}", "'dims' must be a list"},
                 {"{\"name\": \"a\", \"name\": \"b\"}", "duplicate"}};
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_text text;
        tt_text_init(&text);
        why.text[0] = '\0';
        assert_int_equal(tt_json_textproto(cases[i].json, strlen(cases[i].json),
                                           &inference__model_config__descriptor, &text, &why),
                         TT_ERR_INVALID);
        if (!strstr(why.text, cases[i].sentence))
            fail_msg("'%s' lacks '%s'", why.text, cases[i].sentence);
        tt_text_fini(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
