#include "base/log/log.h"

#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_ends[2];
static struct tt_log log_;
static char said[1 << 20];

static void begin(bool is_json) {
    assert_int_equal(pipe(pipe_ends), 0);
    fcntl(pipe_ends[1], F_SETPIPE_SZ, 1 << 20);
    fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
    tt_log_init(&log_, pipe_ends[1], is_json);
}

/* What was written since the last call. */
static const char *read_all(void) {
    size_t length = 0;
    for (ssize_t got; (got = read(pipe_ends[0], said + length, sizeof(said) - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    return said;
}

static void end(void) {
    tt_log_fini(&log_);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static int lines(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void levels_and_forms(void **state) {
    (void)state;
    begin(false);
    tt_log_write(&log_, TT_LOG_INFO, NULL, "%d models", 3);
    unsigned month, day, hour, minute, second, micro;
    int pid;
    assert_int_equal(sscanf(read_all(), "I%2u%2u %2u:%2u:%2u.%6u %d] ", &month, &day, &hour,
                            &minute, &second, &micro, &pid),
                     7);
    assert_int_equal(pid, getpid());
    assert_non_null(strstr(said, "] 3 models\n"));
    tt_log_write(&log_, TT_LOG_ERROR, "id-7", "bad");
    assert_int_equal(read_all()[0], 'E');
    assert_non_null(strstr(said, "] [request id-7] bad\n"));
    tt_log_settings_switch(&log_.settings, TT_LOG_WARNING, false);
    tt_log_write(&log_, TT_LOG_WARNING, NULL, "not wanted");
    tt_log_verbose(&log_, 1, NULL, "not wanted");
    assert_string_equal(read_all(), "");
    tt_log_settings_set_verbose(&log_.settings, 1);
    assert_true(tt_log_wants_verbose(&log_, 1));
    assert_false(tt_log_wants_verbose(&log_, 2));
    tt_log_verbose(&log_, 1, NULL, "wanted");
    assert_non_null(strstr(read_all(), "wanted\n"));
    tt_log_settings_set_iso8601(&log_.settings, true);
    tt_log_write(&log_, TT_LOG_INFO, NULL, "iso");
    int year;
    assert_int_equal(sscanf(read_all(), "%d-%2u-%2uT%2u:%2u:%2uZ I %d] iso", &year, &month, &day,
                            &hour, &minute, &second, &pid),
                     7);
    tt_log_write(NULL, TT_LOG_ERROR, NULL, "nobody listens");
    end();
}

static void one_line_whatever_is_in_it(void **state) {
    (void)state;
    begin(true);
    tt_log_write(&log_, TT_LOG_WARNING, "a\"b\\", "two\nlines, \x01, \xc3\xa9 and \xff");
    assert_int_equal(lines(read_all()), 1);
    assert_non_null(strstr(said, "\"level\":\"warning\""));
    assert_non_null(strstr(said, "\"message\":\"two\\u000alines, \\u0001, \xc3\xa9 and \\u00ff\""));
    assert_non_null(strstr(said, "\"request_id\":\"a\\\"b\\\\\"}\n"));
    log_.is_json = false;
    tt_log_write(&log_, TT_LOG_WARNING, "x\ny", "two\nlines");
    assert_int_equal(lines(read_all()), 1);
    assert_non_null(strstr(said, "[request x\\x0ay] two\\x0alines\n"));
    char *large = malloc(100000);
    assert_non_null(large);
    memset(large, '\n', 99999);
    large[99999] = '\0';
    log_.is_json = true;
    tt_log_write(&log_, TT_LOG_INFO, large, "%s", large);
    assert_int_equal(lines(read_all()), 1);
    assert_non_null(strstr(said, "\\u000a\"}\n")); /* cut, and closed all the same */
    free(large);
    end();
}

enum { THREADS = 4, EACH = 2000 };

static void repeat(int i) { tt_log_limited(&log_, TT_LOG_ERROR, NULL, "the same again: %d", i); }

static void *write_many(void *context) {
    (void)context;
    for (int i = 0; i < EACH; i++)
        repeat(i);
    return NULL;
}

/* How many lines are there of it, those told to be left out included. */
static int64_t counted(const char *text) {
    int64_t count = 0;
    for (const char *at = text; (at = strstr(at, "the same again")); at++)
        count++;
    for (const char *at = text; (at = strstr(at, "(and ")); at++)
        count += atoll(at + 5);
    return count;
}

static void repeats_are_few_and_counted(void **state) {
    (void)state;
    begin(false);
    pthread_t threads[THREADS];
    int64_t before = tt_clock_now();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    int64_t took_s = (tt_clock_now() - before) / TT_S;
    tt_log_limited(&log_, TT_LOG_ERROR, NULL, "another kind");
    int count = lines(read_all());
    assert_true(count >= TT_LOG_PER_SECOND + 1);
    assert_true(count <= (took_s + 2) * TT_LOG_PER_SECOND + 1);
    assert_non_null(strstr(said, "another kind\n"));
    int64_t seen = counted(said);
    usleep(1100000); /* the second is over */
    repeat(-1);
    assert_int_equal(lines(read_all()), 1);
    assert_int_equal(seen + counted(said), THREADS * EACH + 1); /* none is forgotten */
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_forms),
        cmocka_unit_test(one_line_whatever_is_in_it),
        cmocka_unit_test(repeats_are_few_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
