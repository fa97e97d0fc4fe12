/* D5: whether a request should join a batch, compared with both futures simulated for random
 * queues. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/joining.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka needs the four above before it */
#include <cmocka.h>

enum { MAX_BATCH = 16, WAITING = 24, LENGTHS = 6, NOW = 1000 };

static struct tt_step_model model;
static struct tt_step step;
static struct tt_request waiting[WAITING];
static int32_t count;

static void make_model(int64_t row_ns, int64_t base_ns) {
    struct tt_profile_point points[2 * LENGTHS];
    for (int32_t l = 0; l < LENGTHS; l++) {
        points[2 * l] = (struct tt_profile_point){
            .length = l + 1, .batch = 1, .latency_ns = base_ns + (l + 1) * row_ns};
        points[2 * l + 1] =
            (struct tt_profile_point){.length = l + 1,
                                      .batch = MAX_BATCH,
                                      .latency_ns = base_ns + MAX_BATCH * (l + 1) * row_ns};
    }
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_points(points, 2 * LENGTHS, MAX_BATCH, &profile, NULL), TT_OK);
    step = (struct tt_step){.name = "all", .profile = profile};
    model = (struct tt_step_model){
        .step_count = 1, .steps = &step, .whole = profile, .max_batch = MAX_BATCH};
}

static double square(double x) { return x * x; }

/* The sum of squared latencies if the requests in `joined`, in queue order, are one batch, and all
 * others run after it one by one. */
static double play(const bool *joined) {
    int32_t rows = 0, length = 0;
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        rows += joined[i] ? waiting[i].rows : 0;
        if (joined[i] && waiting[i].length > length)
            length = waiting[i].length;
    }
    int64_t at = NOW + tt_profile_latency(model.whole, rows, length);
    for (int32_t i = 0; i < count; i++)
        if (joined[i])
            sum += square((double)(at - waiting[i].arrived_at)) * waiting[i].rows;
    for (int32_t i = 0; i < count; i++) {
        if (joined[i])
            continue;
        at += tt_profile_latency(model.whole, waiting[i].rows, waiting[i].length);
        sum += square((double)(at - waiting[i].arrived_at)) * waiting[i].rows;
    }
    return sum;
}

static void random_queue(struct tt_prng *random) {
    count = 2 + (int32_t)tt_prng_below(random, WAITING - 1);
    int64_t at = NOW - (int64_t)tt_prng_below(random, NOW);
    for (int32_t i = 0; i < count; i++) {
        at += (int64_t)tt_prng_below(random, (uint64_t)(NOW - at) / 4 + 1);
        waiting[i] = (struct tt_request){.arrived_at = at,
                                         .rows = 1 + (int32_t)tt_prng_below(random, 2),
                                         .length = 1 + (int32_t)tt_prng_below(random, LENGTHS)};
    }
}

static void agrees_with_both_futures(void **state) {
    (void)state;
    uint64_t seed = test_seed(20261121);
    struct tt_prng random;
    tt_prng_init(&random, seed, 0);
    int32_t asked = 0, paid = 0;
    for (int32_t round = 0; round < 4000; round++) {
        make_model((int64_t)tt_prng_below(&random, 40) + 1, (int64_t)tt_prng_below(&random, 200));
        random_queue(&random);
        struct tt_joining joining;
        tt_joining_begin(&joining, &model, NOW);
        for (int32_t i = 0; i < count; i++)
            tt_joining_expect(&joining, &waiting[i]);
        bool joined[WAITING] = {true};
        tt_joining_join(&joining, &waiting[0]);
        for (int32_t i = 1, rows = waiting[0].rows; i < count; i++) {
            bool fits = rows + waiting[i].rows <= MAX_BATCH && tt_prng_below(&random, 3) > 0;
            if (fits) {
                double apart = play(joined);
                joined[i] = true;
                bool pays = play(joined) <= apart;
                joined[i] = pays;
                assert_int_equal(tt_joining_pays(&joining, &waiting[i]), pays);
                asked++;
                paid += pays;
            }
            rows += joined[i] ? waiting[i].rows : 0;
            (joined[i] ? tt_joining_join : tt_joining_pass)(&joining, &waiting[i]);
        }
        tt_profile_free((struct tt_profile *)(uintptr_t)model.whole);
    }
    print_message("%d asked, %d joined\n", asked, paid);
    assert_in_range(paid, asked / 20, asked - asked / 20);
}

/* A batch saves a tenth. Two requests arrive at once and three behind them: the second joins. If
 * the first has waited long and the others have not, it would lose more than they gain. */
static void the_oldest_is_not_kept_for_the_youngest(void **state) {
    (void)state;
    make_model(9, 1);
    for (int32_t old = 0; old < 2; old++) {
        struct tt_joining joining;
        tt_joining_begin(&joining, &model, NOW);
        count = 12;
        for (int32_t i = 0; i < count; i++) {
            waiting[i] =
                (struct tt_request){.arrived_at = old && i == 0 ? 0 : NOW, .rows = 1, .length = 1};
            tt_joining_expect(&joining, &waiting[i]);
        }
        tt_joining_join(&joining, &waiting[0]);
        assert_int_equal(tt_joining_pays(&joining, &waiting[1]), !old);
    }
    tt_profile_free((struct tt_profile *)(uintptr_t)model.whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_both_futures),
        cmocka_unit_test(the_oldest_is_not_kept_for_the_youngest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
