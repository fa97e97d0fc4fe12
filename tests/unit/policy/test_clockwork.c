/* S5: the candidate whose latest start is the earliest. */
#include "unit/policy/drive.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void both_readings(void **state) {
    (void)state;
    static const struct drive_model models[] = {
        {.alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 20 * TT_MS, .max_batch = 8},
        {.alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 24 * TT_MS, .max_batch = 8},
    };
    for (int one = 0; one < 2; one++) {
        struct tt_option option = {"reading", one ? "batch_of_one" : "letter"};
        struct drive_setup setup = {.models = models,
                                    .model_count = 2,
                                    .executors = 1,
                                    .policy = "clockwork",
                                    .options = &option,
                                    .option_count = 1,
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        drive_arrival(&drive, 0, 0);
        drive_arrival(&drive, TT_MS, 1); /* latest start 19 */
        for (int i = 0; i < 3; i++)
            drive_arrival(&drive, TT_MS, 0); /* three: latest start 13; one: 15 */
        drive_run(&drive, TT_NEVER);
        static const int64_t starts[2][4] = {{0, 6, 14}, {0, 6, 12, 18}};
        static const int32_t rows[2][4] = {{1, 3, 1}, {1, 1, 1, 1}};
        static const int32_t ran[2][4] = {{0, 0, 1}, {0, 0, 0, 1}};
        assert_int_equal(drive.task_count, one ? 4 : 3);
        for (int i = 0; i < drive.task_count; i++) {
            assert_int_equal(drive.tasks[i].start_at, starts[one][i] * TT_MS);
            assert_int_equal(drive.tasks[i].rows, rows[one][i]);
            assert_int_equal(drive.tasks[i].model, ran[one][i]);
        }
        assert_int_equal(drive_bad(&drive), one); /* the third of three was hopeless at 15 */
        if (one)
            assert_int_equal(drive.outcomes[4].ended_at, 15 * TT_MS + 1);
        drive_close(&drive);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_readings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
