/* Only regular files are read: anything else is named, and never waited for. */
#include "base/regular_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/tutti-regular-XXXXXX";

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *bytes, size_t count) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void refused(const char *path, enum tt_err wanted, const char *sentence) {
    struct tt_text text;
    struct tt_error why;
    int descriptor = -7;
    assert_int_equal(tt_regular_file_open(path, &descriptor, &why), wanted);
    assert_int_equal(descriptor, -7);
    assert_non_null(strstr(why.text, path));
    assert_non_null(strstr(why.text, sentence));
    assert_int_equal(tt_regular_file_read(path, 100, &text, &why), wanted);
    assert_non_null(strstr(why.text, sentence));
}

static void test_reads(void **state) {
    (void)state;
    struct tt_text text;
    struct tt_error why;
    enum { LARGE = 200000 };
    static char bytes[LARGE];
    memset(bytes, 'a', sizeof(bytes));
    write_file("large", bytes, sizeof(bytes));
    write_file("empty", "", 0);
    assert_int_equal(tt_regular_file_read(path_of("large"), LARGE, &text, &why), TT_OK);
    assert_int_equal(text.length, LARGE);
    assert_memory_equal(text.bytes, bytes, LARGE);
    tt_text_fini(&text);
    assert_int_equal(tt_regular_file_read(path_of("large"), LARGE - 1, &text, &why),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "larger than the limit of 199999 bytes"));
    assert_int_equal(tt_regular_file_read(path_of("empty"), 10, &text, &why), TT_OK);
    assert_string_equal(tt_text_string(&text), "");
    tt_text_fini(&text);
    assert_int_equal(symlink("large", path_of("link")), 0); /* a link to a file is a file */
    assert_int_equal(tt_regular_file_read(path_of("link"), LARGE, &text, &why), TT_OK);
    tt_text_fini(&text);
}

static void test_refuses(void **state) {
    (void)state;
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    refused(path_of("fifo"), TT_ERR_INVALID, "not a regular file, but a FIFO");
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    refused(path_of("folder"), TT_ERR_INVALID, "not a regular file, but a directory");
    refused("/dev/zero", TT_ERR_INVALID, "not a regular file, but a device");
    refused(path_of("nothing"), TT_ERR_NOT_FOUND, "No such file or directory");
    refused(path_of("fifo/below"), TT_ERR_IO, "Not a directory");
    assert_int_equal(symlink("/dev/zero", path_of("to-zero")), 0);
    refused(path_of("to-zero"), TT_ERR_INVALID, "a device");
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"large", "empty", "link", "fifo", "to-zero"};
    for (size_t i = 0; i < TT_COUNT(names); i++)
        unlink(path_of(names[i]));
    rmdir(path_of("folder"));
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
