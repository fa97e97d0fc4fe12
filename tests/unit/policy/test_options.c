#include "base/instant.h"
#include "policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_option_spec specs[] = {
    {.key = "count", .type = TT_OPTION_INTEGER, .minimum = -20, .maximum = 100, .default_value = 7},
    {.key = "delay", .type = TT_OPTION_DURATION, .minimum = 0, .maximum = TT_S, .default_value = 5},
    {.key = "share",
     .type = TT_OPTION_PERMILLE,
     .minimum = 0,
     .maximum = 5000,
     .default_value = 500},
    {.key = "mode", .type = TT_OPTION_CHOICE, .choices = "first|second|third", .default_value = 1},
};

static enum tt_err parse(const char *key, const char *value, int64_t *out, struct tt_error *why) {
    struct tt_option option = {key, value};
    return tt_options_parse(specs, TT_COUNT(specs), &option, 1, out, why);
}

static void good_values_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
        int32_t index;
        int64_t wanted;
    } cases[] = {
        {"count", "-17", 0, -17},      {"count", "100", 0, 100},
        {"delay", "250us", 1, 250000}, {"delay", "1500ns", 1, 1500},
        {"delay", "1s", 1, TT_S},      {"delay", "0.5ms", 1, 500000},
        {"delay", "1.500us", 1, 1500}, {"delay", "1.50000us", 1, 1500},
        {"delay", "0", 1, 0},          {"share", "0.75", 2, 750},
        {"share", "75%", 2, 750},      {"share", "12.5%", 2, 125},
        {"share", "3", 2, 3000},       {"mode", "first", 3, 0},
        {"mode", "second", 3, 1},      {"mode", "third", 3, 2},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        int64_t values[TT_COUNT(specs)] = {0};
        struct tt_error why = {""};
        assert_int_equal(parse(cases[i].key, cases[i].value, values, &why), TT_OK);
        for (int32_t k = 0; k < (int32_t)TT_COUNT(specs); k++)
            assert_int_equal(values[k],
                             k == cases[i].index ? cases[i].wanted : specs[k].default_value);
    }
}

static void bad_values_name_the_option_and_leave_the_output(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
    } cases[] = {
        {"count", ""},
        {"count", "x"},
        {"count", "1.5"},
        {"count", "101"},
        {"count", "-21"},
        {"count", "7 "},
        {"count", "99999999999999999999"},
        {"delay", "5"},
        {"delay", "5."},
        {"delay", "5.ms"},
        {"delay", "-1ms"},
        {"delay", "2s"},
        {"delay", "5min"},
        {"delay", "1.50001us"},
        {"delay", "1.5ns"},
        {"delay", ".5ms"},
        {"delay", "1..5ms"},
        {"share", "0.7505"},
        {"share", "501%"},
        {"share", "75%%"},
        {"share", "%"},
        {"mode", ""},
        {"mode", "fir"},
        {"mode", "firsts"},
        {"mode", "econd"},
        {"mode", "first|second"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        int64_t values[TT_COUNT(specs)] = {11, 12, 13, 14};
        struct tt_error why = {""};
        assert_int_equal(parse(cases[i].key, cases[i].value, values, &why), TT_ERR_INVALID);
        assert_non_null(strstr(why.text, cases[i].key));
        assert_non_null(strstr(why.text, cases[i].value));
        for (int32_t k = 0; k < (int32_t)TT_COUNT(specs); k++)
            assert_int_equal(values[k], 11 + k);
    }
}

static void unknown_and_twice_given_are_refused(void **state) {
    (void)state;
    int64_t values[TT_COUNT(specs)];
    struct tt_error why = {""};
    assert_int_equal(parse("dealy", "5ms", values, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "dealy"));
    assert_non_null(strstr(why.text, "count, delay, share, mode"));
    struct tt_option twice[] = {{"count", "1"}, {"count", "1"}};
    assert_int_equal(tt_options_parse(specs, TT_COUNT(specs), twice, 2, values, &why),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "twice"));
    assert_int_equal(tt_options_parse(specs, 0, twice, 1, values, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "it has none"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values_are_exact),
        cmocka_unit_test(bad_values_name_the_option_and_leave_the_output),
        cmocka_unit_test(unknown_and_twice_given_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
