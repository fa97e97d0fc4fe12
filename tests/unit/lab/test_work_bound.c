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

enum { CASES = 4000, REQUESTS = 4, STEPS = 2, BATCH = 3, DEVICES = 2 };

struct world {
    struct tt_work_bound given;
    int64_t arrived_at[REQUESTS], deadline_at[REQUESTS], work_ns[STEPS * (BATCH + 1)];
};

/* Where a schedule has come to. */
struct state {
    int64_t now, free_at[DEVICES];
    int64_t ready_at[REQUESTS]; /* for its next step */
    int32_t step[REQUESTS];
};

/* What the best schedule has from a state on. */
struct best {
    int64_t ends; /* the least sum of the ends of requests, if all are computed */
    int32_t in_time;
};

static int64_t next_event(const struct world *w, const struct state *s) {
    int64_t next_at = TT_NEVER;
    for (int32_t i = 0; i < w->given.count; i++)
        if (s->ready_at[i] > s->now)
            next_at = tt_instant_min(next_at, s->ready_at[i]);
    for (int32_t d = 0; d < w->given.device_count; d++)
        if (s->free_at[d] > s->now)
            next_at = tt_instant_min(next_at, s->free_at[d]);
    return next_at;
}

static int32_t free_device(const struct world *w, const struct state *s) {
    for (int32_t d = 0; d < w->given.device_count; d++)
        if (s->free_at[d] <= s->now)
            return d;
    return -1;
}

/* Runs the members of `set` together on a free device, if they may. */
static bool run(const struct world *w, uint32_t set, struct state *s, struct best *out_ended) {
    int32_t device = free_device(w, s), at = -1, size = __builtin_popcount(set);
    *out_ended = (struct best){0};
    if (device < 0 || size > w->given.max_batch)
        return false;
    for (int32_t i = 0; i < w->given.count; i++) {
        if (!(set >> i & 1))
            continue;
        if (s->ready_at[i] > s->now || s->step[i] == w->given.step_count ||
            (at >= 0 && s->step[i] != at))
            return false;
        at = s->step[i];
    }
    int64_t end_at = s->now + w->work_ns[at * (w->given.max_batch + 1) + size];
    s->free_at[device] = end_at;
    for (int32_t i = 0; i < w->given.count; i++) {
        if (!(set >> i & 1))
            continue;
        s->ready_at[i] = end_at;
        if (++s->step[i] == w->given.step_count) {
            out_ended->ends += end_at;
            out_ended->in_time += end_at <= w->deadline_at[i];
        }
    }
    return true;
}

/* Every set of requests at one step may run next, or none until something ends or arrives. */
static struct best best_of(const struct world *w, const struct state *s) {
    struct best best = {.ends = TT_NEVER};
    bool all_done = true;
    for (int32_t i = 0; i < w->given.count; i++)
        all_done &= s->step[i] == w->given.step_count;
    if (all_done)
        return (struct best){0};
    if (next_event(w, s) != TT_NEVER) {
        struct state later = *s;
        later.now = next_event(w, s);
        best = best_of(w, &later);
    }
    for (uint32_t set = 1; set < 1u << w->given.count; set++) {
        struct state after = *s;
        struct best ended;
        if (!run(w, set, &after, &ended))
            continue;
        struct best rest = best_of(w, &after);
        rest.in_time += ended.in_time;
        best.ends = tt_instant_min(best.ends, tt_instant_add(rest.ends, ended.ends));
        best.in_time = best.in_time > rest.in_time ? best.in_time : rest.in_time;
    }
    return best;
}

static void draw(struct tt_prng *prng, struct world *w) {
    *w = (struct world){.given = {.device_count = 1 + (int32_t)tt_prng_below(prng, DEVICES)}};
    /* More of them on two devices would take minutes. */
    w->given.count = 1 + (int32_t)tt_prng_below(prng, w->given.device_count == 1 ? REQUESTS : 3);
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
        struct state start = {.now = w.arrived_at[0]};
        memcpy(start.ready_at, w.arrived_at, sizeof(start.ready_at));
        struct best best = best_of(&w, &start);
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

/* ---- more requests ---- */

enum { COUNT = 60, MAX_BATCH = 6, MAX_ENDS = 4096 };

/* Ways to have run the first requests: none ends later and has a larger sum than another. */
struct ways {
    int32_t count;
    int64_t free_at[MAX_ENDS], sum[MAX_ENDS];
};

static void add_way(struct ways *ways, int64_t free_at, int64_t sum) {
    int32_t kept = 0;
    for (int32_t i = 0; i < ways->count; i++) {
        if (ways->free_at[i] <= free_at && ways->sum[i] <= sum)
            return;
        if (ways->free_at[i] >= free_at && ways->sum[i] >= sum)
            continue;
        ways->free_at[kept] = ways->free_at[i];
        ways->sum[kept++] = ways->sum[i];
    }
    assert_true(kept < MAX_ENDS);
    ways->free_at[kept] = free_at;
    ways->sum[kept] = sum;
    ways->count = kept + 1;
}

/* The least sum of latencies on one device of one step: equal requests run in their order, and a
 * batch starts when it can. */
static int64_t least_in_order(const struct tt_work_bound *w) {
    static struct ways ways[COUNT + 1];
    int64_t best = TT_NEVER;
    for (int32_t i = 0; i <= COUNT; i++)
        ways[i].count = 0;
    add_way(&ways[0], 0, 0);
    for (int32_t first = 0; first < w->count; first++)
        for (int32_t b = 1; b <= w->max_batch && first + b <= w->count; b++)
            for (int32_t i = 0; i < ways[first].count; i++) {
                int64_t last_at = w->arrived_at[first + b - 1], sum = ways[first].sum[i];
                int64_t end_at = tt_instant_max(ways[first].free_at[i], last_at) + w->latency_ns[b];
                for (int32_t m = first; m < first + b; m++)
                    sum += end_at - w->arrived_at[m];
                add_way(&ways[first + b], end_at, sum);
            }
    for (int32_t i = 0; i < ways[w->count].count; i++)
        best = tt_instant_min(best, ways[w->count].sum[i]);
    return best;
}

/* So many that small batches would cost later requests more than they gain: the bound by a price.
 */
static void longer_sequences(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(20261130), 8);
    int64_t sum_bound = 0, sum_best = 0;
    for (int32_t c = 0; c < 300; c++) {
        int64_t arrived_at[COUNT], deadline_at[COUNT], work_ns[MAX_BATCH + 1] = {0}, at = 0;
        int64_t gap = 5 * TT_US + (int64_t)tt_prng_below(&prng, 15 * TT_US);
        bool is_regular = tt_prng_below(&prng, 2);
        for (int32_t i = 0; i < COUNT; i++) {
            arrived_at[i] = at +=
                is_regular ? gap : (int64_t)tt_prng_below(&prng, 2 * (uint64_t)gap);
            deadline_at[i] = TT_NEVER;
        }
        for (int32_t b = 1; b <= MAX_BATCH; b++)
            work_ns[b] = (20 + b * (1 + c % 5)) * TT_US;
        const struct tt_work_bound given = {.arrived_at = arrived_at,
                                            .deadline_at = deadline_at,
                                            .count = COUNT,
                                            .device_count = 1,
                                            .step_count = 1,
                                            .max_batch = MAX_BATCH,
                                            .work_ns = work_ns,
                                            .latency_ns = work_ns,
                                            .alone_ns = work_ns[1]};
        int64_t bound = tt_work_bound_least_latency_ns(&given), best = least_in_order(&given);
        assert_true(bound <= best);
        sum_bound += bound;
        sum_best += best;
    }
    print_message("latency of %d: %.3f of the optimum in sum\n", COUNT,
                  (double)sum_bound / (double)sum_best);
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
        cmocka_unit_test(longer_sequences),
        cmocka_unit_test(without_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
