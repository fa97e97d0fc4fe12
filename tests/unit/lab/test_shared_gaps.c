#include "lab/load/shared_gaps.h"

#include "lab/load/arrivals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MODELS = 2, KEY = 7 };

/* Draws the load at `rate` from `kept`; the sum of its instants. */
static int64_t draw(struct tt_kept_gaps *kept, int64_t rate, int64_t seconds) {
    const struct tt_arrivals_model models[MODELS] = {{.name = "A", .weight = 3, .rows = 1},
                                                     {.name = "B", .weight = 1, .rows = 1}};
    const struct tt_arrivals_options options = {.models = models,
                                                .model_count = MODELS,
                                                .process = TT_PROCESS_GAMMA,
                                                .shape_ppm = 300000,
                                                .rate = rate * TT_RATE_ONE,
                                                .duration_ns = seconds * TT_S,
                                                .seed = 9,
                                                .kept_gaps = kept};
    struct tt_arrivals *arrivals = tt_arrivals_new(&options);
    struct tt_sim_arrival arrival;
    int64_t sum = 0;
    while (tt_arrivals_next(arrivals, &arrival))
        sum += arrival.at;
    tt_arrivals_free(arrivals);
    return sum;
}

/* What the child of a job does. */
static void store_in_child(struct tt_shared_gaps *shared, int32_t job, uint64_t key,
                           int64_t seconds) {
    tt_shared_gaps_lend(shared, job);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct tt_kept_gaps *kept = tt_kept_gaps_new(MODELS);
        (void)draw(kept, 100, seconds);
        kept->requests = calloc(MODELS, sizeof(*kept->requests));
        kept->requests[0] = 30;
        kept->requests[1] = 10;
        tt_shared_gaps_store(shared, job, key, kept);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool is_known(const struct tt_shared_gaps *shared, uint64_t key) {
    struct tt_kept_gaps *kept = tt_kept_gaps_new(MODELS);
    bool known = tt_shared_gaps_load(shared, key, kept);
    tt_kept_gaps_free(kept);
    return known;
}

/* The gaps of another process are those that this one would draw, also behind the stored ones. */
static void gaps_of_a_child_are_the_gaps(void **state) {
    (void)state;
    struct tt_shared_gaps shared;
    tt_shared_gaps_init(&shared);
    store_in_child(&shared, 0, KEY, 50);
    assert_false(is_known(&shared, KEY)); /* the child may still write */
    tt_shared_gaps_settle(&shared, 0);
    assert_false(is_known(&shared, KEY + 1));
    struct tt_kept_gaps *kept = tt_kept_gaps_new(MODELS);
    assert_true(tt_shared_gaps_load(&shared, KEY, kept));
    assert_true(kept->streams[0].count > 3000);
    assert_int_equal(kept->room, TT_KEPT_GAPS - kept->streams[0].count - kept->streams[1].count);
    assert_int_equal(kept->requests[0], 30);
    assert_int_equal(kept->requests[1], 10);
    for (int64_t rate = 50; rate <= 200; rate *= 2)
        assert_int_equal(draw(kept, rate, 50), draw(NULL, rate, 50));
    tt_kept_gaps_free(kept);
    tt_shared_gaps_fini(&shared);
}

/* Two children that draw the same load at once take one place; one that stores nothing takes none.
 */
static void places_are_used_once(void **state) {
    (void)state;
    struct tt_shared_gaps shared;
    tt_shared_gaps_init(&shared);
    store_in_child(&shared, 0, KEY, 1);
    store_in_child(&shared, 1, KEY, 1);
    tt_shared_gaps_settle(&shared, 1);
    tt_shared_gaps_settle(&shared, 0);
    for (int32_t job = 2; job < 200; job++) {
        tt_shared_gaps_lend(&shared, job);
        tt_shared_gaps_settle(&shared, job);
    }
    int32_t known = 0;
    for (int32_t i = 0; i < TT_SHARED_GAPS_PLACES; i++) {
        known += tt_flag_is_raised(&shared.places[i].is_known);
        assert_int_equal(tt_shared_word_load(&shared.places[i].lent), 0);
    }
    assert_int_equal(known, 1);
    assert_true(is_known(&shared, KEY));
    tt_shared_gaps_fini(&shared);
}

/* Loads beyond the places, or too long for one, are not shared. */
static void what_does_not_fit_is_not_shared(void **state) {
    (void)state;
    struct tt_shared_gaps shared;
    tt_shared_gaps_init(&shared);
    store_in_child(&shared, 0, KEY, 8000);
    tt_shared_gaps_settle(&shared, 0);
    assert_false(is_known(&shared, KEY));
    for (int32_t job = 1; job <= TT_SHARED_GAPS_PLACES + 1; job++) {
        store_in_child(&shared, job, (uint64_t)job, 1);
        tt_shared_gaps_settle(&shared, job);
        assert_int_equal(is_known(&shared, (uint64_t)job), job <= TT_SHARED_GAPS_PLACES);
    }
    tt_shared_gaps_fini(&shared);
}

static uint64_t key_with(uint64_t seed, const char *name, int64_t weight, int64_t shape_ppm,
                         int64_t rate) {
    struct tt_scenario_model model = {.name = (char *)(intptr_t)name, .weight = weight};
    const struct tt_scenario scenario = {.models = &model,
                                         .model_count = 1,
                                         .seed = seed,
                                         .process = TT_PROCESS_GAMMA,
                                         .shape_ppm = shape_ppm,
                                         .rate = rate};
    return tt_shared_gaps_key(&scenario);
}

static void keys_name_the_load(void **state) {
    (void)state;
    uint64_t key = key_with(1, "A", 1, 300000, 10);
    assert_true(key == key_with(1, "A", 1, 300000, 20)); /* gaps do not depend on the rate */
    assert_true(key != key_with(2, "A", 1, 300000, 10));
    assert_true(key != key_with(1, "B", 1, 300000, 10));
    assert_true(key != key_with(1, "A", 2, 300000, 10));
    assert_true(key != key_with(1, "A", 1, 500000, 10));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_of_a_child_are_the_gaps),
        cmocka_unit_test(places_are_used_once),
        cmocka_unit_test(what_does_not_fit_is_not_shared),
        cmocka_unit_test(keys_name_the_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
