/* One place decides how many executors use how many processors. */
#include "control/processor_plan.h"

#include "profile/demand_estimate.h"
#include "serve/domain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_defaults(void **state) {
    (void)state;
    static const struct {
        int32_t processors, stated, executors, measured;
    } cases[] = {
        {1, 0, 1, 1},
        {2, 0, 2, 2},
        {64, 0, 64, TT_DEMAND_MAX_EXECUTORS},
        {200, 0, 200, TT_DEMAND_MAX_EXECUTORS},
        {100000, 0, TT_DOMAIN_MAX_EXECUTORS, TT_DEMAND_MAX_EXECUTORS},
        {8, 3, 3, 8}, /* --executors counts, also beyond the processors */
        {8, 300, 300, 8},
        {8, 1 << 30, TT_DOMAIN_MAX_EXECUTORS, 8},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tt_processor_plan plan = tt_processor_plan_of(cases[i].processors, cases[i].stated);
        assert_int_equal(plan.processors, cases[i].processors);
        assert_int_equal(plan.executors, cases[i].executors);
        assert_int_equal(plan.measured_executors, cases[i].measured);
    }
}

/* Instances of a model count before workers of a policy, and these before --executors. */
static void test_domains(void **state) {
    (void)state;
    struct tt_processor_plan plan = tt_processor_plan_of(8, 5);
    assert_int_equal(tt_processor_plan_domain(&plan, 0, 0), 5);
    assert_int_equal(tt_processor_plan_domain(&plan, 0, 7), 7);
    assert_int_equal(tt_processor_plan_domain(&plan, 2, 7), 2);
    assert_int_equal(tt_processor_plan_domain(&plan, 1 << 20, 0), TT_DOMAIN_MAX_EXECUTORS);
}

static void test_crowded_domains(void **state) {
    (void)state;
    struct tt_processor_plan plan = tt_processor_plan_of(4, 0);
    char text[400] = "untouched";
    assert_false(tt_processor_plan_is_crowded(&plan, 1, 4096, text, sizeof(text)));
    assert_false(tt_processor_plan_is_crowded(&plan, 2, 4, text, sizeof(text)));
    assert_false(tt_processor_plan_is_crowded(&plan, 0, 0, text, sizeof(text)));
    assert_string_equal(text, "untouched");
    assert_true(tt_processor_plan_is_crowded(&plan, 2, 5, text, sizeof(text)));
    assert_non_null(strstr(text, "2 scheduling domains have 5 executors on 4 processors"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_crowded_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
