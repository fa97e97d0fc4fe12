/* When a run is cut, and when it is given up: by the watchdog's own time. */
#include "serve/run_watch.h"

#include "base/err.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TICK = 10, LIMIT = 100, PATIENCE = 50 };

static enum tt_run_verdict look(struct tt_run_watch *self, int64_t started_at) {
    return tt_run_watch_look(self, started_at, TICK, LIMIT, PATIENCE);
}

static void test_cut_then_given_up(void **state) {
    (void)state;
    struct tt_run_watch watch = {0};
    assert_int_equal(look(&watch, 7), TT_RUN_GOES_ON); /* seen for the first time: 0 */
    for (int i = 0; i < LIMIT / TICK; i++)
        assert_int_equal(look(&watch, 7), TT_RUN_GOES_ON);
    assert_int_equal(look(&watch, 7), TT_RUN_CUT);
    for (int i = 0; i < PATIENCE / TICK; i++)
        assert_int_equal(look(&watch, 7), TT_RUN_GOES_ON);
    assert_int_equal(look(&watch, 7), TT_RUN_GIVE_UP);
    assert_int_equal(look(&watch, 7), TT_RUN_GIVE_UP); /* until the caller acts */
    assert_int_equal(look(&watch, 8), TT_RUN_GOES_ON); /* another run */
    for (int i = 0; i < LIMIT / TICK; i++)
        assert_int_equal(look(&watch, 8), TT_RUN_GOES_ON);
    assert_int_equal(look(&watch, 8), TT_RUN_CUT);
}

static void test_an_idle_executor_begins_again(void **state) {
    (void)state;
    struct tt_run_watch watch = {0};
    for (int i = 0; i < LIMIT / TICK; i++)
        look(&watch, 0); /* instant 0 is an instant like others */
    tt_run_watch_idle(&watch);
    for (int i = 0; i <= LIMIT / TICK; i++)
        assert_int_equal(look(&watch, 0), TT_RUN_GOES_ON);
    assert_int_equal(look(&watch, 0), TT_RUN_CUT);
}

static void test_no_limit(void **state) {
    (void)state;
    struct tt_run_watch watch = {0};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(tt_run_watch_look(&watch, 1, INT32_MAX, 0, PATIENCE), TT_RUN_GOES_ON);
}

/* Runs of random lengths: none below the limit is cut, each one over it by two ticks is. */
static void test_random_runs(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(21), 0);
    for (int i = 0; i < 2000; i++) {
        struct tt_run_watch watch = {0};
        int64_t first = (int64_t)tt_prng_below(&prng, TICK); /* its start to the first look */
        int64_t length = 1 + (int64_t)tt_prng_below(&prng, 3 * LIMIT);
        bool is_cut = false;
        for (int64_t at = first; at < length && !is_cut; at += TICK) {
            is_cut = look(&watch, 1) == TT_RUN_CUT;
            if (is_cut)
                assert_true(at > LIMIT);
        }
        if (length <= LIMIT)
            assert_false(is_cut);
        if (length > LIMIT + 2 * TICK)
            assert_true(is_cut);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_then_given_up),
        cmocka_unit_test(test_an_idle_executor_begins_again),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_random_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
