/* Parts of a plan: the new text of a tutti.pbtxt, and pauses as perturbations. */
#include "base/instant.h"
#include "lab/plan/pauses.h"
#include "lab/plan/plan_settings.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect(const char *from, const struct tt_plan_settings *settings, const char *to) {
    struct tt_text text;
    tt_text_init(&text);
    assert_int_equal(tt_plan_settings_text(from, settings, &text, NULL), TT_OK);
    assert_string_equal(tt_text_string(&text), to);
    tt_text_fini(&text);
}

static void settings_keep_the_rest(void **state) {
    (void)state;
    const struct tt_option options[] = {{"drop", "deadline"}};
    struct tt_plan_settings window = {
        .policy = "window", .options = options, .option_count = 1, .slo_ns = -1};
    const char *policy =
        "policy {\n  name: \"window\"\n  option { key: \"drop\" value: \"deadline\" }\n}\n";
    char wanted[400];
    expect("", &window, policy);
    snprintf(wanted, sizeof(wanted), "# why\nslo_us: 50\nstages { after: [\"a\", \"b\"] }\n%s",
             policy);
    expect("# why\nslo_us: 50\npolicy { name: \"policy\" option { key: \"a\" value: \"}\" } }\n"
           "stages { after: [\"a\", \"b\"] }\n",
           &window, wanted);
    window.slo_ns = 7 * TT_MS;
    snprintf(wanted, sizeof(wanted), "late: SERVE\nslo_us: 7000\n%s", policy);
    expect("slo_us: 50, late: SERVE slo_ms: 1;", &window, wanted);
    expect("slo_us: 50 late: SERVE policy: < name: 'x' >", &(struct tt_plan_settings){0},
           "late: SERVE\n");
    struct tt_text text;
    tt_text_init(&text);
    assert_int_equal(tt_plan_settings_text("slo_us: \"open", &window, &text, NULL), TT_ERR_INVALID);
    tt_text_fini(&text);
}

/* The time that devices run, in units of full speed, until `until_at`. */
static double work_of(const struct tt_perturbation *spans, int32_t count, int64_t until_at) {
    double work = 0;
    int64_t at = 0;
    for (int32_t i = 0; i < count && at < until_at; i++) {
        assert_true(spans[i].from_at >= at);
        assert_true(spans[i].until_at > spans[i].from_at);
        work += (double)(spans[i].from_at - at);
        work += (double)(spans[i].until_at - spans[i].from_at) * spans[i].speed_permille / 1000;
        at = spans[i].until_at;
    }
    return work;
}

static void pauses_leave_the_share(void **state) {
    (void)state;
    int64_t lengths[] = {TT_MS, 3 * TT_MS, 8 * TT_MS};
    struct tt_perturbation *spans;
    struct tt_plan_pauses none = {.observed_ns = TT_S};
    assert_int_equal(tt_plan_pauses_spans(&none, 1, 0, 10 * TT_S, 1, &spans), 0);
    assert_null(spans);
    assert_int_equal(tt_plan_pauses_spans(&none, 0.5, 0, 10 * TT_S, 1, &spans), 1);
    assert_true(work_of(spans, 1, 10 * TT_S) / (double)(10 * TT_S) > 0.49);
    assert_true(work_of(spans, 1, 10 * TT_S) / (double)(10 * TT_S) < 0.51);
    free(spans);
    assert_int_equal(tt_plan_pauses_spans(&none, 1, TT_MS, 10 * TT_S, 1, &spans), 1);
    assert_int_equal(spans[0].from_at, 0);
    assert_int_equal(spans[0].until_at, TT_MS);
    assert_int_equal(spans[0].speed_permille, 0);
    free(spans);
    assert_int_equal(tt_plan_pauses_spans(&none, 0.5, TT_S, 2 * TT_S, 1, &spans), 2);
    assert_int_equal(work_of(spans, 2, 2 * TT_S) / TT_MS, 500);
    free(spans);
    /* 12 of 100 ms in pauses: a share of 0.9 is more than is left, of 0.44 half of it. */
    struct tt_plan_pauses some = {.lengths_ns = lengths, .count = 3, .observed_ns = 100 * TT_MS};
    const double shares[] = {0.9, 0.44}, left[] = {0.88, 0.44};
    uint64_t seed = test_seed(3);
    for (int32_t k = 0; k < 2; k++) {
        int32_t count = tt_plan_pauses_spans(&some, shares[k], 0, 600 * TT_S, seed, &spans);
        double share = work_of(spans, count, 600 * TT_S) / (double)(600 * TT_S);
        assert_true(share > left[k] - 0.02);
        assert_true(share < left[k] + 0.02);
        free(spans);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_keep_the_rest),
        cmocka_unit_test(pauses_leave_the_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
