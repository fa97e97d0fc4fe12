/* Providers: placeholders, words of a command line, time limits, and what a command said. */
#include "actuate/command_provider.h"

#include "actuate/timed_command.h"
#include "base/instant.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"b1", "b2", "b3"};
static struct tt_flag never;

static enum tt_err agree(void *context, struct tt_error *why) {
    (void)why;
    ++*(int *)context;
    return TT_OK;
}

static enum tt_err disagree(void *context, struct tt_error *why) {
    ++*(int *)context;
    return tt_fail(TT_ERR_UNAVAILABLE, why, "another one is primary");
}

static struct tt_scale_request request_of(int *confirmed) {
    return (struct tt_scale_request){.pool = "gold",
                                     .count = 2,
                                     .devices = 5,
                                     .before = 1,
                                     .names = names,
                                     .node_count = 3,
                                     .epoch = 65538,
                                     .stopping = &never,
                                     .confirm = agree,
                                     .context = confirmed};
}

static void templates_are_checked_and_filled(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_text text;
    int confirmed = 0;
    struct tt_scale_request request = request_of(&confirmed);
    assert_int_equal(tt_scale_template_check("no placeholder", &why), TT_OK);
    assert_int_equal(tt_scale_template_check("{pool}-{nodes}{devices}", &why), TT_OK);
    assert_int_equal(tt_scale_template_check("x {pools}", &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "'{pools}' is no placeholder; there are {pool}, {devices}, "
                                  "{nodes} and {epoch}");
    assert_int_equal(tt_scale_template_check("a}", &why), TT_ERR_INVALID);
    tt_text_init(&text);
    tt_scale_template_put("{pool}-{nodes}{devices} of {epoch}.", &request, &text);
    assert_string_equal(tt_text_string(&text), "gold-25 of 65538.");
    tt_text_fini(&text);
}

static void assert_words(const char *line, const char *const *expected) {
    struct tt_error why;
    char **words = tt_command_words(line, &why);
    assert_non_null(words);
    size_t i = 0;
    for (; expected[i]; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], expected[i]);
    }
    assert_null(words[i]);
    tt_command_words_free(words);
}

static void a_line_has_words(void **state) {
    (void)state;
    struct tt_error why;
    assert_words("a", (const char *const[]){"a", NULL});
    assert_words("  a\tb  c ", (const char *const[]){"a", "b", "c", NULL});
    assert_words("a 'b c' \"d 'e\" f'g h'i ''",
                 (const char *const[]){"a", "b c", "d 'e", "fg hi", "", NULL});
    assert_null(tt_command_words("", &why));
    assert_string_equal(why.text, "'' has no word");
    assert_null(tt_command_words(" ", &why));
    assert_null(tt_command_words("a 'b", &why));
    assert_string_equal(why.text, "'a 'b': a quote is open");
    tt_command_words_free(NULL);
}

/* The outcome of a line as the provider has it. */
static enum tt_err scale(const char *line, int64_t limit_ns, const struct tt_flag *stopping,
                         struct tt_error *why) {
    struct tt_scale_provider provider;
    int confirmed = 0;
    int32_t found = -1;
    struct tt_scale_request request = request_of(&confirmed);
    request.stopping = stopping;
    assert_int_equal(tt_command_provider_open(line, limit_ns, &provider, why), TT_OK);
    enum tt_err err = provider.scale(provider.self, &request, &found, why);
    assert_int_equal(confirmed, 1);
    assert_int_equal(found, -1);
    provider.close(provider.self);
    return err;
}

static void a_command_gets_its_words_without_a_shell(void **state) {
    (void)state;
    struct tt_error why;
    assert_int_equal(scale("sh -c 'test $1 = gold && test $2 = 5 && test $3 = \"$\"HOME' x {pool} "
                           "{devices} '$HOME'",
                           60 * TT_S, &never, &why),
                     TT_OK);
    assert_int_equal(scale("true", 60 * TT_S, &never, &why), TT_OK);
}

static void a_command_that_fails_says_why(void **state) {
    (void)state;
    struct tt_error why;
    assert_int_equal(
        scale("sh -c 'echo no machine; echo for $1 >&2; exit 7' x {pool}", 60 * TT_S, &never, &why),
        TT_ERR_INVALID);
    assert_string_equal(why.text, "sh ended with exit code 7: no machine\nfor gold");
    assert_int_equal(scale("false", 60 * TT_S, &never, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "false ended with exit code 1");
    assert_int_equal(scale("sh -c 'kill -9 $$'", 60 * TT_S, &never, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "sh ended by signal 9"));
    assert_int_equal(scale("/no/such/program", 60 * TT_S, &never, &why), TT_ERR_IO);
    assert_string_equal(why.text, "/no/such/program: cannot be started: No such file or directory");
    /* What it prints is kept up to a limit, and read to its end. */
    assert_int_equal(
        scale("sh -c 'head -c 1000000 /dev/zero | tr \"\\0\" y; exit 1'", 60 * TT_S, &never, &why),
        TT_ERR_INVALID);
    assert_int_equal(strspn(strstr(why.text, ": ") + 2, "y"), TT_COMMAND_OUTPUT_BYTES);
}

static void a_command_that_does_not_end_is_killed(void **state) {
    (void)state;
    struct tt_error why;
    assert_int_equal(scale("sh -c 'echo began; sleep 1000'", 300 * TT_MS, &never, &why),
                     TT_ERR_TIMEOUT);
    assert_string_equal(why.text, "sh did not end in 300 ms and was killed: began");
    struct tt_flag stopping = {false};
    tt_flag_raise(&stopping);
    assert_int_equal(scale("sleep 1000", 600 * TT_S, &stopping, &why), TT_ERR_CANCELLED);
}

/* A child of the command that lives on and holds the output open is not waited for. */
static void a_child_of_the_command_is_not_waited_for(void **state) {
    (void)state;
    struct tt_error why;
    static const char said[] = "sh ended with exit code 3: ";
    assert_int_equal(scale("sh -c 'sleep 1000 & echo $!; exit 3'", 60 * TT_S, &never, &why),
                     TT_ERR_INVALID);
    assert_int_equal(strncmp(why.text, said, sizeof(said) - 1), 0);
    long child = strtol(why.text + sizeof(said) - 1, NULL, 10);
    assert_true(child > 1);
    assert_int_equal(kill((pid_t)child, SIGKILL), 0);
}

/* Nothing is run for a scheduler that is no primary any more. */
static void a_deposed_primary_runs_nothing(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_scale_provider provider;
    int confirmed = 0;
    int32_t found = -1;
    struct tt_scale_request request = request_of(&confirmed);
    request.confirm = disagree;
    assert_int_equal(tt_command_provider_open("/no/such/program", TT_S, &provider, &why), TT_OK);
    assert_int_equal(provider.scale(provider.self, &request, &found, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "another one is primary");
    assert_null(provider.look);
    provider.close(provider.self);
}

static void a_malformed_line_is_refused(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_scale_provider provider;
    assert_int_equal(tt_command_provider_open("scale {pol}", TT_S, &provider, &why),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "'{pol}' is no placeholder"));
    assert_int_equal(tt_command_provider_open("  ", TT_S, &provider, &why), TT_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_checked_and_filled),
        cmocka_unit_test(a_line_has_words),
        cmocka_unit_test(a_command_gets_its_words_without_a_shell),
        cmocka_unit_test(a_command_that_fails_says_why),
        cmocka_unit_test(a_command_that_does_not_end_is_killed),
        cmocka_unit_test(a_child_of_the_command_is_not_waited_for),
        cmocka_unit_test(a_deposed_primary_runs_nothing),
        cmocka_unit_test(a_malformed_line_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
