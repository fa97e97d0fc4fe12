/* Batches that are joined and divided between the steps of a model: by hand, and in the worked
 * examples of LazyBatching. */
#include "lab/facts/fact_batches.h"
#include "unit/lab/fact_files.h"

/* A batch of step `step` begins with these requests, up to a negative one. */
static void begin(struct tt_fact_batches *batches, int64_t number, int32_t step,
                  const int64_t *requests) {
    struct tt_task task = {.number = number, .first_step = step, .last_step = step};
    while (requests[task.count] >= 0)
        task.count++;
    struct tt_sim_observer observer = tt_fact_batches_observer(batches);
    observer.step_started(observer.context, 0, &task, step, requests);
}

#define BEGIN(number, step, ...) begin(&batches, number, step, (const int64_t[]){__VA_ARGS__, -1})

static void members_show_what_became_of_a_batch(void **state) {
    (void)state;
    struct tt_fact_batches batches = {0};
    BEGIN(0, 0, 0, 1, 2, 3);
    BEGIN(1, 0, 4, 5);
    assert_int_equal(batches.joined + batches.divided, 0);
    BEGIN(2, 1, 0, 1, 2, 3, 4, 5); /* newcomers have caught up */
    assert_int_equal(batches.joined, 1);
    assert_int_equal(batches.divided, 0);
    BEGIN(3, 2, 0, 1, 2);
    assert_int_equal(batches.divided, 0); /* the others may have left */
    BEGIN(4, 2, 3, 4);
    assert_int_equal(batches.divided, 1);
    BEGIN(5, 2, 5); /* a third part divides the same batch */
    assert_int_equal(batches.divided, 1);
    BEGIN(6, 3, 0, 1, 2);
    BEGIN(7, 3, 3, 5, 4); /* joined of two, and neither is divided */
    assert_int_equal(batches.joined, 2);
    assert_int_equal(batches.divided, 1);
    BEGIN(8, 0, 100000); /* far numbers */
    BEGIN(200000, 1, 100000, 100001);
    assert_int_equal(batches.joined, 2); /* a newcomer was in no batch before */
    assert_int_equal(batches.divided, 1);
    assert_int_equal(batches.started, 10);
    tt_fact_batches_fini(&batches);
}

/* A task that runs its steps several times is one batch. */
static void a_task_of_several_steps_is_one_batch(void **state) {
    (void)state;
    struct tt_fact_batches batches = {0};
    struct tt_task task = {.number = 0, .first_step = 0, .last_step = 1, .count = 2};
    struct tt_sim_observer observer = tt_fact_batches_observer(&batches);
    const int64_t requests[] = {0, 1};
    for (int32_t repeat = 0; repeat < 3; repeat++)
        for (int32_t step = 0; step < 2; step++)
            observer.step_started(observer.context, 0, &task, step, requests);
    assert_int_equal(batches.joined + batches.divided, 0);
    tt_fact_batches_fini(&batches);
}

#define EXAMPLE(file, measure)                                                                     \
    "fact { id: \"a\" what: \"w\" ours { experiment: \"" TUTTI_SOURCE_DIR "/experiments/" file     \
    "\" measure: " measure " } holds { at_least: 1 } }"

static void worked_examples_have_their_joins(void **state) {
    (void)state;
    /* Requests 3 to 5 meet 1 and 2 at node C. */
    assert_true(value_of(EXAMPLE("lazybatching/figure8.pbtxt", "BATCHES_JOINED"), NULL) == 1);
    /* 3 meets 2, then both meet 1. */
    assert_true(value_of(EXAMPLE("lazybatching/figure10.pbtxt", "BATCHES_JOINED"), NULL) == 2);
    assert_true(value_of(EXAMPLE("lazybatching/figure10.pbtxt", "BATCHES_DIVIDED"), NULL) == 0);
}

/* On a device that takes half the time for half a batch, DVABatch splits; without the option it
 * does not. */
static void splits_are_counted(void **state) {
    (void)state;
#define SPLITS(option)                                                                             \
    "fact { id: \"a\" what: \"w\" ours { experiment: \"" TUTTI_SOURCE_DIR                          \
    "/experiments/dvabatch/unet.pbtxt\" set: \"duration_s=6\" set: \"contender=high\" set: "       \
    "\"contender=split only\" set: \"step_file=../../data/gpu-titanrtx-saturating-unet.csv\" "     \
    "set: \"option.split=" option "\" measure: BATCHES_DIVIDED } holds { at_least: 1 } }"
    assert_true(value_of(SPLITS("on"), NULL) > 0);
    assert_true(value_of(SPLITS("off"), NULL) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_show_what_became_of_a_batch),
        cmocka_unit_test(a_task_of_several_steps_is_one_batch),
        cmocka_unit_test(worked_examples_have_their_joins),
        cmocka_unit_test(splits_are_counted),
    };
    return cmocka_run_group_tests(tests, fact_files_make, fact_files_remove);
}
