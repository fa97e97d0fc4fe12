/* A notice of a model as bytes: with memory and without, and what is refused. */
#include "fleet/model_notice.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 4, BYTES = 1024 };

static struct tt_profile *make_profile(void) {
    struct tt_profile *profile;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(TT_MS, TT_MS, ROWS, &profile, &why), TT_OK);
    return profile;
}

static size_t write_notice(struct tt_profile *profile, struct tt_frame_record *out_record,
                           uint8_t out[BYTES]) {
    const struct tt_model_notice notice = {.number = 3,
                                           .digest = 5,
                                           .slo_ns = TT_S,
                                           .max_batch = ROWS,
                                           .name = "m",
                                           .version = "1",
                                           .profile = profile};
    size_t bytes = tt_model_notice_bytes(&notice);
    assert_true(bytes <= BYTES);
    tt_model_notice_write(&notice, out);
    *out_record = tt_model_notice_record(&notice);
    return bytes;
}

static void memory_travels_where_it_is_known(void **state) {
    (void)state;
    struct tt_profile *profile = make_profile();
    struct tt_frame_record record;
    struct tt_model_notice read;
    struct tt_error why;
    uint8_t bytes[BYTES];
    size_t without = write_notice(profile, &record, bytes);
    assert_int_equal(tt_model_notice_read(&record, bytes, without, &read, &why), TT_OK);
    assert_int_equal(read.profile->static_bytes, 0);
    tt_model_notice_fini(&read);
    profile->static_bytes = INT64_C(5) << 30;
    profile->dynamic_bytes = 77;
    size_t with = write_notice(profile, &record, bytes);
    assert_int_equal(with, without + 16); /* other releases read the shorter one */
    assert_int_equal(tt_model_notice_read(&record, bytes, with, &read, &why), TT_OK);
    assert_int_equal(read.profile->static_bytes, INT64_C(5) << 30);
    assert_int_equal(read.profile->dynamic_bytes, 77);
    assert_int_equal(read.profile->latency_ns[ROWS], profile->latency_ns[ROWS]);
    tt_model_notice_fini(&read);
    tt_profile_free(profile);
}

static void sizes_that_no_device_has_are_refused(void **state) {
    (void)state;
    struct tt_profile *profile = make_profile();
    struct tt_frame_record record;
    struct tt_model_notice read;
    struct tt_error why;
    uint8_t bytes[BYTES];
    profile->static_bytes = 1;
    size_t count = write_notice(profile, &record, bytes);
    assert_int_equal(tt_model_notice_read(&record, bytes, count - 8, &read, &why), TT_ERR_INVALID);
    assert_int_equal(tt_model_notice_read(&record, bytes, count + 8, &read, &why), TT_ERR_INVALID);
    memset(bytes + count - 16, 0xff, 8); /* negative */
    assert_int_equal(tt_model_notice_read(&record, bytes, count, &read, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "a profile's memory"));
    memset(bytes + count - 16, 0x7f, 8);
    assert_int_equal(tt_model_notice_read(&record, bytes, count, &read, &why), TT_ERR_INVALID);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_travels_where_it_is_known),
        cmocka_unit_test(sizes_that_no_device_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
