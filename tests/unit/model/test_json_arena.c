/* Whatever a text says, what jansson takes for it fits into the reservation. */
#include "model/text/json_arena.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tt_error why;

/* Reads the text; true: it is JSON. */
static bool reads(const char *json, size_t length) {
    struct tt_json_arena arena;
    json_t *root;
    if (tt_json_arena_open(&arena, json, length, &root, &why))
        return false;
    assert_int_equal(arena.outside_count, 0);
    assert_true(arena.at <= arena.end);
    tt_json_arena_close(&arena, root);
    return true;
}

/* `open`, `count` times the element, where `%d` is its index, and `close`. */
static void check(const char *open, const char *element, const char *close, int count) {
    struct tt_text text;
    const char *number = strstr(element, "%d");
    tt_text_init(&text);
    tt_text_puts(&text, open);
    for (int i = 0; i < count; i++) {
        tt_text_puts(&text, i ? "," : "");
        if (number) {
            tt_text_append(&text, element, (size_t)(number - element));
            tt_text_put_integer(&text, i);
            tt_text_puts(&text, number + 2);
        } else {
            tt_text_puts(&text, element);
        }
    }
    assert_false(text.failed);
    assert_false(reads(text.bytes, text.length)); /* cut off */
    tt_text_puts(&text, close);
    if (!reads(text.bytes, text.length))
        fail_msg("%.60s: %s", text.bytes, why.text);
    tt_text_fini(&text);
}

static void test_all_fits(void **state) {
    (void)state;
    static const char *const elements[] = {
        "{}", "[]", "\"\"", "1", "1.5", "[{}]", "[[[]]]", "{\"\":{}}", "{\"a\":1}", "\"\\u00e9\""};
    for (size_t e = 0; e < sizeof(elements) / sizeof(elements[0]); e++)
        for (int count = 0; count < 70000; count = count < 70 ? count + 1 : count * 9)
            check("[", elements[e], "]", count);
    for (int count = 0; count < 70000; count = count < 70 ? count + 1 : count * 9) {
        check("{", "\"%d\":1", "}", count);
        check("{", "\"%d\":{}", "}", count);
        check("{", "\"a key of some length %d\":[]", "}", count);
    }
}

/* A token is collected in a buffer that doubles. */
static void test_long_tokens(void **state) {
    (void)state;
    for (size_t length = 1; length < 300000; length = length * 3 + 1) {
        char *json = malloc(length + 5);
        memset(json, 'a', length + 4);
        memcpy(json, "[\"", 2);
        memcpy(json + length + 2, "\"]", 2);
        assert_true(reads(json, length + 4));
        assert_false(reads(json, length + 3));
        memset(json + 1, '1', length + 2);
        (void)reads(json, length + 4); /* a number may be too large */
        free(json);
    }
}

static void test_no_memory(void **state) {
    (void)state;
    struct tt_json_arena arena;
    json_t *root = NULL;
    assert_int_equal(tt_json_arena_open(&arena, "{}", SIZE_MAX / 64, &root, &why),
                     TT_ERR_NO_MEMORY);
    assert_non_null(strstr(why.text, "no memory to read JSON of"));
    assert_null(root);
    assert_true(reads("{}", 2));
}

/* What was allocated outside of a reservation is freed outside, and what does not fit is, too. */
static void test_others(void **state) {
    (void)state;
    struct tt_json_arena arena;
    json_t *root, *before = json_string("before");
    assert_int_equal(tt_json_arena_open(&arena, "{\"a\":1}", 7, &root, &why), TT_OK);
    json_decref(before);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(json_object_set_new(root, key, json_integer(i)), 0);
    }
    assert_true(arena.outside_count > 0);
    assert_int_equal(json_integer_value(json_object_get(root, "999")), 999);
    tt_json_arena_close(&arena, root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fits),
        cmocka_unit_test(test_long_tokens),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
