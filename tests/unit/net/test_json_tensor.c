/* Tensors in JSON: every type, its range, and that text and memory say the same. */
#include "net/json/json_tensor.h"

#include "base/prng.h"
#include "net/json/json_float.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tt_error why;

static enum tt_err read_text(const char *text, enum tt_dtype dtype, int64_t count, void *to,
                             size_t size_bytes) {
    /* An exact copy on the heap: the sanitizer sees a read behind the end. */
    size_t length = strlen(text);
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    struct tt_json json;
    why.text[0] = '\0';
    tt_json_init(&json, copy, length, &why);
    enum tt_err err = tt_json_tensor_read(&json, dtype, count, to, size_bytes);
    if (!err)
        err = tt_json_end(&json);
    if (err)
        assert_true(strlen(why.text) > 10);
    free(copy);
    return err;
}

static void check_written(enum tt_dtype dtype, int64_t count, const void *bytes, size_t size_bytes,
                          const char *expected) {
    struct tt_text text;
    tt_text_init(&text);
    assert_int_equal(tt_json_tensor_write(dtype, count, bytes, size_bytes, &text, &why), TT_OK);
    assert_string_equal(tt_text_string(&text), expected);
    tt_text_fini(&text);
}

static void test_every_type_there_and_back(void **state) {
    (void)state;
    static const struct {
        enum tt_dtype dtype;
        int64_t count;
        const char *in, *out;
    } cases[] = {
        {TT_DTYPE_BOOL, 4, "[true, false,1,0]", "[true,false,true,false]"},
        {TT_DTYPE_UINT8, 3, "[0,255,7]", "[0,255,7]"},
        {TT_DTYPE_UINT16, 2, "[[0],[65535]]", "[0,65535]"},
        {TT_DTYPE_UINT32, 2, "[0,4294967295]", "[0,4294967295]"},
        {TT_DTYPE_UINT64, 2, "[0,18446744073709551615]", "[0,18446744073709551615]"},
        {TT_DTYPE_INT8, 2, "[-128,127]", "[-128,127]"},
        {TT_DTYPE_INT16, 2, "[-32768,32767]", "[-32768,32767]"},
        {TT_DTYPE_INT32, 2, "[-2147483648,2147483647]", "[-2147483648,2147483647]"},
        {TT_DTYPE_INT64, 3, "[-9223372036854775808,9223372036854775807,-0]",
         "[-9223372036854775808,9223372036854775807,0]"},
        {TT_DTYPE_FP16, 5, "[1,-2.5,65504,6e-8,-0.0]", "[1.0,-2.5,65504.0,5.9604645e-08,-0.0]"},
        {TT_DTYPE_BF16, 3, "[1,-2.5,3.3895e38]", "[1.0,-2.5,3.3895314e+38]"},
        {TT_DTYPE_FP32, 7,
         " [ [ 0.1 , 1e10 ] , [ ] , [ -1.5E-3, 16777216, 3.4028235e38,1e-45 ], 0 ] ",
         "[0.1,10000000000.0,-0.0015,16777216.0,3.4028235e+38,1e-45,0.0]"},
        {TT_DTYPE_FP64, 4, "[0.1,1e300,5e-324,123456789012345678]",
         "[0.1,1e+300,4.94065645841247e-324,1.2345678901234568e+17]"},
        {TT_DTYPE_FP32, 0, "[]", "[]"},
        {TT_DTYPE_FP32, 0, "[[],[]]", "[]"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        uint8_t memory[64];
        size_t size_bytes = (size_t)cases[i].count * tt_dtype_bytes(cases[i].dtype);
        enum tt_err err =
            read_text(cases[i].in, cases[i].dtype, cases[i].count, memory, size_bytes);
        if (err)
            print_error("%s: %s\n", cases[i].in, why.text);
        assert_int_equal(err, TT_OK);
        check_written(cases[i].dtype, cases[i].count, memory, size_bytes, cases[i].out);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        enum tt_dtype dtype;
        int64_t count;
        const char *in;
    } cases[] = {
        {TT_DTYPE_UINT8, 1, "[256]"},
        {TT_DTYPE_UINT8, 1, "[-1]"},
        {TT_DTYPE_INT8, 1, "[128]"},
        {TT_DTYPE_INT8, 1, "[-129]"},
        {TT_DTYPE_INT32, 1, "[2147483648]"},
        {TT_DTYPE_INT64, 1, "[9223372036854775808]"},
        {TT_DTYPE_INT64, 1, "[-9223372036854775809]"},
        {TT_DTYPE_UINT64, 1, "[18446744073709551616]"},
        {TT_DTYPE_INT32, 1, "[1.0]"},
        {TT_DTYPE_INT32, 1, "[1e2]"},
        {TT_DTYPE_INT32, 1, "[true]"},
        {TT_DTYPE_BOOL, 1, "[2]"},
        {TT_DTYPE_BOOL, 1, "[\"true\"]"},
        {TT_DTYPE_BOOL, 1, "[tru]"},
        {TT_DTYPE_FP16, 1, "[65520]"},
        {TT_DTYPE_FP32, 1, "[3.4028236e38]"},
        {TT_DTYPE_FP32, 1, "[1e999999999999]"},
        {TT_DTYPE_BF16, 1, "[3.4e38]"},
        {TT_DTYPE_FP64, 1, "[1e309]"},
        {TT_DTYPE_FP32, 1, "[NaN]"},
        {TT_DTYPE_FP32, 1, "[Infinity]"},
        {TT_DTYPE_FP32, 1, "[null]"},
        {TT_DTYPE_FP32, 1, "[\"1\"]"},
        {TT_DTYPE_FP32, 1, "[01]"},
        {TT_DTYPE_FP32, 1, "[+1]"},
        {TT_DTYPE_FP32, 1, "[.5]"},
        {TT_DTYPE_FP32, 1, "[5.]"},
        {TT_DTYPE_FP32, 1, "[1e]"},
        {TT_DTYPE_FP32, 1, "[-]"},
        {TT_DTYPE_FP32, 1, "[0x10]"},
        {TT_DTYPE_FP32, 1, "1"},
        {TT_DTYPE_FP32, 1, "[1"},
        {TT_DTYPE_FP32, 1, "[1,"},
        {TT_DTYPE_FP32, 1, "[1,]"},
        {TT_DTYPE_FP32, 1, "[,1]"},
        {TT_DTYPE_FP32, 2, "[1 2]"},
        {TT_DTYPE_FP32, 2, "[1[2]]"},
        {TT_DTYPE_FP32, 1, "[]"},
        {TT_DTYPE_FP32, 1, "[1,2]"},
        {TT_DTYPE_FP32, 2, "[1]"},
        {TT_DTYPE_FP32, 1, "[1]]"},
        {TT_DTYPE_FP32, 1, "{}"},
        {TT_DTYPE_FP32, 1, ""},
        {TT_DTYPE_FP32, 1, "[{\"a\":1}]"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        uint8_t memory[16];
        size_t size_bytes = (size_t)cases[i].count * tt_dtype_bytes(cases[i].dtype);
        enum tt_err err =
            read_text(cases[i].in, cases[i].dtype, cases[i].count, memory, size_bytes);
        if (err != TT_ERR_INVALID)
            print_error("taken: %s\n", cases[i].in);
        assert_int_equal(err, TT_ERR_INVALID);
    }
    char deep[1000];
    memset(deep, '[', sizeof(deep));
    deep[sizeof(deep) - 1] = '\0';
    float value;
    assert_int_equal(read_text(deep, TT_DTYPE_FP32, 1, &value, 4), TT_ERR_INVALID);
    char longest[2000];
    memset(longest, '1', sizeof(longest));
    longest[0] = '[';
    strcpy(longest + sizeof(longest) - 2, "]");
    assert_int_equal(read_text(longest, TT_DTYPE_FP64, 1, &(double){0}, 8), TT_ERR_INVALID);
}

static void test_strings(void **state) {
    (void)state;
    const char *in = "[[\"a\\n\\u00e9\\ud83d\\ude00\\/\"],[\"\"],[\"\\u0000x\"]]";
    size_t size_bytes = 0;
    struct tt_json json;
    tt_json_init(&json, in, strlen(in), &why);
    assert_int_equal(tt_json_tensor_measure(&json, 3, &size_bytes), TT_OK);
    assert_int_equal(size_bytes, 4 + 9 + 4 + 4 + 2);
    char memory[32];
    assert_int_equal(read_text(in, TT_DTYPE_BYTES, 3, memory, size_bytes), TT_OK);
    assert_memory_equal(memory, "\x09\0\0\0a\n\xc3\xa9\xf0\x9f\x98\x80/\0\0\0\0\x02\0\0\0\0x",
                        size_bytes);
    check_written(TT_DTYPE_BYTES, 3, memory, size_bytes,
                  "[\"a\\u000a\xc3\xa9\xf0\x9f\x98\x80/\",\"\",\"\\u0000x\"]");
    static const char *const bad[] = {"[\"a]",
                                      "[\"\\x\"]",
                                      "[\"\\ud800\"]",
                                      "[\"\\udc00\"]",
                                      "[\"\\ud800\\u0041\"]",
                                      "[\"a\nb\"]",
                                      "[\"\\u12g4\"]",
                                      "[\"\\",
                                      "[1]"};
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        tt_json_init(&json, bad[i], strlen(bad[i]), &why);
        assert_int_equal(tt_json_tensor_measure(&json, 1, &size_bytes), TT_ERR_INVALID);
    }
}

static void test_binary_strings_are_checked(void **state) {
    (void)state;
    assert_int_equal(tt_bytes_tensor_check("\1\0\0\0a\0\0\0\0", 9, 2, &why), TT_OK);
    assert_int_equal(tt_bytes_tensor_check("", 0, 0, &why), TT_OK);
    assert_int_equal(tt_bytes_tensor_check("\1\0\0\0a\0\0\0", 8, 2, &why), TT_ERR_INVALID);
    assert_int_equal(tt_bytes_tensor_check("\2\0\0\0a", 5, 1, &why), TT_ERR_INVALID);
    assert_int_equal(tt_bytes_tensor_check("\xff\xff\xff\xff"
                                           "a",
                                           5, 1, &why),
                     TT_ERR_INVALID);
    assert_int_equal(tt_bytes_tensor_check("\1\0\0\0ab", 6, 1, &why), TT_ERR_INVALID);
}

static void test_what_json_cannot_say(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    float values[] = {1, NAN}, infinite = -INFINITY;
    uint16_t half_nan = 0x7e00;
    assert_int_equal(tt_json_tensor_write(TT_DTYPE_FP32, 2, values, 8, &text, &why),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "element 1"));
    assert_int_equal(tt_json_tensor_write(TT_DTYPE_FP32, 1, &infinite, 4, &text, &why),
                     TT_ERR_INVALID);
    assert_int_equal(tt_json_tensor_write(TT_DTYPE_FP16, 1, &half_nan, 2, &text, &why),
                     TT_ERR_INVALID);
    assert_int_equal(tt_json_tensor_write(TT_DTYPE_BYTES, 1, "\1\0\0\0\xff", 5, &text, &why),
                     TT_ERR_INVALID);
    assert_int_equal(
        tt_json_tensor_write(TT_DTYPE_BYTES, 1, "\3\0\0\0\xed\xa0\x80", 7, &text, &why),
        TT_ERR_INVALID);
    tt_text_fini(&text);
}

/* --- floating point against the C library --- */

static bool number_of(const char *text, struct tt_json_number *out) {
    struct tt_json json;
    tt_json_init(&json, text, strlen(text), NULL);
    return tt_json_number(&json, out) == TT_OK && json.at == json.end;
}

static int digits_of(const char *text, size_t length) {
    int count = 0, zeros = 0;
    for (size_t i = 0; i < length && text[i] != 'e'; i++) {
        if (text[i] < '0' || text[i] > '9')
            continue;
        if (text[i] == '0')
            zeros += count > 0;
        else {
            count += zeros + 1;
            zeros = 0;
        }
    }
    return count;
}

static void check_float(float value) {
    char text[TT_FLOAT_TEXT_BYTES + 1];
    size_t length = tt_float_write32(value, text);
    assert_true(length < TT_FLOAT_TEXT_BYTES);
    text[length] = '\0';
    float back = strtof(text, NULL), ours;
    struct tt_json_number number;
    char best[40] = "";
    for (int precision = 1; precision <= 9; precision++) {
        snprintf(best, sizeof(best), "%.*e", precision - 1, value);
        if (strtof(best, NULL) == value)
            break;
    }
    bool fine = memcmp(&back, &value, 4) == 0 && number_of(text, &number) &&
                tt_float_read32(&number, &ours) && memcmp(&ours, &value, 4) == 0 &&
                digits_of(text, length) <= digits_of(best, strlen(best));
    if (!fine)
        print_error("%a: wrote %s, the shortest is %s\n", value, text, best);
    assert_true(fine);
}

static void test_floats_are_shortest(void **state) {
    (void)state;
    uint64_t seed = test_seed(77);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 1);
    for (uint32_t exponent = 0; exponent < 255; exponent++) /* around every power of two */
        for (int32_t step = -2; step <= 2; step++) {
            uint32_t bits = (exponent << 23) + (uint32_t)step;
            float value;
            memcpy(&value, &bits, 4);
            if (isfinite(value) && value != 0)
                check_float(value);
        }
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)tt_prng_next(&prng);
        float value;
        memcpy(&value, &bits, 4);
        if (isfinite(value) && value != 0)
            check_float(value);
    }
    for (int i = 0; i < 20000; i++)
        check_float((float)(1 + tt_prng_below(&prng, 100000)) / 1000.0f);
}

static void test_decimals_are_read_as_strtod_does(void **state) {
    (void)state;
    uint64_t seed = test_seed(4711);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 2);
    for (int i = 0; i < 100000; i++) {
        char text[128];
        uint64_t digits = tt_prng_next(&prng) >> tt_prng_below(&prng, 64);
        int exponent = (int)tt_prng_below(&prng, i % 4 ? 60 : 700) - (i % 4 ? 30 : 350);
        switch (i % 3) {
        case 0:
            snprintf(text, sizeof(text), "%s%llu.%llue%d", i & 8 ? "-" : "",
                     (unsigned long long)(digits >> 32), (unsigned long long)(digits & 0xffff),
                     exponent);
            break;
        case 1:
            snprintf(text, sizeof(text), "%llue%d", (unsigned long long)digits, exponent);
            break;
        default: { /* exactly between two floats, or a hair beside it */
            uint32_t bits = (uint32_t)(0x3000000000000000 >> 32) + (uint32_t)(digits & 0xfffffff);
            float low;
            memcpy(&low, &bits, 4);
            double middle = ((double)low + (double)nextafterf(low, INFINITY)) / 2;
            snprintf(text, sizeof(text), "%.60f%s", middle, i & 1 ? "" : "1");
            break;
        }
        }
        struct tt_json_number number;
        assert_true(number_of(text, &number));
        double wide, wide_expected = strtod(text, NULL);
        float narrow, narrow_expected = strtof(text, NULL);
        assert_int_equal(tt_float_read64(&number, &wide), isfinite(wide_expected));
        assert_int_equal(tt_float_read32(&number, &narrow), isfinite(narrow_expected));
        if (memcmp(&wide, &wide_expected, 8) != 0 || memcmp(&narrow, &narrow_expected, 4) != 0)
            print_error("%s\n", text);
        assert_memory_equal(&wide, &wide_expected, 8);
        assert_memory_equal(&narrow, &narrow_expected, 4);
    }
}

/* The nearest FP16 or BF16 by looking at all of them: ties to the even pattern. */
static void check_narrow(const char *text, uint16_t bits, bool brain) {
    float (*value_of)(uint16_t) = brain ? tt_float_from_bf16 : tt_float_from16;
    long double exact = strtold(text, NULL);
    long double mine = fabsl((long double)value_of(bits) - exact);
    uint16_t around[] = {(uint16_t)(bits - 1), (uint16_t)(bits + 1)};
    for (int i = 0; i < 2; i++) {
        if (((around[i] ^ bits) & 0x8000) || !isfinite(value_of(around[i])))
            continue;
        long double other = fabsl((long double)value_of(around[i]) - exact);
        if (mine > other || (mine == other && (bits & 1)))
            print_error("%s became 0x%04x, 0x%04x is nearer\n", text, bits, around[i]);
        assert_false(mine > other || (mine == other && (bits & 1)));
    }
}

static void test_narrow_floats(void **state) {
    (void)state;
    for (int brain = 0; brain < 2; brain++)
        for (uint32_t pattern = 0; pattern < 0x8000; pattern++) {
            float value =
                brain ? tt_float_from_bf16((uint16_t)pattern) : tt_float_from16((uint16_t)pattern);
            float next = brain ? tt_float_from_bf16((uint16_t)(pattern + 1))
                               : tt_float_from16((uint16_t)(pattern + 1));
            if (!isfinite(value))
                continue;
            char text[TT_FLOAT_TEXT_BYTES + 200];
            text[tt_float_write32(value, text)] = '\0';
            struct tt_json_number number;
            uint16_t bits = 0xffff;
            assert_true(number_of(text, &number));
            assert_true(brain ? tt_float_read_bf16(&number, &bits)
                              : tt_float_read16(&number, &bits));
            assert_int_equal(bits, pattern);
            if (!isfinite(next) || (pattern & 7))
                continue;
            double middle = ((double)value + (double)next) / 2;
            for (int above = 0; above < 2; above++) {
                snprintf(text, sizeof(text), "%.*f%s", 180, middle, above ? "1" : "");
                assert_true(number_of(text, &number));
                assert_true(brain ? tt_float_read_bf16(&number, &bits)
                                  : tt_float_read16(&number, &bits));
                if (middle > 1e-35) /* all its digits are in the text */
                    assert_int_equal(bits, above ? pattern + 1 : pattern + (pattern & 1));
            }
        }
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(99), 3);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s%llue%d", i & 1 ? "-" : "",
                 (unsigned long long)tt_prng_below(&prng, 100000),
                 (int)tt_prng_below(&prng, 8) - 9);
        struct tt_json_number number;
        uint16_t bits;
        assert_true(number_of(text, &number));
        assert_true(tt_float_read16(&number, &bits));
        check_narrow(text, bits, false);
        assert_true(tt_float_read_bf16(&number, &bits));
        check_narrow(text, bits, true);
    }
}

static void test_doubles_come_back(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(12), 4);
    for (int i = 0; i < 30000; i++) {
        uint64_t bits = tt_prng_next(&prng);
        double value, back;
        memcpy(&value, &bits, 8);
        if (!isfinite(value))
            continue;
        char text[TT_FLOAT_TEXT_BYTES + 1];
        text[tt_float_write64(value, text)] = '\0';
        struct tt_json_number number;
        assert_true(number_of(text, &number));
        assert_true(tt_float_read64(&number, &back));
        assert_memory_equal(&back, &value, 8);
    }
}

static void test_strings_that_are_not_utf8(void **state) {
    (void)state;
    struct tt_text out;
    tt_text_init(&out);
    tt_json_write_string(&out, "a\xff\xc3\xa9\xc3\x01", 6);
    assert_string_equal(tt_text_string(&out), "\"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\\u0001\"");
    tt_text_fini(&out);
}

/* Strings of every length and alignment, with one byte of each kind at every place. */
static void strings_are_escaped_wherever_it_stands(void **state) {
    (void)state;
    static const char hex[] = "0123456789abcdef";
    for (size_t length = 1; length <= 40; length++)
        for (size_t at = 0; at < length; at++)
            for (int c = 0; c < 256; c++) {
                char bytes[48], expected[64];
                for (size_t i = 0; i < length; i++)
                    bytes[i] = (char)(' ' + 1 + (i * 7 + length) % 90);
                for (size_t i = 0; i < length; i++) /* plain ones */
                    if (bytes[i] == '"' || bytes[i] == '\\')
                        bytes[i] = '~';
                bytes[at] = (char)c;
                size_t count = 0;
                expected[count++] = '"';
                for (size_t i = 0; i < length; i++) {
                    unsigned char b = (unsigned char)bytes[i];
                    const char u[] = {'\\', 'u', '0', '0', hex[b >> 4], hex[b & 15]};
                    if (b >= 0x80) { /* alone, it is not UTF-8 */
                        memcpy(expected + count, "\xef\xbf\xbd", 3);
                        count += 3;
                    } else if (b < 0x20 || b == 0x7f || b == '"' || b == '\\') {
                        bool is_short = b == '"' || b == '\\';
                        memcpy(expected + count, u, is_short ? 1 : 6);
                        count += is_short ? 1 : 6;
                        if (is_short)
                            expected[count++] = (char)b;
                    } else {
                        expected[count++] = (char)b;
                    }
                }
                expected[count++] = '"';
                struct tt_text out;
                tt_text_init(&out);
                tt_json_write_string(&out, bytes, length);
                assert_int_equal(out.length, count);
                assert_memory_equal(out.bytes, expected, count);
                tt_text_fini(&out);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped_wherever_it_stands),
        cmocka_unit_test(test_every_type_there_and_back),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_binary_strings_are_checked),
        cmocka_unit_test(test_what_json_cannot_say),
        cmocka_unit_test(test_floats_are_shortest),
        cmocka_unit_test(test_decimals_are_read_as_strtod_does),
        cmocka_unit_test(test_narrow_floats),
        cmocka_unit_test(test_doubles_come_back),
        cmocka_unit_test(test_strings_that_are_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
