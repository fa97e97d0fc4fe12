/* Errors: every kind has a name of its own, messages are cut and never overrun, assertions stop the
 * program. */
#include "base/err.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void every_error_has_its_own_name(void **state) {
    (void)state;
    for (int a = TT_ERR_INTERNAL; a <= TT_OK; a++) {
        assert_string_not_equal(tt_err_name((enum tt_err)a), "unknown error");
        for (int b = TT_ERR_INTERNAL; b < a; b++)
            assert_string_not_equal(tt_err_name((enum tt_err)a), tt_err_name((enum tt_err)b));
    }
    assert_string_equal(tt_err_name(TT_OK), "ok");
    assert_string_equal(tt_err_name((enum tt_err)(TT_ERR_INTERNAL - 1)), "unknown error");
    assert_string_equal(tt_err_name((enum tt_err)1), "unknown error");
}

static void fail_writes_and_returns(void **state) {
    (void)state;
    struct tt_error why;
    assert_int_equal(tt_fail(TT_ERR_NOT_FOUND, &why, "%s:%d: no tensor \"%s\"", "f", 3, "x"),
                     TT_ERR_NOT_FOUND);
    assert_string_equal(why.text, "f:3: no tensor \"x\"");
}

static void nobody_need_listen(void **state) {
    (void)state;
    assert_int_equal(tt_fail(TT_ERR_IO, NULL, "%d", 1), TT_ERR_IO);
    assert_int_equal(tt_fail_in(TT_ERR_BUSY, NULL, "%d", 1), TT_ERR_BUSY);
}

static void a_message_gains_context_as_it_climbs(void **state) {
    (void)state;
    struct tt_error why;
    tt_fail(TT_ERR_INVALID, &why, "shape [2] should be [3]");
    assert_int_equal(tt_fail_in(TT_ERR_INVALID, &why, "input \"%s\"", "x"), TT_ERR_INVALID);
    assert_int_equal(tt_fail_in(TT_ERR_INVALID, &why, "model %s", "m"), TT_ERR_INVALID);
    assert_string_equal(why.text, "model m: input \"x\": shape [2] should be [3]");
}

/* Guards on both sides see a write past the message. */
static void long_messages_are_cut(void **state) {
    (void)state;
    struct {
        char before[16];
        struct tt_error why;
        char after[16];
    } guarded;
    char expected[16];
    memset(expected, 0x5a, sizeof(expected));
    memset(&guarded, 0x5a, sizeof(guarded));
    char letters[4 * sizeof(guarded.why.text)];
    memset(letters, 'a', sizeof(letters) - 1);
    letters[sizeof(letters) - 1] = '\0';

    tt_fail(TT_ERR_INVALID, &guarded.why, "%s", letters);
    assert_int_equal(strlen(guarded.why.text), sizeof(guarded.why.text) - 1);
    tt_fail_in(TT_ERR_INVALID, &guarded.why, "where");
    assert_int_equal(strlen(guarded.why.text), sizeof(guarded.why.text) - 1);
    assert_memory_equal(guarded.why.text, "where: aaa", 10);
    tt_fail_in(TT_ERR_INVALID, &guarded.why, "b%s", letters);
    assert_int_equal(strlen(guarded.why.text), sizeof(guarded.why.text) - 1);
    assert_memory_equal(guarded.why.text, "baaa", 4);
    assert_memory_equal(guarded.before, expected, sizeof(expected));
    assert_memory_equal(guarded.after, expected, sizeof(expected));
}

/* Every length of context up to the end, so that an off-by-one at the seam shows. */
static void context_of_every_length_keeps_what_fits(void **state) {
    (void)state;
    struct tt_error why;
    const size_t capacity = sizeof(why.text);
    for (size_t length = 0; length < capacity + 4; length++) {
        tt_fail(TT_ERR_INVALID, &why, "inner");
        tt_fail_in(TT_ERR_INVALID, &why, "%*s", (int)length, "");
        char *full = NULL;
        assert_true(asprintf(&full, "%*s: inner", (int)length, "") >= 0);
        assert_true(strlen(why.text) < capacity);
        assert_memory_equal(why.text, full, strlen(why.text));
        size_t expected = strlen(full) < capacity ? strlen(full) : capacity - 1;
        assert_int_equal(strlen(why.text), expected);
        free(full);
    }
}

/* Runs `tt_assert(condition)` in a child; its wait status, and what it said. */
static int assert_in_child(int condition, char *said, size_t capacity) {
    int channel[2];
    assert_int_equal(pipe(channel), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(channel[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        tt_assert(condition == 42);
        _exit(0);
    }
    close(channel[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(channel[0], said + used, capacity - 1 - used)) > 0;)
        used += (size_t)got;
    said[used] = '\0';
    close(channel[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assertions_stop_the_program_and_say_where(void **state) {
    (void)state;
    char said[512];
    int status = assert_in_child(42, said, sizeof(said));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(said, "");
    status = assert_in_child(41, said, sizeof(said));
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    assert_non_null(strstr(said, "test_err.c:"));
    assert_non_null(strstr(said, "assertion failed: condition == 42"));
}

static void an_assertion_evaluates_its_condition_once(void **state) {
    (void)state;
    int count = 0;
    tt_assert(++count == 1);
    assert_int_equal(count, 1);
}

static void a_member_leads_back_to_its_container(void **state) {
    (void)state;
    struct outer {
        char pad[24];
        int member;
    } outer, *found = TT_CONTAINER_OF(&outer.member, struct outer, member);
    assert_ptr_equal(found, &outer);
    int numbers[7];
    assert_int_equal(TT_COUNT(numbers), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_its_own_name),
        cmocka_unit_test(fail_writes_and_returns),
        cmocka_unit_test(nobody_need_listen),
        cmocka_unit_test(a_message_gains_context_as_it_climbs),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(context_of_every_length_keeps_what_fits),
        cmocka_unit_test(assertions_stop_the_program_and_say_where),
        cmocka_unit_test(an_assertion_evaluates_its_condition_once),
        cmocka_unit_test(a_member_leads_back_to_its_container),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
