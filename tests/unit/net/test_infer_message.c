/* ModelInferRequest and ModelInferResponse: protobuf-c packs what the reader reads, and unpacks
 * what the writer writes. */
#include "fake_serving.h"

#include "base/prng.h"
#include "net/grpc/infer_message.h"
#include "net/grpc/protobuf_wire.h"
#include "unit/seed.h"

#include "grpc_service.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

typedef Inference__ModelInferRequest message;
typedef Inference__ModelInferRequest__InferInputTensor input_message;

static struct tt_error why;
static struct tt_kserve_request request;
static bool wants_final;

/* Reads an exact copy on the heap, so that the sanitizer sees a read behind the end. */
static enum tt_err read_bytes(const void *bytes, size_t size_bytes, char **out_copy) {
    char *copy = malloc(size_bytes ? size_bytes : 1);
    memcpy(copy, bytes, size_bytes);
    why.text[0] = '\0';
    tt_kserve_request_init(&request);
    enum tt_err err = tt_infer_message_read(&request, copy, size_bytes, &wants_final, &why);
    if (err)
        assert_true(strlen(why.text) > 5);
    *out_copy = copy;
    return err;
}

static enum tt_err read_message(const message *packed, char **out_copy) {
    size_t size_bytes = inference__model_infer_request__get_packed_size(packed);
    uint8_t *bytes = malloc(size_bytes + 1);
    inference__model_infer_request__pack(packed, bytes);
    enum tt_err err = read_bytes(bytes, size_bytes, out_copy);
    free(bytes);
    return err;
}

static void done(char *copy) {
    tt_kserve_request_fini(&request);
    free(copy);
}

/* A request for one input, which the tests change. */
struct draft {
    message message;
    input_message input, *inputs[1];
    Inference__InferTensorContents contents;
    int64_t shape[2];
    ProtobufCBinaryData raw[1];
};

static void draft_init(struct draft *self, char *datatype, int64_t columns) {
    inference__model_infer_request__init(&self->message);
    inference__model_infer_request__infer_input_tensor__init(&self->input);
    inference__infer_tensor_contents__init(&self->contents);
    self->shape[0] = 1;
    self->shape[1] = columns;
    self->input.name = (char *)"IN";
    self->input.datatype = datatype;
    self->input.n_shape = 2;
    self->input.shape = self->shape;
    self->inputs[0] = &self->input;
    self->message.model_name = (char *)"identity";
    self->message.n_inputs = 1;
    self->message.inputs = self->inputs;
}

static void set_raw(struct draft *self, void *bytes, size_t size_bytes) {
    self->raw[0] = (ProtobufCBinaryData){.data = bytes, .len = size_bytes};
    self->message.n_raw_input_contents = 1;
    self->message.raw_input_contents = self->raw;
}

static void test_raw(void **state) {
    (void)state;
    float values[] = {1, 2, 3};
    struct draft draft;
    char *copy;
    draft_init(&draft, (char *)"FP32", 3);
    set_raw(&draft, values, sizeof(values));
    draft.message.model_version = (char *)"3";
    draft.message.id = (char *)"seven";
    assert_int_equal(read_message(&draft.message, &copy), TT_OK);
    assert_string_equal(request.target.model, "identity");
    assert_string_equal(request.target.version, "3");
    assert_string_equal(tt_text_string(&request.id), "seven");
    assert_int_equal(request.input_count, 1);
    assert_int_equal(request.output_count, 0);
    assert_int_equal(request.inputs[0].dtype, TT_DTYPE_FP32);
    assert_int_equal(request.inputs[0].shape.rank, 2);
    assert_int_equal(request.inputs[0].shape.dims[1], 3);
    assert_int_equal(request.inputs[0].data_bytes, sizeof(values));
    assert_memory_equal(request.inputs[0].data, values, sizeof(values));
    assert_null(request.inputs[0].decode);
    done(copy);
}

static void expect(const struct draft *draft, enum tt_err err, const char *sentence) {
    char *copy;
    assert_int_equal(read_message(&draft->message, &copy), err);
    if (err)
        assert_string_equal(why.text, sentence);
    done(copy);
}

static void test_rejected(void **state) {
    (void)state;
    float values[] = {1, 2, 3};
    struct draft draft;
    draft_init(&draft, (char *)"FP32", 3);
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN' has no data; it must have either contents or an entry of "
           "raw_input_contents");
    draft.contents.n_fp32_contents = 2;
    draft.contents.fp32_contents = values;
    draft.input.contents = &draft.contents;
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN' has 2 values in fp32_contents, but shape [1,3] takes 3");
    draft.shape[1] = INT64_MAX / 2;
    draft.shape[0] = 4;
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN': shape [4,4611686018427387903] is too large");
    draft.shape[1] = 3;
    draft.shape[0] = 1;
    draft.contents.n_fp32_contents = 3;
    expect(&draft, TT_OK, "");
    set_raw(&draft, values, sizeof(values));
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN' has contents, but the request has raw_input_contents; use one of "
           "the two for all inputs");
    draft.input.contents = NULL;
    draft.message.n_inputs = 0;
    expect(&draft, TT_ERR_INVALID,
           "unexpected additional input data for model 'identity': 1 raw_input_contents for 0 "
           "inputs");
    draft.message.n_inputs = 1;
    draft.shape[1] = -3;
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: \"shape\" has dimension -3; it must not be negative");
    draft.shape[1] = 3;
    draft.input.datatype = (char *)"";
    expect(&draft, TT_ERR_INVALID, "inputs[0]: \"datatype\" is missing");
    draft.input.datatype = (char *)"FP16";
    draft.input.contents = &draft.contents;
    draft.message.n_raw_input_contents = 0;
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN': contents cannot hold FP16; send it in raw_input_contents");
    draft.input.datatype = (char *)"INT8";
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN' has values in field 6 of its contents, but INT8 belongs into "
           "int_contents");
    int32_t large[] = {1, 2, 128};
    draft.contents.n_fp32_contents = 0;
    draft.contents.n_int_contents = 3;
    draft.contents.int_contents = large;
    expect(&draft, TT_ERR_INVALID,
           "inputs[0]: input 'IN': value 128 does not fit INT8 (-128 to 127)");
    char name[300];
    memset(name, 'x', sizeof(name));
    name[299] = '\0';
    draft.message.model_name = name;
    expect(&draft, TT_ERR_NOT_FOUND, "no model has so long a name or version");
}

/* --- parameters --- */

static enum tt_err with_parameter(const char *key, int which, int64_t value) {
    float values[] = {1};
    struct draft draft;
    Inference__InferParameter parameter = INFERENCE__INFER_PARAMETER__INIT;
    Inference__ModelInferRequest__ParametersEntry
        entry = INFERENCE__MODEL_INFER_REQUEST__PARAMETERS_ENTRY__INIT,
        *entries[] = {&entry};
    char *copy;
    parameter.parameter_choice_case = (Inference__InferParameter__ParameterChoiceCase)which;
    if (which == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM)
        parameter.string_param = (char *)"text";
    else if (which == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM)
        parameter.bool_param = value != 0;
    else
        parameter.int64_param = value;
    entry.key = (char *)(uintptr_t)key;
    entry.value = &parameter;
    draft_init(&draft, (char *)"FP32", 1);
    set_raw(&draft, values, sizeof(values));
    draft.message.n_parameters = 1;
    draft.message.parameters = entries;
    enum tt_err err = read_message(&draft.message, &copy);
    done(copy);
    return err;
}

enum {
    BOOL = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM,
    INT64 = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM,
    UINT64 = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM,
    STRING = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM
};

static void test_parameters(void **state) {
    (void)state;
    assert_int_equal(with_parameter("timeout", INT64, 1500), TT_OK);
    assert_int_equal(request.options.timeout_ns, 1500000);
    assert_int_equal(with_parameter("priority", UINT64, 2), TT_OK);
    assert_int_equal(request.options.priority, 2);
    assert_int_equal(with_parameter("timeout", INT64, -1), TT_ERR_INVALID);
    assert_int_equal(with_parameter("timeout", STRING, 0), TT_ERR_INVALID);
    assert_int_equal(with_parameter("sequence_id", INT64, 0), TT_OK);
    assert_int_equal(with_parameter("sequence_id", INT64, 5), TT_ERR_UNSUPPORTED);
    assert_string_equal(
        why.text, "\"parameters\": \"sequence_id\": sequences are not supported; leave it out");
    assert_int_equal(with_parameter("sequence_id", STRING, 0), TT_ERR_UNSUPPORTED);
    assert_int_equal(with_parameter("triton_other", BOOL, 1), TT_ERR_INVALID);
    assert_int_equal(with_parameter("my own", STRING, 0), TT_OK);
    assert_false(wants_final);
    assert_int_equal(with_parameter("triton_enable_empty_final_response", BOOL, 1), TT_OK);
    assert_true(wants_final);
}

/* --- typed contents of every datatype, random --- */

static struct tt_prng prng;

/* Fills the contents with random values of the datatype and `out` with their bytes in memory. */
static size_t random_contents(Inference__InferTensorContents *contents, enum tt_dtype dtype,
                              size_t count, void *values, ProtobufCBinaryData *strings, char *out) {
    size_t width = tt_dtype_bytes(dtype), used = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = tt_prng_next(&prng) >> tt_prng_below(&prng, 64);
        if (dtype == TT_DTYPE_BOOL)
            bits &= 1;
        if (dtype == TT_DTYPE_BYTES) {
            uint32_t length = (uint32_t)(bits % 9);
            strings[i] = (ProtobufCBinaryData){.data = (uint8_t *)"abcdefghi", .len = length};
            memcpy(out + used, &length, 4);
            memcpy(out + used + 4, "abcdefghi", length);
            used += 4 + length;
            continue;
        }
        if (dtype == TT_DTYPE_INT64 || dtype == TT_DTYPE_UINT64 || dtype == TT_DTYPE_FP64)
            ((uint64_t *)values)[i] = bits;
        else if (dtype == TT_DTYPE_BOOL)
            ((protobuf_c_boolean *)values)[i] = (protobuf_c_boolean)bits;
        else if (dtype == TT_DTYPE_INT8)
            ((int32_t *)values)[i] = (int8_t)bits;
        else if (dtype == TT_DTYPE_INT16)
            ((int32_t *)values)[i] = (int16_t)bits;
        else if (dtype == TT_DTYPE_UINT8)
            ((uint32_t *)values)[i] = (uint8_t)bits;
        else if (dtype == TT_DTYPE_UINT16)
            ((uint32_t *)values)[i] = (uint16_t)bits;
        else
            ((uint32_t *)values)[i] = (uint32_t)bits;
        memcpy(out + used, &bits, width);
        used += width;
    }
    struct {
        size_t *count;
        void **to;
    } const fields[] = {
        [TT_DTYPE_BOOL] = {&contents->n_bool_contents, (void **)&contents->bool_contents},
        [TT_DTYPE_INT8] = {&contents->n_int_contents, (void **)&contents->int_contents},
        [TT_DTYPE_INT16] = {&contents->n_int_contents, (void **)&contents->int_contents},
        [TT_DTYPE_INT32] = {&contents->n_int_contents, (void **)&contents->int_contents},
        [TT_DTYPE_INT64] = {&contents->n_int64_contents, (void **)&contents->int64_contents},
        [TT_DTYPE_UINT8] = {&contents->n_uint_contents, (void **)&contents->uint_contents},
        [TT_DTYPE_UINT16] = {&contents->n_uint_contents, (void **)&contents->uint_contents},
        [TT_DTYPE_UINT32] = {&contents->n_uint_contents, (void **)&contents->uint_contents},
        [TT_DTYPE_UINT64] = {&contents->n_uint64_contents, (void **)&contents->uint64_contents},
        [TT_DTYPE_FP32] = {&contents->n_fp32_contents, (void **)&contents->fp32_contents},
        [TT_DTYPE_FP64] = {&contents->n_fp64_contents, (void **)&contents->fp64_contents},
        [TT_DTYPE_BYTES] = {&contents->n_bytes_contents, (void **)&contents->bytes_contents},
    };
    *fields[dtype].count = count;
    *fields[dtype].to = dtype == TT_DTYPE_BYTES ? (void *)strings : values;
    return used;
}

static void test_contents(void **state) {
    (void)state;
    tt_prng_init(&prng, test_seed(7), 0);
    enum { MOST = 40 };
    uint64_t values[MOST];
    ProtobufCBinaryData strings[MOST];
    char expected[MOST * 16], decoded[MOST * 16];
    for (int round = 0; round < 3000; round++) {
        enum tt_dtype dtype = (enum tt_dtype)(1 + tt_prng_below(&prng, TT_DTYPE_BYTES));
        size_t count = 1 + (size_t)tt_prng_below(&prng, MOST);
        if (dtype == TT_DTYPE_FP16 || dtype == TT_DTYPE_BF16)
            continue;
        struct draft draft;
        char *copy;
        draft_init(&draft, (char *)(uintptr_t)tt_dtype_name(dtype), (int64_t)count);
        size_t size_bytes =
            random_contents(&draft.contents, dtype, count, values, strings, expected);
        draft.input.contents = &draft.contents;
        assert_int_equal(read_message(&draft.message, &copy), TT_OK);
        const struct tt_kserve_input *input = &request.inputs[0];
        assert_int_equal(input->size_bytes, size_bytes);
        assert_int_equal(input->decode(input, decoded, size_bytes, &why), TT_OK);
        assert_memory_equal(decoded, expected, size_bytes);
        done(copy);
    }
}

/* A reader of mutated bytes agrees with protobuf-c on what is a message, or rejects more. */
static void test_mutated(void **state) {
    (void)state;
    tt_prng_init(&prng, test_seed(11), 1);
    float values[] = {1, 2, 3, 4};
    int good = 0, bad = 0;
    for (int round = 0; round < 20000; round++) {
        struct draft draft;
        uint8_t bytes[256];
        char *copy;
        draft_init(&draft, (char *)"FP32", 4);
        if (round % 2) {
            set_raw(&draft, values, sizeof(values));
        } else {
            draft.contents.n_fp32_contents = 4;
            draft.contents.fp32_contents = values;
            draft.input.contents = &draft.contents;
        }
        size_t size_bytes = inference__model_infer_request__pack(&draft.message, bytes);
        if (tt_prng_below(&prng, 4) == 0)
            size_bytes = (size_t)tt_prng_below(&prng, size_bytes);
        for (uint64_t i = tt_prng_below(&prng, 3); i-- > 0 && size_bytes;)
            bytes[tt_prng_below(&prng, size_bytes)] = (uint8_t)tt_prng_next(&prng);
        enum tt_err err = read_bytes(bytes, size_bytes, &copy);
        message *theirs = inference__model_infer_request__unpack(NULL, size_bytes, bytes);
        if (!err && theirs) {
            good++;
            assert_int_equal(theirs->n_inputs, request.input_count);
            assert_string_equal(theirs->model_name, request.target.model);
        } else {
            bad++;
        }
        if (theirs)
            inference__model_infer_request__free_unpacked(theirs, NULL);
        done(copy);
    }
    assert_true(good > 1000);
    assert_true(bad > 1000);
}

/* --- answers --- */

static void released(struct tt_http2_message *sent) { (void)sent; }

/* The bytes of a message in pieces of random size. */
static size_t take_all(struct tt_http2_message *sent, char *to) {
    size_t used = 0;
    while (sent->left_bytes) {
        size_t count;
        const char *bytes =
            tt_http2_message_take(sent, 1 + (size_t)tt_prng_below(&prng, 3000), &count);
        memcpy(to + used, bytes, count);
        used += count;
    }
    return used;
}

static size_t head_of(const char *bytes) {
    const unsigned char *head = (const unsigned char *)bytes;
    assert_int_equal(head[0], 0);
    return (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
}

static void fill_outputs(struct tt_kserve_answer *answer, struct tt_tensor_spec *specs,
                         char *memory) {
    static const size_t sizes[] = {0, 4, 2044, 2048, 2052, 20000};
    answer->output_count = (int32_t)tt_prng_below(&prng, 5);
    for (int32_t i = 0; i < answer->output_count; i++) {
        size_t size_bytes = sizes[tt_prng_below(&prng, TT_COUNT(sizes))];
        specs[i] = (struct tt_tensor_spec){.dtype = TT_DTYPE_FP32};
        snprintf(specs[i].name, sizeof(specs[i].name), "OUT%d", i);
        answer->outputs[i].spec = &specs[i];
        answer->outputs[i].view =
            (struct tt_tensor_view){.bytes = memory + i,
                                    .size_bytes = size_bytes,
                                    .shape = {.rank = 2, .dims = {1, (int64_t)size_bytes / 4}}};
    }
}

static void check_answer(const Inference__ModelInferResponse *theirs,
                         const struct tt_kserve_answer *answer, bool is_final) {
    assert_non_null(theirs);
    assert_string_equal(theirs->model_name, "model");
    assert_string_equal(theirs->model_version, "1");
    assert_string_equal(theirs->id, tt_text_string(answer->id));
    assert_int_equal(theirs->n_parameters, is_final);
    assert_int_equal(theirs->n_outputs, answer->output_count);
    assert_int_equal(theirs->n_raw_output_contents, answer->output_count);
    for (size_t i = 0; i < theirs->n_outputs; i++) {
        const struct tt_tensor_view *view = &answer->outputs[i].view;
        assert_string_equal(theirs->outputs[i]->name, answer->outputs[i].spec->name);
        assert_string_equal(theirs->outputs[i]->datatype, "FP32");
        assert_int_equal(theirs->outputs[i]->n_shape, 2);
        assert_int_equal(theirs->outputs[i]->shape[1], view->shape.dims[1]);
        assert_int_equal(theirs->raw_output_contents[i].len, view->size_bytes);
        assert_memory_equal(theirs->raw_output_contents[i].data, view->bytes, view->size_bytes);
    }
}

static void test_answers(void **state) {
    (void)state;
    static char memory[20100], bytes[200000];
    static struct tt_tensor_spec specs[5];
    tt_prng_init(&prng, test_seed(13), 2);
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (char)tt_prng_next(&prng);
    for (int round = 0; round < 500; round++) {
        struct tt_text id;
        struct tt_kserve_answer answer = {.model_name = "model", .model_version = "1", .id = &id};
        struct tt_infer_form form = {tt_prng_below(&prng, 2) != 0, false};
        form.final =
            form.is_streamed && tt_prng_below(&prng, 2) ? TT_INFER_FINAL_TRUE : TT_INFER_FINAL_NONE;
        struct tt_http2_message sent;
        tt_text_init(&id);
        if (tt_prng_below(&prng, 2))
            tt_text_puts(&id, "an id");
        fill_outputs(&answer, specs, memory);
        tt_http2_message_init(&sent, released);
        assert_true(tt_infer_message_write(&answer, form, &sent));
        size_t count = take_all(&sent, bytes) - 5;
        assert_int_equal(head_of(bytes), count);
        const uint8_t *body = (const uint8_t *)bytes + 5;
        if (form.is_streamed) {
            Inference__ModelStreamInferResponse *theirs =
                inference__model_stream_infer_response__unpack(NULL, count, body);
            assert_non_null(theirs);
            assert_string_equal(theirs->error_message, "");
            check_answer(theirs->infer_response, &answer, form.final == TT_INFER_FINAL_TRUE);
            inference__model_stream_infer_response__free_unpacked(theirs, NULL);
        } else {
            Inference__ModelInferResponse *theirs =
                inference__model_infer_response__unpack(NULL, count, body);
            check_answer(theirs, &answer, false);
            inference__model_infer_response__free_unpacked(theirs, NULL);
        }
        tt_http2_message_fini(&sent);
        tt_text_fini(&id);
    }
}

static void test_error_in_stream(void **state) {
    (void)state;
    char bytes[256];
    struct tt_text id;
    struct tt_http2_message sent;
    tt_text_init(&id);
    tt_text_puts(&id, "7");
    tt_http2_message_init(&sent, released);
    assert_true(tt_infer_message_write_error("it failed", &id, &sent));
    size_t count = take_all(&sent, bytes) - 5;
    assert_int_equal(head_of(bytes), count);
    Inference__ModelStreamInferResponse *theirs =
        inference__model_stream_infer_response__unpack(NULL, count, (uint8_t *)bytes + 5);
    assert_non_null(theirs);
    assert_string_equal(theirs->error_message, "it failed");
    assert_string_equal(theirs->infer_response->id, "7");
    inference__model_stream_infer_response__free_unpacked(theirs, NULL);
    tt_http2_message_fini(&sent);
    tt_text_fini(&id);
}

/* What is only copied weighs little, what is read field by field its bytes, and counting stops. */
static void test_weight(void **state) {
    (void)state;
    enum { COUNT = 100000, ENOUGH = 1 << 20 };
    char *values = calloc(COUNT, 1);
    struct tt_text contents, input, text;
    tt_text_init(&contents);
    tt_text_init(&input);
    tt_text_init(&text);
    tt_wire_put_bytes(&text, 7, values, COUNT);
    size_t raw = tt_infer_message_weight(text.bytes, text.length, ENOUGH);
    assert_true(raw >= COUNT / 16 && raw < COUNT / 15);
    tt_text_clear(&text);
    tt_wire_put_bytes(&contents, 6, values, COUNT);
    tt_wire_put_bytes(&input, 5, contents.bytes, contents.length);
    tt_wire_put_bytes(&text, 5, input.bytes, input.length);
    size_t typed = tt_infer_message_weight(text.bytes, text.length, ENOUGH);
    assert_true(typed >= COUNT / 4 && typed < COUNT / 3);
    tt_text_clear(&text);
    tt_text_clear(&input);
    for (int i = 0; i < COUNT / 2; i++) {
        tt_wire_put_bytes(&text, 4, "", 0);  /* parameters of the request */
        tt_wire_put_bytes(&input, 4, "", 0); /* and of an input */
    }
    assert_int_equal(tt_infer_message_weight(text.bytes, text.length, ENOUGH), COUNT);
    size_t enough = tt_infer_message_weight(text.bytes, text.length, 1000);
    assert_true(enough >= 1000 && enough < 1100);
    tt_text_clear(&text);
    tt_wire_put_bytes(&text, 5, input.bytes, input.length);
    size_t parameters = tt_infer_message_weight(text.bytes, text.length, ENOUGH);
    assert_true(parameters >= COUNT && parameters < COUNT + 10);
    assert_int_equal(tt_infer_message_weight(text.bytes, 0, ENOUGH), 0);
    tt_text_fini(&contents);
    tt_text_fini(&input);
    tt_text_fini(&text);
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_rejected),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_contents),
        cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_error_in_stream),
        cmocka_unit_test(test_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
