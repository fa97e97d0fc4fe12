/* A load over time: against a plain count of the same requests, through several halvings. */
#include "lab/report/load_series.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static double at(const json_t *series, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(series, key), i));
}

static void test_few_requests(void **state) {
    (void)state;
    struct tt_load_series series;
    tt_load_series_init(&series);
    tt_load_series_add(&series, 0, 2 * TT_MS, TT_LOAD_OUTCOME_OK);
    tt_load_series_add(&series, 49 * TT_MS, 59 * TT_MS, TT_LOAD_OUTCOME_LATE);
    tt_load_series_add(&series, 120 * TT_MS, 130 * TT_MS, TT_LOAD_OUTCOME_FAILED);
    tt_load_series_add(&series, 121 * TT_MS, 130 * TT_MS, TT_LOAD_OUTCOME_CANCELLED);
    json_t *json = tt_load_series_json(&series, 160 * TT_MS);
    assert_int_equal(json_array_size(json_object_get(json, "good_per_s")), 3);
    assert_true(at(json, "good_per_s", 0) == 20 && at(json, "bad_per_s", 0) == 20);
    assert_true(at(json, "good_per_s", 1) == 0 && at(json, "bad_per_s", 2) == 20);
    assert_true(at(json, "p50_ms", 0) > 1.9 && at(json, "p50_ms", 0) < 2.1);
    assert_true(at(json, "p99_ms", 0) > 9.9 && at(json, "p99_ms", 0) < 10.1);
    assert_true(json_is_null(json_array_get(json_object_get(json, "p99_ms"), 2)));
    json_decref(json);
    tt_load_series_fini(&series);
}

static void test_nothing_is_lost_when_slices_join(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static int64_t instants[COUNT];
    struct tt_load_series series;
    tt_load_series_init(&series);
    for (int32_t i = 0; i < COUNT; i++) {
        instants[i] = (int64_t)i * 7 * TT_MS; /* 140 s: the slices join four times */
        tt_load_series_add(&series, instants[i], instants[i] + TT_MS,
                           i % 5 ? TT_LOAD_OUTCOME_OK : TT_LOAD_OUTCOME_REJECTED);
    }
    assert_true(series.slice_ns == 800 * TT_MS);
    json_t *json = tt_load_series_json(&series, 141 * TT_S);
    size_t slices = json_array_size(json_object_get(json, "good_per_s"));
    assert_int_equal(slices, 176);
    for (size_t s = 0; s < slices; s++) {
        int32_t good = 0, bad = 0;
        for (int32_t i = 0; i < COUNT; i++)
            if ((size_t)(instants[i] / series.slice_ns) == s) {
                good += i % 5 != 0;
                bad += i % 5 == 0;
            }
        assert_int_equal((int32_t)(at(json, "good_per_s", s) * 0.8 + 0.5), good);
        assert_int_equal((int32_t)(at(json, "bad_per_s", s) * 0.8 + 0.5), bad);
    }
    json_decref(json);
    tt_load_series_fini(&series);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_requests),
        cmocka_unit_test(test_nothing_is_lost_when_slices_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
