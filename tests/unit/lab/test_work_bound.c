/* The bounds by work beside the best of all schedules of small cases: no schedule beats them. */
#include "lab/clairvoyant/work_bound.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 4000, REQUESTS = 4, STEPS = 2, BATCH = 3 };

struct world {
    struct tt_work_bound given;
    int64_t arrived_at[REQUESTS], deadline_at[REQUESTS], work_ns[STEPS * (BATCH + 1)];
};

/* What the best schedule has from `now` on, when the device is free. */
struct best {
    int64_t ends; /* the least sum of the ends of requests, if all are computed */
    int32_t in_time;
};

static int64_t next_arrival(const struct world *w, int64_t now) {
    int64_t next_at = TT_NEVER;
    for (int32_t i = 0; i < w->given.count; i++)
        if (w->arrived_at[i] > now)
            next_at = tt_instant_min(next_at, w->arrived_at[i]);
    return next_at;
}

/* The members of `set` may run together now; moves them. */
static bool may_run(const struct world *w, int64_t now, uint32_t set, int32_t step[REQUESTS],
                    int32_t *out_step) {
    int32_t at = -1;
    for (int32_t i = 0; i < w->given.count; i++) {
        if (!(set >> i & 1))
            continue;
        if (w->arrived_at[i] > now || step[i] == w->given.step_count || (at >= 0 && step[i] != at))
            return false;
        at = step[i]++;
    }
    *out_step = at;
    return __builtin_popcount(set) <= w->given.max_batch;
}

/* Every set of requests at one step may run next, or none until the next arrival, or none. */
static struct best best_of(const struct world *w, int64_t now, const int32_t step[REQUESTS]) {
    struct best best = {.ends = TT_NEVER};
    bool all_done = true;
    for (int32_t i = 0; i < w->given.count; i++)
        all_done &= step[i] == w->given.step_count;
    if (all_done)
        return (struct best){0};
    if (next_arrival(w, now) != TT_NEVER)
        best = best_of(w, next_arrival(w, now), step);
    for (uint32_t set = 1; set < 1u << w->given.count; set++) {
        int32_t at, moved[REQUESTS];
        memcpy(moved, step, sizeof(moved));
        if (!may_run(w, now, set, moved, &at))
            continue;
        int32_t size = __builtin_popcount(set);
        int64_t end_at = now + w->work_ns[at * (w->given.max_batch + 1) + size];
        struct best rest = best_of(w, end_at, moved);
        if (at + 1 == w->given.step_count) {
            rest.ends = tt_instant_add(rest.ends, size * end_at);
            for (int32_t i = 0; i < w->given.count; i++)
                rest.in_time += (set >> i & 1) && end_at <= w->deadline_at[i];
        }
        best.ends = tt_instant_min(best.ends, rest.ends);
        best.in_time = best.in_time > rest.in_time ? best.in_time : rest.in_time;
    }
    return best;
}

static void draw(struct tt_prng *prng, struct world *w) {
    *w = (struct world){.given = {.device_count = 1}};
    w->given.count = 1 + (int32_t)tt_prng_below(prng, REQUESTS);
    w->given.step_count = 1 + (int32_t)tt_prng_below(prng, STEPS);
    w->given.max_batch = 1 + (int32_t)tt_prng_below(prng, BATCH);
    w->given.arrived_at = w->arrived_at;
    w->given.deadline_at = w->deadline_at;
    w->given.work_ns = w->given.latency_ns = w->work_ns;
    int64_t at = 0, spread = 1 + (int64_t)tt_prng_below(prng, 30);
    int64_t slo = 1 + (int64_t)tt_prng_below(prng, 100);
    for (int32_t i = 0; i < w->given.count; i++) {
        w->arrived_at[i] = at += (int64_t)tt_prng_below(prng, (uint64_t)spread);
        w->deadline_at[i] = at + slo;
    }
    for (int32_t s = 0; s < w->given.step_count; s++) {
        int64_t *work_ns = w->work_ns + s * (w->given.max_batch + 1);
        work_ns[1] = 1 + (int64_t)tt_prng_below(prng, 20);
        for (int32_t b = 2; b <= w->given.max_batch; b++)
            work_ns[b] = work_ns[b - 1] + (int64_t)tt_prng_below(prng, 15);
        w->given.alone_ns += work_ns[1];
    }
}

static void no_schedule_beats_them(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(20261130), 7);
    int64_t sum_bound = 0, sum_best = 0, most_bound = 0, most_best = 0;
    for (int32_t c = 0; c < CASES; c++) {
        struct world w;
        draw(&prng, &w);
        const int32_t step[REQUESTS] = {0};
        struct best best = best_of(&w, w.arrived_at[0], step);
        for (int32_t i = 0; i < w.given.count; i++)
            best.ends -= w.arrived_at[i];
        int64_t least = tt_work_bound_least_latency_ns(&w.given);
        int32_t most = tt_work_bound_most_in_time(&w.given);
        assert_true(least <= best.ends);
        assert_true(most >= best.in_time);
        sum_bound += least;
        sum_best += best.ends;
        most_bound += most;
        most_best += best.in_time;
    }
    print_message("latency: %.3f of the optimum in sum; in time: %.3f of it\n",
                  (double)sum_bound / (double)sum_best, (double)most_bound / (double)most_best);
}

/* Four requests of 10 each come at once. */
static void without_batches(void **state) {
    (void)state;
    int64_t arrived_at[] = {0, 0, 0, 0}, deadline_at[] = {10, 10, 20, 20}, work_ns[] = {0, 10};
    struct tt_work_bound given = {.arrived_at = arrived_at,
                                  .deadline_at = deadline_at,
                                  .count = 4,
                                  .device_count = 2,
                                  .step_count = 1,
                                  .max_batch = 1,
                                  .work_ns = work_ns,
                                  .latency_ns = work_ns,
                                  .alone_ns = 10};
    /* Two end at 10 and two at 20; the bound says 10, 10, 15, 20. */
    assert_int_equal(tt_work_bound_least_latency_ns(&given), 55);
    assert_int_equal(tt_work_bound_most_in_time(&given), 4);
    deadline_at[2] = deadline_at[3] = 19;
    assert_int_equal(tt_work_bound_most_in_time(&given), 3);
    deadline_at[0] = deadline_at[1] = 9;
    assert_int_equal(tt_work_bound_most_in_time(&given), 2);
    given.device_count = 1;
    assert_int_equal(tt_work_bound_least_latency_ns(&given), 100);
    assert_int_equal(tt_work_bound_most_in_time(&given), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_schedule_beats_them),
        cmocka_unit_test(without_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
