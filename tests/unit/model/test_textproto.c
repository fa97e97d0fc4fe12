/* The text format reader, against texts by hand, and against protoc as the oracle. */
#include "model/text/textproto.h"

#include "base/text.h"
#include "model_config.pb-c.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Inference__ModelConfig *read_ok(const char *text) {
    ProtobufCMessage *message = NULL;
    struct tt_error why = {""};
    enum tt_err err = tt_textproto_read("f", text, strlen(text),
                                        &inference__model_config__descriptor, &message, &why);
    if (err)
        print_error("%s\n", why.text);
    assert_int_equal(err, TT_OK);
    return (Inference__ModelConfig *)message;
}

static void done(Inference__ModelConfig *message) {
    protobuf_c_message_free_unpacked(&message->base, NULL);
}

static void assert_refused(const char *text, const char *expected) {
    ProtobufCMessage *message = (ProtobufCMessage *)1;
    struct tt_error why = {""};
    enum tt_err err = tt_textproto_read("f", text, strlen(text),
                                        &inference__model_config__descriptor, &message, &why);
    assert_int_equal(err, TT_ERR_INVALID);
    assert_ptr_equal(message, (ProtobufCMessage *)1); /* outputs untouched */
    if (!strstr(why.text, expected))
        print_error("expected: %s\ngot:      %s\n", expected, why.text);
    assert_non_null(strstr(why.text, expected));
}

static void test_everything_the_format_allows(void **state) {
    (void)state;
    Inference__ModelConfig *m =
        read_ok("\xef\xbb\xbf# a comment\n"
                "name: 'one' \" two\\x21\\101\\u00e9\\n\"; max_batch_size: 0x10,\n"
                "input [ { name: \"a\" data_type: TYPE_FP32 dims: [ -1, 010, 3 ] },\n"
                "        < name: \"b\" data_type: 9 dims: 1 dims: 2 optional: t > ]\n"
                "input: { name: 'c' dims: [] }\n"
                "dynamic_batching { }\n"
                "parameters { key: \"k\" value { string_value: \"v\" } }\n"
                "model_metrics { metric_control { histogram_options { buckets: [ .5, 1e3, -inf, "
                "nan, 2f ] } } }");
    assert_string_equal(m->name, "one two!A\xc3\xa9\n");
    assert_int_equal(m->max_batch_size, 16);
    assert_int_equal(m->n_input, 3);
    assert_int_equal(m->input[0]->dims[0], -1);
    assert_int_equal(m->input[0]->dims[1], 8);
    assert_int_equal(m->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_INT64);
    assert_int_equal(m->input[1]->n_dims, 2);
    assert_true(m->input[1]->optional);
    assert_int_equal(m->input[2]->n_dims, 0);
    assert_int_equal(m->scheduling_choice_case,
                     INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
    assert_string_equal(m->parameters[0]->value->string_value, "v");
    const double *buckets = m->model_metrics->metric_control[0]->histogram_options->buckets;
    assert_true(buckets[0] == 0.5 && buckets[1] == 1000 && isinf(buckets[2]) && buckets[2] < 0);
    assert_true(isnan(buckets[3]) && buckets[4] == 2);
    done(m);
}

static void test_errors_say_where_and_what_would_be_right(void **state) {
    (void)state;
    assert_refused("\n  max_batchsize: 8", "f:2:3: ModelConfig has no field 'max_batchsize'; did "
                                           "you mean 'max_batch_size'?");
    assert_refused("zzzzzzzz: 8", "it has: name, platform");
    assert_refused("name: \"a\"\nname: \"b\"", "f:2:1: field 'name' is given twice");
    assert_refused("input { data_type: TYPE_FLOAT32 }", "it is one of: TYPE_INVALID, TYPE_BOOL");
    assert_refused("input { data_type: TYPE_FT32 }", "did you mean TYPE_FP32?");
    assert_refused("input { data_type: 99 }", "DataType has no value 99");
    assert_refused("input { data_type: \"TYPE_FP32\" }", "without quotes");
    assert_refused("max_batch_size: 2147483648", "goes from -2147483648 to 2147483647");
    assert_refused("max_batch_size: 1.5", "wants an integer, not '1.5'");
    assert_refused("max_batch_size: eight", "wants an integer, not 'eight'");
    assert_refused("max_batch_size: [1]", "holds one value, not a list");
    assert_refused("max_batch_size 1", "wants a : before its value");
    assert_refused("max_batch_size: 09", "wants an integer");
    assert_refused("name: \"a", "f:1:7: this string is never closed");
    assert_refused("name: \"a\nb\"", "does not end on its line");
    assert_refused("name: \"a\\q\"", "f:1:9: this escape is not valid");
    assert_refused("name: \"a\\000\"", "cannot hold a zero byte");
    assert_refused("name: \"a\\xff\"", "must be UTF-8");
    assert_refused("name: \"\\ud800\"", "this escape is not valid");
    assert_refused("input { name: \"a\"", "the file ends inside a ModelInput");
    assert_refused("input { name: \"a\" >", "the name of a field of ModelInput");
    assert_refused("input: 5", "wants { ... }, not '5'");
    assert_refused("input [ { } { } ]", "goes on with , or ends with ]");
    assert_refused("[type.googleapis.com/x] { }", "extensions and Any are not supported");
    assert_refused("dynamic_batching { preserve_ordering: 2 }", "wants true or false");
    assert_refused("dynamic_batching { max_queue_delay_microseconds: -1 }", "-1 is out of range");
    assert_refused("dynamic_batching { } sequence_batching { }",
                   "'sequence_batching' excludes 'dynamic_batching'");
    assert_refused("\x01", "the byte 0x01");
    assert_refused("sequence_batching { direct { minimum_slot_utilization: 1e39 } }", "too large");
}

/* A message whose only field is a message of its own kind. */
struct chain {
    ProtobufCMessage base;
    struct chain *a;
};
extern const ProtobufCMessageDescriptor chain_descriptor;
static const ProtobufCFieldDescriptor chain_fields[] = {{
    .name = "a",
    .id = 1,
    .label = PROTOBUF_C_LABEL_OPTIONAL,
    .type = PROTOBUF_C_TYPE_MESSAGE,
    .offset = offsetof(struct chain, a),
    .descriptor = &chain_descriptor,
}};
static const unsigned chain_names[] = {0};
static const ProtobufCIntRange chain_ranges[] = {{1, 0}, {0, 1}};
static void chain_init(ProtobufCMessage *message) {
    *(struct chain *)message = (struct chain){.base = {.descriptor = &chain_descriptor}};
}
const ProtobufCMessageDescriptor chain_descriptor = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "Chain",
    .short_name = "Chain",
    .sizeof_message = sizeof(struct chain),
    .n_fields = 1,
    .fields = chain_fields,
    .fields_sorted_by_name = chain_names,
    .n_field_ranges = 1,
    .field_ranges = chain_ranges,
    .message_init = chain_init,
};

static enum tt_err read_chain(int depth, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    for (int i = 0; i < depth; i++)
        tt_text_puts(&text, "a{");
    for (int i = 0; i < depth; i++)
        tt_text_puts(&text, "}");
    ProtobufCMessage *message = NULL;
    enum tt_err err =
        tt_textproto_read("f", text.bytes, text.length, &chain_descriptor, &message, why);
    if (!err)
        protobuf_c_message_free_unpacked(message, NULL);
    tt_text_fini(&text);
    return err;
}

static void test_nesting_has_a_limit(void **state) {
    (void)state;
    struct tt_error why = {""};
    assert_int_equal(read_chain(TT_TEXTPROTO_MAX_DEPTH, &why), TT_OK);
    assert_int_equal(read_chain(TT_TEXTPROTO_MAX_DEPTH + 1, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "nested deeper than the limit of 64"));
    assert_int_equal(read_chain(300000, &why), TT_ERR_INVALID);
}

static void test_places(void **state) {
    (void)state;
    static const char text[] = "name: 'x'\ninput {\n  name: 'a'\n  dims: 1\n  dims: 2 }\n";
    struct tt_textproto_places places;
    tt_textproto_places_init(&places);
    ProtobufCMessage *message = NULL;
    assert_int_equal(tt_textproto_read_places("f", text, sizeof(text) - 1,
                                              &inference__model_config__descriptor, &places,
                                              &message, NULL),
                     TT_OK);
    Inference__ModelConfig *m = (Inference__ModelConfig *)message;
    struct tt_textproto_place place;
    assert_true(tt_textproto_places_find(&places, m->input[0], "dims", &place));
    assert_int_equal(place.line, 4);
    assert_int_equal(place.column, 3);
    assert_true(tt_textproto_places_find(&places, m->input[0], NULL, &place));
    assert_int_equal(place.line, 2);
    assert_false(tt_textproto_places_find(&places, m, "max_batch_size", &place));
    done(m);
    tt_textproto_places_fini(&places);
}

static unsigned random_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

/* A random text that is valid, in random spellings. */
static void random_text(uint64_t *seed, struct tt_text *out) {
    static const char *const strings[] = {"\"x\"", "'y' \"z\"", "\"\\303\\251\\t\\\\\"",
                                          "\"\\u20ac\" # why\n'\\x41'"};
    static const char *const kinds[] = {"KIND_CPU", "KIND_GPU", "2", "KIND_MODEL"};
    static const char *const numbers[] = {"0.1", "-1e-3", "3", "1.5f", "inf", "-7."};
    tt_text_printf(out, "name: %s\n", strings[random_next(seed) % 4]);
    tt_text_printf(out, "max_batch_size: %s%u;", random_next(seed) % 2 ? "" : "0x",
                   1 + random_next(seed) % 9);
    for (unsigned i = random_next(seed) % 4; i > 0; i--) {
        bool angle = random_next(seed) % 2;
        tt_text_printf(out, "input%s %c name: %s data_type: %u dims: [%d, %u] ",
                       random_next(seed) % 2 ? ":" : "", angle ? '<' : '{',
                       strings[random_next(seed) % 4], 1 + random_next(seed) % 14,
                       (int)(random_next(seed) % 200) - 100, random_next(seed));
        tt_text_printf(out, "dims: %u optional: %s reshape { shape: [ ] } %c%s\n",
                       1 + random_next(seed) % 9, random_next(seed) % 2 ? "true" : "0",
                       angle ? '>' : '}', random_next(seed) % 2 ? "," : "");
    }
    for (unsigned i = random_next(seed) % 3; i > 0; i--)
        tt_text_printf(out, "instance_group [ { kind: %s count: %u gpus: [0, %u] } ]\n",
                       kinds[random_next(seed) % 4], random_next(seed) % 5, random_next(seed) % 8);
    if (random_next(seed) % 2)
        tt_text_printf(out, "parameters { key: %s value { string_value: %s } }\n",
                       strings[random_next(seed) % 4], strings[random_next(seed) % 4]);
    if (random_next(seed) % 2)
        tt_text_printf(out,
                       "model_metrics { metric_control { histogram_options { buckets: [ %s, "
                       "%s ] } } }\n",
                       numbers[random_next(seed) % 6], numbers[random_next(seed) % 6]);
    switch (random_next(seed) % 3) {
    case 0:
        tt_text_printf(out,
                       "dynamic_batching { preferred_batch_size: [ %u, 8 ] "
                       "max_queue_delay_microseconds: 18446744073709551615 }",
                       1 + random_next(seed) % 7);
        break;
    case 1:
        tt_text_printf(out,
                       "sequence_batching { control_input { control { fp32_false_true: [ %s ] "
                       "bool_false_true: [ true, False ] } } oldest < > }",
                       numbers[random_next(seed) % 6]);
        break;
    default: break;
    }
}

static void protoc_encode(const char *text, struct tt_text *out) {
    char path[] = "/tmp/tutti-textproto-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
    close(descriptor);
    char command[1024];
    snprintf(command, sizeof(command),
             "protoc --encode=inference.ModelConfig -I '%s/proto' model_config.proto < %s",
             TUTTI_SOURCE_DIR, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (;;) {
        char *to = tt_text_reserve(out, 4096);
        size_t got = fread(to, 1, 4096, pipe);
        if (got == 0)
            break;
        out->length += got;
    }
    assert_int_equal(pclose(pipe), 0);
    unlink(path);
}

static void test_same_bytes_as_protoc(void **state) {
    (void)state;
    if (system("protoc --version > /dev/null 2>&1") != 0)
        skip();
    uint64_t seed = test_seed((uint64_t)getpid());
    for (int round = 0; round < 40; round++) {
        struct tt_text text, expected;
        tt_text_init(&text);
        tt_text_init(&expected);
        random_text(&seed, &text);
        protoc_encode(text.bytes, &expected);
        Inference__ModelConfig *m = read_ok(text.bytes);
        size_t length = protobuf_c_message_get_packed_size(&m->base);
        uint8_t *packed = malloc(length + 1);
        protobuf_c_message_pack(&m->base, packed);
        if (length != expected.length || memcmp(packed, expected.bytes, length) != 0)
            print_error("differs from protoc:\n%s\n", text.bytes);
        assert_int_equal(length, expected.length);
        assert_memory_equal(packed, expected.bytes, length);
        free(packed);
        done(m);
        tt_text_fini(&text);
        tt_text_fini(&expected);
    }
}

/* Any change to a valid text is either read or rejected with a place, and leaks nothing (ASan). */
static void test_damaged_texts(void **state) {
    (void)state;
    uint64_t seed = test_seed((uint64_t)getpid() + 1);
    int refused = 0;
    for (int round = 0; round < 3000; round++) {
        struct tt_text text;
        tt_text_init(&text);
        random_text(&seed, &text);
        for (unsigned i = 1 + random_next(&seed) % 3; i > 0; i--)
            text.bytes[random_next(&seed) % text.length] = (char)random_next(&seed);
        ProtobufCMessage *message = NULL;
        struct tt_error why = {""};
        size_t length = text.length - random_next(&seed) % 2 * (random_next(&seed) % text.length);
        if (tt_textproto_read("f", text.bytes, length, &inference__model_config__descriptor,
                              &message, &why) == TT_OK) {
            protobuf_c_message_free_unpacked(message, NULL);
        } else {
            refused++;
            assert_memory_equal(why.text, "f:", 2);
        }
        tt_text_fini(&text);
    }
    assert_true(refused > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_the_format_allows),
        cmocka_unit_test(test_errors_say_where_and_what_would_be_right),
        cmocka_unit_test(test_nesting_has_a_limit),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_same_bytes_as_protoc),
        cmocka_unit_test(test_damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
