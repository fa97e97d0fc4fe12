/* A file that is replaced, with the power lost at any moment: a process is ended before each call
 * that brings something to the disk, what was not on the disk yet is cut short or empty, and a
 * reader finds the old content or the new one. The linker puts the wrappers before the calls. */
#include "base/durable_file.h"

#include "base/prng.h"
#include "base/text.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/seed.h"

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

/* Of the child that is ended. */
static struct {
    int calls_left;  /* until the power is lost; -1: it is not */
    int64_t on_disk; /* bytes of the new content that are on the disk; -1: none */
    char file[256];  /* where the new content is */
    size_t keeps;    /* bytes of what is not on the disk that are there all the same */
} child = {.calls_left = -1};

static void count_call(void) {
    if (child.calls_left < 0 || child.calls_left-- > 0)
        return;
    struct stat status;
    if (child.on_disk < 0 && stat(child.file, &status) == 0)
        (void)!truncate(
            child.file,
            (off_t)((size_t)status.st_size < child.keeps ? (size_t)status.st_size : child.keeps));
    _exit(0);
}

int __wrap_fsync(int fd) {
    struct stat status;
    count_call();
    int result = __real_fsync(fd);
    if (result == 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        child.on_disk = status.st_size;
    count_call();
    return result;
}

int __wrap_rename(const char *from, const char *to) {
    count_call();
    int result = __real_rename(from, to);
    if (result == 0)
        snprintf(child.file, sizeof(child.file), "%s", to);
    count_call();
    return result;
}

static void put(struct tt_text *text, const char *word, int times) {
    tt_text_init(text);
    for (int i = 0; i < times; i++)
        tt_text_puts(text, word);
}

static void assert_content(const char *path, const struct tt_text *a, const struct tt_text *b) {
    struct tt_text found;
    struct tt_error why;
    assert_int_equal(tt_text_read_file(path, 1 << 20, &found, &why), TT_OK);
    bool is_a = found.length == a->length && memcmp(found.bytes, a->bytes, a->length) == 0;
    bool is_b = found.length == b->length && memcmp(found.bytes, b->bytes, b->length) == 0;
    if (!is_a && !is_b)
        fail_msg("%s: %zu bytes, neither the old content nor the new one", path, found.length);
    tt_text_fini(&found);
}

static void test_old_or_new(void **state) {
    (void)state;
    char folder[] = "/tmp/tutti-durable-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/file", folder);
    struct tt_text before, after;
    struct tt_error why;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(7), 0);
    put(&before, "old ", 3000);
    put(&after, "new! ", 5000);
    bool is_complete = false;
    int moment = 0;
    for (; !is_complete; moment++) {
        assert_int_equal(tt_text_write_file(path, &before, &why), TT_OK);
        pid_t pid = fork();
        if (pid == 0) {
            child.calls_left = moment;
            child.on_disk = -1;
            child.keeps = (size_t)tt_prng_below(&prng, after.length);
            snprintf(child.file, sizeof(child.file), "%s.%ld.tmp", path, (long)getpid());
            _exit(tt_text_write_file(path, &after, &why) == TT_OK ? 1 : 2);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        is_complete = WEXITSTATUS(status) == 1;
        assert_int_not_equal(WEXITSTATUS(status), 2);
        assert_content(path, &before, &after);
        snprintf(child.file, sizeof(child.file), "%s.%ld.tmp", path, (long)pid);
        unlink(child.file);
        (void)tt_prng_below(&prng, 2);
    }
    assert_int_equal(moment, 7); /* before and after three calls, and none */
    assert_content(path, &after, &after);
    unlink(path);
    rmdir(folder);
    tt_text_fini(&before);
    tt_text_fini(&after);
}

static void test_errors(void **state) {
    (void)state;
    assert_int_equal(tt_durable_rename("/nonexistent/a", "/nonexistent/b"), TT_ERR_IO);
    assert_int_equal(tt_durable_directory("/nonexistent"), TT_ERR_IO);
    char name[5000];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 2] = '/';
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(tt_durable_rename("a", name), TT_ERR_IO);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    fputs("text", full);
    assert_int_equal(tt_durable_close(full), TT_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_old_or_new),
                                       cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
