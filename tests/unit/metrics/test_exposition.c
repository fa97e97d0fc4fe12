/* The text format: what a page looks like, and that only well-formed pages can be written. */
#include "metrics/exposition.h"

#include "unit/breach.h"

static void samples_are_written_as_the_format_says(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    struct tt_exposition out = {.text = &text};
    tt_exposition_family(&out, "a:b_1", "gauge", "What it is");
    tt_exposition_begin(&out, "a:b_1", "");
    tt_exposition_integer(&out, -7);
    tt_exposition_begin(&out, "a:b_1", "_sum");
    tt_exposition_label(&out, "name", "x\"\\\ny");
    tt_exposition_label_integer(&out, "le", 3);
    tt_exposition_real(&out, 0.5);
    tt_exposition_begin(&out, "a:b_1", "");
    tt_exposition_label(&out, "name", "");
    tt_exposition_seconds(&out, 1e-9);
    assert_string_equal(tt_text_string(&text), "# HELP a:b_1 What it is\n"
                                               "# TYPE a:b_1 gauge\n"
                                               "a:b_1 -7\n"
                                               "a:b_1_sum{name=\"x\\\"\\\\\\ny\",le=\"3\"} 0.5\n"
                                               "a:b_1{name=\"\"} 0.000000001\n");
    tt_text_fini(&text);
}

static struct tt_exposition begun(void) {
    static struct tt_text text;
    tt_text_init(&text);
    struct tt_exposition out = {.text = &text};
    tt_exposition_begin(&out, "name", "");
    return out;
}
static void two_samples_on_a_line(void) {
    struct tt_exposition out = begun();
    tt_exposition_begin(&out, "name", "");
}
static void a_family_within_a_sample(void) {
    struct tt_exposition out = begun();
    tt_exposition_family(&out, "other", "gauge", "What it is");
}
static void two_values(void) {
    struct tt_exposition out = begun();
    tt_exposition_integer(&out, 1);
    tt_exposition_real(&out, 2);
}
static void a_label_behind_the_value(void) {
    struct tt_exposition out = begun();
    tt_exposition_integer(&out, 1);
    tt_exposition_label(&out, "label", "value");
}
static void a_label_that_is_no_name(void) {
    struct tt_exposition out = begun();
    tt_exposition_label_integer(&out, "le-", 1);
}
static void a_family_that_is_no_name(void) {
    struct tt_exposition out = begun();
    tt_exposition_integer(&out, 1);
    tt_exposition_family(&out, "7up", "gauge", "What it is");
}
static void help_of_two_lines(void) {
    struct tt_exposition out = begun();
    tt_exposition_integer(&out, 1);
    tt_exposition_family(&out, "name", "gauge", "What it is\nand more");
}

static void malformed_pages_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(two_samples_on_a_line, "!self->in_sample"),
        BREACH(a_family_within_a_sample, "!self->in_sample"),
        BREACH(two_values, "self->in_sample"),
        BREACH(a_label_behind_the_value, "self->in_sample"),
        BREACH(a_label_that_is_no_name, "is_name(label)"),
        BREACH(a_family_that_is_no_name, "is_name(name)"),
        BREACH(help_of_two_lines, "strchr(help"),
    };
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_written_as_the_format_says),
        cmocka_unit_test(malformed_pages_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
