/* threaded */
#include "base/log/line_file.h"

#include "base/text.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64], moved[80];

static struct tt_line_file *open_file(size_t room_bytes) {
    struct tt_line_file_options options = {.path = path, .name = "a log", .room_bytes = room_bytes};
    struct tt_line_file *file;
    struct tt_error why;
    assert_int_equal(tt_line_file_open(&options, &file, &why), TT_OK);
    return file;
}

static void make_path(void) {
    snprintf(path, sizeof(path), "/tmp/tutti-lines-XXXXXX");
    close(mkstemp(path));
    snprintf(moved, sizeof(moved), "%s.1", path);
}

/* The file's text; the caller frees it. */
static struct tt_text text_of(const char *name) {
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    assert_int_equal(tt_text_read_file(name, 1 << 24, &text, &why), TT_OK);
    return text;
}

static void put_number(struct tt_line_file *file, int number) {
    char line[32];
    int length = snprintf(line, sizeof(line), "line %d\n", number);
    tt_line_file_put(file, 0, line, (size_t)length);
}

/* Checks that the text is lines with growing numbers below `end`; returns how many. */
static int count_lines(const struct tt_text *text, int end) {
    int count = 0, last = -1;
    const char *at = tt_text_string(text);
    while (*at) {
        int number, length;
        assert_int_equal(sscanf(at, "line %d%n", &number, &length), 1);
        assert_int_equal(at[length], '\n');
        assert_in_range(number, last + 1, end - 1);
        last = number;
        at += length + 1;
        count++;
    }
    return count;
}

static void all_lines_in_order(void **state) {
    (void)state;
    enum { LINES = 20000 };
    make_path();
    for (int half = 0; half < 2; half++) { /* the second one is appended */
        struct tt_line_file *file = open_file(1 << 20);
        for (int i = 0; i < LINES / 2; i++)
            put_number(file, half * LINES / 2 + i);
        assert_int_equal(tt_line_file_dropped(file), 0);
        tt_line_file_close(file);
    }
    struct tt_text text = text_of(path);
    assert_int_equal(count_lines(&text, LINES), LINES);
    tt_text_fini(&text);
    unlink(path);
}

enum { WRITERS = 3, LINES_OF_WRITER = 5000 };

struct writing {
    struct tt_line_file *file;
    int32_t writer;
};

static void *write_lines(void *context) {
    const struct writing *self = context;
    char line[200];
    for (int i = 0; i < LINES_OF_WRITER; i++) {
        int length =
            snprintf(line, sizeof(line), "writer %d line %d %.*s\n", self->writer, i, i % 100,
                     "--------------------------------------------------------"
                     "--------------------------------------------");
        tt_line_file_put(self->file, self->writer, line, (size_t)length);
    }
    return NULL;
}

/* Lines of several threads: each is whole, those of one thread are in order, none is lost. */
static void several_writers(void **state) {
    (void)state;
    make_path();
    struct tt_line_file_options options = {
        .path = path, .name = "a log", .room_bytes = 1 << 20, .writers = WRITERS};
    struct tt_line_file *file;
    struct tt_error why;
    assert_int_equal(tt_line_file_open(&options, &file, &why), TT_OK);
    struct writing writing[WRITERS];
    pthread_t threads[WRITERS];
    for (int32_t i = 0; i < WRITERS; i++) {
        writing[i] = (struct writing){file, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &writing[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(tt_line_file_dropped(file), 0);
    tt_line_file_close(file);
    struct tt_text text = text_of(path);
    int next[WRITERS] = {0};
    for (const char *at = tt_text_string(&text); *at; at++) {
        int writer, number, length;
        assert_int_equal(sscanf(at, "writer %d line %d%n", &writer, &number, &length), 2);
        assert_in_range(writer, 0, WRITERS - 1);
        assert_int_equal(number, next[writer]++);
        at += length + (int)strspn(at + length, " -");
        assert_int_equal(*at, '\n');
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(next[i], LINES_OF_WRITER);
    tt_text_fini(&text);
    unlink(path);
}

/* A reader that does not read: lines are dropped, whole ones; the close does not wait for it. */
static void a_slow_reader_delays_no_one(void **state) {
    (void)state;
    enum { LINES = 30000 };
    make_path();
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    struct tt_line_file *file = open_file(1 << 14);
    for (int i = 0; i < LINES; i++)
        put_number(file, i);
    int64_t dropped = tt_line_file_dropped(file);
    assert_true(dropped > 0); /* a pipe has 64 KiB */
    assert_true(dropped < LINES);
    tt_line_file_close(file);
    struct tt_text text;
    tt_text_init(&text);
    char bytes[4096];
    for (ssize_t got; (got = read(reader, bytes, sizeof(bytes))) > 0;)
        tt_text_append(&text, bytes, (size_t)got);
    while (text.length && text.bytes[text.length - 1] != '\n')
        text.bytes[--text.length] = '\0'; /* the line that the close cut off */
    int count = count_lines(&text, LINES);
    assert_true(count > 0);
    assert_true(count <= LINES - dropped);
    tt_text_fini(&text);
    close(reader);
    unlink(path);
}

/* The message of a failure comes once; a pipe without a reader ends no process. */
static int messages;
static void say(void *context, enum tt_log_level level, const char *line) {
    (void)context;
    assert_int_equal(level, TT_LOG_WARNING);
    assert_non_null(strstr(line, "a log /tmp/tutti-lines-"));
    assert_non_null(strstr(line, "lines are dropped until it can be written again"));
    messages++;
}

static void a_reader_that_leaves(void **state) {
    (void)state;
    make_path();
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct tt_line_file_options options = {
        .path = path, .name = "a log", .room_bytes = 64, .say = say};
    struct tt_line_file *file;
    struct tt_error why;
    assert_int_equal(tt_line_file_open(&options, &file, &why), TT_OK);
    close(reader);
    messages = 0;
    for (int i = 0; i < 100; i++)
        put_number(file, i);
    assert_true(tt_line_file_dropped(file) > 0); /* room for 64 bytes, of which none is taken */
    tt_line_file_close(file);
    assert_int_equal(messages, 1);
    unlink(path);
}

static bool exists(const char *name) { return access(name, F_OK) == 0; }

static void a_rotation_loses_no_line(void **state) {
    (void)state;
    make_path();
    struct tt_line_file *file = open_file(1 << 20);
    put_number(file, 0);
    assert_int_equal(rename(path, moved), 0);
    put_number(file, 1); /* was put before the request: into the old file */
    tt_line_file_reopen(file);
    while (!exists(path)) /* the harness ends a test that hangs */
        usleep(1000);
    put_number(file, 2);
    tt_line_file_close(file);
    struct tt_text before = text_of(moved), after = text_of(path);
    assert_non_null(strstr(tt_text_string(&before), "line 0\n"));
    assert_non_null(strstr(tt_text_string(&after), "line 2\n"));
    assert_int_equal(count_lines(&before, 2), 2);
    assert_int_equal(count_lines(&after, 3), 1);
    tt_text_fini(&before);
    tt_text_fini(&after);
    unlink(path);
    unlink(moved);
}

static void a_path_that_cannot_be_opened(void **state) {
    (void)state;
    struct tt_line_file_options options = {
        .path = "/nowhere/a/log", .name = "a log", .room_bytes = 64};
    struct tt_line_file *file = NULL;
    struct tt_error why;
    assert_int_equal(tt_line_file_open(&options, &file, &why), TT_ERR_IO);
    assert_string_equal(why.text,
                        "cannot write a log to /nowhere/a/log: No such file or directory");
    assert_null(file);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* as in every verb */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_lines_in_order),
        cmocka_unit_test(several_writers),
        cmocka_unit_test(a_slow_reader_delays_no_one),
        cmocka_unit_test(a_reader_that_leaves),
        cmocka_unit_test(a_rotation_loses_no_line),
        cmocka_unit_test(a_path_that_cannot_be_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
