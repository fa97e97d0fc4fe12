/* threaded */
/* A trial load, whatever the process does that is started: reports, errors, crashes, silence. */
#include "control/load_trial.h"

#include "base/text.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char program[64];

static void write_program(const char *lines) {
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    tt_text_printf(&text, "#!/bin/sh\n%s\n", lines);
    snprintf(program, sizeof(program), "/tmp/tutti-trial-%d.sh", (int)getpid());
    assert_int_equal(tt_text_write_file(program, &text, &why), TT_OK);
    assert_int_equal(chmod(program, 0700), 0);
    tt_text_fini(&text);
}

static char version[32];
static struct tt_error why;

static enum tt_err try_with(const char *lines, const char *config, int64_t max_ms,
                            const struct tt_flag *stop) {
    write_program(lines);
    const struct tt_load_trial trial = {
        .program = program, .max_bytes = 12345, .max_ms = max_ms, .stop = stop};
    snprintf(version, sizeof(version), "?");
    why.text[0] = '\0';
    enum tt_err err =
        tt_load_trial_run(&trial, "/repository", "name", config, version, sizeof(version), &why);
    unlink(program);
    return err;
}

static void test_reports(void **state) {
    (void)state;
    assert_int_equal(try_with("echo '{\"version\":\"7\"}'; echo '{\"version\":\"7\",\"error\":0}'",
                              NULL, 60000, NULL),
                     TT_OK);
    assert_int_equal(
        try_with("echo '{\"version\":\"3\",\"error\":-7,\"reason\":\"no such operator\"}'\n"
                 "exit 1",
                 NULL, 60000, NULL),
        TT_ERR_UNSUPPORTED);
    assert_string_equal(why.text, "no such operator");
    assert_string_equal(version, "3");
}

static void test_the_process_knows_what_to_load(void **state) {
    (void)state;
    const char *check = "[ \"$1 $2 $3 $4 $5\" = 'models try /repository --model name' ] || exit 9\n"
                        "case \"$*\" in *'--max-bytes 12345'*) ;; *) exit 8;; esac\n"
                        "case \"$*\" in *\"--parent $PPID\"*) ;; *) exit 7;; esac\n"
                        "[ \"$(cat)\" = \"$WANTED\" ] || exit 6\n"
                        "echo '{\"error\":0}'";
    setenv("WANTED", "", 1);
    assert_int_equal(try_with(check, NULL, 60000, NULL), TT_OK);
    setenv("WANTED", "{\"max_batch_size\": 4}", 1);
    assert_int_equal(try_with(check, "{\"max_batch_size\": 4}", 60000, NULL), TT_OK);
}

static void test_crashes_and_silence(void **state) {
    (void)state;
    assert_int_equal(try_with("echo '{\"version\":\"2\"}'\nkill -SEGV $$", NULL, 60000, NULL),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "ended by signal 11 (Segmentation fault)"));
    assert_string_equal(version, "2");
    /* Whatever it reported before. */
    assert_int_equal(try_with("echo '{\"error\":0}'\nkill -KILL $$", NULL, 60000, NULL),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "signal 9"));
    assert_int_equal(try_with("exit 3", NULL, 60000, NULL), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "exit code 3 and no report"));
    assert_string_equal(version, "");
    assert_int_equal(
        try_with("echo '{\"error\":'; echo nonsense; echo '{\"error\":77}'", NULL, 60000, NULL),
        TT_ERR_INVALID);
    assert_int_equal(try_with("head -c 1000000 /dev/zero", NULL, 60000, NULL), TT_ERR_INVALID);
}

static void test_one_that_never_ends(void **state) {
    (void)state;
    assert_int_equal(try_with("echo '{\"version\":\"2\"}'\nexec sleep 1000", NULL, 200, NULL),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "longer than 200 ms and was ended (--max-load-ms)"));
    assert_string_equal(version, "2");
}

static void *raise_flag(void *context) {
    tt_flag_raise(context);
    return NULL;
}

static void test_a_server_that_stops(void **state) {
    (void)state;
    struct tt_flag stop = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, raise_flag, &stop), 0);
    assert_int_equal(try_with("exec sleep 1000", NULL, 600000, &stop), TT_ERR_CANCELLED);
    pthread_join(thread, NULL);
}

static void test_no_such_program(void **state) {
    (void)state;
    const struct tt_load_trial trial = {.program = "/nonexistent", .max_ms = 1000};
    assert_int_equal(tt_load_trial_run(&trial, "/r", "m", NULL, version, sizeof(version), &why),
                     TT_ERR_IO);
    assert_non_null(strstr(why.text, "cannot start a process"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_the_process_knows_what_to_load),
        cmocka_unit_test(test_crashes_and_silence),
        cmocka_unit_test(test_one_that_never_ends),
        cmocka_unit_test(test_a_server_that_stops),
        cmocka_unit_test(test_no_such_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
