#include "core/device.h"

#include "base/instant.h"
#include "core/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void one_task_takes_its_time(void **state) {
    (void)state;
    struct tt_device device;
    assert_int_equal(tt_device_init(&device, 1), TT_OK);
    assert_true(tt_device_next_at(&device) == TT_NEVER);
    tt_device_start(&device, 100, 7, 50, TT_DEMAND_WHOLE);
    assert_int_equal(tt_device_next_at(&device), 150);
    assert_int_equal(tt_device_take_ended(&device, 149), -1);
    assert_int_equal(tt_device_take_ended(&device, 150), 7);
    assert_int_equal(device.busy_ns, 50);
    tt_device_fini(&device);
}

/* Two tasks that fit side by side do not slow each other down; a third that does not fit slows all.
 */
static void demands_beyond_one_slow_all(void **state) {
    (void)state;
    struct tt_device device;
    assert_int_equal(tt_device_init(&device, 3), TT_OK);
    tt_device_start(&device, 0, 0, 100, TT_DEMAND_WHOLE / 2);
    tt_device_start(&device, 0, 1, 200, TT_DEMAND_WHOLE / 2);
    assert_int_equal(tt_device_next_at(&device), 100);
    tt_device_start(&device, 50, 2, 100, TT_DEMAND_WHOLE); /* sum 2: half speed from here */
    assert_int_equal(tt_device_next_at(&device), 150);
    assert_int_equal(tt_device_take_ended(&device, 150), 0);
    /* Remaining work at 150: 100 for task 1, 50 for task 2; the sum of demands is 1.5. */
    assert_int_equal(tt_device_next_at(&device), 225);
    assert_int_equal(tt_device_take_ended(&device, 225), 2);
    /* 1 is alone with 50 left. */
    assert_int_equal(tt_device_next_at(&device), 275);
    tt_device_stop(&device, 250, 1);
    assert_true(tt_device_next_at(&device) == TT_NEVER);
    assert_int_equal(device.busy_ns, 250);
    tt_device_fini(&device);
}

static void equal_ends_go_by_executor(void **state) {
    (void)state;
    struct tt_device device;
    assert_int_equal(tt_device_init(&device, 3), TT_OK);
    for (int32_t executor = 2; executor >= 0; executor--)
        tt_device_start(&device, 0, executor, 10, 1);
    for (int32_t executor = 0; executor < 3; executor++)
        assert_int_equal(tt_device_take_ended(&device, 10), executor);
    tt_device_fini(&device);
}

static void copies_queue_behind_each_other(void **state) {
    (void)state;
    struct tt_copy_engine engine = {.fixed_ns = 5, .bytes_per_s = 2 * TT_S};
    assert_int_equal(tt_copy_engine_add(&engine, 100, 20), 115);
    assert_int_equal(tt_copy_engine_add(&engine, 100, 21), 131); /* 10.5 ns round up */
    assert_int_equal(tt_copy_engine_add(&engine, 200, 0), 205);
    assert_int_equal(engine.busy_ns, 15 + 16 + 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_task_takes_its_time),
        cmocka_unit_test(demands_beyond_one_slow_all),
        cmocka_unit_test(equal_ends_go_by_executor),
        cmocka_unit_test(copies_queue_behind_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
