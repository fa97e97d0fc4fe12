/* The estimate of a model's memory from its file: what it counts, and that no bytes can harm it. */
#include "model/onnx/onnx_file.h"
#include "model/onnx/onnx_memory.h"
#include "model/onnx/onnx_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "unit/model/onnx_builder.h"
#include "unit/seed.h"

static void put_weights(struct tt_text *graph, const char *name, int element, const int64_t *dims,
                        int rank) {
    struct tt_text tensor = {0};
    for (int i = 0; i < rank; i++)
        onnx_number(&tensor, 1, (uint64_t)dims[i]);
    onnx_number(&tensor, 2, (uint64_t)element);
    onnx_bytes(&tensor, 8, name, strlen(name));
    onnx_message(graph, 5, &tensor);
}

/* A one-dimensional constant: an initializer (field 5 of a graph) or an attribute's tensor (5). */
static void put_shape(struct tt_text *to, uint32_t field, const char *name, const int64_t *dims,
                      int rank, bool is_raw) {
    struct tt_text tensor = {0}, values = {0};
    onnx_number(&tensor, 1, (uint64_t)rank);
    onnx_number(&tensor, 2, 7);
    onnx_bytes(&tensor, 8, name, strlen(name));
    for (int i = 0; i < rank; i++)
        if (is_raw)
            tt_text_append(&values, &dims[i], sizeof(dims[i]));
        else
            onnx_varint(&values, (uint64_t)dims[i]);
    onnx_message(&tensor, is_raw ? 9 : 7, &values);
    onnx_message(to, field, &tensor);
}

static struct tt_text node_of(const char *op, const char *input, const char *output) {
    struct tt_text node = {0};
    onnx_bytes(&node, 1, input, strlen(input));
    onnx_bytes(&node, 2, output, strlen(output));
    onnx_bytes(&node, 4, op, strlen(op));
    return node;
}

static struct tt_onnx_memory estimate(struct tt_text *take_graph, int32_t max_batch) {
    struct tt_text model = {0};
    struct tt_onnx_memory memory = {0};
    struct tt_error why = {""};
    onnx_model(&model, take_graph);
    enum tt_err err =
        tt_onnx_memory_parse("m", model.bytes, model.length, max_batch, &memory, &why);
    if (err)
        fail_msg("%s", why.text);
    tt_text_fini(&model);
    return memory;
}

static void test_weights_and_annotated_shapes(void **state) {
    (void)state;
    struct tt_text graph = {0};
    put_weights(&graph, "a", 1, (const int64_t[]){10, 20}, 2);
    put_weights(&graph, "b", 11, (const int64_t[]){3}, 1);
    onnx_value(&graph, 13, "wide", 1, "N,100,-");
    onnx_value(&graph, 12, "y", 10, "N,7");
    struct tt_onnx_memory memory = estimate(&graph, 16);
    assert_int_equal(memory.weight_bytes, 10 * 20 * 4 + 3 * 8);
    assert_int_equal(memory.largest_bytes, 16 * 100 * 4);
    assert_string_equal(memory.largest, "tensor 'wide'");
}

static void test_constants_imply_shapes(void **state) {
    (void)state;
    for (int is_raw = 0; is_raw <= 1; is_raw++) {
        struct tt_text graph = {0}, node;
        node = node_of("Relu", "x", "r");
        onnx_message(&graph, 1, &node);
        node = node_of("ConstantOfShape", "s", "big");
        onnx_message(&graph, 1, &node);
        put_shape(&graph, 5, "s", (const int64_t[]){1 << 20, 1 << 11}, 2, is_raw);
        struct tt_onnx_memory memory = estimate(&graph, 1);
        assert_int_equal(memory.largest_bytes, INT64_C(1) << 33);
        assert_string_equal(memory.largest, "ConstantOfShape 'big' (node 1)");
    }
}

static void test_inner_graphs_and_constants_count(void **state) {
    (void)state;
    struct tt_text inner = {0}, attribute = {0}, graph = {0}, outer, node;
    struct tt_text constant = node_of("Constant", "", "s"), value = {0};
    onnx_bytes(&value, 1, "value", 5);
    put_shape(&value, 5, "", (const int64_t[]){1 << 10, 1 << 10}, 2, true);
    onnx_message(&constant, 5, &value);
    onnx_message(&graph, 1, &constant);
    put_weights(&inner, "w", 1, (const int64_t[]){100}, 1);
    node = node_of("ConstantOfShape", "s", "in\nner");
    onnx_message(&inner, 1, &node);
    onnx_bytes(&attribute, 1, "body", 4);
    onnx_message(&attribute, 6, &inner);
    outer = node_of("Loop", "x", "y");
    onnx_message(&outer, 5, &attribute);
    onnx_message(&graph, 1, &outer);
    struct tt_onnx_memory memory = estimate(&graph, 1);
    assert_int_equal(memory.weight_bytes, 100 * 4 + 2 * 8);
    assert_int_equal(memory.largest_bytes, 4 << 20);
    assert_string_equal(memory.largest, "ConstantOfShape 'in?ner'");
}

static void test_sizes_saturate(void **state) {
    (void)state;
    struct tt_text graph = {0}, node = node_of("ConstantOfShape", "s", "y");
    onnx_message(&graph, 1, &node);
    put_shape(&graph, 5, "s", (const int64_t[]){INT64_MAX, INT64_MAX}, 2, true);
    put_weights(&graph, "w", 1, (const int64_t[]){INT64_MAX, 3}, 2);
    put_weights(&graph, "v", 1, (const int64_t[]){-1}, 1);
    struct tt_onnx_memory memory = estimate(&graph, 1);
    assert_true(memory.weight_bytes == INT64_MAX);
    assert_true(memory.largest_bytes == INT64_MAX);
}

/* Any change of a byte, and any cut, gives an estimate or an error. */
static void test_any_bytes(void **state) {
    (void)state;
    struct tt_text graph = {0}, model = {0}, node = node_of("Expand", "one", "y");
    onnx_bytes(&node, 1, "s", 1);
    onnx_message(&graph, 1, &node);
    put_shape(&graph, 5, "s", (const int64_t[]){4, 5}, 2, false);
    onnx_value(&graph, 13, "wide", 1, "N,100");
    onnx_model(&model, &graph);
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(26), 0);
    for (int round = 0; round < 20000; round++) {
        size_t length = round % 2 ? model.length : (size_t)tt_prng_below(&prng, model.length + 1);
        char *bytes = malloc(length + 1);
        assert_non_null(bytes);
        memcpy(bytes, model.bytes, length);
        for (uint64_t i = tt_prng_below(&prng, 4); i > 0 && length > 0; i--)
            bytes[tt_prng_below(&prng, length)] = (char)tt_prng_below(&prng, 256);
        struct tt_onnx_memory memory;
        struct tt_error why = {""};
        if (tt_onnx_memory_parse("m", bytes, length, 8, &memory, &why))
            assert_true(*why.text);
        else
            assert_true(memory.weight_bytes >= 0 && memory.largest_bytes >= 0);
        free(bytes);
    }
    tt_text_fini(&model);
}

/* Few bytes of the file for each would take more of memory. */
static void test_too_many_constants(void **state) {
    (void)state;
    struct tt_text graph = {0}, model = {0};
    for (int i = 0; i <= TT_ONNX_MAX_CONSTANTS; i++)
        put_shape(&graph, 5, "w", (const int64_t[]){1}, 1, false);
    onnx_message(&model, 7, &graph);
    struct tt_onnx_memory memory;
    struct tt_onnx_file *file = NULL;
    struct tt_error why;
    assert_int_equal(tt_onnx_memory_parse("m", model.bytes, model.length, 1, &memory, &why),
                     TT_ERR_INVALID);
    assert_string_equal(why.text, "m: more than 262144 constants");
    assert_int_equal(tt_onnx_file_parse("m", model.bytes, model.length, &file, &why),
                     TT_ERR_UNSUPPORTED);
    assert_string_equal(why.text, "m: more than 262144 initializers");
    tt_text_fini(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_and_annotated_shapes),
        cmocka_unit_test(test_constants_imply_shapes),
        cmocka_unit_test(test_inner_graphs_and_constants_count),
        cmocka_unit_test(test_sizes_saturate),
        cmocka_unit_test(test_too_many_constants),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
