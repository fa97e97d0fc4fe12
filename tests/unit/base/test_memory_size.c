/* The memory that a process may use: limits of memory groups, the lowest of a path. */
#include "base/memory_size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void write_limit(const char *root, const char *group, const char *text) {
    char path[512];
    snprintf(path, sizeof(path), "%s%s", root, group);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s%s/memory.max", root, group);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_the_lowest_of_a_path_counts(void **state) {
    (void)state;
    char root[] = "/tmp/tutti-memory-XXXXXX";
    assert_non_null(mkdtemp(root));
    write_limit(root, "/a", "max\n");
    write_limit(root, "/a/b", "4096\n");
    write_limit(root, "/a/b/c", "8192\n");
    write_limit(root, "/a/d", "nonsense");
    assert_int_equal(tt_memory_group_limit(root, "/a/b/c", "memory.max"), 4096);
    assert_int_equal(tt_memory_group_limit(root, "/a/b", "memory.max"), 4096);
    assert_true(tt_memory_group_limit(root, "/a", "memory.max") == INT64_MAX);
    assert_true(tt_memory_group_limit(root, "/a/d", "memory.max") == INT64_MAX);
    assert_true(tt_memory_group_limit(root, "/", "memory.max") == INT64_MAX);
    assert_true(tt_memory_group_limit(root, "/absent/too", "memory.max") == INT64_MAX);
    write_limit(root, "", "1024");
    assert_int_equal(tt_memory_group_limit(root, "/a/b/c", "memory.max"), 1024);
    assert_int_equal(tt_memory_group_limit(root, "/", "memory.max"), 1024);
    char command[600];
    static const char *const files[] = {"/a/b/c/memory.max", "/a/b/c", "/a/b/memory.max", "/a/b",
                                        "/a/d/memory.max",   "/a/d",   "/a/memory.max",   "/a",
                                        "/memory.max",       ""};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(command, sizeof(command), "%s%s", root, files[i]);
        assert_int_equal(remove(command), 0);
    }
}

static void test_this_process_may_use_some(void **state) {
    (void)state;
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    assert_true(tt_memory_usable() > 0);
    assert_true(tt_memory_usable() <= (int64_t)pages * bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_lowest_of_a_path_counts),
                                       cmocka_unit_test(test_this_process_may_use_some)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
