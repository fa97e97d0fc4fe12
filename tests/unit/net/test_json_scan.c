/* Names and strings, which most are read by a short way: it must be the same as the long one. */
#include "net/json/json_scan.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
