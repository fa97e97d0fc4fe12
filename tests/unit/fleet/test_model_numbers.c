/* What another node's numbers of models mean here, and the notices that say so. */
#include "base/instant.h"
#include "base/prng.h"
#include "fleet/model_notice.h"
#include "fleet/model_numbers.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, PEER = 1, OTHER = 2, OWN_MODELS = 4, TRIALS = 3000 };

/* ---- numbers ---- */

static void numbers_init(struct tt_model_numbers *self) {
    assert_int_equal(tt_model_numbers_init(self, NODES), TT_OK);
    assert_int_equal(tt_model_numbers_set(self, PEER, 0, 2), TT_OK);
    assert_int_equal(tt_model_numbers_set(self, PEER, 7, 0), TT_OK);
    assert_int_equal(tt_model_numbers_set(self, PEER, 9, 3), TT_OK);
}

static void frames_get_own_numbers(void **state) {
    (void)state;
    static const struct {
        enum tt_frame_type type;
        uint16_t expected[3];
    } cases[] = {
        {TT_FRAME_TICKET, {0, 2, TT_CLUSTER_NO_MODEL}},
        {TT_FRAME_WISH, {0, 2, TT_CLUSTER_NO_MODEL}},
        {TT_FRAME_GRANT, {0, 0, 5}},                    /* the others are requests */
        {TT_FRAME_SERVED, {7, 2, TT_CLUSTER_NO_MODEL}}, /* the first is about the set */
        {TT_FRAME_RESULT, {7, 0, 5}},
    };
    struct tt_model_numbers numbers;
    numbers_init(&numbers);
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_frame_record records[] = {{.model = 7}, {.model = 0}, {.model = 5}};
        struct tt_frame frame = {.type = cases[i].type, .count = 3, .records = records};
        tt_model_numbers_translate(&numbers, PEER, OWN_MODELS, records, &frame);
        assert_int_equal(frame.count, 3);
        for (int32_t k = 0; k < 3; k++)
            assert_int_equal(frame.records[k].model, cases[i].expected[k]);
    }
    struct tt_frame_record record = {.model = 7};
    struct tt_frame frame = {.type = TT_FRAME_TICKET, .count = 1, .records = &record};
    tt_model_numbers_translate(&numbers, OTHER, OWN_MODELS, &record, &frame);
    assert_int_equal(record.model, TT_CLUSTER_NO_MODEL); /* that peer gave no notice */
    record.model = UINT16_MAX;
    tt_model_numbers_translate(&numbers, PEER, OWN_MODELS, &record, &frame);
    assert_int_equal(record.model, TT_CLUSTER_NO_MODEL);
    record.model = 7;
    tt_model_numbers_forget(&numbers, PEER);
    tt_model_numbers_translate(&numbers, PEER, OWN_MODELS, &record, &frame);
    assert_int_equal(record.model, TT_CLUSTER_NO_MODEL);
    tt_model_numbers_fini(&numbers);
}

static void a_set_has_all_own_models(void **state) {
    (void)state;
    struct tt_model_numbers numbers;
    numbers_init(&numbers);
    struct tt_frame_record records[] = {
        {.id = 40, .length = 3, .model = 0, .attempt = 1, .device = 5, .code = 1},
        {.id = 40, .length = 3, .model = 7, .attempt = 2, .device = 6, .code = 1},
        {.id = 40, .length = 3, .model = 8, .attempt = 3, .device = 7, .code = 1},
    };
    struct tt_frame frame = {.type = TT_FRAME_SERVE, .count = 3, .epoch = 9, .records = records};
    tt_model_numbers_translate(&numbers, PEER, OWN_MODELS, records, &frame);
    assert_int_equal(frame.count, OWN_MODELS);
    assert_int_equal(frame.epoch, 9);
    static const struct {
        uint16_t attempt, device, code;
    } expected[OWN_MODELS] = {
        {2, 6, 1}, {0, TT_CLUSTER_NO_POOL, 0}, {1, 5, 1}, {0, TT_CLUSTER_NO_POOL, 0}};
    for (uint16_t i = 0; i < OWN_MODELS; i++) {
        assert_int_equal(frame.records[i].model, i);
        assert_int_equal(frame.records[i].id, 40);
        assert_int_equal(frame.records[i].length, 3);
        assert_int_equal(frame.records[i].attempt, expected[i].attempt);
        assert_int_equal(frame.records[i].device, expected[i].device);
        assert_int_equal(frame.records[i].code, expected[i].code);
    }
    tt_model_numbers_fini(&numbers);
}

/* ---- notices ---- */

static struct tt_model_notice new_notice(struct tt_prng *prng) {
    struct tt_model_notice notice = {.number = (uint16_t)tt_prng_below(prng, 100),
                                     .digest = tt_prng_below(prng, UINT64_MAX),
                                     .slo_ns = tt_prng_below(prng, 2) ? TT_NEVER : 50 * TT_MS,
                                     .is_served = tt_prng_below(prng, 3) == 0};
    struct tt_profile_point points[4];
    struct tt_error why;
    int32_t count = 1 + (int32_t)tt_prng_below(prng, 4);
    for (int32_t i = 0; i < count; i++)
        points[i] = (struct tt_profile_point){
            .length = 16 * i, .batch = 1, .latency_ns = TT_MS * (i + 1), .demand_ppm = 1000};
    int32_t max_batch = 1 + (int32_t)tt_prng_below(prng, 40);
    assert_int_equal(tt_profile_new_points(points, count, max_batch, &notice.profile, &why), TT_OK);
    notice.max_batch = 1 + (int32_t)tt_prng_below(prng, (uint64_t)max_batch);
    strcpy(notice.name, "a model");
    strcpy(notice.version, "12");
    return notice;
}

static void notices_are_read_as_they_were_written(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int32_t trial = 0; trial < 50; trial++) {
        struct tt_model_notice notice = new_notice(&prng), read;
        struct tt_error why;
        size_t length = tt_model_notice_bytes(&notice);
        uint8_t *bytes = malloc(length), *again = malloc(length);
        struct tt_frame_record record = tt_model_notice_record(&notice);
        assert_int_equal(record.length, length);
        tt_model_notice_write(&notice, bytes);
        assert_int_equal(tt_model_notice_read(&record, bytes, length, &read, &why), TT_OK);
        assert_string_equal(read.name, notice.name);
        assert_string_equal(read.version, notice.version);
        assert_int_equal(read.number, notice.number);
        assert_int_equal(read.slo_ns, notice.slo_ns);
        assert_int_equal(read.max_batch, notice.max_batch);
        assert_int_equal(read.is_served, notice.is_served);
        assert_true(read.digest == notice.digest);
        tt_model_notice_write(&read, again);
        assert_memory_equal(bytes, again, length);
        tt_model_notice_fini(&read);
        tt_profile_free(notice.profile);
        free(bytes);
        free(again);
    }
}

/* Bytes of which some were changed are refused, or are a notice that keeps what is promised. */
static void nothing_of_a_notice_is_trusted(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 1);
    int32_t refused = 0;
    struct tt_model_notice notice = new_notice(&prng), read;
    size_t length = tt_model_notice_bytes(&notice);
    for (int32_t trial = 0; trial < TRIALS; trial++) {
        struct tt_error why = {{0}};
        size_t count = trial % 3 ? length : (size_t)tt_prng_below(&prng, length);
        uint8_t *whole = malloc(length), *bytes = malloc(count + 1);
        tt_model_notice_write(&notice, whole);
        memcpy(bytes, whole, count);
        for (uint64_t i = tt_prng_below(&prng, 4); count > 0 && i > 0; i--)
            bytes[tt_prng_below(&prng, tt_prng_below(&prng, 2) ? count
                                       : count < 40            ? count
                                                    : 40)] = (uint8_t)tt_prng_below(&prng, 256);
        struct tt_frame_record record = tt_model_notice_record(&notice);
        if (tt_model_notice_read(&record, bytes, count, &read, &why)) {
            assert_string_not_equal(why.text, "");
            refused++;
        } else {
            tt_profile_check(read.profile);
            assert_true(read.max_batch <= read.profile->max_batch);
            assert_true(tt_model_notice_is_text((const uint8_t *)read.name, strlen(read.name)));
            tt_model_notice_fini(&read);
        }
        free(whole);
        free(bytes);
    }
    assert_true(refused > 0 && refused < TRIALS);
    tt_profile_free(notice.profile);
}

static void names_are_no_paths(void **state) {
    (void)state;
    static const char *const bad[] = {"", ".", "..", ".hidden", "a/b", "../x", "a\nb", "\x7f"};
    char longest[TT_MODEL_NOTICE_TEXT_BYTES + 1];
    for (size_t i = 0; i < TT_COUNT(bad); i++)
        assert_false(tt_model_notice_is_text((const uint8_t *)bad[i], strlen(bad[i])));
    memset(longest, 'm', sizeof(longest));
    assert_true(tt_model_notice_is_text((const uint8_t *)longest, TT_MODEL_NOTICE_TEXT_BYTES - 1));
    assert_false(tt_model_notice_is_text((const uint8_t *)longest, TT_MODEL_NOTICE_TEXT_BYTES));
    assert_false(tt_model_notice_is_text((const uint8_t *)"a\0b", 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_get_own_numbers),
        cmocka_unit_test(a_set_has_all_own_models),
        cmocka_unit_test(notices_are_read_as_they_were_written),
        cmocka_unit_test(nothing_of_a_notice_is_trusted),
        cmocka_unit_test(names_are_no_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
