/* The cheapest batches of one model beside all families of disjoint sets, at random prices. */
#include "lab/clairvoyant/batch_partition.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 20000, MOST = 7, MOST_BATCH = 4, SETS = 1 << MOST };

struct bench {
    struct tt_clairvoyant_model model;
    int64_t arrived_at[MOST], deadline_at[MOST], latency_ns[MOST_BATCH + 1];
    struct tt_device_prices prices;
    struct tt_batch_costs costs;
    struct tt_batch_partition partition;
    int64_t cost[SETS]; /* of a set; TT_NEVER: it cannot start */
};

static int64_t below(struct tt_prng *prng, int64_t bound) {
    return (int64_t)tt_prng_below(prng, (uint64_t)bound);
}

static int64_t price_at(const struct tt_device_prices *prices, int64_t at) {
    return prices->price[(at - prices->origin_at) / prices->cell_ns];
}

/* The least cost over all whole starts, ns by ns. */
static int64_t naive_cost(const struct bench *bench, uint32_t set) {
    int32_t first = -1, last = -1, count = 0;
    for (int32_t i = 0; i < bench->model.count; i++) {
        if (!(set >> i & 1))
            continue;
        first = first < 0 ? i : first;
        last = i;
        count++;
    }
    int64_t least = TT_NEVER;
    if (count == 0 || count > bench->model.max_batch)
        return least;
    int64_t length_ns = bench->latency_ns[count];
    for (int64_t s = bench->arrived_at[last]; s + length_ns <= bench->deadline_at[first]; s++) {
        int64_t cost = 0;
        for (int64_t at = s; at < s + length_ns; at++)
            cost += price_at(&bench->prices, at);
        least = tt_instant_min(least, cost);
    }
    return least;
}

/* The least cost - value * members over the disjoint sets of `rest`. */
static int64_t naive_partition(const struct bench *bench, uint32_t rest, int64_t value) {
    if (rest == 0)
        return 0;
    uint32_t first = rest & -rest, others = rest & ~first;
    int64_t least = naive_partition(bench, others, value);
    for (uint32_t part = others;; part = (part - 1) & others) {
        uint32_t set = part | first;
        if (bench->cost[set] != TT_NEVER)
            least = tt_instant_min(least, bench->cost[set] - value * __builtin_popcount(set) +
                                              naive_partition(bench, rest & ~set, value));
        if (part == 0)
            break;
    }
    return least;
}

static void set_up(struct bench *bench, struct tt_prng *prng, bool flat) {
    memset(bench, 0, sizeof(*bench));
    struct tt_clairvoyant_model *model = &bench->model;
    *model = (struct tt_clairvoyant_model){.arrived_at = bench->arrived_at,
                                           .deadline_at = bench->deadline_at,
                                           .latency_ns = bench->latency_ns,
                                           .count = 1 + (int32_t)below(prng, MOST),
                                           .max_batch = 1 + (int32_t)below(prng, MOST_BATCH)};
    int64_t slo_ns = 10 + below(prng, 40), spread_ns = 1 + below(prng, 50);
    for (int32_t i = 0; i < model->count; i++) {
        model->arrived_at[i] = below(prng, spread_ns);
        model->deadline_at[i] = model->arrived_at[i] + slo_ns;
    }
    tt_clairvoyant_model_order(model);
    model->latency_ns[1] = 1 + below(prng, 12);
    for (int32_t b = 2; b <= MOST_BATCH; b++)
        model->latency_ns[b] = model->latency_ns[b - 1] + below(prng, 8);
    int32_t largest = tt_clairvoyant_model_largest(model);
    tt_device_prices_init(&bench->prices, 0, 120, 1 + below(prng, 6), model->latency_ns[largest]);
    double weights[121];
    for (int32_t c = 0; c < bench->prices.cell_count; c++)
        weights[c] = flat ? 1 : (double)below(prng, 100) / 50;
    tt_device_prices_set(&bench->prices, weights);
    tt_batch_costs_init(&bench->costs, model, &bench->prices);
    tt_batch_costs_find(&bench->costs, &bench->prices);
    tt_batch_partition_init(&bench->partition, &bench->costs);
    for (uint32_t set = 0; set < 1u << model->count; set++)
        bench->cost[set] = naive_cost(bench, set);
}

static void tear_down(struct bench *bench) {
    tt_batch_partition_fini(&bench->partition);
    tt_batch_costs_fini(&bench->costs);
    tt_device_prices_fini(&bench->prices);
}

/* Whether the recursion finds the very minimum; it must never exceed it. */
static bool is_equal(struct bench *bench, int64_t value) {
    uint32_t all = (1u << bench->model.count) - 1;
    int64_t bound = tt_batch_partition_solve(&bench->partition, value);
    int64_t least = naive_partition(bench, all, value);
    assert_true(bound <= least);
    assert_true(bench->partition.served >= 0);
    assert_true(bench->partition.served <= bench->model.count);
    return bound == least;
}

static void never_above_any_family(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1127), 0);
    int64_t equal[2] = {0};
    for (int32_t i = 0; i < CASES; i++) {
        struct bench bench;
        bool flat = i % 2 == 0;
        set_up(&bench, &prng, flat);
        int64_t value = below(&prng, 20 * TT_DEVICE_PRICE_MEAN);
        equal[flat] += is_equal(&bench, value);
        tear_down(&bench);
    }
    printf("equal: %lld of %d at equal prices, %lld at others\n", (long long)equal[true], CASES / 2,
           (long long)equal[false]);
    /* Cells widen the starts a little; at equal prices that costs nothing. */
    assert_true(equal[true] * 10 >= CASES / 2 * 8);
    assert_true(equal[false] * 10 >= CASES / 2 * 3);
}

/* The load of a solution is the devices' time that it takes. */
static void load_is_time(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1128), 0);
    for (int32_t i = 0; i < 200; i++) {
        struct bench bench;
        set_up(&bench, &prng, true);
        int64_t value = below(&prng, 20 * TT_DEVICE_PRICE_MEAN);
        int64_t bound = tt_batch_partition_solve(&bench.partition, value);
        double load[512] = {0}, devices = 0, time_ns = 0;
        tt_batch_partition_add_load(&bench.partition, bench.prices.cell_ns, load);
        for (int32_t c = 0; c < bench.prices.padded; c++) {
            devices += load[c];
            time_ns += devices * (double)bench.prices.cell_ns;
        }
        double cost = (double)(bound + value * bench.partition.served);
        assert_float_equal(time_ns * TT_DEVICE_PRICE_MEAN, cost, TT_DEVICE_PRICE_MEAN * MOST);
        tear_down(&bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_above_any_family),
        cmocka_unit_test(load_is_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
