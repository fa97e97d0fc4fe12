/* Names and strings, which most are read by a short way: it must be the same as the long one. */
#include "net/json/json_scan.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *text, *key; /* NULL: refused */
    } cases[] = {
        {"\"abc\":", "abc"},
        {"\"abc\"  :", "abc"},
        {"\"\":", ""},
        {"\"1234567\":", "1234567"},
        {"\"12345678\":", ""}, /* too long: no name anyone asks for */
        {"\"a\\u0062c\":", "abc"},
        {"\"a\\\"c\":", "a\"c"},
        {"\"a\\u0000c\":", ""},
        {"\"1234\\u0035\":", "12345"},
        {"\"abc\"", NULL},
        {"\"abc", NULL},
        {"\"abc\\", NULL},
        {"\"a\nc\":", NULL},
        {"abc:", NULL},
        {"\"a\\qc\":", NULL},
        {"\"abc\":1", "abc"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_json json;
        struct tt_error why = {0};
        char key[8] = "before";
        /* Exactly the text, so that a reader beyond its end is seen by the sanitizers. */
        size_t length = strlen(cases[i].text);
        char bytes[32];
        memcpy(bytes, cases[i].text, length);
        tt_json_init(&json, bytes, length, &why);
        enum tt_err err = tt_json_key(&json, key, sizeof(key));
        if (cases[i].key) {
            assert_int_equal(err, TT_OK);
            assert_string_equal(key, cases[i].key);
            assert_int_equal(json.at[-1], ':');
        } else {
            assert_int_equal(err, TT_ERR_INVALID);
            assert_true(why.text[0] != '\0');
        }
    }
}

static void test_strings(void **state) {
    (void)state;
    static const struct {
        const char *text, *string; /* NULL: refused */
    } cases[] = {
        {"\"abc\",", "abc"},          {"\"1234567\"", "1234567"},
        {"\"12345678\"", NULL},       {"\"a\\tb\"", "a\tb"},
        {"\"a\\u0000b\"", NULL},      {"\"a", NULL},
        {"\"\xc3\xa9\"", "\xc3\xa9"}, {"7", NULL},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_json json;
        struct tt_error why = {0};
        char string[8] = "";
        tt_json_init(&json, cases[i].text, strlen(cases[i].text), &why);
        enum tt_err err = tt_json_string_z(&json, "it", string, sizeof(string));
        assert_int_equal(err, cases[i].string ? TT_OK : TT_ERR_INVALID);
        if (cases[i].string) {
            assert_string_equal(string, cases[i].string);
            assert_int_equal(json.at[-1], '"');
        }
    }
}

/* Where a string ends does not depend on what stands beside it: eight bytes are looked at together.
 * Bytes that are or resemble special ones, at every place. */
static void test_ends_of_strings(void **state) {
    (void)state;
    static const char special[] = "\"\\\x1f\x01";
    static const char plain[] = "a !#[]^\x20\x21\x22\x7f\x80\x9f\xa2\xdc\xff\xfe\xe0";
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        size_t length = 2 + tt_prng_below(&prng, sizeof(text) - 1), end = 1;
        text[0] = '"';
        for (size_t i = 1; i < length; i++) {
            bool is_special = tt_prng_below(&prng, 12) == 0;
            text[i] = is_special ? special[tt_prng_below(&prng, sizeof(special) - 1)]
                                 : plain[tt_prng_below(&prng, sizeof(plain) - 1)];
        }
        while (end < length && text[end] != '"' && text[end] != '\\' &&
               (unsigned char)text[end] >= 0x20)
            end++;
        bool is_plain = end < length && text[end] == '"';
        struct tt_json json;
        const char *string = NULL;
        size_t bytes = 0;
        tt_json_init(&json, text, length, NULL);
        assert_int_equal(tt_json_string_plain(&json, &string, &bytes), is_plain);
        if (!is_plain)
            continue;
        assert_ptr_equal(string, text + 1);
        assert_int_equal(bytes, end - 1);
        assert_ptr_equal(json.at, text + end + 1);
    }
}

/* Short integers are read by a short way, which must agree with the long one. */
static void test_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
        bool is_legal;
        char next; /* where the reader stands then; NUL: at the end */
    } cases[] = {
        {"0,", 0, true, ','},
        {" 7]", 7, true, ']'},
        {"7 ]", 7, true, ' '},
        {"12}", 12, true, '}'},
        {"12", 12, true, '\0'},
        {"-12,", -12, true, ','},
        {"-0,", 0, true, ','},
        {"999999999999999999,", 999999999999999999, true, ','},
        {"1000000000000000000,", 1000000000000000000, true, ','},
        {"9223372036854775807,", INT64_MAX, true, ','},
        {"9223372036854775808,", 0, false, 0},
        {"99999999999999999999,", 0, false, 0},
        {"01,", 0, false, 0},
        {"1.0,", 0, false, 0},
        {"1e2,", 0, false, 0},
        {"-,", 0, false, 0},
        {",", 0, false, 0},
        {"", 0, false, 0},
        {"x", 0, false, 0},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_json json;
        struct tt_error why = {0};
        int64_t value = 77;
        size_t length = strlen(cases[i].text);
        char bytes[32];
        memcpy(bytes, cases[i].text, length);
        tt_json_init(&json, bytes, length, &why);
        enum tt_err err = tt_json_integer(&json, "n", INT64_MIN, INT64_MAX, &value);
        assert_int_equal(err, cases[i].is_legal ? TT_OK : TT_ERR_INVALID);
        assert_int_equal(value, cases[i].is_legal ? cases[i].value : 77);
        if (cases[i].is_legal)
            assert_int_equal(json.at < json.end ? *json.at : '\0', cases[i].next);
        else
            assert_true(why.text[0] != '\0');
    }
    struct tt_json json;
    struct tt_error why;
    int64_t value = 77;
    tt_json_init(&json, "12,", 3, &why); /* out of range, also for the short way */
    assert_int_equal(tt_json_integer(&json, "n", 0, 11, &value), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "\"n\" is 12; it must be an integer between 0 and 11"));
    tt_json_init(&json, "12,", 3, &why);
    assert_int_equal(tt_json_integer(&json, "n", 13, 20, &value), TT_ERR_INVALID);
    assert_int_equal(value, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_ends_of_strings),
        cmocka_unit_test(test_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
