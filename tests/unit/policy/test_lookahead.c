/* Lookahead of the deferred family: a worked case, its limits, and random cases beside the naive
 * plan. TUTTI_SEED selects another seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "policy/deferred/deferred_rank.h"
#include "policy/deferred/lookahead.h"
#include "unit/policy/naive_deferred.h"
#include "unit/seed.h"

enum { REQUESTS = 700, BATCH = 40, CASES = 20000 };

struct bench {
    struct tt_list queue;
    struct tt_ticket tickets[REQUESTS];
    int64_t tail_ns[BATCH + 1], centre_ns[BATCH + 1];
    struct tt_deferred_free_times others;
    struct tt_lookahead plan;
};
static struct bench bench;

static void bench_open(int32_t max_batch, int64_t alpha_ns, int64_t beta_ns, int32_t min_size) {
    bench = (struct bench){.plan = {.latency = bench.tail_ns,
                                    .centre = bench.centre_ns,
                                    .max_batch = max_batch,
                                    .min_size = min_size,
                                    .others = &bench.others}};
    tt_list_init(&bench.queue);
    for (int32_t b = 1; b <= max_batch; b++)
        bench.tail_ns[b] = bench.centre_ns[b] = alpha_ns * b + beta_ns;
}

static void bench_fill(const int64_t *deadline_at, const int *rows, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        bench.tickets[i] = (struct tt_ticket){.deadline_at = deadline_at[i], .rows = rows[i]};
        tt_list_push_back(&bench.queue, &bench.tickets[i].link);
    }
}

/* The number of requests that the fast plan skips. */
static int32_t skipped(int32_t rows) {
    const struct tt_lookahead_group *group =
        tt_lookahead_choose(&bench.plan, bench.queue.head.next, &bench.queue.head, rows);
    if (!group)
        return 0;
    int32_t count = (int32_t)(tt_ticket_at(group->first) - bench.tickets), before = 0;
    for (int32_t i = 0; i < count; i++)
        before += bench.tickets[i].rows;
    assert_int_equal(group->count_before, count);
    assert_int_equal(group->rows_before, before);
    return count;
}

/* l(b) = b + 5. Two requests are due at 6, ten at 15. In order one runs until 6, and then four
 * until 15: one of the two and six of the ten are lost. Without the two one batch of ten is in
 * time. */
static void test_worked_case(void **state) {
    (void)state;
    int64_t deadline_at[12] = {6, 6};
    int rows[12];
    for (int32_t i = 0; i < 12; i++) {
        rows[i] = 1;
        deadline_at[i] = i < 2 ? 6 : 15;
    }
    bench_open(16, 1, 5, 1);
    bench_fill(deadline_at, rows, 12);
    assert_int_equal(skipped(12), 2);
    /* Two executors more, both free, serve all but the one that was due at 6. */
    bench.others = (struct tt_deferred_free_times){.count = 2, .free_at = {-5, 0}};
    assert_int_equal(skipped(12), 0);
    /* With a minimum size of 2 both requests that are due at 6 are skipped anyway. */
    bench.plan.min_size = 2;
    bench.others.count = 0;
    assert_int_equal(skipped(12), 0);
    /* Executors that are not known are free when the last known one is: they lose fewer. */
    bench.plan.min_size = 1;
    bench.others = (struct tt_deferred_free_times){.count = 1, .free_at = {20}};
    assert_int_equal(skipped(12), 2);
    bench.others.more = true;
    assert_int_equal(skipped(12), 2);
    bench.others.free_at[0] = 3;
    assert_int_equal(skipped(12), 0);
}

static int compare_instants(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void one_case(struct tt_prng *prng, int64_t *skips) {
    static int64_t deadline_at[REQUESTS];
    static int rows[REQUESTS];
    int32_t max_batch = 1 + (int32_t)tt_prng_below(prng, BATCH), total = 0;
    int32_t most = tt_prng_below(prng, 20) == 0 ? REQUESTS : 60;
    int32_t count = 1 + (int32_t)tt_prng_below(prng, (uint64_t)most);
    int64_t unit_ns = tt_prng_below(prng, 2) ? 1 : 100;
    int64_t beta_ns = (int64_t)tt_prng_below(prng, 12) * unit_ns;
    bench_open(max_batch, (int64_t)(1 + tt_prng_below(prng, 4)) * unit_ns, beta_ns,
               1 + (int32_t)tt_prng_below(prng, (uint64_t)max_batch));
    if (tt_prng_below(prng, 3) == 0)
        for (int32_t b = 1; b <= max_batch; b++)
            bench.tail_ns[b] += bench.centre_ns[b] / 4;
    bench.plan.start_at = 1000 * unit_ns;
    uint64_t spread = 1 + tt_prng_below(prng, 6), several = tt_prng_below(prng, 3) == 0 ? 3 : 1;
    int64_t at = bench.plan.start_at + (int64_t)tt_prng_below(prng, 80) * unit_ns;
    for (int32_t i = 0; i < count; i++) {
        at += tt_prng_below(prng, 2) ? 0 : (int64_t)tt_prng_below(prng, spread) * unit_ns;
        bool never = i == count - 1 && tt_prng_below(prng, 20) == 0;
        deadline_at[i] = never ? TT_NEVER : at;
        rows[i] = 1 + (int)tt_prng_below(prng, several);
        total += rows[i];
    }
    bench_fill(deadline_at, rows, count);
    struct naive_plan naive = {.tail_ns = bench.tail_ns,
                               .centre_ns = bench.centre_ns,
                               .max_batch = max_batch,
                               .min_size = bench.plan.min_size,
                               .start_at = bench.plan.start_at,
                               .free_count = (int)tt_prng_below(prng, 24),
                               .known_until = TT_NEVER};
    for (int32_t e = 0; e < naive.free_count; e++)
        naive.free_at[e] = (950 + (int64_t)tt_prng_below(prng, 150)) * unit_ns;
    qsort(naive.free_at, (size_t)naive.free_count, sizeof(int64_t), compare_instants);
    bench.others.more = naive.free_count > TT_DEFERRED_FREE_TIMES;
    bench.others.count = bench.others.more ? TT_DEFERRED_FREE_TIMES : naive.free_count;
    memcpy(bench.others.free_at, naive.free_at, sizeof(bench.others.free_at));
    if (bench.others.more)
        naive.known_until =
            tt_instant_max(naive.start_at, naive.free_at[TT_DEFERRED_FREE_TIMES - 1]);
    int32_t expected = naive_plan_skip(&naive, deadline_at, rows, count);
    assert_int_equal(skipped(total), expected);
    *skips += expected > 0;
}

static void test_random_cases(void **state) {
    (void)state;
    uint64_t seed = test_seed(27);
    int64_t skips = 0;
    for (uint64_t i = 0; i < CASES; i++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, i);
        one_case(&prng, &skips);
    }
    print_message("%lld of %d cases skip\n", (long long)skips, CASES);
    assert_true(skips > CASES / 50);
}

/* What the grant of executor 0 of `count` says of the others, for a batch of one of `left` rows;
 * the count is -1 for nothing. Executor e > 0 is free at 900 + 7 (count - e) mod 100. */
static struct tt_deferred_free_times listed(int32_t count, bool lists, int32_t left) {
    struct tt_deferred_rank rank;
    struct tt_deferred_grant grant;
    assert_int_equal(tt_deferred_rank_init(&rank, 1, count, false), TT_OK);
    if (lists)
        assert_int_equal(tt_deferred_rank_free_times_reserve(&rank), TT_OK);
    for (int32_t e = 0; e < count; e++)
        tt_deferred_rank_add(&rank, 0, e, 1);
    for (int32_t e = count - 1; e > 0; e--)
        rank.executors[e].free_at = 900 + (int64_t)(count - e) * 7 % 100;
    struct tt_deferred_candidate candidate = {
        .generation = 1, .size = 1, .left = left, .latest_at = 10};
    tt_deferred_rank_candidate(&rank, 0, &candidate);
    assert_true(tt_deferred_rank_next(&rank, 0, &grant));
    assert_int_equal(grant.executor, 0);
    struct tt_deferred_free_times others = {.count = -1};
    if (grant.others)
        others = *grant.others;
    tt_deferred_rank_fini(&rank);
    return others;
}

static void test_a_grant_lists_free_times(void **state) {
    (void)state;
    struct tt_deferred_free_times others = listed(4, true, 2);
    assert_int_equal(others.count, 3);
    assert_false(others.more);
    assert_int_equal(others.free_at[0], 907);
    assert_int_equal(others.free_at[2], 921);
    assert_int_equal(listed(4, true, 1).count, -1); /* no rows wait behind the batch */
    assert_int_equal(listed(4, false, 2).count, -1);
    assert_int_equal(listed(1, true, 2).count, 0);
    others = listed(TT_DEFERRED_FREE_TIMES + 1, true, 2);
    assert_int_equal(others.count, TT_DEFERRED_FREE_TIMES);
    assert_false(others.more);
    others = listed(64, true, 2);
    assert_int_equal(others.count, TT_DEFERRED_FREE_TIMES);
    assert_true(others.more);
    int64_t all[63];
    for (int32_t e = 1; e < 64; e++)
        all[e - 1] = 900 + (int64_t)(64 - e) * 7 % 100;
    qsort(all, 63, sizeof(all[0]), compare_instants);
    for (int32_t i = 0; i < TT_DEFERRED_FREE_TIMES; i++)
        assert_int_equal(others.free_at[i], all[i]);
    assert_int_equal(listed(65, true, 2).count, -1); /* too many: not listed */
}

/* Executor 1 runs a batch until 10, as expected. */
static int64_t expected_at(int64_t now) {
    struct tt_deferred_rank rank;
    struct tt_deferred_grant grant;
    assert_int_equal(tt_deferred_rank_init(&rank, 2, 2, false), TT_OK);
    assert_int_equal(tt_deferred_rank_free_times_reserve(&rank), TT_OK);
    tt_deferred_rank_add(&rank, 0, 1, 1);
    struct tt_deferred_candidate candidate = {
        .generation = 1, .size = 1, .left = 2, .latest_at = 100};
    tt_deferred_rank_candidate(&rank, 0, &candidate);
    assert_true(tt_deferred_rank_next(&rank, 0, &grant));
    assert_int_equal(grant.executor, 1);
    struct tt_deferred_dispatched dispatched = {
        .executor = 1, .taken = true, .start_at = 0, .free_at = 10};
    tt_deferred_rank_dispatched(&rank, 0, &dispatched);
    tt_deferred_rank_add(&rank, now, 0, 1);
    candidate.model = 1;
    tt_deferred_rank_candidate(&rank, now, &candidate);
    assert_true(tt_deferred_rank_next(&rank, now, &grant));
    assert_int_equal(grant.executor, 0);
    assert_int_equal(grant.others->count, 1);
    int64_t free_at = grant.others->free_at[0];
    tt_deferred_rank_fini(&rank);
    return free_at;
}

static void test_a_stalled_executor_is_expected_later(void **state) {
    (void)state;
    assert_int_equal(expected_at(4), 10);
    assert_int_equal(expected_at(10), 10);
    assert_int_equal(expected_at(13), 16);
    assert_int_equal(expected_at(90), 170);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_case),
        cmocka_unit_test(test_random_cases),
        cmocka_unit_test(test_a_grant_lists_free_times),
        cmocka_unit_test(test_a_stalled_executor_is_expected_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
