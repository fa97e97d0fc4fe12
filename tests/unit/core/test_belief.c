/* Beliefs: what single batches teach, instant by instant, and random batches beside a naive model
 * that keeps every sample and sorts. */
#include "core/belief.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BATCH = 20, STEPS = 3, LENGTHS = 2, ONE = TT_BELIEF_ONE };

struct world {
    struct tt_profile *profiles[STEPS + 1];
    struct tt_step steps[STEPS];
    struct tt_step_model prior;
    struct tt_belief *belief;
    struct tt_task_item item;
    struct tt_request request;
};

static void open_world(struct world *w, int32_t steps, int32_t percent) {
    *w = (struct world){0};
    for (int32_t p = 0; p <= steps; p++) {
        struct tt_profile_point points[4] = {{.length = 10, .batch = 1, .latency_ns = 2 * TT_MS},
                                             {.length = 10, .batch = 20, .latency_ns = 6 * TT_MS},
                                             {.length = 20, .batch = 1, .latency_ns = 3 * TT_MS},
                                             {.length = 20, .batch = 20, .latency_ns = 9 * TT_MS}};
        for (int32_t i = 0; i < 4; i++)
            points[i].latency_ns *= p == steps ? steps : 1;
        assert_int_equal(tt_profile_new_points(points, 4, MAX_BATCH, &w->profiles[p], NULL), TT_OK);
    }
    for (int32_t s = 0; s < steps; s++)
        w->steps[s] = (struct tt_step){.name = "s", .profile = w->profiles[s]};
    w->prior = (struct tt_step_model){.name = "m",
                                      .step_count = steps,
                                      .steps = w->steps,
                                      .whole = w->profiles[steps > 1 ? steps : 0],
                                      .slo_ns = 20 * TT_MS,
                                      .max_batch = MAX_BATCH};
    assert_int_equal(tt_belief_new(&w->prior, percent, &w->belief), TT_OK);
}

static void close_world(struct world *w) {
    tt_belief_free(w->belief);
    for (int32_t p = 0; p <= STEPS; p++)
        tt_profile_free(w->profiles[p]);
}

static struct tt_task task_of(struct world *w, int32_t first, int32_t last, int32_t rows,
                              int32_t length, int64_t took_ns) {
    w->request = (struct tt_request){.rows = rows, .length = length};
    w->item = (struct tt_task_item){.request = &w->request};
    return (struct tt_task){.first_step = first,
                            .last_step = last,
                            .last_step_done = last,
                            .repeat = 1,
                            .rows = rows,
                            .count = 1,
                            .items = &w->item,
                            .outcome = TT_OUTCOME_DONE,
                            .started_at = 1000,
                            .ended_at = 1000 + took_ns};
}

/* A batch of the whole model that takes `permille` of what the profile says. */
static bool batch(struct world *w, int32_t rows, int32_t length, int64_t permille) {
    int64_t prior_ns = tt_profile_latency(w->prior.whole, rows, length);
    struct tt_task task =
        task_of(w, 0, w->prior.step_count - 1, rows, length, prior_ns * permille / 1000);
    bool moved = tt_belief_finished(w->belief, &task);
    tt_belief_check(w->belief);
    return moved;
}

static int64_t centre(const struct world *w, int32_t rows, int32_t length) {
    return tt_profile_latency(w->belief->model.whole, rows, length);
}
static int64_t tail(const struct world *w, int32_t rows, int32_t length) {
    return tt_profile_tail(w->belief->model.whole, rows, length);
}
static int64_t prior(const struct world *w, int32_t rows, int32_t length) {
    return tt_profile_latency(w->prior.whole, rows, length);
}

/* Within 5 % of `permille` of the prior. */
static void assert_near(int64_t value, int64_t prior_ns, int64_t permille) {
    int64_t want = prior_ns * permille / 1000;
    assert_true(value >= want - want / 20 && value <= want + want / 20);
}

static void what_takes_what_the_profile_says_changes_nothing(void **state) {
    (void)state;
    struct world w;
    open_world(&w, STEPS, 95);
    for (int32_t i = 0; i < 5000; i++)
        assert_false(batch(&w, 1 + i % MAX_BATCH, i % 3 * 10, 1000));
    for (int32_t rows = 1; rows <= MAX_BATCH; rows++)
        for (int32_t length = 10; length <= 20; length += 10) {
            assert_int_equal(centre(&w, rows, length), prior(&w, rows, length));
            assert_int_equal(tail(&w, rows, length), prior(&w, rows, length));
        }
    assert_int_equal(w.belief->model.whole->alpha_ns, w.prior.whole->alpha_ns);
    close_world(&w);
}

static void a_change_is_followed_after_17_batches(void **state) {
    (void)state;
    static const int64_t speeds[] = {3000, 333, 40000};
    for (size_t k = 0; k < 3; k++) {
        struct world w;
        open_world(&w, 1, 95);
        int32_t before = speeds[k] > 1000 ? 16 : 15; /* the lower median */
        for (int32_t i = 0; i < before; i++)
            (void)batch(&w, 4, 10, speeds[k]);
        assert_int_equal(centre(&w, 4, 10), prior(&w, 4, 10));
        assert_true(batch(&w, 4, 10, speeds[k]));
        /* All classes and lengths: it is the device that changed. */
        assert_near(centre(&w, 4, 10), prior(&w, 4, 10), speeds[k]);
        assert_near(centre(&w, 20, 20), prior(&w, 20, 20), speeds[k]);
        assert_near(w.belief->model.steps[0].profile->alpha_ns, w.prior.whole->alpha_ns, speeds[k]);
        for (int32_t i = 0; i < 40; i++)
            (void)batch(&w, 4, 10, 1000);
        assert_near(centre(&w, 20, 20), prior(&w, 20, 20), 1000);
        assert_near(tail(&w, 20, 20), prior(&w, 20, 20), 1000);
        close_world(&w);
    }
}

static void a_stall_changes_nothing(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 1, 95);
    for (int32_t i = 0; i < 200; i++)
        assert_false(batch(&w, 1 + i % 8, 10, i % 32 == 7 ? 100000 : 1000));
    /* Several executors that stall at once move the tail, to no more than twice the centre. */
    for (int32_t i = 0; i < 8; i++)
        (void)batch(&w, 4, 10, 100000);
    assert_int_equal(centre(&w, 4, 10), prior(&w, 4, 10));
    assert_near(tail(&w, 4, 10), prior(&w, 4, 10), 2000);
    for (int32_t i = 0; i < 40; i++)
        (void)batch(&w, 4, 10, 1000);
    assert_near(tail(&w, 4, 10), prior(&w, 4, 10), 1000);
    close_world(&w);
}

static void the_tail_is_the_quantile(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 1, 75);
    for (int32_t i = 0; i < 64; i++)
        (void)batch(&w, 4, 10, i % 8 < 5 ? 1000 : 1500); /* 3 of 8 */
    assert_near(centre(&w, 4, 10), prior(&w, 4, 10), 1000);
    assert_near(tail(&w, 4, 10), prior(&w, 4, 10), 1500);
    close_world(&w);
    open_world(&w, 1, 75);
    for (int32_t i = 0; i < 64; i++)
        (void)batch(&w, 4, 10, i % 8 < 7 ? 1000 : 1500); /* 1 of 8 */
    assert_near(tail(&w, 4, 10), prior(&w, 4, 10), 1000);
    close_world(&w);
}

static void a_class_has_its_own_shape(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 1, 95);
    for (int32_t i = 0; i < 200; i++) /* 4-7 rows of length 10 take twice as long */
        (void)batch(&w, i % 4 == 0 ? 5 : 1, 10, i % 4 == 0 ? 2000 : 1000);
    assert_near(centre(&w, 1, 10), prior(&w, 1, 10), 1000);
    assert_near(centre(&w, 7, 10), prior(&w, 7, 10), 2000);
    assert_near(centre(&w, 7, 20), prior(&w, 7, 20), 1000);
    assert_true(centre(&w, 8, 10) >= centre(&w, 7, 10)); /* in spite of its own shape of 1 */
    assert_near(centre(&w, 20, 10), tt_instant_max(prior(&w, 20, 10), centre(&w, 7, 10)), 1000);
    /* Many batches of other classes: it returns to the profile. */
    for (int32_t i = 0; i < TT_BELIEF_FORGET + 8 * w.belief->cell_count + 8; i++)
        (void)batch(&w, 1, 10, 1000);
    assert_int_equal(centre(&w, 7, 10), prior(&w, 7, 10));
    close_world(&w);
}

/* Run times on the line between two measured lengths are no noise: the tail stays the centre. And
 * lengths of one class, 17 to 32, share what is learnt. */
static void lengths_between_are_no_noise(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 1, 95);
    struct tt_profile *measured = w.profiles[0];
    assert_int_equal(tt_profile_new_between(measured, &w.profiles[0], NULL), TT_OK);
    w.prior.whole = w.steps[0].profile = w.profiles[0];
    tt_belief_free(w.belief);
    assert_int_equal(tt_belief_new(&w.prior, 95, &w.belief), TT_OK);
    for (int32_t i = 0; i < 200; i++) {
        int32_t length = 10 + i % 11;
        int64_t took_ns = 2 * TT_MS + (length - 10) * TT_MS / 10;
        struct tt_task task = task_of(&w, 0, 0, 1, length, took_ns);
        (void)tt_belief_finished(w.belief, &task);
    }
    for (int32_t length = 10; length <= 20; length++)
        assert_true(tail(&w, 1, length) == prior(&w, 1, length));
    assert_int_equal(w.belief->moves, 0);
    for (int32_t i = 0; i < 200; i++) /* 17 takes twice as long, 12 does not */
        (void)batch(&w, 1, i % 4 ? 12 : 17, i % 4 ? 1000 : 2000);
    assert_near(centre(&w, 1, 12), prior(&w, 1, 12), 1000);
    assert_near(centre(&w, 1, 20), prior(&w, 1, 20), 2000);
    close_world(&w);
    tt_profile_free(measured);
}

static void one_step_teaches_itself(void **state) {
    (void)state;
    struct world w;
    open_world(&w, STEPS, 95);
    for (int32_t i = 0; i < 400; i++) {
        int64_t ns = tt_profile_latency(w.profiles[0], 4, 10);
        int32_t step = i % 8 == 0 ? 1 : 2 * (i % 2);
        struct tt_task task = task_of(&w, step, step, 4, 10, step == 1 ? 3 * ns : ns);
        (void)tt_belief_finished(w.belief, &task);
    }
    assert_near(tt_profile_latency(w.belief->model.steps[1].profile, 4, 10),
                tt_profile_latency(w.profiles[1], 4, 10), 3000);
    assert_near(tt_profile_latency(w.belief->model.steps[0].profile, 4, 10),
                tt_profile_latency(w.profiles[0], 4, 10), 1000);
    /* Several steps teach the speed. */
    for (int32_t i = 0; i < 40; i++) {
        int64_t ns = tt_profile_latency(w.profiles[0], 4, 10);
        struct tt_task task = task_of(&w, 0, 1, 4, 10, 2 * ns * 2);
        (void)tt_belief_finished(w.belief, &task);
    }
    assert_near(centre(&w, 20, 20), prior(&w, 20, 20), 2000);
    close_world(&w);
}

static void what_failed_teaches_nothing(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 1, 95);
    for (int32_t i = 0; i < 100; i++) {
        struct tt_task task = task_of(&w, 0, 0, 4, 10, 50 * TT_MS);
        task.outcome = i % 2 ? TT_OUTCOME_FAILED : TT_OUTCOME_ABORTED;
        assert_false(tt_belief_finished(w.belief, &task));
        task = task_of(&w, 0, 0, 4, 10, 50 * TT_MS);
        task.started_at = -1;
        assert_false(tt_belief_finished(w.belief, &task));
    }
    assert_int_equal(w.belief->batches, 0);
    close_world(&w);
}

static void starving_asks_the_profile_again(void **state) {
    (void)state;
    struct world w;
    open_world(&w, 1, 95);
    for (int32_t i = 0; i < 40; i++)
        (void)batch(&w, 4, 10, 10000);
    assert_near(centre(&w, 4, 10), prior(&w, 4, 10), 10000);
    tt_belief_dropped(w.belief, 100 * TT_MS);
    tt_belief_dropped(w.belief, 119 * TT_MS);
    assert_false(w.belief->starving);
    tt_belief_dropped(w.belief, 120 * TT_MS); /* one SLO */
    assert_true(w.belief->starving);
    assert_true(tt_belief_starved(w.belief));
    tt_belief_check(w.belief);
    assert_int_equal(centre(&w, 4, 10), prior(&w, 4, 10));
    assert_int_equal(tail(&w, 4, 10), prior(&w, 4, 10));
    assert_true(batch(&w, 4, 10, 10000)); /* still slow: one batch is enough */
    assert_near(centre(&w, 4, 10), prior(&w, 4, 10), 10000);
    tt_belief_dropped(w.belief, 200 * TT_MS);
    tt_belief_dropped(w.belief, 220 * TT_MS);
    assert_true(tt_belief_starved(w.belief));
    (void)batch(&w, 4, 10, 1000); /* as the profile says: it stays */
    assert_int_equal(centre(&w, 4, 10), prior(&w, 4, 10));
    for (int32_t i = 0; i < 40; i++)
        (void)batch(&w, 4, 10, 1000);
    tt_belief_dropped(w.belief, 300 * TT_MS);
    tt_belief_dropped(w.belief, 400 * TT_MS);
    (void)tt_belief_starved(w.belief);
    assert_false(tt_belief_starved(w.belief)); /* nothing is slower than the profile */
    close_world(&w);
}

/* ---- a naive model: every sample is kept; windows are sorted when they are read ---- */

enum { SAMPLES = 3000 };

struct naive_window {
    int64_t values[SAMPLES + 64];
    int32_t count;
};
struct naive_cell {
    struct naive_window window;
    int64_t shape;
    int32_t epoch, last, added, half_at, next_half_at;
};
struct naive {
    struct naive_window window;
    struct naive_cell cells[LENGTHS][5];
    int64_t speed, tail;
    int32_t epoch, batches, moved_at, percent, visited;
};

static void naive_fill(struct naive_window *w, int64_t value) {
    w->count = 0;
    for (int32_t i = 0; i < 32; i++)
        w->values[w->count++] = value;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t naive_quantile(const struct naive_window *w, int32_t percent) {
    int64_t last[32];
    memcpy(last, w->values + w->count - 32, sizeof(last));
    qsort(last, 32, sizeof(*last), by_size);
    int32_t at = 0;
    while (100 * (at + 1) < 32 * percent)
        at++;
    return last[at];
}

static int64_t rounded(__int128 value) { return (int64_t)((value + ONE / 2) / ONE); }
static int64_t divided(int64_t took, int64_t expected) {
    int64_t ratio = (int64_t)((__int128)took * ONE / expected);
    return ratio < 1 ? 1 : ratio;
}
/* ratio / value, by the inverse of the value in 1 / 2^32. */
static int64_t by_inverse(int64_t ratio, int64_t value) {
    __int128 inverse = ((__int128)1 << 48) / value;
    int64_t quotient = (int64_t)((ratio * inverse + ((__int128)1 << 31)) >> 32);
    return quotient < 1 ? 1 : quotient;
}
static bool far(int64_t value, int64_t from) { return llabs(value - from) * 100 > from * 5; }

static int32_t class_of(int32_t rows) {
    return rows < 2 ? 0 : rows < 4 ? 1 : rows < 8 ? 2 : rows < 16 ? 3 : 4;
}

static void naive_batch(struct naive *n, int32_t row, int32_t rows, int64_t prior_ns,
                        int64_t took_ns) {
    struct naive_cell *cell = &n->cells[row][class_of(rows)];
    n->batches++;
    int64_t ratio = divided(took_ns, prior_ns);
    n->window.values[n->window.count++] = by_inverse(ratio, cell->shape);
    bool may = n->batches - n->moved_at >= 8, moved = false;
    int64_t speed = naive_quantile(&n->window, 50);
    if (may && far(speed, n->speed)) {
        n->speed = speed;
        n->epoch++;
        moved = true;
    }
    int64_t tail = naive_quantile(&n->window, n->percent);
    tail = tail > 2 * n->speed ? 2 * n->speed : tail < n->speed ? n->speed : tail;
    if (may && (moved || far(tail, n->tail))) {
        n->tail = tail;
        moved = true;
    }
    if (cell->epoch != n->epoch && cell->last - cell->half_at <= 64) {
        naive_fill(&cell->window, cell->shape);
        cell->added = 0;
    }
    cell->epoch = n->epoch;
    cell->last = n->batches;
    if (cell->added++ % 16 == 0) {
        cell->half_at = cell->next_half_at;
        cell->next_half_at = n->batches;
    }
    cell->window.values[cell->window.count++] = by_inverse(ratio, n->speed);
    int64_t shape = naive_quantile(&cell->window, 50);
    if (may && far(shape, cell->shape)) {
        cell->shape = shape;
        moved = true;
    }
    if (n->batches % 8 == 0) {
        struct naive_cell *old = &n->cells[n->visited / 5][n->visited % 5];
        n->visited = (n->visited + 1) % (LENGTHS * 5);
        if (old->shape != ONE && n->batches - old->last > 512) {
            old->shape = ONE;
            naive_fill(&old->window, ONE);
            old->added = 0;
            moved = true;
        }
    }
    if (moved)
        n->moved_at = n->batches;
}

static void compare(const struct naive *n, const struct world *w) {
    for (int32_t row = 0; row < LENGTHS; row++) {
        int64_t centre_ns = 0, tail_ns = 0;
        for (int32_t b = 1; b <= MAX_BATCH; b++) {
            int64_t shape = n->cells[row][class_of(b)].shape;
            int64_t prior_ns = prior(w, b, 10 * (row + 1));
            int64_t c = rounded((__int128)prior_ns * rounded((__int128)n->speed * shape));
            int64_t t = rounded((__int128)prior_ns * rounded((__int128)n->tail * shape));
            centre_ns = c > centre_ns ? c : centre_ns;
            tail_ns = t > tail_ns ? t : tail_ns;
            assert_int_equal(centre(w, b, 10 * (row + 1)), centre_ns);
            assert_int_equal(tail(w, b, 10 * (row + 1)), tail_ns);
        }
    }
}

static void it_agrees_with_a_naive_model(void **state) {
    (void)state;
    struct tt_prng prng;
    struct naive *n = malloc(sizeof(*n));
    assert_non_null(n);
    for (uint64_t seed = test_seed(1), end = seed + 30; seed < end; seed++) {
        tt_prng_init(&prng, seed, 0);
        int32_t percent = 50 + (int32_t)tt_prng_below(&prng, 51);
        struct world w;
        open_world(&w, 1, percent);
        memset(n, 0, sizeof(*n));
        n->speed = n->tail = ONE;
        n->percent = percent;
        n->moved_at = -8;
        naive_fill(&n->window, ONE);
        for (int32_t c = 0; c < LENGTHS * 5; c++) {
            n->cells[c / 5][c % 5].shape = ONE;
            naive_fill(&n->cells[c / 5][c % 5].window, ONE);
        }
        int64_t speed = 1000, factors[5] = {1000, 1000, 1000, 1000, 1000};
        for (int32_t i = 0; i < SAMPLES - 32; i++) {
            if (tt_prng_below(&prng, 200) == 0)
                speed = 200 + (int64_t)tt_prng_below(&prng, 4000);
            if (tt_prng_below(&prng, 300) == 0)
                factors[tt_prng_below(&prng, 5)] = 500 + (int64_t)tt_prng_below(&prng, 2000);
            int32_t rows = 1 + (int32_t)tt_prng_below(&prng, i / 1000 % 2 ? 3 : MAX_BATCH);
            int32_t row = (int32_t)tt_prng_below(&prng, LENGTHS);
            int64_t prior_ns = prior(&w, rows, 10 * (row + 1));
            int64_t noise = 900 + (int64_t)tt_prng_below(&prng, 300);
            if (tt_prng_below(&prng, 40) == 0)
                noise *= 50;
            int64_t took_ns =
                prior_ns / 1000 * speed / 1000 * factors[class_of(rows)] / 1000 * noise;
            struct tt_task task = task_of(&w, 0, 0, rows, 10 * (row + 1), took_ns);
            int64_t moves = w.belief->moves;
            bool moved = tt_belief_finished(w.belief, &task);
            assert_int_equal(w.belief->moves, moves + moved);
            naive_batch(n, row, rows, prior_ns, took_ns);
            assert_int_equal(w.belief->moved_at, n->moved_at);
            if (moved || i % 100 == 0)
                compare(n, &w);
        }
        assert_true(w.belief->moves > 10);
        close_world(&w);
    }
    free(n);
}

static void a_window_gives_quantiles(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(7), 0);
    static struct naive_window naive;
    struct tt_quantile_window window;
    naive_fill(&naive, 5);
    tt_quantile_window_fill(&window, 5);
    for (int32_t i = 0; i < SAMPLES; i++) {
        uint32_t value = (uint32_t)tt_prng_below(&prng, i % 1000 < 500 ? 10 : UINT32_MAX);
        tt_quantile_window_add(&window, value);
        naive.values[naive.count++] = value;
        for (int32_t percent = 1; percent <= 100; percent += 3)
            assert_int_equal(tt_quantile_window_at(&window, percent),
                             naive_quantile(&naive, percent));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_what_the_profile_says_changes_nothing),
        cmocka_unit_test(a_change_is_followed_after_17_batches),
        cmocka_unit_test(a_stall_changes_nothing),
        cmocka_unit_test(the_tail_is_the_quantile),
        cmocka_unit_test(a_class_has_its_own_shape),
        cmocka_unit_test(lengths_between_are_no_noise),
        cmocka_unit_test(one_step_teaches_itself),
        cmocka_unit_test(what_failed_teaches_nothing),
        cmocka_unit_test(starving_asks_the_profile_again),
        cmocka_unit_test(it_agrees_with_a_naive_model),
        cmocka_unit_test(a_window_gives_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
