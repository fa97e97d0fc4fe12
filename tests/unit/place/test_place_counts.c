/* Counting moves (place_counts.h): it admits every assignment that the cost allows, and rejects
 * deviations that cannot be reached. */
#include "place/place_counts.h"

#include "base/prng.h"
#include "place/place_bound.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_MODELS = 120, MAX_CLUSTERS = 8, PROBLEMS = 60, WALKS = 40, BALANCED = 300 };

struct world {
    struct tt_place_model models[MAX_MODELS];
    struct tt_place_problem problem;
    int32_t at[MAX_MODELS]; /* an assignment that the cost allows */
};

static int32_t draw(struct tt_prng *prng, int32_t low, int32_t high) {
    return low + (int32_t)tt_prng_below(prng, (uint64_t)high - (uint64_t)low + 1);
}

/* Models of all sizes, the large ones rare, as in scripts/make_placement.py. */
static int64_t draw_amount(struct tt_prng *prng) {
    int64_t amount = draw(prng, 1, 1000);
    return draw(prng, 0, 3) ? amount : amount * draw(prng, 1, 20);
}

static void make_world(struct world *self, struct tt_prng *prng) {
    int32_t models = draw(prng, 2, MAX_MODELS);
    int32_t clusters = draw(prng, 2, models < MAX_CLUSTERS ? models : MAX_CLUSTERS);
    int64_t most_cost = draw(prng, 1, 2);
    for (int32_t i = 0; i < models; i++)
        self->models[i] =
            (struct tt_place_model){.name = "m",
                                    .rate = draw_amount(prng) * TT_PLACE_MICRO,
                                    .static_bytes = draw_amount(prng) << 20,
                                    .cost = draw(prng, 1, (int32_t)most_cost) * TT_PLACE_MICRO,
                                    .now = draw(prng, 0, clusters - 1)};
    self->problem = (struct tt_place_problem){.models = self->models,
                                              .model_count = models,
                                              .cluster_count = clusters,
                                              .max_cost = draw(prng, 0, 24) * TT_PLACE_MICRO,
                                              .weight = (double)draw(prng, 0, 4) / 2};
}

/* Puts every model where both sums stay smallest: deviations that no few moves would reach. */
static void balance(struct world *self) {
    double rate[MAX_CLUSTERS] = {0}, memory[MAX_CLUSTERS] = {0};
    for (int32_t i = 0; i < self->problem.model_count; i++) {
        int32_t best = 0;
        for (int32_t j = 1; j < self->problem.cluster_count; j++)
            if (fmax(rate[j], memory[j]) < fmax(rate[best], memory[best]))
                best = j;
        self->at[i] = best;
        rate[best] += (double)self->models[i].rate / TT_PLACE_MICRO;
        memory[best] += (double)self->models[i].static_bytes / 0x100000;
    }
}

/* Moves models at random within the cost, from `from` to `to`: one of them is what lies now. */
static void walk(struct world *self, struct tt_prng *prng, bool moves_now) {
    int64_t cost = 0;
    for (int32_t i = 0; i < self->problem.model_count; i++)
        if (moves_now)
            self->models[i].now = self->at[i];
        else
            self->at[i] = self->models[i].now;
    for (int32_t k = draw(prng, 0, 30); k > 0; k--) {
        int32_t i = draw(prng, 0, self->problem.model_count - 1);
        struct tt_place_model *model = &self->models[i];
        if (model->now != self->at[i] || cost + 2 * model->cost > self->problem.max_cost)
            continue;
        int32_t to = draw(prng, 0, self->problem.cluster_count - 1);
        *(moves_now ? &model->now : &self->at[i]) = to;
        cost += to == model->now && to == self->at[i] ? 0 : 2 * model->cost;
    }
}

/* Whether `at` is admitted, and the bound is not above it. */
static void assert_admitted(const struct world *self, struct tt_place_counts *counts,
                            double bound) {
    struct tt_place_value value;
    assert_int_equal(tt_place_evaluate(&self->problem, self->at, &value), TT_OK);
    assert_true(value.cost <= self->problem.max_cost);
    assert_true(tt_place_counts_may_hold(counts, value.rate_deviation, value.memory_deviation));
    if (bound > value.objective + 1e-9)
        fail_msg("the bound is %.9g, an assignment has %.9g", bound, value.objective);
}

/* From what lies now, moves lead to assignments at random. */
static void test_what_moves_reach_is_admitted(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(31), 0);
    for (int32_t k = 0; k < PROBLEMS; k++) {
        struct world world;
        struct tt_place_counts *counts;
        double bound;
        make_world(&world, &prng);
        assert_int_equal(tt_place_counts_new(&world.problem, &counts), TT_OK);
        assert_int_equal(tt_place_bound(&world.problem, &bound), TT_OK);
        for (int32_t step = 0; step < WALKS; step++) {
            walk(&world, &prng, false);
            assert_admitted(&world, counts, bound);
        }
        tt_place_counts_free(counts);
    }
}

/* What lies now is a balanced assignment after moves. That one is far better than what lies now,
 * and can be reached again: here a bound that is too high shows. */
static void test_a_hidden_balance_is_admitted(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(32), 0);
    int32_t rejects = 0;
    for (int32_t k = 0; k < BALANCED; k++) {
        struct world world;
        struct tt_place_counts *counts;
        double bound;
        make_world(&world, &prng);
        balance(&world);
        walk(&world, &prng, true);
        assert_int_equal(tt_place_counts_new(&world.problem, &counts), TT_OK);
        assert_int_equal(tt_place_bound(&world.problem, &bound), TT_OK);
        assert_admitted(&world, counts, bound);
        rejects += !tt_place_counts_may_hold(counts, 1e-4, 1e-4);
        tt_place_counts_free(counts);
    }
    printf("%d of %d cannot be level\n", rejects, BALANCED);
    assert_true(rejects > BALANCED / 4);
}

/* Memory becomes level only when a sub-cluster gets more requests than any has now: the deviation
 * of the rate rises from 0.9 to 1.9, and the objective falls from 2.9 to 2.1. */
static void test_a_rate_may_become_worse(void **state) {
    (void)state;
    struct world world = {.problem = {.models = world.models,
                                      .model_count = 7,
                                      .cluster_count = 3,
                                      .max_cost = 2,
                                      .weight = 2}};
    for (int32_t i = 0; i < 4; i++)
        world.models[i] = (struct tt_place_model){.static_bytes = 250000000, .now = 0, .cost = 1};
    world.models[4] =
        (struct tt_place_model){.rate = 1000000, .static_bytes = 900000000, .now = 0, .cost = 1};
    world.models[5] = (struct tt_place_model){.rate = 1900000, .now = 1, .cost = 1};
    world.models[6] =
        (struct tt_place_model){.rate = 100000, .static_bytes = 1100000000, .now = 2, .cost = 1};
    struct tt_place_counts *counts;
    double bound;
    assert_int_equal(tt_place_counts_new(&world.problem, &counts), TT_OK);
    assert_int_equal(tt_place_bound(&world.problem, &bound), TT_OK);
    for (int32_t i = 0; i < 7; i++)
        world.at[i] = world.models[i].now;
    assert_admitted(&world, counts, bound);
    world.at[4] = 1;
    assert_admitted(&world, counts, bound);
    tt_place_counts_free(counts);
}

/* Where it says nothing: no limit on the cost, a new model, too many moves or sub-clusters. */
static void test_it_knows_its_limits(void **state) {
    (void)state;
    struct tt_place_model models[40];
    for (int32_t i = 0; i < 40; i++)
        models[i] = (struct tt_place_model){.rate = 1, .static_bytes = 1, .now = 0, .cost = 1};
    struct tt_place_problem problem = {
        .models = models, .model_count = 40, .cluster_count = 2, .max_cost = 64, .weight = 1};
    struct tt_place_counts *counts;
    assert_int_equal(tt_place_counts_new(&problem, &counts), TT_OK);
    assert_non_null(counts);
    /* 40 and 0 models: 20 moves make them level, and every model is alike. */
    assert_true(tt_place_counts_may_hold(counts, 0, 0));
    tt_place_counts_free(counts);
    problem.max_cost = 38;
    assert_int_equal(tt_place_counts_new(&problem, &counts), TT_OK);
    assert_false(tt_place_counts_may_hold(counts, 0, 1));
    assert_false(tt_place_counts_may_hold(counts, 1, 0));
    assert_false(tt_place_counts_may_hold(counts, 0.049, 0.051));
    assert_true(tt_place_counts_may_hold(counts, 0.051, 0.051));
    tt_place_counts_free(counts);
    problem.max_cost = 66; /* 33 moves */
    assert_int_equal(tt_place_counts_new(&problem, &counts), TT_OK);
    assert_null(counts);
    problem.max_cost = -1;
    assert_int_equal(tt_place_counts_new(&problem, &counts), TT_OK);
    assert_null(counts);
    problem.max_cost = 2;
    problem.cluster_count = 41;
    assert_int_equal(tt_place_counts_new(&problem, &counts), TT_OK);
    assert_null(counts);
    problem.cluster_count = 2;
    models[7].now = TT_PLACE_NOWHERE;
    assert_int_equal(tt_place_counts_new(&problem, &counts), TT_OK);
    assert_null(counts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_moves_reach_is_admitted),
        cmocka_unit_test(test_a_hidden_balance_is_admitted),
        cmocka_unit_test(test_a_rate_may_become_worse),
        cmocka_unit_test(test_it_knows_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
