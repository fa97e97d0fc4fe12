/* threaded */
#include "engine/onnxruntime/onnxruntime.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/tiny_onnx.h"

#include "base/clock.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

static struct tt_ort_library *library;
static struct bench bench;
static struct tt_engine *engine;

static int set_up(void **state) {
    (void)state;
    library = bench_library();
    bench_init(&bench);
    struct tt_engine_options options = {4, BENCH_DEPTH, bench_done, &bench};
    struct tt_error why;
    return tt_ort_engine_open(library, &options, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    bench_fini(&bench);
    tt_ort_library_close(library);
    return 0;
}

static enum tt_err load(struct tt_text take_file, bool batched, struct tt_engine_model **out_model,
                        struct tt_error *why) {
    struct tt_ort_model_options options = {.name = "tiny",
                                           .bytes = take_file.bytes,
                                           .size_bytes = take_file.length,
                                           .batched = batched,
                                           .max_batch = 64};
    enum tt_err err = tt_ort_engine_load(engine, &options, out_model, why);
    tt_text_fini(&take_file);
    return err;
}

static struct tt_engine_model *load_well(struct tt_text take_file, bool batched) {
    struct tt_engine_model *model = NULL;
    struct tt_error why = {{0}};
    if (load(take_file, batched, &model, &why))
        fail_msg("%s", why.text);
    return model;
}

#define VIEW(pointer, size, ...)                                                                   \
    (struct tt_tensor_view) {                                                                      \
        .bytes = (pointer), .size_bytes = (size), .shape = {                                       \
            .rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
            .dims = {__VA_ARGS__}                                                                  \
        }                                                                                          \
    }

static struct tt_tensor_view output_of(const struct tt_engine_member *member, int32_t index) {
    struct tt_tensor_view view;
    engine->ops->output(member->result, index, member->first_row, member->rows, &view);
    return view;
}

static void release(struct tt_engine_task *task) {
    for (int32_t i = 0; i < task->member_count; i++)
        if (task->members[i].result)
            engine->ops->result_release(task->members[i].result);
}

/* Every element type passes through unchanged, in two requests of different sizes, with the right
 * signature. */
static void test_types(void **state) {
    (void)state;
    static const struct {
        enum tiny_onnx_type onnx;
        enum tt_dtype ours;
    } types[] = {
        {TINY_BOOL, TT_DTYPE_BOOL},     {TINY_UINT8, TT_DTYPE_UINT8},
        {TINY_UINT16, TT_DTYPE_UINT16}, {TINY_UINT32, TT_DTYPE_UINT32},
        {TINY_UINT64, TT_DTYPE_UINT64}, {TINY_INT8, TT_DTYPE_INT8},
        {TINY_INT16, TT_DTYPE_INT16},   {TINY_INT32, TT_DTYPE_INT32},
        {TINY_INT64, TT_DTYPE_INT64},   {TINY_FLOAT16, TT_DTYPE_FP16},
        {TINY_FLOAT, TT_DTYPE_FP32},    {TINY_DOUBLE, TT_DTYPE_FP64},
        {TINY_BFLOAT16, TT_DTYPE_BF16},
    };
    unsigned char bytes[3 * 4 * 8];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = i % 3 == 0;
    for (size_t t = 0; t < TT_COUNT(types); t++) {
        struct tt_engine_model *model =
            load_well(tiny_onnx_unary("Identity", types[t].onnx, TINY_DIMS(-1, 4)), true);
        const struct tt_signature *signature = engine->ops->signature(model);
        assert_int_equal(signature->input_count, 1);
        assert_int_equal(signature->output_count, 1);
        assert_string_equal(signature->inputs[0].name, "x");
        assert_string_equal(signature->outputs[0].name, "y");
        assert_int_equal(signature->inputs[0].dtype, types[t].ours);
        assert_int_equal(signature->outputs[0].dtype, types[t].ours);
        assert_int_equal(signature->inputs[0].shape.rank, 2);
        assert_int_equal(signature->inputs[0].shape.dims[0], -1);
        assert_int_equal(signature->inputs[0].shape.dims[1], 4);
        assert_int_equal(signature->max_batch, 64);
        assert_int_equal(engine->ops->step_count(model), 1);
        size_t row = 4 * tt_dtype_bytes(types[t].ours);
        struct tt_tensor_view inputs[] = {VIEW(bytes, row, 1, 4), VIEW(bytes + row, 2 * row, 2, 4)};
        struct tt_engine_member members[] = {{.rows = 1, .inputs = &inputs[0]},
                                             {.rows = 2, .inputs = &inputs[1]}};
        struct tt_engine_task task = {.model = model, .member_count = 2, .members = members};
        bench_run(&bench, &task);
        assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
        assert_int_equal(task.head.last_step_done, 0);
        assert_int_equal(task.gathered_bytes, 0);
        assert_true(task.head.started_at <= task.head.ended_at);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(members[i].err, TT_OK);
            struct tt_tensor_view view = output_of(&members[i], 0);
            assert_int_equal(view.size_bytes, inputs[i].size_bytes);
            assert_int_equal(view.shape.rank, 2);
            assert_int_equal(view.shape.dims[0], members[i].rows);
            assert_int_equal(view.shape.dims[1], 4);
            assert_memory_equal(view.bytes, inputs[i].bytes, view.size_bytes);
        }
        release(&task);
        engine->ops->unload(model);
    }
}

enum { WIDTH = 37, FEATURES = 23, ROWS = 11 };

static struct tt_engine_model *load_matmul(void) {
    static float weights[WIDTH * FEATURES];
    for (int i = 0; i < WIDTH * FEATURES; i++)
        weights[i] = (float)((i * 7919) % 1009) / 997.0f - 0.5f;
    struct tiny_onnx model;
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "x", TINY_FLOAT, TINY_DIMS(-1, WIDTH));
    tiny_onnx_constant(&model, "w", TINY_FLOAT, TINY_DIMS(WIDTH, FEATURES), weights,
                       sizeof(weights));
    tiny_onnx_output(&model, "y", TINY_FLOAT, TINY_DIMS(-1, FEATURES));
    tiny_onnx_node(&model, "MatMul", "x", "w", "h", NULL, 0);
    tiny_onnx_node(&model, "Tanh", "h", NULL, "y", NULL, 0);
    return load_well(tiny_onnx_end(&model), true);
}

static void fill(float *values, int count, unsigned seed) {
    for (int i = 0; i < count; i++)
        values[i] = (float)((seed * 31u + (unsigned)i * 131u) % 257u) / 128.0f - 1.0f;
}

/* A row's answer is the same bit for bit, alone, in a batch that lies together, and in one that is
 * gathered. */
static void test_batched_equals_single(void **state) {
    (void)state;
    struct tt_engine_model *model = load_matmul();
    float together[ROWS][WIDTH], single[ROWS][FEATURES];
    float *apart[ROWS];
    struct tt_tensor_view inputs[ROWS];
    struct tt_engine_member members[ROWS];
    fill(&together[0][0], ROWS * WIDTH, 5);
    for (int i = 0; i < ROWS; i++) {
        apart[i] = malloc(sizeof(together[i]));
        memcpy(apart[i], together[i], sizeof(together[i]));
        inputs[i] = VIEW(together[i], sizeof(together[i]), 1, WIDTH);
        members[i] = (struct tt_engine_member){.rows = 1, .inputs = &inputs[i]};
        struct tt_engine_task task = {.model = model, .member_count = 1, .members = &members[i]};
        bench_run(&bench, &task);
        assert_int_equal(members[i].err, TT_OK);
        memcpy(single[i], output_of(&members[i], 0).bytes, sizeof(single[i]));
        release(&task);
    }
    for (int gathered = 0; gathered < 2; gathered++) {
        for (int i = 0; gathered && i < ROWS; i++)
            inputs[i].bytes = apart[ROWS - 1 - i]; /* also another order */
        struct tt_engine_task task = {.model = model, .member_count = ROWS, .members = members};
        bench_run(&bench, &task);
        assert_int_equal(task.gathered_bytes, gathered ? (int)sizeof(together) : 0);
        for (int i = 0; i < ROWS; i++) {
            assert_int_equal(members[i].err, TT_OK);
            assert_int_equal(members[i].first_row, i);
            assert_ptr_equal(members[i].result, members[0].result);
            assert_memory_equal(output_of(&members[i], 0).bytes,
                                single[gathered ? ROWS - 1 - i : i], sizeof(single[i]));
        }
        release(&task);
    }
    for (int i = 0; i < ROWS; i++)
        free(apart[i]);
    engine->ops->unload(model);
}

static struct tt_engine_model *load_gather(void) {
    static const float table[5] = {10, 11, 12, 13, 14};
    struct tiny_onnx model;
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "ids", TINY_INT64, TINY_DIMS(-1, -1));
    tiny_onnx_constant(&model, "table", TINY_FLOAT, TINY_DIMS(5), table, sizeof(table));
    tiny_onnx_output(&model, "y", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_node(&model, "Gather", "table", "ids", "y", "axis", 0);
    return load_well(tiny_onnx_end(&model), true);
}

/* An id out of range fails the run of all members, but only its sender gets the error. */
static void test_only_the_offender_fails(void **state) {
    (void)state;
    struct tt_engine_model *model = load_gather();
    const int64_t ids[4][2] = {{0, 1}, {2, 99}, {3, 4}, {-7, 0}};
    struct tt_tensor_view inputs[4];
    struct tt_engine_member members[4];
    struct tt_error whys[4];
    for (int i = 0; i < 4; i++) {
        inputs[i] = VIEW(ids[i], sizeof(ids[i]), 1, 2);
        members[i] = (struct tt_engine_member){.rows = 1, .inputs = &inputs[i], .why = &whys[i]};
    }
    struct tt_engine_task task = {.model = model, .member_count = 4, .members = members};
    bench_run(&bench, &task);
    assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
    for (int i = 0; i < 4; i += 2) {
        assert_int_equal(members[i].err, TT_OK);
        const float *values = output_of(&members[i], 0).bytes;
        assert_true(values[0] == 10 + (float)ids[i][0]);
        assert_true(values[1] == 10 + (float)ids[i][1]);
    }
    for (int i = 1; i < 4; i += 2) {
        assert_int_equal(members[i].err, TT_ERR_INVALID);
        assert_null(members[i].result);
        assert_non_null(strstr(whys[i].text, i == 1 ? "idx=99" : "idx=-7"));
        assert_null(strstr(whys[i].text, "Non-zero status"));
        assert_null(strstr(whys[i].text, ".cc"));
        assert_true(strncmp(whys[i].text, "Gather: ", 8) == 0);
    }
    release(&task);
    engine->ops->unload(model);
}

/* Members that do not fit are left out before anything runs. */
static void test_misfits(void **state) {
    (void)state;
    struct tt_engine_model *model = load_gather();
    const int64_t ids[6] = {0, 1, 2, 3, 4, 0};
    struct tt_tensor_view inputs[] = {
        VIEW(ids, 16, 1, 2), VIEW(ids, 24, 1, 3), VIEW(ids, 15, 1, 2),
        VIEW(ids, 16, 2),    VIEW(ids, 16, 2, 1), VIEW(ids, 16, 1, 2),
    };
    static const char *const sentences[] = {NULL,           "one batch", "15 bytes",
                                            "does not fit", "1 rows",    NULL};
    struct tt_engine_member members[6];
    struct tt_error whys[6];
    for (int i = 0; i < 6; i++)
        members[i] = (struct tt_engine_member){.rows = 1, .inputs = &inputs[i], .why = &whys[i]};
    struct tt_engine_task task = {.model = model, .member_count = 6, .members = members};
    bench_run(&bench, &task);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(members[i].err, sentences[i] ? TT_ERR_INVALID : TT_OK);
        if (sentences[i]) {
            assert_null(members[i].result);
            assert_non_null(strstr(whys[i].text, sentences[i]));
            assert_non_null(strstr(whys[i].text, "'ids'"));
        } else {
            const float *values = output_of(&members[i], 0).bytes;
            assert_true(values[1] == 11);
        }
    }
    release(&task);
    engine->ops->unload(model);
}

/* Rows are padded with zeros, whatever the last batch left in the buffer; what is long enough is
 * not copied. */
static void test_padding(void **state) {
    (void)state;
    struct tt_engine_model *model = load_gather();
    static const int64_t table[] = {1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    static const struct {
        int32_t length;
        int64_t first_at, second_at, first_length, second_length, gathered_bytes;
    } rounds[] = {
        {3, 0, 3, 3, 3, 0},
        {5, 5, 0, 5, 5, 3 * 5 * 8}, /* fills the buffer, mostly with fours */
        {5, 0, 3, 3, 1, 3 * 5 * 8},
        {5, 0, 3, 3, 0, 3 * 5 * 8}, /* a request of no ids at all */
    };
    for (size_t round = 0; round < TT_COUNT(rounds); round++) {
        int64_t first_length = rounds[round].first_length;
        int64_t second_length = rounds[round].second_length;
        const int64_t *starts[] = {table + rounds[round].first_at, table + rounds[round].second_at};
        struct tt_tensor_view inputs[] = {
            VIEW(starts[0], (size_t)first_length * 8, 1, first_length),
            VIEW(second_length ? starts[1] : NULL, (size_t)second_length * 16, 2, second_length)};
        struct tt_engine_member members[] = {{.rows = 1, .inputs = &inputs[0]},
                                             {.rows = 2, .inputs = &inputs[1]}};
        struct tt_engine_task task = {.model = model,
                                      .member_count = 2,
                                      .members = members,
                                      .head.length = rounds[round].length};
        bench_run(&bench, &task);
        assert_int_equal(task.gathered_bytes, rounds[round].gathered_bytes);
        for (int m = 0; m < 2; m++) {
            assert_int_equal(members[m].err, TT_OK);
            struct tt_tensor_view view = output_of(&members[m], 0);
            assert_int_equal(view.shape.dims[0], members[m].rows);
            assert_int_equal(view.shape.dims[1], rounds[round].length);
            const float *values = view.bytes;
            int64_t length = inputs[m].shape.dims[1];
            for (int64_t row = 0; row < members[m].rows; row++)
                for (int64_t k = 0; k < rounds[round].length; k++)
                    assert_true(*values++ ==
                                10 + (float)(k < length ? starts[m][row * length + k] : 0));
        }
        release(&task);
    }
    /* Too long for its batch. */
    const int64_t ids[4] = {0};
    struct tt_tensor_view input = VIEW(ids, 32, 1, 4);
    struct tt_error why;
    struct tt_engine_member member = {.rows = 1, .inputs = &input, .why = &why};
    struct tt_engine_task task = {
        .model = model, .member_count = 1, .members = &member, .head.length = 3};
    bench_run(&bench, &task);
    assert_int_equal(member.err, TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "padded to 3"));
    engine->ops->unload(model);
}

/* Strings with any bytes, also empty ones; rows of different sizes are separated correctly. */
static void test_strings(void **state) {
    (void)state;
    struct tt_engine_model *model =
        load_well(tiny_onnx_unary("Identity", TINY_STRING, TINY_DIMS(-1, 2)), true);
    assert_int_equal(engine->ops->signature(model)->inputs[0].dtype, TT_DTYPE_BYTES);
    static const char first[] = "\3\0\0\0a\0c\0\0\0\0"; /* "a\0c", "" */
    static const char second[] = "\1\0\0\0x\2\0\0\0yz\0\0\0\0\5\0\0\0\377wert";
    struct tt_tensor_view inputs[] = {VIEW(first, sizeof(first) - 1, 1, 2),
                                      VIEW(second, sizeof(second) - 1, 2, 2),
                                      VIEW(second, sizeof(second) - 2, 2, 2)};
    struct tt_error why;
    struct tt_engine_member members[] = {{.rows = 1, .inputs = &inputs[0]},
                                         {.rows = 2, .inputs = &inputs[1]},
                                         {.rows = 2, .inputs = &inputs[2], .why = &why}};
    struct tt_engine_task task = {.model = model, .member_count = 3, .members = members};
    bench_run(&bench, &task);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(members[i].err, TT_OK);
        struct tt_tensor_view view = output_of(&members[i], 0);
        assert_int_equal(view.size_bytes, inputs[i].size_bytes);
        assert_memory_equal(view.bytes, inputs[i].bytes, view.size_bytes);
    }
    assert_int_equal(members[2].err, TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "4 strings"));
    release(&task);
    engine->ops->unload(model);
}

/* A model that reverses the batch cannot be batched. It fails instead of returning rows of other
 * requests. */
static void test_output_that_does_not_follow_the_batch(void **state) {
    (void)state;
    struct tiny_onnx tiny;
    tiny_onnx_begin(&tiny);
    tiny_onnx_input(&tiny, "x", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_output(&tiny, "y", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_node(&tiny, "Transpose", "x", NULL, "y", NULL, 0);
    struct tt_engine_model *model = load_well(tiny_onnx_end(&tiny), true);
    const float values[6] = {0};
    struct tt_tensor_view inputs[] = {VIEW(values, 8, 1, 2), VIEW(values, 16, 2, 2)};
    struct tt_error whys[2];
    struct tt_engine_member members[] = {{.rows = 1, .inputs = &inputs[0], .why = &whys[0]},
                                         {.rows = 2, .inputs = &inputs[1], .why = &whys[1]}};
    struct tt_engine_task task = {.model = model, .member_count = 2, .members = members};
    bench_run(&bench, &task);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(members[i].err, TT_ERR_INTERNAL);
        assert_non_null(strstr(whys[i].text, "output 'y' has shape [2,3] after a batch of 3 rows"));
        assert_null(members[i].result);
    }
    engine->ops->unload(model);
}

static void test_models_that_do_not_load(void **state) {
    (void)state;
    struct tt_engine_model *model = NULL;
    struct tt_error why;
    struct tt_text junk;
    tt_text_init(&junk);
    tt_text_puts(&junk, "this is no model");
    assert_int_equal(load(junk, true, &model, &why), TT_ERR_INVALID);
    assert_true(strncmp(why.text, "tiny: ", 6) == 0);
    assert_int_not_equal(
        load(tiny_onnx_unary("NoSuchOperator", TINY_FLOAT, TINY_DIMS(-1)), true, &model, &why),
        TT_OK);
    assert_non_null(strstr(why.text, "NoSuchOperator"));
    /* Not batched, whatever the configuration says. */
    assert_int_equal(
        load(tiny_onnx_unary("Identity", TINY_FLOAT, TINY_DIMS(1, 3)), true, &model, &why),
        TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "input 'x' has shape [1,3]"));
    assert_int_not_equal(
        load(tiny_onnx_unary("Identity", TINY_COMPLEX64, TINY_DIMS(-1)), true, &model, &why),
        TT_OK);
    assert_int_equal(
        load(tiny_onnx_unary("Identity", TINY_FLOAT, TINY_DIMS(-1, 1, 1, 1, 1, 1, 1, 1, 1)), true,
             &model, &why),
        TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "9 dimensions"));
    struct tt_ort_model_options options = {.path = "/nowhere/model.onnx"};
    assert_int_equal(tt_ort_engine_load(engine, &options, &model, &why), TT_ERR_NOT_FOUND);
    assert_true(strncmp(why.text, "/nowhere/model.onnx: ", 21) == 0);
    options.batched = true;
    assert_int_equal(tt_ort_engine_load(engine, &options, &model, &why), TT_ERR_INVALID);
    assert_null(model);
    struct tt_engine_options none = {0, 1, bench_done, &bench};
    struct tt_engine *second = NULL;
    assert_int_equal(tt_ort_engine_open(library, &none, &second, &why), TT_ERR_INVALID);
    assert_null(second);
}

/* Without a batch dimension: scalars, fixed shapes, empty tensors. */
static void test_unbatched(void **state) {
    (void)state;
    struct tt_engine_model *model = load_well(tiny_onnx_unary("Neg", TINY_FLOAT, 0, NULL), false);
    assert_int_equal(engine->ops->signature(model)->max_batch, 1);
    const float one = 1;
    struct tt_tensor_view input = {&one, sizeof(one), {.rank = 0}};
    struct tt_engine_member member = {.rows = 1, .inputs = &input};
    struct tt_engine_task task = {.model = model, .member_count = 1, .members = &member};
    bench_run(&bench, &task);
    assert_int_equal(member.err, TT_OK);
    struct tt_tensor_view view = output_of(&member, 0);
    assert_int_equal(view.shape.rank, 0);
    assert_int_equal(view.size_bytes, sizeof(float));
    assert_true(*(const float *)view.bytes == -1);
    release(&task);
    engine->ops->unload(model);

    model = load_well(tiny_onnx_unary("Neg", TINY_FLOAT, TINY_DIMS(3, -1)), false);
    input = VIEW(NULL, 0, 3, 0);
    task = (struct tt_engine_task){.model = model, .member_count = 1, .members = &member};
    bench_run(&bench, &task);
    assert_int_equal(member.err, TT_OK);
    assert_int_equal(output_of(&member, 0).size_bytes, 0);
    assert_int_equal(output_of(&member, 0).shape.dims[0], 3);
    release(&task);
    engine->ops->unload(model);
}

/* x -> x W W W ... : long enough that an abort finds it running, with boundaries at which it ends.
 */
static struct tt_engine_model *load_long(int layers, int width) {
    float *weights = calloc((size_t)width * (size_t)width, sizeof(float));
    for (int i = 0; i < width; i++)
        weights[i * width + i] = 1;
    struct tiny_onnx tiny;
    tiny_onnx_begin(&tiny);
    tiny_onnx_input(&tiny, "x", TINY_FLOAT, TINY_DIMS(-1, width));
    tiny_onnx_constant(&tiny, "w", TINY_FLOAT, TINY_DIMS(width, width), weights,
                       (size_t)width * (size_t)width * sizeof(float));
    tiny_onnx_output(&tiny, "y", TINY_FLOAT, TINY_DIMS(-1, width));
    char from[16] = "x", to[16];
    for (int i = 0; i < layers; i++) {
        snprintf(to, sizeof(to), i == layers - 1 ? "y" : "h%d", i);
        tiny_onnx_node(&tiny, "MatMul", from, "w", to, NULL, 0);
        memcpy(from, to, sizeof(from));
    }
    free(weights);
    return load_well(tiny_onnx_end(&tiny), true);
}

/* Two tasks on one executor; the first is aborted, the second is not hurt by it. Then one that is
 * aborted in the queue. (A task may be quicker than its abort: DONE is right too, but not for 3000
 * layers and a queue.) */
static void test_abort(void **state) {
    (void)state;
    enum { LONG_WIDTH = 256, LONG_ROWS = 128 };
    struct tt_engine_model *model = load_long(3000, LONG_WIDTH);
    static float values[LONG_ROWS * LONG_WIDTH];
    fill(values, LONG_ROWS * LONG_WIDTH, 3);
    struct tt_tensor_view big = VIEW(values, sizeof(values), LONG_ROWS, LONG_WIDTH);
    struct tt_tensor_view small = VIEW(values, LONG_WIDTH * sizeof(float), 1, LONG_WIDTH);
    struct tt_error why;
    struct tt_engine_member members[3] = {{.rows = LONG_ROWS, .inputs = &big, .why = &why},
                                          {.rows = 1, .inputs = &small},
                                          {.rows = 1, .inputs = &small}};
    struct tt_engine_task tasks[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] =
            (struct tt_engine_task){.model = model, .member_count = 1, .members = &members[i]};
        tt_engine_submit(engine, &tasks[i]);
    }
    tt_engine_abort(engine, &tasks[2]);
    tt_engine_abort(engine, &tasks[0]);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(bench_wait(&bench), &tasks[i]);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(tasks[i].head.outcome, TT_OUTCOME_ABORTED);
        assert_int_equal(tasks[i].head.last_step_done, -1);
        assert_int_equal(members[i].err, TT_ERR_CANCELLED);
        assert_null(members[i].result);
    }
    assert_non_null(strstr(why.text, "aborted"));
    assert_int_equal(tasks[1].head.outcome, TT_OUTCOME_DONE);
    assert_int_equal(members[1].err, TT_OK);
    assert_memory_equal(output_of(&members[1], 0).bytes, values, small.size_bytes);
    /* Too late, and without effect on what comes next. */
    tt_engine_abort(engine, &tasks[1]);
    release(&tasks[1]);
    bench_run(&bench, &tasks[1]);
    assert_int_equal(tasks[1].head.outcome, TT_OUTCOME_DONE);
    release(&tasks[1]);
    engine->ops->unload(model);
}

/* Four executors, batches of random sizes from two models, some poisoned, queues kept full; every
 * answer is right. */
static void test_stress(void **state) {
    (void)state;
    enum { TASKS = 2000, IN_FLIGHT = 24, MOST = 6 };
    struct flight {
        struct tt_engine_task task;
        struct tt_engine_member members[MOST];
        struct tt_tensor_view inputs[MOST];
        int64_t ids[MOST][2];
    };
    struct tt_engine_model *model = load_gather();
    struct flight *flights = calloc(IN_FLIGHT, sizeof(*flights));
    unsigned seed = (unsigned)test_seed((uint64_t)tt_clock_now());
    int submitted = 0, finished = 0, poisoned = 0;
    struct flight *free_flight = NULL;
    while (finished < TASKS) {
        if (submitted < IN_FLIGHT)
            free_flight = &flights[submitted];
        if (free_flight && submitted < TASKS) {
            struct flight *flight = free_flight;
            free_flight = NULL;
            int count = 1 + rand_r(&seed) % MOST;
            flight->task = (struct tt_engine_task){.model = model,
                                                   .head.executor = rand_r(&seed) % 4,
                                                   .member_count = count,
                                                   .members = flight->members,
                                                   .head.user = flight};
            int shuffle = rand_r(&seed) % 2;
            for (int i = 0; i < count; i++) {
                int place = shuffle ? count - 1 - i : i;
                for (int k = 0; k < 2; k++)
                    flight->ids[place][k] = rand_r(&seed) % 50 == 0 ? 5 : rand_r(&seed) % 5;
                flight->inputs[i] = VIEW(flight->ids[place], 16, 1, 2);
                flight->members[i] =
                    (struct tt_engine_member){.rows = 1, .inputs = &flight->inputs[i]};
            }
            tt_engine_submit(engine, &flight->task);
            submitted++;
            continue;
        }
        struct flight *flight = bench_wait(&bench)->head.user;
        finished++;
        assert_int_equal(flight->task.head.outcome, TT_OUTCOME_DONE);
        for (int i = 0; i < flight->task.member_count; i++) {
            const int64_t *ids = flight->inputs[i].bytes;
            bool bad = ids[0] == 5 || ids[1] == 5;
            assert_int_equal(flight->members[i].err, bad ? TT_ERR_INVALID : TT_OK);
            poisoned += bad;
            if (bad)
                continue;
            const float *values = output_of(&flight->members[i], 0).bytes;
            assert_true(values[0] == 10 + (float)ids[0]);
            assert_true(values[1] == 10 + (float)ids[1]);
        }
        release(&flight->task);
        free_flight = flight;
    }
    assert_true(poisoned > 0);
    free(flights);
    engine->ops->unload(model);
}

static void *load_and_unload(void *argument) {
    int *failures = argument;
    for (int i = 0; i < 30; i++) {
        struct tt_engine_model *model = NULL;
        struct tt_error why;
        if (load(tiny_onnx_unary("Neg", TINY_FLOAT, TINY_DIMS(-1, 4)), true, &model, &why))
            ++*failures;
        else
            engine->ops->unload(model);
    }
    return NULL;
}

/* Models come and go on another thread while batches run. */
static void test_load_while_running(void **state) {
    (void)state;
    struct tt_engine_model *model = load_gather();
    int failures = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, load_and_unload, &failures), 0);
    static const int64_t ids[2] = {3, 1};
    struct tt_tensor_view input = VIEW(ids, sizeof(ids), 1, 2);
    for (int i = 0; i < 500; i++) {
        struct tt_engine_member member = {.rows = 1, .inputs = &input};
        struct tt_engine_task task = {
            .model = model, .head.executor = i % 4, .member_count = 1, .members = &member};
        bench_run(&bench, &task);
        assert_int_equal(member.err, TT_OK);
        assert_true(((const float *)output_of(&member, 0).bytes)[0] == 13);
        release(&task);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(failures, 0);
    engine->ops->unload(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_batched_equals_single),
        cmocka_unit_test(test_only_the_offender_fails),
        cmocka_unit_test(test_misfits),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_output_that_does_not_follow_the_batch),
        cmocka_unit_test(test_models_that_do_not_load),
        cmocka_unit_test(test_unbatched),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_stress),
        cmocka_unit_test(test_load_while_running),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
