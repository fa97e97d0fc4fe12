/* The processors that a process may use are those of its affinity mask. */
#include "base/processors.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_the_mask_counts(void **state) {
    (void)state;
    int32_t all = tt_processors_usable();
    assert_true(all >= 1);
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(CPU_COUNT(&before), all);
    size_t first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(tt_processors_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(tt_processors_usable(), all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_mask_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
