/* What is UTF-8, at the bounds of each length. */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_characters(void **state) {
    (void)state;
    static const char *const good[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "a\xc3\xa9-\xe2\x82\xac"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xe2\x82",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf0\x90\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xff",
                                      "a\xff\x62"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_true(tt_is_utf8(good[i], strlen(good[i])));
        if (i > 0 && i + 1 < sizeof(good) / sizeof(*good))
            assert_int_equal(tt_utf8_step(good[i], strlen(good[i])), strlen(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(tt_is_utf8(bad[i], strlen(bad[i])));
    assert_int_equal(tt_utf8_step("\xe2\x82\xac", 2), 0);
    assert_true(tt_is_utf8("a\0b", 3)); /* a zero is a character */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_characters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
