/* D9, L4, E7: golden schedules of the window policy (test_policy_naive.c compares it with a naive
 * model). */
#include "unit/policy/drive.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* l(b) = b + 5 ms. */
static const struct drive_model plain = {
    .alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 50 * TT_MS, .max_batch = 8};

static void open(struct drive *drive, int32_t executors, const struct tt_option *options,
                 int32_t count) {
    struct drive_setup setup = {.models = &plain,
                                .model_count = 1,
                                .executors = executors,
                                .policy = "window",
                                .options = options,
                                .option_count = count,
                                .check = true};
    drive_open(drive, &setup);
}

static void expect(const struct drive *drive, int32_t task, int64_t start_at, int32_t rows,
                   int32_t executor) {
    assert_true(task < drive->task_count);
    assert_int_equal(drive->tasks[task].start_at, start_at);
    assert_int_equal(drive->tasks[task].rows, rows);
    assert_int_equal(drive->tasks[task].executor, executor);
}

static void zero_takes_what_is_there(void **state) {
    (void)state;
    struct drive drive;
    open(&drive, 1, NULL, 0);
    for (int64_t at = 0; at <= 12; at++)
        drive_arrival(&drive, at * TT_MS / 2, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 3);
    expect(&drive, 0, 0, 1, 0);
    expect(&drive, 1, 6 * TT_MS, 8, 0); /* 12 wait, 8 fit */
    expect(&drive, 2, 19 * TT_MS, 4, 0);
    drive_close(&drive);
}

static void the_delay_counts_from_the_oldest(void **state) {
    (void)state;
    struct drive drive;
    struct tt_option delay = {"max_delay", "4ms"};
    open(&drive, 2, &delay, 1);
    int64_t at[] = {0, 1, 3, 5, 20, 20, 20, 20, 20, 20, 20, 20, 20};
    for (size_t i = 0; i < TT_COUNT(at); i++)
        drive_arrival(&drive, at[i] * TT_MS, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 4);
    expect(&drive, 0, 4 * TT_MS, 3, 0);
    expect(&drive, 1, 9 * TT_MS, 1, 1);
    expect(&drive, 2, 20 * TT_MS, 8, 0); /* full: at once */
    expect(&drive, 3, 24 * TT_MS, 1, 1);
    drive_close(&drive);
}

static void preferred_sizes_go_at_once(void **state) {
    (void)state;
    static const int32_t preferred[] = {2, 4};
    struct drive drive;
    struct tt_option delay = {"max_delay", "4ms"};
    open(&drive, 3, &delay, 1);
    drive.models[0].preferred = preferred;
    drive.models[0].preferred_count = 2;
    int64_t at[] = {0, 1, 2, 10, 10, 10, 10, 10};
    for (size_t i = 0; i < TT_COUNT(at); i++)
        drive_arrival(&drive, at[i] * TT_MS, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 4);
    expect(&drive, 0, 1 * TT_MS, 2, 0);
    expect(&drive, 1, 6 * TT_MS, 1, 1);
    expect(&drive, 2, 10 * TT_MS, 4, 0); /* 0 is idle since 8, 1 runs until 12 */
    expect(&drive, 3, 14 * TT_MS, 1, 1);
    drive_close(&drive);
}

static void rows_stay_together_and_same_length_skips(void **state) {
    (void)state;
    struct drive drive;
    struct tt_option options[] = {{"same_length", "on"}, {"max_batch", "4"}};
    open(&drive, 2, options, 2);
    int32_t lengths[] = {7, 3, 7, 7, 3};
    for (size_t i = 0; i < TT_COUNT(lengths); i++) {
        struct drive_arrival *arrival = drive_arrival(&drive, 0, 0);
        arrival->length = lengths[i];
        arrival->rows = i == 3 ? 3 : 1;
    }
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 3);
    expect(&drive, 0, 0, 2, 0); /* 7, 7; three more rows would not fit */
    expect(&drive, 1, 0, 2, 1); /* 3, 3 */
    assert_int_equal(drive.members[2], 1);
    assert_int_equal(drive.members[3], 4);
    expect(&drive, 2, 7 * TT_MS, 3, 0);
    drive_close(&drive);
}

static void models_take_turns_or_go_by_age(void **state) {
    (void)state;
    static const char *const orders[] = {"oldest", "round_robin"};
    static const int32_t models[2][4] = {{0, 1, 0, 1}, {0, 1, 0, 1}};
    struct drive_model two[] = {plain, plain};
    two[0].max_batch = two[1].max_batch = 1;
    for (int order = 0; order < 2; order++) {
        struct tt_option option = {"order", orders[order]};
        struct drive_setup setup = {.models = two,
                                    .model_count = 2,
                                    .executors = 1,
                                    .policy = "window",
                                    .options = &option,
                                    .option_count = 1,
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        int32_t arrivals[2][4] = {{0, 1, 0, 1}, {0, 0, 1, 1}};
        for (int i = 0; i < 4; i++)
            drive_arrival(&drive, 0, arrivals[order][i]);
        drive_run(&drive, TT_NEVER);
        for (int i = 0; i < 4; i++)
            assert_int_equal(drive.tasks[i].model, models[order][i]);
        drive_close(&drive);
    }
}

static void the_lost_are_dropped_only_when_asked(void **state) {
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        struct tt_option option = {"drop", drops ? "deadline" : "none"};
        struct drive drive;
        open(&drive, 1, &option, 1);
        drive_arrival(&drive, 0, 0);
        drive_arrival(&drive, 1, 0)->deadline_at = 11 * TT_MS; /* hopeless after 5 ms */
        drive_arrival(&drive, 2, 0)->deadline_at = 12 * TT_MS; /* exactly in time, alone */
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.outcomes[1].ending, drops ? TT_ENDING_DROPPED : TT_ENDING_DONE);
        assert_int_equal(drive.outcomes[1].ended_at, drops ? 5 * TT_MS + 1 : 13 * TT_MS);
        assert_int_equal(drive.outcomes[2].ending, TT_ENDING_DONE);
        assert_int_equal(drive.outcomes[2].ended_at, (drops ? 12 : 13) * TT_MS);
        drive_close(&drive);
    }
}

/* The time left from the end of the first batch on lies between l(1), 6 ms, and its tail, 9 ms. */
static void the_centre_decides_for_one_that_waits_alone(void **state) {
    (void)state;
    const struct drive_model uncertain = {.alpha_ns = TT_MS,
                                          .beta_ns = 5 * TT_MS,
                                          .slo_ns = 50 * TT_MS,
                                          .max_batch = 8,
                                          .tail_percent = 150};
    const struct tt_option option = {"drop", "deadline"};
    enum { ALONE, NOT_ALONE, ALONE_AGAIN };
    for (int it = ALONE; it <= ALONE_AGAIN; it++) {
        struct drive_setup setup = {.models = &uncertain,
                                    .model_count = 1,
                                    .executors = 1,
                                    .policy = "window",
                                    .options = &option,
                                    .option_count = 1,
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        drive_arrival(&drive, 0, 0);
        drive_arrival(&drive, TT_MS, 0)->deadline_at = 13 * TT_MS;
        if (it != ALONE)
            drive_arrival(&drive, 2 * TT_MS, 0)->cancel_at =
                it == ALONE_AGAIN ? 3 * TT_MS : TT_NEVER;
        drive_run(&drive, TT_NEVER);
        bool is_dropped = it == NOT_ALONE;
        assert_int_equal(drive.outcomes[1].ending, is_dropped ? TT_ENDING_DROPPED : TT_ENDING_DONE);
        assert_int_equal(drive.outcomes[1].ended_at, is_dropped ? 4 * TT_MS + 1 : 12 * TT_MS);
        drive_close(&drive);
    }
}

static int64_t padded_duration(void *context, const struct tt_task *task, int64_t planned_ns) {
    int32_t *most = context;
    assert_true(planned_ns > 0);
    assert_int_equal(task->padded_rows, *most);
    return (tt_task_computed_rows(task) + 5) * TT_MS;
}

/* E7: TF-Serving's static batch: whatever its rows, it runs as a full one. */
static void a_padded_batch_is_always_full(void **state) {
    (void)state;
    for (int32_t most = 4; most <= 8; most += 4) {
        struct drive drive;
        struct tt_option options[] = {
            {"static", "padded"}, {"max_delay", "4ms"}, {"max_batch", most == 4 ? "4" : "8"}};
        struct drive_setup setup = {.models = &plain,
                                    .model_count = 1,
                                    .executors = 1,
                                    .policy = "window",
                                    .options = options,
                                    .option_count = 3,
                                    .check = true,
                                    .duration = padded_duration,
                                    .context = &most};
        drive_open(&drive, &setup);
        for (int32_t i = 0; i < 3; i++)
            drive_arrival(&drive, i * TT_MS, 0);
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.task_count, 1);
        expect(&drive, 0, 4 * TT_MS, 3, 0);
        assert_int_equal(drive.outcomes[0].ended_at, (4 + 5 + most) * TT_MS);
        drive_close(&drive);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_takes_what_is_there),
        cmocka_unit_test(the_delay_counts_from_the_oldest),
        cmocka_unit_test(preferred_sizes_go_at_once),
        cmocka_unit_test(rows_stay_together_and_same_length_skips),
        cmocka_unit_test(models_take_turns_or_go_by_age),
        cmocka_unit_test(the_lost_are_dropped_only_when_asked),
        cmocka_unit_test(the_centre_decides_for_one_that_waits_alone),
        cmocka_unit_test(a_padded_batch_is_always_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
