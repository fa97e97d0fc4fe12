/* S8: the partition of models: limits, values and bounds against exhaustive search on tiny
 * problems, the searched state against sums made anew, and that the answer depends on nothing but
 * the problem. */
#include "base/prng.h"
#include "place/place_bound.h"
#include "place/place_exchange.h"
#include "place/place_search.h"
#include "place/place_state.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_MODELS = 7, MAX_CLUSTERS = 3, PROBLEMS = 600, SMALL_EFFORT = 40000 };

struct world {
    struct tt_place_model models[64];
    struct tt_place_problem problem;
};

static int64_t draw(struct tt_prng *prng, int64_t low, int64_t high) {
    return low + (int64_t)tt_prng_below(prng, (uint64_t)(high - low + 1));
}

/* Limits are drawn so that about half of the problems hold them easily, and some cannot. */
static void make_world(struct world *self, struct tt_prng *prng, int32_t models, int32_t clusters) {
    int64_t rate = 0, memory = 0;
    int32_t first = (int32_t)draw(prng, -1, 0); /* NOWHERE, or each model lies somewhere */
    int64_t most_cost = draw(prng, 0, 1) ? 3 : 1;
    for (int32_t i = 0; i < models; i++) {
        self->models[i] = (struct tt_place_model){.name = "m",
                                                  .rate = draw(prng, 0, 50) * TT_PLACE_MICRO,
                                                  .static_bytes = draw(prng, 1, 50) << 20,
                                                  .dynamic_bytes = draw(prng, 0, 30) << 20,
                                                  .cost = draw(prng, 1, most_cost) * TT_PLACE_MICRO,
                                                  .now = (int32_t)draw(prng, first, clusters - 1)};
        rate += self->models[i].rate;
        memory += self->models[i].static_bytes;
    }
    self->problem = (struct tt_place_problem){
        .models = self->models,
        .model_count = models,
        .cluster_count = clusters,
        .max_rate = draw(prng, 0, 1) ? rate / clusters * draw(prng, 10, 20) / 10 : 0,
        .max_memory =
            draw(prng, 0, 1) ? memory / clusters * draw(prng, 10, 25) / 10 + (15 << 20) : 0,
        .max_cost = draw(prng, 0, 2) ? draw(prng, 0, 12) * TT_PLACE_MICRO : -1,
        .weight = (double)draw(prng, 0, 4) / 2,
        .seed = tt_prng_next(prng)};
}

/* The least objective of all assignments that hold the limits; infinite if none does. */
static double exhaustive(const struct tt_place_problem *problem) {
    double least = INFINITY;
    int32_t at[MAX_MODELS] = {0};
    for (;;) {
        struct tt_place_value value;
        struct tt_error why;
        if (tt_place_check(problem, at, &why) == TT_OK) {
            assert_int_equal(tt_place_evaluate(problem, at, &value), TT_OK);
            least = fmin(least, value.objective);
        }
        int32_t i = 0;
        while (i < problem->model_count && ++at[i] == problem->cluster_count)
            at[i++] = 0;
        if (i == problem->model_count)
            return least;
    }
}

static void test_tiny_problems_are_solved(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(25), 0);
    int32_t solved = 0, missed = 0, impossible = 0, bound_helps = 0;
    for (int32_t k = 0; k < PROBLEMS; k++) {
        struct world world;
        make_world(&world, &prng, (int32_t)draw(&prng, 1, MAX_MODELS),
                   (int32_t)draw(&prng, 1, MAX_CLUSTERS));
        double best = exhaustive(&world.problem), bound;
        int32_t at[MAX_MODELS];
        struct tt_error why;
        struct tt_place_effort effort = {.moves = SMALL_EFFORT};
        enum tt_err err = tt_place_search(&world.problem, &effort, at, &why);
        if (isinf(best)) {
            assert_true(err == TT_ERR_INVALID || err == TT_ERR_UNAVAILABLE);
            impossible++;
            continue;
        }
        assert_int_equal(tt_place_possible(&world.problem, &why), TT_OK);
        solved++;
        if (err) { /* the search may end beside tight limits (place_search.h) */
            assert_int_equal(err, TT_ERR_UNAVAILABLE);
            missed++;
            continue;
        }
        struct tt_place_value value;
        assert_int_equal(tt_place_check(&world.problem, at, &why), TT_OK);
        assert_int_equal(tt_place_evaluate(&world.problem, at, &value), TT_OK);
        assert_int_equal(tt_place_bound(&world.problem, &bound), TT_OK);
        if (value.objective < best - 1e-9 || bound > best + 1e-9)
            fail_msg("problem %d: %g found, %g is the best, the bound is %g", k, value.objective,
                     best, bound);
        missed += value.objective > best + 1e-9;
        bound_helps += bound > best / 2 && best > 0;
    }
    printf("%d can be solved, %d of them were not at best, %d impossible, %d with a bound above "
           "half\n",
           solved, missed, impossible, bound_helps);
    assert_true(solved > PROBLEMS / 4);
    assert_true(missed * 25 <= solved); /* a local search may end elsewhere */
    assert_true(impossible > 0);
    assert_true(bound_helps > 0);
}

static void test_a_state_equals_its_sums(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(26), 0);
    struct world world;
    make_world(&world, &prng, 40, 5);
    struct tt_place_state searched;
    assert_int_equal(tt_place_state_init(&searched, &world.problem), TT_OK);
    for (int32_t k = 0; k < 4000; k++) {
        tt_place_state_relocate(&searched, (int32_t)draw(&prng, 0, 39), (int32_t)draw(&prng, 0, 4));
        if (k % 100 == 0) {
            tt_place_state_sharpen(&searched, (int32_t)draw(&prng, 1, 5));
            tt_place_state_check(&searched);
        }
    }
    for (int32_t i = 0; i < 40; i++)
        if (searched.at[i] == TT_PLACE_NOWHERE)
            tt_place_state_relocate(&searched, i, 0);
    struct tt_place_value value;
    assert_int_equal(tt_place_evaluate(&world.problem, searched.at, &value), TT_OK);
    world.problem.max_rate = world.problem.max_memory = 0;
    tt_place_state_sharpen(&searched, 2);
    assert_true(fabs(tt_place_state_objective(&searched) - value.objective) < 1e-9);
    assert_int_equal(searched.cost, value.cost);
    tt_place_state_fini(&searched);
}

/* An exchange never makes the pair worse, keeps to limits and cost, and ends. */
static void test_exchanges_improve(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(27), 0);
    for (int32_t k = 0; k < 20; k++) {
        struct world world;
        make_world(&world, &prng, 40, 4);
        struct tt_place_state searched;
        struct tt_place_exchange exchange;
        assert_int_equal(tt_place_state_init(&searched, &world.problem), TT_OK);
        assert_int_equal(tt_place_exchange_init(&exchange), TT_OK);
        for (int32_t i = 0; i < 40; i++)
            tt_place_state_relocate(&searched, i, i % 4);
        double before = 0, after = 0;
        int64_t cost = searched.cost;
        for (int32_t j = 0; j < 4; j++)
            before += pow(searched.clusters[j].rate_deviation, 2) +
                      pow(world.problem.weight * searched.clusters[j].memory_deviation, 2);
        double excess = searched.excess;
        assert_true(tt_place_exchange_all(&exchange, &searched, 100000) < 100000);
        for (int32_t j = 0; j < 4; j++)
            after += pow(searched.clusters[j].rate_deviation, 2) +
                     pow(world.problem.weight * searched.clusters[j].memory_deviation, 2);
        assert_true(after <= before);
        assert_true(searched.excess <= excess + 1e-9);
        assert_true(world.problem.max_cost < 0 || searched.cost <= world.problem.max_cost ||
                    searched.cost <= cost);
        tt_place_state_check(&searched);
        tt_place_exchange_fini(&exchange);
        tt_place_state_fini(&searched);
    }
}

/* The baseline of figure 16: the best of as many random assignments as the search tries moves. */
static void test_random_assignments_are_far_worse(void **state) {
    (void)state;
    enum { MODELS = 60, CLUSTERS = 6, DRAWS = 50000 };
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(30), 0);
    struct world world;
    make_world(&world, &prng, MODELS, CLUSTERS);
    world.problem.max_rate = world.problem.max_memory = 0;
    world.problem.max_cost = -1;
    world.problem.weight = 1;
    struct tt_place_value value;
    int32_t at[MODELS];
    double drawn = INFINITY;
    for (int32_t k = 0; k < DRAWS; k++) {
        for (int32_t i = 0; i < MODELS; i++)
            at[i] = (int32_t)draw(&prng, 0, CLUSTERS - 1);
        assert_int_equal(tt_place_evaluate(&world.problem, at, &value), TT_OK);
        drawn = fmin(drawn, value.objective);
    }
    struct tt_error why;
    struct tt_place_effort effort = {.moves = DRAWS};
    assert_int_equal(tt_place_search(&world.problem, &effort, at, &why), TT_OK);
    assert_int_equal(tt_place_evaluate(&world.problem, at, &value), TT_OK);
    printf("objective %g, of random assignments %g\n", value.objective, drawn);
    assert_true(value.objective < drawn / 4);
}

static bool stop_at_once(void *context, double share) {
    *(int32_t *)context += 1;
    return share > 1;
}

static void test_only_the_problem_decides(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, 28, 0);
    struct world world;
    make_world(&world, &prng, 60, 6);
    world.problem.max_rate = world.problem.max_memory = 0;
    world.problem.max_cost = -1;
    int32_t first[60], second[60], calls = 0;
    struct tt_error why;
    struct tt_place_effort effort = {.moves = 100000};
    assert_int_equal(tt_place_search(&world.problem, &effort, first, &why), TT_OK);
    assert_int_equal(tt_place_search(&world.problem, &effort, second, &why), TT_OK);
    assert_memory_equal(first, second, sizeof(first));
    /* Interrupted: a whole assignment all the same. */
    effort = (struct tt_place_effort){.moves = 100000, .goes_on = stop_at_once, .context = &calls};
    assert_int_equal(tt_place_search(&world.problem, &effort, second, &why), TT_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(tt_place_check(&world.problem, second, &why), TT_OK);
}

static void test_what_fits_nowhere_is_named(void **state) {
    (void)state;
    struct tt_place_model models[] = {
        {.name = "small", .rate = 1, .static_bytes = 10 << 20, .now = 0, .cost = 1},
        {.name = "large",
         .rate = 9,
         .static_bytes = 90 << 20,
         .dynamic_bytes = 20 << 20,
         .now = TT_PLACE_NOWHERE,
         .cost = TT_PLACE_MICRO}};
    struct tt_place_problem problem = {.models = models,
                                       .model_count = 2,
                                       .cluster_count = 2,
                                       .max_memory = 100 << 20,
                                       .max_cost = -1,
                                       .weight = 1};
    struct tt_place_effort effort = {.moves = 1000};
    struct tt_error why;
    int32_t at[2];
    assert_int_equal(tt_place_search(&problem, &effort, at, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "'large' fits nowhere"));
    problem.max_memory = 0;
    problem.max_rate = 8;
    assert_int_equal(tt_place_search(&problem, &effort, at, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "'large' fits nowhere"));
    problem.max_rate = 0;
    problem.max_cost = TT_PLACE_MICRO / 2;
    assert_int_equal(tt_place_search(&problem, &effort, at, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "max_cost is 0.5"));
    problem.max_cost = TT_PLACE_MICRO;
    assert_int_equal(tt_place_search(&problem, &effort, at, &why), TT_OK);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[1], 1);
    /* Each fits alone; together they do not, on one sub-cluster. */
    problem.cluster_count = 1;
    problem.max_memory = 115 << 20;
    assert_int_equal(tt_place_search(&problem, &effort, at, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "needs 120 MiB; it has 115"));
}

/* ---- a state that breaks its rules ---- */

static struct tt_place_state broken;
static struct world broken_world;

static void prepare(void) {
    struct tt_prng prng;
    tt_prng_init(&prng, 29, 0);
    make_world(&broken_world, &prng, 12, 3);
    if (tt_place_state_init(&broken, &broken_world.problem))
        abort();
    for (int32_t i = 0; i < 12; i++)
        tt_place_state_relocate(&broken, i, i % 3);
    tt_place_state_check(&broken);
}
static void breaks_rate(void) {
    prepare();
    broken.clusters[1].rate++;
    tt_place_state_check(&broken);
}
static void breaks_memory(void) {
    prepare();
    broken.clusters[1].memory++;
    tt_place_state_check(&broken);
}
static void breaks_dynamic(void) {
    prepare();
    broken.clusters[2].dynamic++;
    tt_place_state_check(&broken);
}
static void breaks_cost(void) {
    prepare();
    broken.cost++;
    tt_place_state_check(&broken);
}
static void breaks_list(void) {
    prepare();
    broken.at[broken.clusters[0].first] = 1;
    tt_place_state_check(&broken);
}
static void breaks_moved(void) {
    prepare();
    broken.moved_count--;
    tt_place_state_check(&broken);
}

static void test_broken_states_are_found(void **state) {
    (void)state;
    assert_holds(prepare);
    static const struct breach breaches[] = {
        BREACH(breaks_rate, "cluster->rate == rate"),
        BREACH(breaks_memory, "cluster->memory == memory"),
        BREACH(breaks_dynamic, "cluster->dynamic == dynamic"),
        BREACH(breaks_cost, "self->cost == cost"),
        BREACH(breaks_list, "self->at[i] == j"),
        BREACH(breaks_moved, "self->moved_count == moved"),
    };
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_problems_are_solved),
        cmocka_unit_test(test_a_state_equals_its_sums),
        cmocka_unit_test(test_exchanges_improve),
        cmocka_unit_test(test_random_assignments_are_far_worse),
        cmocka_unit_test(test_only_the_problem_decides),
        cmocka_unit_test(test_what_fits_nowhere_is_named),
        cmocka_unit_test(test_broken_states_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
