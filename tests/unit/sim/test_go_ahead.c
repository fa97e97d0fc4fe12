/* Steps between which nothing else happens end without an instant of their own: the simulation
 * gives the same as one that stops at every instant. */
#include "base/prng.h"
#include "sim/simulation_state.h"
#include "unit/seed.h"
#include "unit/sim/step_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WORLDS = 400 };

struct policy_case {
    const char *name;
    struct tt_option option;
};

static int64_t between(struct tt_prng *prng, int64_t low, int64_t high) {
    return low + (int64_t)tt_prng_below(prng, (uint64_t)(high - low + 1));
}

/* The world of that seed and number. */
static void make(struct step_world *world, const struct policy_case *with, uint64_t seed,
                 uint64_t number) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, number);
    memset(world, 0, sizeof(*world));
    world->policy = with->name;
    world->options = &with->option;
    world->option_count = with->option.key != NULL;
    world->model_count = (int32_t)between(&prng, 1, 2);
    world->executors = (int32_t)between(&prng, 1, 3);
    world->depth = (int32_t)between(&prng, 1, 2);
    for (int32_t m = 0; m < world->model_count; m++) {
        struct step_world_model *model = &world->models[m];
        *model = (struct step_world_model){.steps = (int32_t)between(&prng, 1, WORLD_STEPS),
                                           .slo_ns = between(&prng, 50, 500),
                                           .max_batch = (int32_t)between(&prng, 1, 8)};
        for (int32_t s = 0; s < model->steps; s++) {
            model->alpha[s] = between(&prng, 0, 2);
            model->beta[s] = between(&prng, 1, 6);
        }
    }
    int64_t at = 0, gap = between(&prng, 2, 60);
    for (int32_t i = 0; i < WORLD_REQUESTS; i++) {
        at += between(&prng, 0, gap);
        struct tt_sim_arrival *arrival =
            step_world_arrival(world, at, (int32_t)between(&prng, 0, world->model_count - 1));
        if (between(&prng, 0, 9) == 0)
            arrival->cancel_at = at + between(&prng, 0, 100);
    }
}

/* Both return how many instants the simulation stopped at. */
static int64_t run_through(struct step_world *world) {
    int64_t instants = 1;
    while (tt_simulation_run(world->simulation, 1))
        instants++;
    return instants;
}

static int64_t run_by_instants(struct step_world *world) {
    int64_t instants = 0;
    for (int64_t at; (at = tt_simulation_next_at(world->simulation)) != TT_NEVER; instants++)
        tt_simulation_run_until(world->simulation, at);
    return instants;
}

static void assert_same(const struct step_world *a, const struct step_world *b) {
    assert_int_equal(a->log_count, b->log_count);
    for (int32_t i = 0; i < a->log_count; i++) {
        const struct step_world_entry *x = &a->log[i], *y = &b->log[i];
        assert_int_equal(x->start_at, y->start_at);
        assert_int_equal(x->end_at, y->end_at);
        assert_int_equal(x->executor, y->executor);
        assert_int_equal(x->model, y->model);
        assert_int_equal(x->step, y->step);
        assert_int_equal(x->count, y->count);
        assert_memory_equal(x->members, y->members, (size_t)x->count * sizeof(x->members[0]));
    }
    for (int32_t i = 0; i < a->arrival_count; i++) {
        assert_int_equal(a->ends[i].ended_at, b->ends[i].ended_at);
        assert_int_equal(a->ends[i].ending, b->ends[i].ending);
        assert_int_equal(a->ends[i].reason, b->ends[i].reason);
    }
    for (int32_t d = 0; d < a->executors; d++)
        assert_int_equal(a->simulation->devices[d].busy_ns, b->simulation->devices[d].busy_ns);
}

static void steps_go_ahead_unseen(void **state) {
    (void)state;
    static const struct policy_case cases[] = {{"window", {"max_delay", "20ns"}},
                                               {"eager", {0}},
                                               {"timeout", {"delay", "10ns"}},
                                               {"symphony", {0}},
                                               {"lazy", {0}},
                                               {"serial", {0}}};
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    uint64_t seed = test_seed(20261130);
    static struct step_world through, stopping;
    for (int32_t c = 0; c < CASES; c++) {
        int64_t instants = 0, all = 0;
        for (uint64_t i = 0; i < WORLDS; i++) {
            make(&through, &cases[c], seed, i);
            make(&stopping, &cases[c], seed, i);
            step_world_open(&through);
            step_world_open(&stopping);
            instants += run_through(&through);
            all += run_by_instants(&stopping);
            assert_same(&through, &stopping);
            step_world_close(&through);
            step_world_close(&stopping);
        }
        print_message("%s: %lld of %lld instants\n", cases[c].name, (long long)instants,
                      (long long)all);
        assert_true(instants < all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_go_ahead_unseen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
