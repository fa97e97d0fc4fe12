/* L4: one request at a time, first come first served. */
#include "unit/policy/drive.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct drive_model models[] = {
    {.alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 50 * TT_MS, .max_batch = 8},
    {.alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 50 * TT_MS, .max_batch = 8},
};

static void oldest_first_on_the_smallest_idle(void **state) {
    (void)state;
    struct drive_setup setup = {
        .models = models, .model_count = 2, .executors = 2, .policy = "serial", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 0, 1)->rows = 3; /* 8 ms */
    drive_arrival(&drive, 0, 0);           /* 6 ms */
    drive_arrival(&drive, 0, 1);
    drive_arrival(&drive, 0, 0);
    drive_run(&drive, TT_NEVER);
    static const int64_t starts[] = {0, 0, 6 * TT_MS, 8 * TT_MS};
    static const int32_t executors[] = {0, 1, 1, 0};
    assert_int_equal(drive.task_count, 4);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(drive.members[drive.tasks[i].first], i);
        assert_int_equal(drive.tasks[i].start_at, starts[i]);
        assert_int_equal(drive.tasks[i].executor, executors[i]);
    }
    drive_close(&drive);
}

static void the_lost_leave_at_their_last_instant(void **state) {
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        struct tt_option option = {"drop", drops ? "deadline" : "none"};
        struct drive_setup setup = {.models = models,
                                    .model_count = 2,
                                    .executors = 1,
                                    .policy = "serial",
                                    .options = &option,
                                    .option_count = 1,
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        drive_arrival(&drive, 0, 0);
        drive_arrival(&drive, 1, 0)->deadline_at = 11 * TT_MS;
        drive_arrival(&drive, 1, 1)->deadline_at = 12 * TT_MS;
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.outcomes[1].ended_at, drops ? 5 * TT_MS + 1 : 12 * TT_MS);
        assert_int_equal(drive.outcomes[1].ending, drops ? TT_ENDING_DROPPED : TT_ENDING_DONE);
        assert_int_equal(drive.outcomes[2].ended_at, (drops ? 12 : 18) * TT_MS);
        drive_close(&drive);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oldest_first_on_the_smallest_idle),
        cmocka_unit_test(the_lost_leave_at_their_last_instant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
