/* S9: the formulas of the advice. */
#include "metrics/scaling_advice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void advice_follows_the_paper(void **state) {
    (void)state;
    struct tt_scaling_advice overload = tt_scaling_advice_of(8, 0.2, 0.1);
    assert_true(fabs(overload.add - 2) < 1e-12 && overload.release == 0);
    struct tt_scaling_advice idle = tt_scaling_advice_of(8, 0.01, 0.75);
    assert_true(idle.add == 0 && fabs(idle.release - 6) < 1e-12);
    assert_true(tt_scaling_advice_of(3, 1, 0).add == 3); /* nothing was good: twice as many */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(advice_follows_the_paper)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
