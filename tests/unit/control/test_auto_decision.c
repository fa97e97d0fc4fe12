/* When policy auto changes the policy, against a naive model that compares fractions, and when it
 * may compare again. */
#include "base/instant.h"
#include "base/prng.h"
#include "unit/control/naive_auto.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORLDS = 20000, MOST = 6 };

static void agrees_with_the_naive_model(void **state) {
    (void)state;
    struct tt_prng prng = {0};
    tt_prng_init(&prng, test_seed(1950), 0);
    int32_t seen[3] = {0};
    for (int32_t world = 0; world < WORLDS; world++) {
        struct tt_auto_result results[MOST];
        int32_t count = 1 + (int32_t)tt_prng_below(&prng, MOST);
        int32_t current = (int32_t)tt_prng_below(&prng, (uint64_t)count);
        int32_t permille = 10 + (int32_t)tt_prng_below(&prng, 100);
        int64_t spread = tt_prng_below(&prng, 2) ? 3 : 60;
        for (int32_t i = 0; i < count; i++) {
            results[i].is_valid = tt_prng_below(&prng, 10) > 0;
            results[i].faster.on_time = 150 + (int64_t)tt_prng_below(&prng, 20);
            for (int32_t h = 0; h < TT_AUTO_HALVES; h++) {
                int64_t on_time = 100 + (int64_t)tt_prng_below(&prng, (uint64_t)spread);
                int64_t answered = on_time + (int64_t)tt_prng_below(&prng, 3);
                results[i].halves[h] = (struct tt_auto_half){
                    .on_time = on_time,
                    .answered = answered,
                    .latency_ns = answered * (900 + (int64_t)tt_prng_below(&prng, 200))};
            }
        }
        struct tt_auto_verdict verdict = tt_auto_decide(results, count, current, permille);
        struct tt_auto_verdict naive = naive_verdict(results, count, current, permille);
        assert_int_equal(verdict.reason, naive.reason);
        assert_int_equal(verdict.choice, naive.choice);
        for (int32_t h = 0; h < TT_AUTO_HALVES; h++)
            assert_true(verdict.reason == TT_AUTO_STAYS ? verdict.gain_permille[h] == 0
                                                        : verdict.gain_permille[h] >= permille);
        seen[verdict.reason]++;
        /* What the log says of a policy that stays does not contradict the decision. */
        struct tt_auto_closest closest = tt_auto_closest_of(results, count, current, permille);
        assert_true(closest.choice >= -1);
        assert_true(closest.choice != current);
        if (closest.choice < 0 || !results[current].is_valid)
            continue;
        assert_true(results[closest.choice].is_valid);
        int32_t least = closest.gain_permille[0] < closest.gain_permille[1]
                            ? closest.gain_permille[0]
                            : closest.gain_permille[1];
        if (verdict.reason == TT_AUTO_STAYS)
            assert_true(least < permille || closest.fails_at_twice_the_rate);
        else
            assert_true(least >= permille);
    }
    for (int32_t reason = 0; reason < 3; reason++)
        assert_true(seen[reason] > WORLDS / 100);
}

#define RESULT(a, b, ns)                                                                           \
    {                                                                                              \
        .is_valid = true, .halves = {                                                              \
            {.on_time = a, .answered = a, .latency_ns = (int64_t)(a) * (ns)},                      \
            {.on_time = b, .answered = b, .latency_ns = (int64_t)(b) * (ns)}                       \
        }                                                                                          \
    }

static void the_limit_itself_is_enough(void **state) {
    (void)state;
    const struct tt_auto_result enough[] = {RESULT(1000, 1000, 50), RESULT(1050, 1050, 50)};
    const struct tt_auto_result less[] = {RESULT(1000, 1000, 50), RESULT(1050, 1049, 50)};
    assert_int_equal(tt_auto_decide(enough, 2, 0, 50).choice, 1);
    assert_int_equal(tt_auto_decide(less, 2, 0, 50).choice, 0);
    assert_int_equal(tt_auto_best_gain(less, 2, 0), 49);
    assert_int_equal(tt_auto_best_gain(less, 2, 1), 0);
}

static void one_half_alone_decides_nothing(void **state) {
    (void)state;
    const struct tt_auto_result results[] = {RESULT(1000, 1000, 50), RESULT(1000, 2000, 50),
                                             RESULT(2000, 1000, 50), RESULT(1000, 1000, 49)};
    assert_int_equal(tt_auto_decide(results, 4, 0, 50).reason, TT_AUTO_STAYS);
}

static void requests_on_time_go_before_latency(void **state) {
    (void)state;
    const struct tt_auto_result results[] = {RESULT(1000, 1000, 50), RESULT(1000, 1000, 10),
                                             RESULT(1100, 1100, 600), RESULT(1100, 1100, 550),
                                             RESULT(1105, 1105, 547)};
    struct tt_auto_verdict verdict = tt_auto_decide(results, 5, 0, 50);
    assert_int_equal(verdict.reason, TT_AUTO_ON_TIME);
    assert_int_equal(verdict.choice, 3);
    assert_int_equal(verdict.gain_permille[0], 100);
    verdict = tt_auto_decide(results, 2, 0, 50);
    assert_int_equal(verdict.reason, TT_AUTO_LATENCY);
    assert_int_equal(verdict.gain_permille[1], 800);
}

static void more_load_must_not_ruin_it(void **state) {
    (void)state;
    struct tt_auto_result results[] = {RESULT(1000, 1000, 50), RESULT(1000, 1000, 10)};
    results[0].faster.on_time = 1000;
    results[1].faster.on_time = 949;
    assert_int_equal(tt_auto_decide(results, 2, 0, 50).reason, TT_AUTO_STAYS);
    results[1].faster.on_time = 950;
    assert_int_equal(tt_auto_decide(results, 2, 0, 50).reason, TT_AUTO_LATENCY);
}

static void answers_that_are_missing_are_not_fast(void **state) {
    (void)state;
    struct tt_auto_result results[] = {RESULT(1000, 1000, 50), RESULT(1000, 1000, 10)};
    results[0].halves[0].answered = 1200; /* late ones, too */
    results[0].halves[0].latency_ns = 1200 * 50;
    assert_int_equal(tt_auto_decide(results, 2, 0, 50).reason, TT_AUTO_STAYS);
}

static void any_request_on_time_is_more_than_none(void **state) {
    (void)state;
    const struct tt_auto_result results[] = {RESULT(0, 0, 50), RESULT(1, 1, 50)};
    struct tt_auto_verdict verdict = tt_auto_decide(results, 2, 0, 1000);
    assert_int_equal(verdict.choice, 1);
    assert_int_equal(verdict.gain_permille[0], TT_AUTO_MAX_GAIN);
}

/* Over any number of comparisons the thread takes at most its share of the time. */
static void the_budget_holds(void **state) {
    (void)state;
    struct tt_prng prng = {0};
    tt_prng_init(&prng, test_seed(1922), 0);
    int64_t at = 0, used_ns = 0;
    for (int32_t i = 0; i < 1000; i++) {
        int64_t cpu_ns = (int64_t)tt_prng_below(&prng, 2 * TT_S);
        int64_t interval_ns = 1 + (int64_t)tt_prng_below(&prng, 60 * TT_S);
        int64_t next_at = tt_auto_next_at(at, interval_ns, cpu_ns);
        assert_true(next_at >= at + interval_ns);
        used_ns += cpu_ns;
        assert_true(used_ns * 1000 <= next_at * TT_AUTO_BUDGET_PERMILLE);
        at = next_at;
    }
    assert_int_equal(tt_auto_next_at(5, 7, 0), 12);
    assert_int_equal(tt_auto_next_at(5, TT_NEVER, 0), TT_NEVER);
    assert_int_equal(tt_auto_next_at(5, 1, TT_NEVER / 2), TT_NEVER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_naive_model),
        cmocka_unit_test(the_limit_itself_is_enough),
        cmocka_unit_test(one_half_alone_decides_nothing),
        cmocka_unit_test(requests_on_time_go_before_latency),
        cmocka_unit_test(more_load_must_not_ruin_it),
        cmocka_unit_test(answers_that_are_missing_are_not_fast),
        cmocka_unit_test(any_request_on_time_is_more_than_none),
        cmocka_unit_test(the_budget_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
