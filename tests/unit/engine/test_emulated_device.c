/* S11: executors of one emulated device share it as in the simulator, to the nanosecond, however
 * late a test asks. The tests have a clock of their own. */
#include "engine/emulated/emulated_device.h"

#include "base/instant.h"
#include "core/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct tt_eventcount eventcounts[2];
static struct tt_emulated_device device;

static int set_up(void **state) {
    (void)state;
    tt_eventcount_init(&eventcounts[0]);
    tt_eventcount_init(&eventcounts[1]);
    return tt_emulated_device_init(&device, 2);
}

static int tear_down(void **state) {
    (void)state;
    tt_emulated_device_fini(&device);
    return 0;
}

static void begin(int32_t place, int64_t at, int64_t work_ns, int32_t demand_ppm) {
    tt_emulated_device_begin(&device, place, &eventcounts[place], at, work_ns, demand_ppm);
}

static void assert_ended(int32_t place, int64_t now, bool ended, int64_t at) {
    int64_t out_at;
    assert_int_equal(tt_emulated_device_ended(&device, place, now, &out_at), ended);
    assert_int_equal(out_at, at);
}

/* Whole devices: 50 alone, then half as fast until the first ends at 150, then alone again. */
static void test_they_slow_each_other_down(void **state) {
    (void)state;
    begin(0, 0, 100, TT_DEMAND_WHOLE);
    assert_ended(0, 40, false, 100);
    begin(1, 50, 100, TT_DEMAND_WHOLE);
    assert_ended(0, 100, false, 150);
    assert_ended(1, 100, false, 150); /* ask again then: the other work ends */
    assert_ended(1, 500, true, 200);
    assert_ended(0, 600, true, 150);
}

static void test_small_demands_do_not(void **state) {
    (void)state;
    begin(0, 0, 100, TT_DEMAND_WHOLE / 2);
    begin(1, 10, 100, TT_DEMAND_WHOLE / 2);
    assert_ended(0, 300, true, 100);
    assert_ended(1, 300, true, 110);
}

/* The other work continues alone, and its thread is woken. */
static void test_abort_sets_free(void **state) {
    (void)state;
    begin(0, 0, 100, TT_DEMAND_WHOLE);
    begin(1, 0, 100, TT_DEMAND_WHOLE);
    tt_emulated_device_stop(&device, 0, 100);
    assert_true(tt_eventcount_wait(&eventcounts[1], 0));
    assert_ended(1, 120, false, 150);
    assert_ended(1, 150, true, 150);
}

/* The next step begins where the last one ended, not where its thread woke up. */
static void test_lateness_does_not_add_up(void **state) {
    (void)state;
    begin(0, 0, 100, TT_DEMAND_WHOLE);
    assert_ended(0, 130, true, 100);
    begin(0, 100, 100, TT_DEMAND_WHOLE);
    assert_ended(0, 260, true, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_they_slow_each_other_down, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_small_demands_do_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abort_sets_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lateness_does_not_add_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
