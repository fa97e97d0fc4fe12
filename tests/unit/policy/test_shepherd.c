/* S5: the largest candidate, and the abort at three times. */
#include "base/prng.h"
#include "unit/policy/drive.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct drive_model model = {
    .alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 50 * TT_MS, .max_batch = 8};

static void three_times_as_many_abort(void **state) {
    (void)state;
    for (int tight = 0; tight < 2; tight++) {
        struct drive_setup setup = {.models = &model,
                                    .model_count = 1,
                                    .executors = 1,
                                    .policy = "shepherd",
                                    .abort_ns = TT_MS,
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        struct drive_arrival *first = drive_arrival(&drive, 0, 0);
        if (tight)
            first->deadline_at = 8 * TT_MS; /* in time when it starts by 2 */
        drive_arrival(&drive, TT_MS, 0);
        drive_arrival(&drive, TT_MS, 0); /* two: not enough */
        drive_arrival(&drive, 2 * TT_MS, 0);
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.task_count, 2);
        assert_int_equal(drive.tasks[0].outcome, TT_OUTCOME_ABORTED);
        assert_int_equal(drive.tasks[0].end_at, 3 * TT_MS);
        assert_int_equal(drive.tasks[1].start_at, 3 * TT_MS);
        assert_int_equal(drive.tasks[1].rows, tight ? 3 : 4);
        assert_int_equal(drive.outcomes[0].ending, tight ? TT_ENDING_DROPPED : TT_ENDING_DONE);
        drive_close(&drive);
    }
}

/* In every case a batch is aborted only while at least three times its rows wait, and no request
 * runs late. */
static void aborts_only_for_three_times(void **state) {
    (void)state;
    int32_t aborts = 0;
    for (uint64_t seed = test_seed(1), end = seed + 100; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct drive_setup setup = {.models = &model,
                                    .model_count = 1,
                                    .executors = 2,
                                    .policy = "shepherd",
                                    .abort_ns = 1 + (int64_t)tt_prng_below(&prng, 3000000),
                                    .check = true};
        struct drive drive;
        drive_open(&drive, &setup);
        int64_t at = 0;
        for (int i = 0; i < 80; i++)
            drive_arrival(&drive, at += (int64_t)tt_prng_below(&prng, 4) * TT_MS, 0);
        drive_run(&drive, TT_NEVER);
        for (int32_t t = 0; t < drive.task_count; t++) {
            const struct drive_task *task = &drive.tasks[t];
            if (task->outcome != TT_OUTCOME_ABORTED)
                continue;
            int64_t aborted_at = task->end_at - setup.abort_ns;
            int32_t waiting = 0;
            for (int32_t i = 0; i < drive.arrival_count; i++) {
                bool running = false;
                for (int32_t k = 0; k < drive.task_count; k++)
                    for (int32_t m = 0; m < drive.tasks[k].count; m++)
                        running |= drive.members[drive.tasks[k].first + m] == i &&
                                   drive.tasks[k].start_at <= aborted_at &&
                                   drive.tasks[k].end_at > aborted_at;
                waiting += !running && drive.arrivals[i].at <= aborted_at &&
                           drive.outcomes[i].ended_at > aborted_at;
            }
            aborts++;
            if (waiting < 3 * task->rows)
                fail_msg("seed %d: %d waited when %d were aborted", (int)seed, waiting, task->rows);
        }
        for (int32_t i = 0; i < drive.arrival_count; i++)
            if (drive.outcomes[i].ending == TT_ENDING_DONE)
                assert_true(drive.outcomes[i].ended_at <= drive.arrivals[i].deadline_at);
        drive_close(&drive);
    }
    assert_true(aborts > 0);
}

/* Two executors become idle together and no request waits: the claim of the second ends. */
static void a_promise_ends_when_nothing_waits(void **state) {
    (void)state;
    enum { A, B, C };
    struct drive_model models[] = {model, model, model};
    models[C].beta_ns = 0;
    struct drive_setup setup = {.models = models,
                                .model_count = 3,
                                .executors = 2,
                                .policy = "shepherd",
                                .abort_ns = TT_MS,
                                .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 0, C)->rows = 2; /* ends at 2 on executor 0 */
    drive_arrival(&drive, 0, B)->cancel_at = TT_MS + 1;
    for (int i = 0; i < 3; i++)
        drive_arrival(&drive, TT_MS, A)->cancel_at = TT_MS + 1; /* aborts executor 1 at 2 */
    static const int32_t rows[] = {[A] = 3, [B] = 5, [C] = 4};
    for (int m = A; m <= C; m++)
        for (int i = 0; i < rows[m]; i++)
            drive_arrival(&drive, 10 * TT_MS, m);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.tasks[1].outcome, TT_OUTCOME_ABORTED);
    assert_int_equal(drive.tasks[1].end_at, 2 * TT_MS);
    assert_int_equal(drive.tasks[2].model, B);
    assert_int_equal(drive.tasks[2].executor, 0);
    assert_int_equal(drive.tasks[3].model, C);
    assert_int_equal(drive.tasks[3].executor, 1);
    drive_close(&drive);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_times_as_many_abort),
        cmocka_unit_test(aborts_only_for_three_times),
        cmocka_unit_test(a_promise_ends_when_nothing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
