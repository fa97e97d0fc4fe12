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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read),
        cmocka_unit_test(memory_that_no_device_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
