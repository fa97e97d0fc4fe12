/* D7: the demand of batches on an emulated device in virtual time (core/device.h), whose demand is
 * known, is recovered from the instants at which runs started and ended. Stated tolerances: copies
 * without noise 100 millionths (a device loses up to 1 ns at each start and end); copies with 5 %
 * of noise 3 %; steps beside other steps 10 %. */
#include "core/device.h"
#include "core/profile.h"
#include "profile/demand_estimate.h"
#include "profile/repetition.h"
#include "unit/seed.h"

#include "base/instant.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_RUNS = 4000, MAX_STEPS = 3 };

/* A device on which every executor runs the steps in turn, again and again. With `prefixes`,
 * executor 0 runs a random number of first steps before it begins again, as contention.h says. */
struct fleet {
    bool prefixes;
    int32_t executors, step_count;
    int64_t work_ns[MAX_STEPS];
    int32_t demand_ppm[MAX_STEPS];
    int32_t noise_permille;
    int64_t pause_ns; /* between two runs of an executor */
    int64_t until_at;
};

struct played {
    int64_t started_at, ended_at;
    int32_t executor, step, end; /* end: its last step of this cycle */
};

struct play {
    const struct fleet *fleet;
    struct tt_device device;
    struct tt_prng prng;
    struct played current[TT_DEMAND_MAX_EXECUTORS]; /* ended_at: TT_NEVER while it runs, else when
                                                       the next one may start */
    struct played runs[MAX_RUNS];
    int32_t run_count;
};

static void begin(struct play *play, int32_t executor, int64_t now) {
    struct played *run = &play->current[executor];
    const struct fleet *fleet = play->fleet;
    int64_t work_ns = fleet->work_ns[run->step];
    uint64_t width = 2 * (uint64_t)fleet->noise_permille + 1;
    int64_t noise = (int64_t)tt_prng_below(&play->prng, width) - fleet->noise_permille;
    tt_device_start(&play->device, now, executor, work_ns + work_ns * noise / 1000,
                    fleet->demand_ppm[run->step]);
    run->started_at = now;
    run->ended_at = TT_NEVER;
}

static void go_on(struct play *play, struct played *run, int32_t executor) {
    int32_t steps = play->fleet->step_count;
    run->step = run->step == run->end ? 0 : run->step + 1;
    bool is_random = play->fleet->prefixes && executor == 0;
    if (run->step == 0)
        run->end = is_random ? (int32_t)tt_prng_below(&play->prng, (uint64_t)steps) : steps - 1;
}

static int64_t next_at(const struct play *play) {
    int64_t at = tt_device_next_at(&play->device);
    for (int32_t e = 0; e < play->fleet->executors; e++)
        at = tt_instant_min(at, play->current[e].ended_at);
    return at;
}

static void play_at(struct play *play, int64_t now) {
    int32_t executor;
    while ((executor = tt_device_take_ended(&play->device, now)) >= 0) {
        struct played *run = &play->current[executor];
        assert_true(play->run_count < MAX_RUNS);
        play->runs[play->run_count++] =
            (struct played){run->started_at, now, executor, run->step, run->end};
        go_on(play, run, executor);
        run->ended_at = now + play->fleet->pause_ns;
    }
    for (int32_t e = 0; e < play->fleet->executors; e++)
        if (play->current[e].ended_at <= now && now < play->fleet->until_at)
            begin(play, e, now);
}

static void play_all(struct play *play, const struct fleet *fleet, uint64_t seed) {
    *play = (struct play){.fleet = fleet};
    assert_int_equal(tt_device_init(&play->device, fleet->executors), TT_OK);
    tt_prng_init(&play->prng, seed, 1);
    for (int32_t e = 0; e < fleet->executors; e++) /* they do not begin together */
        play->current[e] =
            (struct played){.ended_at = 1 + e * 137 * TT_US, .end = fleet->step_count - 1};
    for (int64_t at = next_at(play); at < fleet->until_at; at = next_at(play))
        play_at(play, at);
    /* What runs goes on to its end. */
    for (int64_t at; (at = tt_device_next_at(&play->device)) != TT_NEVER;)
        play_at(play, at);
    tt_device_fini(&play->device);
}

static struct tt_run_times estimate(const struct play *play, int32_t step, int64_t alone_ns,
                                    int32_t others_ppm) {
    static int64_t starts[MAX_RUNS], ends[MAX_RUNS], at[2 * MAX_RUNS], demands[MAX_RUNS];
    static int32_t running[2 * MAX_RUNS];
    struct tt_run_timeline timeline = {.at = at, .running = running};
    for (int32_t i = 0; i < play->run_count; i++) {
        starts[i] = play->runs[i].started_at;
        ends[i] = play->runs[i].ended_at;
    }
    tt_run_timeline_make(&timeline, starts, ends, play->run_count);
    int32_t count = 0, executors = play->fleet->executors;
    int64_t beside_ns[TT_DEMAND_MAX_EXECUTORS + 1];
    for (int32_t i = 0; i < play->run_count; i++) {
        const struct played *run = &play->runs[i];
        tt_run_timeline_beside(&timeline, run->started_at, run->ended_at, executors, beside_ns);
        int64_t sum = 0;
        for (int32_t k = 1; k <= executors; k++)
            sum += beside_ns[k];
        assert_int_equal(sum, run->ended_at - run->started_at);
        bool is_subject = run->step == step && (!play->fleet->prefixes || run->executor == 0);
        if (is_subject && tt_demand_counts(beside_ns, executors))
            demands[count++] = tt_demand_of_run(beside_ns, executors, alone_ns, others_ppm);
    }
    assert_true(count >= 20);
    return tt_run_times_of(demands, count);
}

static struct play play;

static void assert_near(int64_t value, int64_t wanted, int64_t tolerance) {
    if (value < wanted - tolerance || value > wanted + tolerance)
        fail_msg("%lld is not %lld within %lld", (long long)value, (long long)wanted,
                 (long long)tolerance);
}

/* Any number of executors, any demand above the resolution, with and without pauses between runs:
 * exact. Below it: the resolution. */
static void test_copies_without_noise(void **state) {
    (void)state;
    static const int32_t executors[] = {2, 3, 4, 7, 16, 64};
    static const int32_t demands[] = {1000000, 900001, 700000, 512345, 333334, 250000, 100000, 3};
    for (size_t i = 0; i < TT_COUNT(executors); i++)
        for (size_t k = 0; k < TT_COUNT(demands); k++)
            for (int32_t pause_us = 0; pause_us <= 5; pause_us += 5) {
                struct fleet fleet = {.executors = executors[i],
                                      .step_count = 1,
                                      .work_ns = {TT_MS},
                                      .demand_ppm = {demands[k]},
                                      .pause_ns = pause_us * TT_US,
                                      .until_at = 60 * TT_MS};
                play_all(&play, &fleet, 0);
                struct tt_run_times found = estimate(&play, 0, TT_MS, TT_DEMAND_OF_COPIES);
                int32_t least = (TT_DEMAND_WHOLE + executors[i] - 1) / executors[i];
                int32_t wanted = demands[k] > least ? demands[k] : least;
                assert_near(found.low_ns, wanted, 100);
                assert_near(found.median_ns, wanted, 100);
                assert_near(found.high_ns, wanted, 100);
            }
}

static void test_copies_with_noise(void **state) {
    (void)state;
    uint64_t seed = test_seed(20261123);
    for (int32_t round = 0; round < 40; round++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, (uint64_t)round);
        int32_t executors = 2 + (int32_t)tt_prng_below(&prng, 15);
        int32_t least = (TT_DEMAND_WHOLE + executors - 1) / executors;
        int32_t demand =
            least + (int32_t)tt_prng_below(&prng, (uint64_t)(TT_DEMAND_WHOLE - least + 1));
        struct fleet fleet = {.executors = executors,
                              .step_count = 1,
                              .work_ns = {TT_MS},
                              .demand_ppm = {demand},
                              .noise_permille = 50,
                              .until_at = 250 * TT_MS};
        play_all(&play, &fleet, seed);
        struct tt_run_times found = estimate(&play, 0, TT_MS, TT_DEMAND_OF_COPIES);
        assert_near(found.median_ns, demand, demand * 3 / 100);
        assert_true(found.low_ns <= found.median_ns && found.median_ns <= found.high_ns);
        assert_true(found.high_ns <= TT_DEMAND_WHOLE);
    }
}

/* Steps of different demands, each beside others that go through all of them. */
static void test_steps_beside_the_whole(void **state) {
    (void)state;
    uint64_t seed = test_seed(7);
    static const int32_t executors[] = {2, 4};
    for (size_t i = 0; i < TT_COUNT(executors); i++) {
        struct fleet fleet = {.executors = executors[i],
                              .step_count = 3,
                              .prefixes = true,
                              .work_ns = {TT_MS, 2 * TT_MS, TT_MS},
                              .demand_ppm = {600000, 800000, 950000},
                              .noise_permille = 50,
                              .until_at = 2 * TT_S};
        play_all(&play, &fleet, seed);
        /* By time: the mean demand of the whole. */
        int32_t whole = (600000 + 2 * 800000 + 950000) / 4;
        for (int32_t s = 0; s < 3; s++) {
            struct tt_run_times found = estimate(&play, s, fleet.work_ns[s], whole);
            assert_near(found.median_ns, fleet.demand_ppm[s], fleet.demand_ppm[s] / 10);
        }
    }
}

/* A run that is slower than all executors together could make it needs the whole device; one that
 * took less time than alone needs as little as can be told. */
static void test_limits(void **state) {
    (void)state;
    const int64_t beside_ns[] = {0, 0, TT_MS};
    assert_int_equal(tt_demand_of_run(beside_ns, 2, 100 * TT_US, TT_DEMAND_OF_COPIES),
                     TT_DEMAND_WHOLE);
    assert_near(tt_demand_of_run(beside_ns, 2, 2 * TT_MS, TT_DEMAND_OF_COPIES), 500000, 10);
    assert_near(tt_demand_of_run(beside_ns, 2, 625 * TT_US, TT_DEMAND_OF_COPIES), 800000, 10);
    assert_near(tt_demand_of_run(beside_ns, 2, 625 * TT_US, 900000), 700000, 10);
    const int64_t half_alone_ns[] = {0, TT_MS, TT_MS}, mostly_alone_ns[] = {0, TT_MS + 1, TT_MS};
    assert_true(tt_demand_counts(half_alone_ns, 2));
    assert_false(tt_demand_counts(mostly_alone_ns, 2));
    /* What it ran alone is not the others' doing: 1 ms alone, and 1 ms at 1 / 1.6 of the speed. */
    assert_near(tt_demand_of_run(half_alone_ns, 2, 1625 * TT_US, TT_DEMAND_OF_COPIES), 800000, 10);
    const int64_t nothing_ns[] = {0, 0, 0};
    assert_false(tt_demand_counts(nothing_ns, 2));
}

/* Runs that touch, start together, and last no time. */
static void test_timeline(void **state) {
    (void)state;
    int64_t starts[] = {30, 10, 10, 20, 25}, ends[] = {40, 20, 30, 30, 25}, at[10];
    int32_t running[10];
    struct tt_run_timeline timeline = {.at = at, .running = running};
    tt_run_timeline_make(&timeline, starts, ends, 5);
    int64_t beside_ns[4];
    tt_run_timeline_beside(&timeline, 10, 30, 3, beside_ns);
    assert_int_equal(beside_ns[1], 0);
    assert_int_equal(beside_ns[2], 20);
    tt_run_timeline_beside(&timeline, 15, 35, 3, beside_ns);
    assert_int_equal(beside_ns[1], 5);
    assert_int_equal(beside_ns[2], 15);
    tt_run_timeline_beside(&timeline, 25, 25, 3, beside_ns);
    assert_int_equal(beside_ns[1] + beside_ns[2] + beside_ns[3], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_without_noise),
        cmocka_unit_test(test_copies_with_noise),
        cmocka_unit_test(test_steps_beside_the_whole),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
