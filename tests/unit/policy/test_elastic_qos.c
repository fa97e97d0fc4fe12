/* E6: the QoS condition for two workers: by hand, against a naive fluid model, against the device's
 * own model, and in the search for workers. */
#include "policy/elastic/elastic_qos.h"

#include "base/instant.h"
#include "base/prng.h"
#include "core/device.h"
#include "policy/elastic/elastic_plan.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tt_elastic_pair pair(int64_t first, int64_t other, int64_t promise) {
    return (struct tt_elastic_pair){.first_ns = first,
                                    .other_ns = other,
                                    .promise_ns = promise,
                                    .first_demand_ppm = TT_DEMAND_WHOLE,
                                    .other_demand_ppm = TT_DEMAND_WHOLE};
}

/* ---- by hand ---- */

/* 10 and 6 units of work in equal shares. Begun at once, worker 2 ends at 12 and worker 1 at 16.
 * Worker 2 begun at 5: worker 1 ends at 15, and worker 2 11 after its begin. */
static void equal_shares(void **state) {
    (void)state;
    struct tt_elastic_pair p = pair(10, 6, 16);
    assert_true(tt_elastic_pair_keeps(&p, 0));
    assert_int_equal(tt_elastic_pair_launch(&p), 0);
    p = pair(10, 6, 15);
    assert_false(tt_elastic_pair_keeps(&p, 0));
    assert_false(tt_elastic_pair_keeps(&p, 4));
    assert_true(tt_elastic_pair_keeps(&p, 5));
    assert_int_equal(tt_elastic_pair_launch(&p), 5);
    p = pair(10, 6, 10); /* worker 1 has no time to lose */
    assert_int_equal(tt_elastic_pair_launch(&p), 10);
    p = pair(10, 6, 9);
    assert_int_equal(tt_elastic_pair_launch(&p), TT_NEVER);
    p = pair(6, 10, 9); /* worker 2 is too slow alone */
    assert_int_equal(tt_elastic_pair_launch(&p), TT_NEVER);
    p = pair(0, 10, 10); /* no others */
    assert_int_equal(tt_elastic_pair_launch(&p), 0);
    p = pair(INT64_MAX / 4, INT64_MAX / 4, TT_NEVER);
    assert_true(tt_elastic_pair_keeps(&p, 0));
}

/* Worker 2 gets three quarters: 6 units take it 8. Begun at once worker 1 ends at 16 as before;
 * begun at 3, worker 1 (7 left) has done 2 when worker 2 ends at 11, and ends at 16. So only what
 * is left of worker 1 at the end can help: it ends first if it has at most 2 left. */
static void unequal_shares(void **state) {
    (void)state;
    struct tt_elastic_pair p = pair(10, 6, 15);
    p.first_demand_ppm = TT_DEMAND_WHOLE / 4;
    p.other_demand_ppm = TT_DEMAND_WHOLE / 4 * 3;
    assert_false(tt_elastic_pair_keeps(&p, 3));
    assert_false(tt_elastic_pair_keeps(&p, 8)); /* 2 left take 8: worker 1 ends at 16 */
    assert_true(tt_elastic_pair_keeps(&p, 9));  /* 1 left takes 4: at 13 */
    assert_int_equal(tt_elastic_pair_launch(&p), 9);
}

/* ---- a naive model: fluids, one event after the other ---- */

/* -1: too late, 1: in time, 0: too near to say. */
static int in_time(long double end, long double limit) {
    if (end < limit - 1e-6L)
        return 1;
    return end > limit + 1e-6L ? -1 : 0;
}

static int naive_keeps(const struct tt_elastic_pair *p, int64_t launch_ns) {
    long double left[2] = {(long double)(p->first_ns - launch_ns), (long double)p->other_ns};
    long double share[2] = {(long double)p->first_demand_ppm, (long double)p->other_demand_ppm};
    long double at = (long double)launch_ns, end[2] = {at, 0};
    bool runs[2] = {left[0] > 0, true};
    while (runs[0] || runs[1]) {
        long double all = (runs[0] ? share[0] : 0) + (runs[1] ? share[1] : 0), step = 1e30L;
        for (int w = 0; w < 2; w++)
            if (runs[w] && left[w] * all / share[w] < step)
                step = left[w] * all / share[w];
        at += step;
        for (int w = 0; w < 2; w++) {
            left[w] -= runs[w] ? step * share[w] / all : 0;
            if (runs[w] && left[w] < 1e-9L) {
                runs[w] = false;
                end[w] = at;
            }
        }
    }
    int first = in_time(end[0], (long double)p->promise_ns);
    int second = in_time(end[1] - (long double)launch_ns, (long double)p->promise_ns);
    return first < second ? first : second;
}

static int64_t below(struct tt_prng *prng, int64_t limit) {
    return (int64_t)tt_prng_below(prng, (uint64_t)limit);
}

static void as_a_naive_model(void **state) {
    (void)state;
    struct tt_prng prng;
    int64_t kept = 0, refused = 0;
    tt_prng_init(&prng, test_seed(3), 0);
    for (int i = 0; i < 20000; i++) {
        struct tt_elastic_pair p =
            pair(1 + below(&prng, 40), 1 + below(&prng, 40), 1 + below(&prng, 80));
        p.first_demand_ppm = 1 + (int32_t)below(&prng, TT_DEMAND_WHOLE);
        p.other_demand_ppm = 1 + (int32_t)below(&prng, TT_DEMAND_WHOLE);
        int64_t launch = tt_elastic_pair_launch(&p);
        for (int64_t at = 0; at <= p.first_ns; at++) {
            bool keeps = tt_elastic_pair_keeps(&p, at);
            int naive = naive_keeps(&p, at);
            assert_true(naive == 0 || keeps == (naive > 0));
            assert_int_equal(keeps, at >= launch); /* a later launch never breaks it */
            kept += keeps;
            refused += !keeps;
        }
    }
    assert_true(kept > 1000 && refused > 1000);
}

/* ---- workers of a profile ---- */

static struct tt_profile *random_profile(struct tt_prng *prng) {
    struct tt_profile *profile;
    struct tt_error why;
    assert_int_equal(
        tt_profile_new_linear(1 + below(prng, 1000), 1 + below(prng, 4000), 16, &profile, &why),
        TT_OK);
    int32_t least = 1 + (int32_t)below(prng, TT_DEMAND_WHOLE);
    for (int32_t b = 0; b <= 16; b++) /* larger batches demand no less */
        profile->demand_ppm[b] = least + (int32_t)((int64_t)(TT_DEMAND_WHOLE - least) * b / 16);
    return profile;
}

/* The last end of the others, and the newcomer's, on a device of the kind that runs them. */
static bool run_beside(const struct tt_profile *profile, const int32_t *counts, int32_t newcomer,
                       int64_t launch, int64_t promise) {
    struct tt_device_run runs[TT_ELASTIC_MAX_TOTAL];
    struct tt_device device = {.capacity = TT_ELASTIC_MAX_TOTAL, .runs = runs};
    int32_t worker = 0;
    bool in_time = true, is_launched = false;
    for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
        for (int32_t i = k == newcomer; i < counts[k]; i++)
            tt_device_start(&device, 0, ++worker, tt_profile_latency(profile, 1 << k, 0),
                            tt_profile_demand(profile, 1 << k, 0));
    for (;;) {
        int64_t at = tt_device_next_at(&device);
        if (!is_launched && at >= launch) {
            tt_device_start(&device, launch, 0, tt_profile_latency(profile, 1 << newcomer, 0),
                            tt_profile_demand(profile, 1 << newcomer, 0));
            is_launched = true;
            continue;
        }
        if (at == TT_NEVER)
            return in_time;
        int32_t ended;
        while ((ended = tt_device_take_ended(&device, at)) >= 0) /* < 1 ns is lost per change */
            in_time &= at <= promise + TT_ELASTIC_MAX_TOTAL + (ended == 0 ? launch : 0);
    }
}

/* The best choice of all that the condition lets pass, tried one by one. */
static void demand_best(const struct tt_profile *profile, int32_t total, int64_t promise,
                        int64_t *kept) {
    static int32_t choices[TT_ELASTIC_MAX_CHOICES][TT_ELASTIC_SIZES];
    int32_t available[TT_ELASTIC_SIZES],
        count = tt_elastic_choices(total, 16, choices, TT_ELASTIC_MAX_CHOICES);
    for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
        available[k] = total;
    struct tt_elastic_choice found = tt_elastic_plan_within(profile, available, total, promise);
    long double best = 1e30L;
    int32_t keep = 0;
    for (int pass = 0; pass < 2 && keep == 0; pass++)
        for (int32_t i = 0; i < count; i++) {
            int32_t workers = 0;
            bool keeps = true;
            for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++) {
                workers += choices[i][k];
                if (choices[i][k] == 0)
                    continue;
                const struct tt_elastic_pair p =
                    tt_elastic_pair_of(profile, choices[i], 1 << k, promise);
                keeps &= p.first_ns + p.other_ns <= promise; /* all work is done by then */
            }
            assert_int_equal(keeps, tt_elastic_keeps(profile, choices[i], promise));
            keep += keeps;
            long double mean =
                (long double)tt_elastic_corun(profile, choices[i]) / (long double)workers;
            if ((keeps || pass == 1) && mean < best)
                best = mean;
        }
    assert_int_equal(found.kept, keep);
    assert_int_equal(found.keeps, keep > 0);
    assert_true((long double)found.latency_sum / found.worker_count <= best * (1 + 1e-12L));
    assert_true((long double)found.latency_sum / found.worker_count >= best * (1 - 1e-12L));
    *kept += keep;
}

static void the_search_takes_what_keeps_the_promise(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(5), 0);
    int64_t kept = 0, tried = 0;
    for (int i = 0; i < 60; i++) {
        struct tt_profile *profile = random_profile(&prng);
        int32_t total = 4 << below(&prng, 3);
        int64_t promise = tt_profile_latency(profile, 1, 0) * (1 + below(&prng, 12));
        demand_best(profile, total, promise, &kept);
        tried++;
        int32_t available[TT_ELASTIC_SIZES] = {total, total, total, total, total};
        struct tt_elastic_choice best = tt_elastic_plan_within(profile, available, total, promise);
        for (int32_t k = 0; best.keeps && k < TT_ELASTIC_SIZES; k++) {
            if (best.counts[k] == 0)
                continue;
            const struct tt_elastic_pair p =
                tt_elastic_pair_of(profile, best.counts, 1 << k, promise);
            for (int n = 0; n < 8; n++)
                assert_true(
                    run_beside(profile, best.counts, k, below(&prng, p.first_ns + 1), promise));
        }
        tt_profile_free(profile);
    }
    assert_true(kept > tried);
}

/* 1 us and 1 us a row, on a full device. For 8 rows, 8 alone take 9 us; 4 and 4 take 10 us both.
 * Without the whole device at their hands two workers of 4 do not keep 9.5 us. */
static void a_promise_changes_the_choice(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(1000, 1000, 16, &profile, &why), TT_OK);
    for (int32_t b = 0; b <= 16; b++)
        profile->demand_ppm[b] = b <= 4 ? TT_DEMAND_WHOLE / 2 : TT_DEMAND_WHOLE;
    int32_t available[TT_ELASTIC_SIZES] = {0, 0, 2, 1};
    struct tt_elastic_choice best = tt_elastic_plan_within(profile, available, 8, TT_NEVER);
    assert_int_equal(best.counts[2], 2); /* both end at 5 us */
    assert_int_equal(best.kept, 2);
    best = tt_elastic_plan_within(profile, available, 8, 10000);
    assert_int_equal(best.counts[2], 2); /* 5 and 5 of work */
    best = tt_elastic_plan_within(profile, available, 8, 9999);
    assert_int_equal(best.counts[3], 1); /* the condition does not count on the free half */
    assert_int_equal(best.kept, 1);
    assert_true(best.keeps);
    best = tt_elastic_plan_within(profile, available, 8, 8999);
    assert_int_equal(best.counts[2], 2); /* none keeps it */
    assert_int_equal(best.kept, 0);
    assert_false(best.keeps);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_shares),
        cmocka_unit_test(unequal_shares),
        cmocka_unit_test(as_a_naive_model),
        cmocka_unit_test(the_search_takes_what_keeps_the_promise),
        cmocka_unit_test(a_promise_changes_the_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
