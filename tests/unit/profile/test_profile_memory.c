/* What a profile's file says of memory. */
#include "profile/profile_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Opens a profile that ends with `text`. */
static enum tt_err open_with(const char *text, struct tt_profile_file **out_file,
                             struct tt_error *why) {
    char path[] = "/tmp/profile-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fprintf(file, "linear { beta_ms: 1 }\nmax_batch: 2\n%s\n", text);
    fclose(file);
    enum tt_err err = tt_profile_file_open(path, 0, out_file, why);
    unlink(path);
    return err;
}

static void memory_is_read(void **state) {
    (void)state;
    struct tt_profile_file *file;
    struct tt_error why;
    assert_int_equal(open_with("static_mib: 1.5 dynamic_mib: 0.25", &file, &why), TT_OK);
    assert_int_equal(file->whole->static_bytes, 3 << 19);
    assert_int_equal(file->whole->dynamic_bytes, 1 << 18);
    tt_profile_file_close(file);
    assert_int_equal(open_with("", &file, &why), TT_OK);
    assert_int_equal(file->whole->static_bytes + file->whole->dynamic_bytes, 0);
    tt_profile_file_close(file);
}

static void memory_that_no_device_has_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"static_mib: -1", "static_mib: nan", "dynamic_mib: 1e12"};
    static const char *const said[] = {"static_mib is -1; it must be 0 .. 67108864 MiB",
                                       "static_mib is nan", "dynamic_mib is 1e+12"};
    for (size_t i = 0; i < TT_COUNT(texts); i++) {
        struct tt_profile_file *file = NULL;
        struct tt_error why;
        assert_int_equal(open_with(texts[i], &file, &why), TT_ERR_INVALID);
        assert_non_null(strstr(why.text, said[i]));
        assert_null(file);
    }
}

static void what_is_written_is_read(void **state) {
    (void)state;
    struct tt_profile_file_origin origin = {.source = "s",
                                            .device = "d",
                                            .date = "2026-01-31",
                                            .max_batch = 1,
                                            .static_bytes = 3 << 19,
                                            .dynamic_bytes = 1 << 18};
    struct tt_calibration_point point = {.step = TT_CALIBRATION_WHOLE,
                                         .batch = 1,
                                         .runs = 1,
                                         .median_ns = 5,
                                         .low_ns = 5,
                                         .high_ns = 5};
    for (int32_t known = 0; known < 2; known++) {
        struct tt_text text;
        struct tt_error why;
        int64_t bytes[2] = {-1, -1};
        char path[] = "/tmp/profile-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        if (!known)
            origin.static_bytes = origin.dynamic_bytes = 0;
        tt_text_init(&text);
        tt_profile_file_print(&origin, &point, 1, &text);
        assert_int_equal(strstr(tt_text_string(&text), "_mib") != NULL, known);
        assert_int_equal(tt_text_write_file(path, &text, &why), TT_OK);
        assert_int_equal(tt_profile_file_memory(path, &bytes[0], &bytes[1], &why), TT_OK);
        assert_int_equal(bytes[0], origin.static_bytes);
        assert_int_equal(bytes[1], origin.dynamic_bytes);
        tt_text_fini(&text);
        unlink(path);
        origin.static_bytes = 3 << 19;
        origin.dynamic_bytes = 1 << 18;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(memory_that_no_device_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
