/* The clairvoyant bound and plan beside all schedules of small cases: plan <= optimum <= bound. */
#include "lab/clairvoyant/clairvoyant_bound.h"
#include "lab/clairvoyant/clairvoyant_plan.h"

#include "base/instant.h"
#include "base/prng.h"
#include "lab/scenario/allocate.h"
#include "unit/breach.h"
#include "unit/lab/naive_optimum.h"
#include "unit/seed.h"

#include <stdlib.h>

#include <cmocka.h>

enum { CASES = 3000, ROUNDS = 12, MOST_BATCH = 4 };

static int64_t below(struct tt_prng *prng, int64_t bound) {
    return (int64_t)tt_prng_below(prng, (uint64_t)bound);
}

static int64_t count_bits(uint32_t set) { return __builtin_popcount(set); }

/* Latencies of two models, and windows: of one SLO per model, or any. */
static void draw_case(struct tt_prng *prng, bool one_slo, int64_t latency_ns[2][MOST_BATCH + 1],
                      struct naive_case *out) {
    *out = (struct naive_case){.count = (int32_t)below(prng, 7),
                               .device_count = 1 + (int32_t)below(prng, 3),
                               .model_count = 1 + (int32_t)below(prng, 2)};
    int64_t slo_ns[2];
    for (int32_t m = 0; m < 2; m++) {
        latency_ns[m][0] = 0;
        latency_ns[m][1] = 1 + below(prng, 30);
        for (int32_t b = 2; b <= MOST_BATCH; b++)
            latency_ns[m][b] = latency_ns[m][b - 1] + below(prng, 15);
        out->latency_ns[m] = latency_ns[m];
        out->max_batch[m] = 1 + (int32_t)below(prng, MOST_BATCH);
        slo_ns[m] = below(prng, 100);
    }
    int64_t spread_ns = 1 + below(prng, 120);
    for (int32_t i = 0; i < out->count; i++) {
        out->model[i] = (int32_t)below(prng, out->model_count);
        out->arrived_at[i] = below(prng, spread_ns);
        out->deadline_at[i] =
            out->arrived_at[i] + (one_slo ? slo_ns[out->model[i]] : below(prng, 100));
    }
}

static struct tt_clairvoyant_case make(const struct naive_case *from) {
    struct tt_clairvoyant_case out = {.model_count = from->model_count,
                                      .device_count = from->device_count};
    out.models = tt_allocate((size_t)from->model_count, sizeof(*out.models));
    for (int32_t m = 0; m < from->model_count; m++) {
        struct tt_clairvoyant_model *model = &out.models[m];
        model->arrived_at = tt_allocate(NAIVE_MAX_REQUESTS, sizeof(int64_t));
        model->deadline_at = tt_allocate(NAIVE_MAX_REQUESTS, sizeof(int64_t));
        model->latency_ns = tt_allocate(MOST_BATCH + 1, sizeof(int64_t));
        model->max_batch = from->max_batch[m];
        for (int32_t b = 0; b <= model->max_batch; b++)
            model->latency_ns[b] = from->latency_ns[m][b];
        for (int32_t i = 0; i < from->count; i++) {
            if (from->model[i] != m)
                continue;
            model->arrived_at[model->count] = from->arrived_at[i];
            model->deadline_at[model->count++] = from->deadline_at[i];
        }
        tt_clairvoyant_model_order(model);
    }
    tt_clairvoyant_case_check(&out);
    return out;
}

static struct tt_clairvoyant_bound bound_of(const struct tt_clairvoyant_case *given,
                                            const int64_t *wanted) {
    struct tt_error why = {""};
    const struct tt_clairvoyant_options options = {.rounds = ROUNDS, .wanted = wanted};
    struct tt_clairvoyant_bound out;
    assert_int_equal(tt_clairvoyant_bound(given, &options, &out, &why), TT_OK);
    return out;
}

/* Whatever numbers a schedule serves are never called impossible. */
static void check_wanted(const struct naive_case *naive, const struct tt_clairvoyant_case *given) {
    bool seen[NAIVE_MAX_REQUESTS + 1][NAIVE_MAX_REQUESTS + 1] = {{false}};
    for (uint32_t set = 0; set < 1u << naive->count; set++) {
        if (!naive->served[set])
            continue;
        int64_t wanted[2] = {0};
        for (int32_t i = 0; i < naive->count; i++)
            wanted[naive->model[i]] += set >> i & 1;
        if (!seen[wanted[0]][wanted[1]])
            assert_false(bound_of(given, wanted).impossible);
        seen[wanted[0]][wanted[1]] = true;
    }
}

static int64_t optimum_of(const struct naive_case *naive) {
    int64_t most = 0;
    for (uint32_t set = 0; set < 1u << naive->count; set++)
        if (naive->served[set] && count_bits(set) > most)
            most = count_bits(set);
    return most;
}

struct tally {
    int64_t plans, optimal_plans, sharp_bounds, losing; /* losing: cases that lose a request */
};

static void compare(const struct naive_case *naive, struct tally *tally) {
    struct tt_clairvoyant_case given = make(naive);
    int64_t optimum = optimum_of(naive);
    struct tt_clairvoyant_bound bound = bound_of(&given, NULL);
    assert_int_equal(bound.requests, naive->count);
    assert_true(bound.most >= optimum);
    check_wanted(naive, &given);
    if (optimum < naive->count) {
        tally->losing++;
        tally->sharp_bounds += bound.most == optimum;
    }
    if (given.model_count == 1 && !given.models[0].relaxed) {
        struct tt_clairvoyant_plan plan;
        assert_true(tt_clairvoyant_plan_find(&given, 8, NULL, &plan));
        tt_clairvoyant_plan_check(&plan, &given);
        assert_true(plan.in_time <= optimum);
        tally->plans++;
        tally->optimal_plans += plan.in_time == optimum;
        tt_clairvoyant_plan_fini(&plan);
    }
    tt_clairvoyant_case_fini(&given);
}

static void every_schedule(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(27), 0);
    struct tally tally = {0};
    for (int32_t i = 0; i < CASES; i++) {
        int64_t latency_ns[2][MOST_BATCH + 1];
        struct naive_case naive;
        draw_case(&prng, i % 3 != 0, latency_ns, &naive);
        naive_optimum(&naive);
        compare(&naive, &tally);
    }
    printf("%d cases: %lld of %lld plans optimal; %lld of %lld bounds sharp where one is lost\n",
           CASES, (long long)tally.optimal_plans, (long long)tally.plans,
           (long long)tally.sharp_bounds, (long long)tally.losing);
    /* Neither is far off, whatever the seed. */
    assert_true(tally.optimal_plans * 10 >= tally.plans * 9);
    assert_true(tally.sharp_bounds * 2 >= tally.losing);
}

/* ---- figures that are known ---- */

/* `count` requests that arrive together, ResNet50 of Symphony's table 2. */
static struct tt_clairvoyant_case burst(int32_t count, int32_t devices) {
    struct tt_clairvoyant_case out = {.model_count = 1, .device_count = devices};
    out.models = tt_allocate(1, sizeof(*out.models));
    struct tt_clairvoyant_model *model = out.models;
    *model = (struct tt_clairvoyant_model){.count = count, .max_batch = 64};
    model->arrived_at = tt_allocate((size_t)count + 1, sizeof(int64_t));
    model->deadline_at = tt_allocate((size_t)count + 1, sizeof(int64_t));
    model->latency_ns = tt_allocate(65, sizeof(int64_t));
    for (int32_t i = 0; i < count; i++)
        model->deadline_at[i] = 25 * TT_MS;
    for (int32_t b = 1; b <= 64; b++)
        model->latency_ns[b] = 5072 * TT_US + b * 1053 * TT_US;
    return out;
}

/* Each device runs one batch of 18 (24.026 ms) in 25 ms. */
static void one_burst(void **state) {
    (void)state;
    struct tt_clairvoyant_case given = burst(1000, 8);
    struct tt_clairvoyant_bound bound = bound_of(&given, NULL);
    assert_true(bound.most >= 144);
    assert_true(bound.most <= 150);
    struct tt_clairvoyant_plan plan;
    assert_true(tt_clairvoyant_plan_find(&given, TT_CLAIRVOYANT_WIDTH, NULL, &plan));
    tt_clairvoyant_plan_check(&plan, &given);
    assert_int_equal(plan.in_time, 144);
    tt_clairvoyant_plan_fini(&plan);
    int64_t wanted = 144;
    assert_false(bound_of(&given, &wanted).impossible);
    wanted = 151;
    assert_true(bound_of(&given, &wanted).impossible);
    tt_clairvoyant_case_fini(&given);
}

/* A flat price proves nothing here: the devices are idle for most of the time. */
static void two_bursts_far_apart(void **state) {
    (void)state;
    struct tt_clairvoyant_case given = burst(400, 8);
    for (int32_t i = 200; i < 400; i++) {
        given.models[0].arrived_at[i] += TT_S;
        given.models[0].deadline_at[i] += TT_S;
    }
    struct tt_error why = {""};
    struct tt_clairvoyant_options options = {.rounds = 1};
    struct tt_clairvoyant_bound bound;
    assert_int_equal(tt_clairvoyant_bound(&given, &options, &bound, &why), TT_OK);
    assert_int_equal(bound.most, 400);
    options.rounds = TT_CLAIRVOYANT_ROUNDS;
    assert_int_equal(tt_clairvoyant_bound(&given, &options, &bound, &why), TT_OK);
    assert_true(bound.most >= 288);
    assert_true(bound.most <= 310);
    tt_clairvoyant_case_fini(&given);
}

static void without_requests(void **state) {
    (void)state;
    struct tt_clairvoyant_case given = burst(0, 2);
    assert_int_equal(bound_of(&given, NULL).most, 0);
    struct tt_clairvoyant_plan plan;
    assert_true(tt_clairvoyant_plan_find(&given, 4, NULL, &plan));
    assert_int_equal(plan.in_time, 0);
    tt_clairvoyant_plan_fini(&plan);
    tt_clairvoyant_case_fini(&given);
}

/* A load that would take hours of prices, and a stop. */
static void limits(void **state) {
    (void)state;
    struct tt_clairvoyant_case given = burst(2, 2);
    given.models[0].deadline_at[1] = 5000 * TT_S;
    struct tt_error why = {""};
    struct tt_clairvoyant_options options = {.rounds = 50};
    struct tt_clairvoyant_bound bound;
    assert_int_equal(tt_clairvoyant_bound(&given, &options, &bound, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "4398 s"));
    given.models[0].deadline_at[1] = 25 * TT_MS;
    const volatile sig_atomic_t stop = 1;
    options.stop = &stop;
    assert_int_equal(tt_clairvoyant_bound(&given, &options, &bound, &why), TT_OK);
    assert_true(bound.interrupted);
    assert_int_equal(bound.rounds, 0);
    struct tt_clairvoyant_plan plan;
    assert_false(tt_clairvoyant_plan_find(&given, 4, &stop, &plan));
    tt_clairvoyant_case_fini(&given);
}

/* ---- the checks see what is broken ---- */

static void unordered(void) {
    struct tt_clairvoyant_case given = burst(2, 1);
    given.models[0].arrived_at[0] = 1;
    tt_clairvoyant_case_check(&given);
}

static void two_at_once(void) {
    struct tt_clairvoyant_case given = burst(2, 1);
    struct tt_clairvoyant_batch batches[] = {{0, 0, 1, 0}, {6 * TT_MS, 1, 1, 0}};
    struct tt_clairvoyant_plan plan = {batches, 2, 2};
    tt_clairvoyant_plan_check(&plan, &given);
}

static void too_late(void) {
    struct tt_clairvoyant_case given = burst(1, 1);
    struct tt_clairvoyant_batch batch = {20 * TT_MS, 0, 1, 0};
    struct tt_clairvoyant_plan plan = {&batch, 1, 1};
    tt_clairvoyant_plan_check(&plan, &given);
}

static void broken_ones_are_seen(void **state) {
    (void)state;
    static const struct breach breaches[] = {BREACH(unordered, "arrived_at"),
                                             BREACH(two_at_once, "free_at"),
                                             BREACH(too_late, "deadline_at")};
    assert_all_break(breaches, sizeof(breaches) / sizeof(breaches[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule),
        cmocka_unit_test(one_burst),
        cmocka_unit_test(two_bursts_far_apart),
        cmocka_unit_test(without_requests),
        cmocka_unit_test(limits),
        cmocka_unit_test(broken_ones_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
