#include "engine/gather.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct tt_signature signature_of(enum tt_dtype dtype, int64_t length, int64_t depth) {
    return (struct tt_signature){.batched = true,
                                 .max_batch = 64,
                                 .input_count = 1,
                                 .inputs = {{"x", dtype, {3, {-1, length, depth}}}}};
}

/* A naive model: the padded batch, element by element. */
enum { MAX_MEMBERS = 5, MAX_ROWS = 3, MAX_LENGTH = 6, DEPTH = 2 };

struct request {
    struct tt_engine_member member;
    struct tt_tensor_view view;
    int32_t rows, length;
};

static size_t put_string(unsigned char *to, size_t length, unsigned *seed) {
    memset(to, 0, 4);
    to[0] = (unsigned char)length;
    for (size_t i = 0; i < length; i++)
        to[4 + i] = (unsigned char)rand_r(seed);
    return 4 + length;
}

/* Writes a request's elements to `to`, and what the padded batch should hold of it to `expected`.
 */
static size_t make_request(struct request *self, unsigned char *to, unsigned char *expected,
                           size_t *expected_bytes, enum tt_dtype dtype, int32_t padded,
                           unsigned *seed) {
    size_t bytes = 0, element_bytes = tt_dtype_bytes(dtype);
    unsigned char *e = expected + *expected_bytes;
    for (int32_t row = 0; row < self->rows; row++)
        for (int32_t step = 0; step < padded; step++)
            for (int32_t k = 0; k < DEPTH; k++) {
                size_t size = dtype == TT_DTYPE_BYTES ? 4 : element_bytes;
                memset(e, 0, size);
                if (step < self->length) {
                    if (dtype == TT_DTYPE_BYTES)
                        size = put_string(to + bytes, (size_t)(rand_r(seed) % 5), seed);
                    else
                        for (size_t i = 0; i < size; i++)
                            to[bytes + i] = (unsigned char)rand_r(seed);
                    memcpy(e, to + bytes, size);
                    bytes += size;
                }
                e += size;
            }
    *expected_bytes = (size_t)(e - expected);
    self->view = (struct tt_tensor_view){to, bytes, {3, {self->rows, self->length, DEPTH}}};
    self->member = (struct tt_engine_member){.rows = self->rows, .inputs = &self->view};
    return bytes;
}

static void test_against_naive(void **state) {
    (void)state;
    static const enum tt_dtype dtypes[] = {TT_DTYPE_UINT8, TT_DTYPE_FP16, TT_DTYPE_FP32,
                                           TT_DTYPE_INT64, TT_DTYPE_BYTES};
    unsigned seed = (unsigned)test_seed((uint64_t)time(NULL));
    struct tt_gather_buffer buffer = {0};
    int copied = 0, bound = 0;
    for (int round = 0; round < 3000; round++) {
        enum tt_dtype dtype = dtypes[rand_r(&seed) % 5];
        struct tt_signature signature = signature_of(dtype, -1, DEPTH);
        bool pads = rand_r(&seed) % 2;
        int32_t length = rand_r(&seed) % (MAX_LENGTH + 1);
        int32_t padded = pads ? MAX_LENGTH : length;
        int32_t count = 1 + rand_r(&seed) % MAX_MEMBERS;
        unsigned char bytes[16384], expected[16384];
        struct request requests[MAX_MEMBERS];
        struct tt_engine_member *members[MAX_MEMBERS];
        size_t at = 0, expected_bytes = 0;
        bool adjacent = true;
        for (int32_t i = 0; i < count; i++) {
            struct request *request = &requests[i];
            request->rows = 1 + rand_r(&seed) % MAX_ROWS;
            request->length = pads ? rand_r(&seed) % (MAX_LENGTH + 1) : length;
            size_t gap = rand_r(&seed) % 8 == 0;
            size_t size = make_request(request, bytes + at + gap, expected, &expected_bytes, dtype,
                                       padded, &seed);
            adjacent = adjacent && (i == 0 || gap == 0) && request->length == padded;
            at += gap + size;
            members[i] = &request->member;
            struct tt_error why = {{0}};
            if (tt_gather_check(&signature, members[i], members[0], pads ? padded : 0, &why))
                fail_msg("%s", why.text);
        }
        int64_t gathered_bytes = 0;
        struct tt_tensor_view view;
        assert_int_equal(tt_gather_input(&signature, 0, members, count, pads ? padded : 0, &buffer,
                                         &gathered_bytes, &view),
                         TT_OK);
        int64_t rows = 0;
        for (int32_t i = 0; i < count; i++)
            rows += requests[i].rows;
        assert_int_equal(view.shape.dims[0], rows);
        assert_int_equal(view.shape.dims[1], padded);
        assert_int_equal(view.size_bytes, expected_bytes);
        assert_memory_equal(view.bytes, expected, expected_bytes);
        if (adjacent && expected_bytes) {
            assert_int_equal(gathered_bytes, 0);
            assert_ptr_equal(view.bytes, requests[0].view.bytes);
            bound++;
        } else if (gathered_bytes) {
            assert_int_equal(gathered_bytes, expected_bytes);
            assert_int_equal((uintptr_t)view.bytes % 64, 0);
            copied++;
        }
    }
    assert_true(bound > 100);
    assert_true(copied > 100);
    tt_gather_buffer_fini(&buffer);
}

/* A string whose length lies must not lead out of the bytes. */
static void test_strings_that_lie(void **state) {
    (void)state;
    struct tt_signature signature = signature_of(TT_DTYPE_BYTES, 1, 1);
    static const struct {
        const char *bytes;
        size_t size;
        enum tt_err err;
    } cases[] = {
        {"\2\0\0\0ab", 6, TT_OK},          {"\0\0\0\0", 4, TT_OK},
        {"\2\0\0\0a", 5, TT_ERR_INVALID},  {"\377\377\377\377ab", 6, TT_ERR_INVALID},
        {"\1\0\0\0ab", 6, TT_ERR_INVALID}, {"\0\0\0", 3, TT_ERR_INVALID},
        {"", 0, TT_ERR_INVALID},           {"\0\0\0\0\0\0\0\0", 8, TT_ERR_INVALID},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        /* Of exactly that size, so that a sanitizer sees a step too far. */
        char *bytes = malloc(cases[i].size + !cases[i].size);
        memcpy(bytes, cases[i].bytes, cases[i].size);
        struct tt_tensor_view view = {bytes, cases[i].size, {3, {1, 1, 1}}};
        struct tt_engine_member member = {.rows = 1, .inputs = &view};
        struct tt_error why;
        assert_int_equal(tt_gather_check(&signature, &member, &member, 0, &why), cases[i].err);
        free(bytes);
    }
}

static void test_shapes_that_overflow(void **state) {
    (void)state;
    struct tt_signature signature = signature_of(TT_DTYPE_INT64, -1, -1);
    static const int64_t dims[][3] = {
        {1, INT64_MAX, 2}, {1, INT64_MAX / 8 + 1, 1}, {1, -1, 1}, {0, 1, 1}};
    for (size_t i = 0; i < TT_COUNT(dims); i++) {
        struct tt_tensor_view view = {"", 0, {3, {dims[i][0], dims[i][1], dims[i][2]}}};
        struct tt_engine_member member = {.rows = (int32_t)dims[i][0], .inputs = &view};
        struct tt_error why;
        assert_int_equal(tt_gather_check(&signature, &member, &member, 0, &why), TT_ERR_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_strings_that_lie),
        cmocka_unit_test(test_shapes_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
