/* What examples/policy/shortest.c promises, instant by instant. tests/unit/policy/drive.h is the
 * carrier: it plays arrivals in virtual time and logs the tasks. */
#include "unit/policy/drive.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A batch of b rows takes alpha b + beta. */
static const struct drive_model models[] = {
    {.alpha_ns = TT_MS, .beta_ns = 9 * TT_MS, .slo_ns = 100 * TT_MS, .max_batch = 8}, /* long */
    {.alpha_ns = TT_MS, .beta_ns = 1 * TT_MS, .slo_ns = 100 * TT_MS, .max_batch = 8}, /* short */
    {.alpha_ns = TT_MS, .beta_ns = 1 * TT_MS, .slo_ns = 100 * TT_MS, .max_batch = 8}, /* its twin */
};

static void open_drive(struct drive *drive, int32_t executors, const struct tt_option *options,
                       int32_t option_count) {
    struct drive_setup setup = {.models = models,
                                .model_count = 3,
                                .executors = executors,
                                .policy = "shortest",
                                .options = options,
                                .option_count = option_count,
                                .check = true};
    drive_open(drive, &setup);
}

static void assert_task(const struct drive *drive, int32_t task, int32_t model, int32_t count,
                        int64_t start_at) {
    assert_true(task < drive->task_count);
    assert_int_equal(drive->tasks[task].model, model);
    assert_int_equal(drive->tasks[task].count, count);
    assert_int_equal(drive->tasks[task].start_at, start_at);
}

static void the_shortest_batch_goes_first(void **state) {
    (void)state;
    struct drive drive;
    open_drive(&drive, 1, NULL, 0);
    drive_arrival(&drive, 0, 0);         /* alone: runs at once, 10 ms */
    drive_arrival(&drive, 1 * TT_MS, 0); /* waits for the executor, like all that follow */
    drive_arrival(&drive, 2 * TT_MS, 2);
    drive_arrival(&drive, 3 * TT_MS, 1);
    drive_arrival(&drive, 4 * TT_MS, 1);
    drive_arrival(&drive, 5 * TT_MS, 1);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 4);
    assert_task(&drive, 0, 0, 1, 0);
    assert_task(&drive, 1, 2, 1, 10 * TT_MS); /* 2 ms */
    assert_task(&drive, 2, 1, 3, 12 * TT_MS); /* 4 ms */
    assert_task(&drive, 3, 0, 1, 16 * TT_MS); /* 10 ms, although it is the oldest */
    drive_close(&drive);
}

static void ties_go_to_the_smaller_model(void **state) {
    (void)state;
    struct drive drive;
    open_drive(&drive, 1, NULL, 0);
    drive_arrival(&drive, 0, 2);
    drive_arrival(&drive, 0, 1); /* as short, and later */
    drive_run(&drive, TT_NEVER);
    assert_task(&drive, 0, 1, 1, 0);
    assert_task(&drive, 1, 2, 1, 2 * TT_MS);
    drive_close(&drive);
}

static void max_batch_bounds_a_batch(void **state) {
    (void)state;
    const struct tt_option option = {"max_batch", "2"};
    struct drive drive;
    open_drive(&drive, 1, &option, 1);
    for (int32_t i = 0; i < 5; i++)
        drive_arrival(&drive, 0, 1);
    drive_arrival(&drive, 0, 2)->rows = 4; /* more than the option allows: alone */
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 4);
    assert_task(&drive, 0, 1, 2, 0);
    assert_task(&drive, 1, 1, 2, 3 * TT_MS);
    assert_task(&drive, 2, 1, 1, 6 * TT_MS);
    assert_task(&drive, 3, 2, 1, 8 * TT_MS);
    drive_close(&drive);
}

static void the_lost_are_dropped_if_asked(void **state) {
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        const struct tt_option option = {"drop", drops ? "deadline" : "none"};
        struct drive drive;
        open_drive(&drive, 1, &option, 1);
        drive_arrival(&drive, 0, 0);
        drive_arrival(&drive, 0, 0)->deadline_at = 15 * TT_MS;
        drive_arrival(&drive, 1, 1)->deadline_at = 11 * TT_MS;
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.outcomes[2].ending, drops ? TT_ENDING_DROPPED : TT_ENDING_DONE);
        if (drops) /* 2 ms alone: 9 ms is the last instant at which it may start */
            assert_int_equal(drive.outcomes[2].ended_at, 9 * TT_MS + 1);
        drive_close(&drive);
    }
}

/* The second request becomes the head when the first one runs, and is lost already then. */
static void no_executor_runs_the_lost(void **state) {
    (void)state;
    const struct tt_option options[] = {{"max_batch", "1"}, {"drop", "deadline"}};
    struct drive drive;
    open_drive(&drive, 2, options, 2);
    drive_arrival(&drive, 0, 1);
    drive_arrival(&drive, 0, 1)->deadline_at = 1 * TT_MS;
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 1);
    assert_int_equal(drive.outcomes[1].ending, TT_ENDING_DROPPED);
    assert_int_equal(drive.outcomes[1].ended_at, 0);
    drive_close(&drive);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_batch_goes_first),
        cmocka_unit_test(ties_go_to_the_smaller_model),
        cmocka_unit_test(max_batch_bounds_a_batch),
        cmocka_unit_test(the_lost_are_dropped_if_asked),
        cmocka_unit_test(no_executor_runs_the_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
