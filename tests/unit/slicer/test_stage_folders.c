/* D1: kept cuts that no model uses are removed, and nothing else. */
#include "slicer/stage_folders.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profile/machine.h"

#include <cmocka.h>

static char root[256];

static int set_up(void **state) {
    (void)state;
    struct tt_error why;
    return tt_machine_scratch(root, sizeof(root), &why);
}

static int tear_down(void **state) {
    (void)state;
    tt_machine_remove(root);
    return 0;
}

static void path_of(const char *name, char *out) { snprintf(out, 600, "%s/%s", root, name); }

/* A folder with a file in it, last used so long ago. */
static void make(const char *name, int64_t seconds_ago) {
    char path[600], file[700];
    path_of(name, path);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(file, sizeof(file), "%s/weights.bin", path);
    FILE *to = fopen(file, "w");
    assert_non_null(to);
    assert_int_equal(fclose(to), 0);
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds_ago}, {0}};
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *name) {
    char path[600];
    path_of(name, path);
    return access(path, F_OK) == 0;
}

enum { HOUR = 3600, DAY = 24 * HOUR };

static void test_what_is_old_goes(void **state) {
    (void)state;
    make("stages-00000000000000aa", 31 * DAY);
    make("stages-00000000000000ab", 29 * DAY);
    make("stages-00000000000000ac", 400 * DAY); /* the one that was made now, by a strange clock */
    make("stages-00000000000000ad.part-12", 2 * DAY);
    make("stages-00000000000000ae.part-13", HOUR);
    make("stages-of-mine", 400 * DAY);
    make("other", 400 * DAY);
    assert_int_equal(tt_stage_folders_prune(root, "stages-00000000000000ac", 0), 2);
    assert_false(is_there("stages-00000000000000aa"));
    assert_false(is_there("stages-00000000000000ad.part-12"));
    assert_true(is_there("stages-00000000000000ab"));
    assert_true(is_there("stages-00000000000000ac"));
    assert_true(is_there("stages-00000000000000ae.part-13"));
    assert_true(is_there("stages-of-mine"));
    assert_true(is_there("other"));
    assert_int_equal(tt_stage_folders_prune(root, NULL, 0), 1); /* no model uses it */
}

static void test_the_last_used_stay(void **state) {
    (void)state;
    char name[64];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "stages-000000000000000%d", i);
        make(name, (i + 1) * HOUR);
    }
    char oldest[600];
    path_of("stages-0000000000000005", oldest);
    tt_stage_folders_used(oldest);
    assert_int_equal(tt_stage_folders_prune(root, "stages-0000000000000004", 3), 3);
    assert_true(is_there("stages-0000000000000005")); /* used now */
    assert_true(is_there("stages-0000000000000004")); /* made now */
    assert_true(is_there("stages-0000000000000000")); /* an hour ago */
    assert_false(is_there("stages-0000000000000001"));
    assert_int_equal(tt_stage_folders_prune("/nowhere/at/all", NULL, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_old_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_last_used_stay, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
