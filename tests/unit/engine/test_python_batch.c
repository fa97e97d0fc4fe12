/* Batches in the memory shared with a Python process: what is written, and answers that lie. */
#include "engine/python/python_batch.h"

#include "base/prng.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "unit/seed.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MEMBERS = 3,
    TENSOR = 3 + TT_MAX_RANK,
    RESPONSE = 3 + 2 * TENSOR,
    HEAD_BYTES = MEMBERS * RESPONSE * 8
};

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = 8,
    .input_count = 2,
    .output_count = 2,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, -1}}}, {"s", TT_DTYPE_BYTES, {2, {-1, 1}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 2}}}, {"t", TT_DTYPE_BYTES, {2, {-1, 1}}}},
};

struct batch {
    struct tt_engine_member members[MEMBERS], *pointers[MEMBERS];
    struct tt_tensor_view views[MEMBERS][2];
    struct tt_error whys[MEMBERS];
    int32_t numbers[MEMBERS][8];
    struct tt_engine_valid_members valid;
};

/* Member m has m + 1 rows of 2 numbers, and m + 1 empty strings. */
static void fill(struct batch *self) {
    static const char no_strings[MEMBERS * 4];
    *self = (struct batch){.valid = {.members = self->pointers, .count = MEMBERS, .rows = 6}};
    for (int32_t m = 0; m < MEMBERS; m++) {
        int32_t rows = m + 1;
        for (int32_t i = 0; i < rows * 2; i++)
            self->numbers[m][i] = 100 * m + i;
        self->views[m][0] = (struct tt_tensor_view){
            self->numbers[m], (size_t)rows * 2 * sizeof(int32_t), {2, {rows, 2}}};
        self->views[m][1] = (struct tt_tensor_view){no_strings, (size_t)rows * 4, {2, {rows, 1}}};
        self->members[m] = (struct tt_engine_member){.rows = rows,
                                                     .inputs = self->views[m],
                                                     .id = m ? "second" : NULL,
                                                     .why = &self->whys[m]};
        self->pointers[m] = &self->members[m];
    }
}

static struct tt_python_buffer *new_buffer(size_t size_bytes) {
    struct tt_python_buffer *buffer = NULL;
    struct tt_error why;
    assert_int_equal(tt_python_buffer_new(size_bytes, &buffer, &why), TT_OK);
    return buffer;
}

static void test_what_is_written(void **state) {
    (void)state;
    struct batch batch;
    fill(&batch);
    size_t size_bytes = tt_python_batch_bytes(&signature, &batch.valid);
    struct tt_python_buffer *buffer = new_buffer(size_bytes);
    tt_python_batch_write(&signature, &batch.valid, buffer->bytes);
    const int64_t *words = (const int64_t *)(const void *)buffer->bytes;
    enum { REQUEST = 2 + 2 * TENSOR };
    int64_t next = words[2];
    for (int32_t m = 0; m < MEMBERS; m++) {
        const int64_t *request = words + (ptrdiff_t)m * REQUEST, *x = request + 2;
        assert_int_equal(request[1], m ? 6 : 0);
        assert_memory_equal(buffer->bytes + request[0], "second", (size_t)request[1]);
        assert_int_equal(x[0], next); /* adjacent */
        assert_int_equal(x[2], 2);
        assert_int_equal(x[3], m + 1);
        assert_memory_equal(buffer->bytes + x[0], batch.numbers[m], (size_t)x[1]);
        next = x[0] + x[1];
    }
    assert_int_equal(words[2] % 64, 0);
    tt_python_buffer_disown(buffer);
}

static void put_tensor(int64_t *words, int64_t at, int64_t size_bytes, int64_t rows,
                       int64_t columns) {
    const int64_t numbers[] = {at, size_bytes, 2, rows, columns};
    memcpy(words, numbers, sizeof(numbers));
}

/* Answers as a process gives them: y = 1, 2, 3 ...; t = "a" in each row. Returns their size. */
static size_t answer(struct tt_python_buffer *buffer) {
    int64_t *words = (int64_t *)(void *)buffer->bytes;
    int64_t at = HEAD_BYTES;
    memset(words, 0, HEAD_BYTES);
    for (int32_t m = 0; m < MEMBERS; m++) {
        int64_t *response = words + (ptrdiff_t)m * RESPONSE, rows = m + 1;
        put_tensor(response + 3, at, rows * 8, rows, 2);
        for (int32_t i = 0; i < rows * 2; i++)
            memcpy(buffer->bytes + at + 4 * i, &(int32_t){i + 1}, 4);
        at += rows * 8;
        put_tensor(response + 3 + TENSOR, at, rows * 5, rows, 1);
        for (int32_t i = 0; i < rows; i++)
            memcpy(buffer->bytes + at + 5 * i, "\1\0\0\0a", 5);
        at += (rows * 5 + 7) / 8 * 8;
    }
    return (size_t)at;
}

static void release(struct batch *batch) {
    for (int32_t m = 0; m < MEMBERS; m++)
        if (batch->members[m].result)
            tt_engine_result_release(batch->members[m].result);
}

static void test_answers(void **state) {
    (void)state;
    struct batch batch;
    struct tt_python_words scratch = {0};
    struct tt_python_buffer *buffer = new_buffer(1);
    fill(&batch);
    size_t size_bytes = answer(buffer);
    int64_t *second = (int64_t *)(void *)buffer->bytes + RESPONSE;
    second[0] = TT_ERR_UNAVAILABLE;
    second[1] = (int64_t)size_bytes;
    second[2] = 5;
    memcpy(buffer->bytes + size_bytes, "later", 5);
    tt_python_batch_read(&signature, &batch.valid, buffer, size_bytes + 5, &scratch);
    assert_int_equal(batch.members[0].err, TT_OK);
    assert_int_equal(batch.members[1].err, TT_ERR_UNAVAILABLE);
    assert_string_equal(batch.whys[1].text, "later");
    assert_null(batch.members[1].result);
    assert_int_equal(batch.members[2].err, TT_OK);
    assert_false(tt_python_buffer_is_idle(buffer));
    tt_python_buffer_disown(buffer); /* the results keep it */
    struct tt_tensor_view view;
    tt_engine_result_output(batch.members[2].result, 0, 1, 2, &view);
    assert_memory_equal(view.bytes, ((const int32_t[]){3, 4, 5, 6}), 16);
    tt_engine_result_output(batch.members[2].result, 1, 2, 1, &view);
    assert_int_equal(view.size_bytes, 5);
    assert_memory_equal(view.bytes, "\1\0\0\0a", 5);
    release(&batch);
    tt_python_words_fini(&scratch);
}

struct lie {
    int32_t word; /* of the first response */
    int64_t value;
    const char *message; /* NULL: whatever it is */
};

static void test_answers_that_lie(void **state) {
    (void)state;
    static const struct lie lies[] = {
        {0, 7, NULL}, /* an error that there is not, with no message */
        {0, 1, NULL},
        {3, -8, "invalid sizes"},
        {3, INT64_MAX, "invalid sizes"},
        {3, 1 << 20, "invalid sizes"},
        {4, INT64_MAX, "invalid sizes"},
        {4, -1, "invalid sizes"},
        {4, 4, "invalid sizes"},
        {3, HEAD_BYTES + 2, "invalid sizes"},
        {5, 9, "invalid sizes"},
        {5, -1, "invalid sizes"},
        {5, 1, "output 'y' of the Python model has shape [1]; config.pbtxt says [-1,2]"},
        {6, 2, "output 'y' of the Python model has shape [2,2]; dimension 0 must be 1"},
        {7, INT64_MAX, "config.pbtxt says [-1,2]"},
        {7, -1, "config.pbtxt says [-1,2]"},
        {3 + TENSOR + 1, 4, "output 't' of the Python model: "},
        {3 + TENSOR, HEAD_BYTES + 1, "output 't' of the Python model: "},
    };
    for (size_t i = 0; i < TT_COUNT(lies); i++) {
        struct batch batch;
        struct tt_python_words scratch = {0};
        struct tt_python_buffer *buffer = new_buffer(1);
        fill(&batch);
        size_t size_bytes = answer(buffer);
        ((int64_t *)(void *)buffer->bytes)[lies[i].word] = lies[i].value;
        tt_python_batch_read(&signature, &batch.valid, buffer, size_bytes, &scratch);
        assert_int_not_equal(batch.members[0].err, TT_OK);
        assert_null(batch.members[0].result);
        if (lies[i].message && !strstr(batch.whys[0].text, lies[i].message))
            fail_msg("lie %zu: '%s'", i, batch.whys[0].text);
        assert_int_equal(batch.members[1].err, TT_OK); /* the others are what they are */
        release(&batch);
        assert_true(tt_python_buffer_is_idle(buffer));
        tt_python_buffer_disown(buffer);
        tt_python_words_fini(&scratch);
    }
}

static void test_answers_that_are_too_short(void **state) {
    (void)state;
    for (size_t size_bytes = 0; size_bytes < HEAD_BYTES; size_bytes += 100) {
        struct batch batch;
        struct tt_python_words scratch = {0};
        struct tt_python_buffer *buffer = new_buffer(1);
        fill(&batch);
        (void)answer(buffer);
        tt_python_batch_read(&signature, &batch.valid, buffer, size_bytes, &scratch);
        for (int32_t m = 0; m < MEMBERS; m++)
            assert_int_equal(batch.members[m].err, TT_ERR_INTERNAL);
        tt_python_buffer_disown(buffer);
        tt_python_words_fini(&scratch);
    }
}

/* Any bytes: each member has a result within the buffer, or an error. */
static void test_random_answers(void **state) {
    (void)state;
    static const int64_t values[] = {0, 1, 2, 3, -1, 8, 64, HEAD_BYTES, INT64_MAX, INT64_MIN};
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(23), 0);
    int32_t good = 0, bad = 0;
    for (int32_t round = 0; round < 20000; round++) {
        struct batch batch;
        struct tt_python_words scratch = {0};
        struct tt_python_buffer *buffer = new_buffer(1);
        fill(&batch);
        size_t size_bytes = answer(buffer);
        for (uint64_t change = tt_prng_next(&prng) % 4; change > 0; change--) {
            uint64_t at = tt_prng_next(&prng) % (size_bytes / 8);
            ((int64_t *)(void *)buffer->bytes)[at] = values[tt_prng_next(&prng) % TT_COUNT(values)];
        }
        tt_python_batch_read(&signature, &batch.valid, buffer, size_bytes, &scratch);
        for (int32_t m = 0; m < MEMBERS; m++) {
            const struct tt_engine_member *member = &batch.members[m];
            assert_int_equal(member->err == TT_OK, member->result != NULL);
            good += member->err == TT_OK;
            bad += member->err != TT_OK;
            for (int32_t o = 0; member->result && o < 2; o++) {
                struct tt_tensor_view view;
                tt_engine_result_output(member->result, o, 0, member->rows, &view);
                uint64_t sum = 0;
                for (size_t i = 0; i < view.size_bytes; i++)
                    sum += ((const unsigned char *)view.bytes)[i];
                assert_true(sum < UINT64_MAX);
            }
        }
        release(&batch);
        assert_true(tt_python_buffer_is_idle(buffer));
        tt_python_buffer_disown(buffer);
        tt_python_words_fini(&scratch);
    }
    assert_true(good > 0);
    assert_true(bad > 0);
}

static void test_memory_that_grows_and_never_shrinks(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_python_buffer *buffer = new_buffer(1);
    size_t before = buffer->mapped_bytes;
    assert_int_equal(tt_python_buffer_cover(buffer, before + 1, &why), TT_ERR_INVALID);
    assert_int_equal(ftruncate(buffer->fd, (off_t)before - 1), -1);
    assert_int_equal(ftruncate(buffer->fd, (off_t)before * 4), 0);
    assert_int_equal(tt_python_buffer_cover(buffer, before + 1, &why), TT_OK);
    assert_int_equal(buffer->mapped_bytes, before * 4);
    buffer->bytes[before * 4 - 1] = 1;
    assert_int_equal(fcntl(buffer->fd, F_ADD_SEALS, F_SEAL_GROW), -1); /* sealed for good */
    tt_python_buffer_disown(buffer);
    tt_python_buffer_disown(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_that_lie),
        cmocka_unit_test(test_answers_that_are_too_short),
        cmocka_unit_test(test_random_answers),
        cmocka_unit_test(test_memory_that_grows_and_never_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
