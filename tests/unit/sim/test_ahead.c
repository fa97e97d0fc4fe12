/* D4: `diversity` submits the next stage of a batch when a stage begins. What ran when, in virtual
 * time, on devices that a message takes a while to reach. */
#include "unit/sim/step_world.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STAGE = 100, MESSAGE = 10 };

#define OPTIONS(world, ...)                                                                        \
    do {                                                                                           \
        static const struct tt_option options[] = {__VA_ARGS__};                                   \
        (world)->options = options;                                                                \
        (world)->option_count = TT_COUNT(options);                                                 \
    } while (0)

/* One model of stages that take 100 ns whatever the rows, on as many executors. */
static struct step_world pipeline(int32_t stages, int32_t executors, int32_t depth) {
    struct step_world world = {.model_count = 1,
                               .executors = executors,
                               .depth = depth,
                               .d_ctrl_ns = MESSAGE,
                               .policy = "diversity"};
    world.models[0] =
        (struct step_world_model){.steps = stages, .slo_ns = TT_NEVER, .max_batch = 4};
    for (int32_t s = 0; s < stages; s++)
        world.models[0].beta[s] = STAGE;
    return world;
}

/* When the request's step started; -1: it did not. */
static int64_t started_at(const struct step_world *world, int64_t request, int32_t step) {
    for (int32_t i = 0; i < world->log_count; i++)
        for (int32_t k = 0; k < world->log[i].count; k++)
            if (world->log[i].step == step && world->log[i].members[k] == request)
                return world->log[i].start_at;
    return -1;
}

/* The time between the end of the request's step and the start of its next one. */
static int64_t gap(const struct step_world *world, int64_t request, int32_t step) {
    return started_at(world, request, step + 1) - started_at(world, request, step) - STAGE;
}

static void stages_follow_each_other_without_a_message(void **state) {
    (void)state;
    for (int32_t ahead = 0; ahead < 2; ahead++) {
        struct step_world world = pipeline(3, 3, 1);
        if (ahead)
            OPTIONS(&world, {"stretch", "off"}, {"ahead", "on"});
        else
            OPTIONS(&world, {"stretch", "off"}, {"ahead", "off"});
        step_world_arrival(&world, 0, 0);
        step_world_open(&world);
        step_world_run(&world);
        assert_int_equal(started_at(&world, 0, 0), MESSAGE);
        assert_int_equal(gap(&world, 0, 0), ahead ? 0 : MESSAGE);
        assert_int_equal(gap(&world, 0, 1), ahead ? 0 : MESSAGE);
        assert_int_equal(world.ends[0].ended_at, 3 * STAGE + (ahead ? 1 : 3) * MESSAGE);
        step_world_close(&world);
    }
}

/* The second executor is busy with the batch before when a stage begins. With room behind that task
 * it gets the next one at once. Without, it gets it when it is idle, too late for the message. */
static void a_busy_executor_takes_one_more(void **state) {
    (void)state;
    for (int32_t depth = 1; depth <= 2; depth++) {
        struct step_world world = pipeline(2, 2, depth);
        world.models[0].beta[1] = STAGE + MESSAGE / 2;
        OPTIONS(&world, {"stretch", "off"}, {"bs_max", "1"}, {"ahead", "on"});
        for (int i = 0; i < 5; i++)
            step_world_arrival(&world, 0, 0);
        step_world_open(&world);
        step_world_run(&world);
        for (int i = 0; i < 5; i++) {
            if (depth == 2 || i == 0)
                assert_int_equal(gap(&world, i, 0), 0);
            else
                assert_true(gap(&world, i, 0) >= MESSAGE / 2);
        }
        step_world_close(&world);
    }
}

/* One executor runs all stages: the next one waits behind the one that runs. */
static void stages_of_one_executor(void **state) {
    (void)state;
    struct step_world world = pipeline(3, 1, 2);
    OPTIONS(&world, {"stretch", "off"}, {"ahead", "on"});
    step_world_arrival(&world, 0, 0);
    step_world_open(&world);
    step_world_run(&world);
    assert_int_equal(world.ends[0].ended_at, 3 * STAGE + MESSAGE);
    step_world_close(&world);
}

/* A batch that newcomers may join is not followed: the second request stretches it. Once it is
 * older than comp_wait, or full, it is. */
static void not_while_the_batch_may_stretch(void **state) {
    (void)state;
    static const struct {
        const char *comp_wait, *bs_max;
        bool follows;
    } cases[] = {{"1ms", "4", false}, {"0ms", "4", true}, {"1ms", "1", true}};
    for (size_t c = 0; c < TT_COUNT(cases); c++) {
        struct step_world world = pipeline(2, 2, 2);
        const struct tt_option options[] = {{"ahead", "on"},
                                            {"comp_wait", cases[c].comp_wait},
                                            {"bs_max", cases[c].bs_max},
                                            {"split", "off"}};
        world.options = options;
        world.option_count = TT_COUNT(options);
        step_world_arrival(&world, 0, 0);
        step_world_arrival(&world, 50, 0);
        step_world_open(&world);
        step_world_run(&world);
        if (cases[c].follows)
            assert_int_equal(gap(&world, 0, 0), 0);
        else /* the first waits while the second catches up, and both go on as one batch */
            assert_int_equal(started_at(&world, 0, 1), started_at(&world, 1, 1));
        step_world_close(&world);
    }
}

/* Two halves take the second stage as fast as the whole: the batch splits there. */
static void not_where_the_batch_splits(void **state) {
    (void)state;
    struct step_world world = pipeline(2, 2, 2);
    world.models[0].alpha[1] = STAGE;
    world.models[0].beta[1] = 0;
    OPTIONS(&world, {"stretch", "off"}, {"ahead", "on"});
    for (int i = 0; i < 4; i++)
        step_world_arrival(&world, 0, 0);
    step_world_open(&world);
    step_world_run(&world);
    assert_int_equal(gap(&world, 0, 0), MESSAGE);
    assert_true(started_at(&world, 3, 1) > started_at(&world, 0, 1));
    step_world_close(&world);
}

/* D8: requests leave at the end of the first stage, and are answered then; the stages behind that
 * follow each other. */
static void not_where_requests_may_exit(void **state) {
    (void)state;
    struct step_world world;
    for (int32_t last = 2; last <= 3; last++) { /* behind the first stage only */
        world = pipeline(last, last, 2);
        world.models[0].exits = 1;
        OPTIONS(&world, {"stretch", "off"}, {"ahead", "on"});
        step_world_arrival(&world, 0, 0);
        step_world_arrival(&world, 0, 0)->exit_step = 0;
        step_world_open(&world);
        step_world_run(&world);
        assert_int_equal(gap(&world, 0, 0), MESSAGE);
        if (last == 3)
            assert_int_equal(gap(&world, 0, 1), 0);
        assert_int_equal(world.ends[1].ended_at, MESSAGE + STAGE);
        step_world_close(&world);
    }
}

/* Recurrent steps: a stage that ends within a block is not followed. */
static void not_within_a_block(void **state) {
    (void)state;
    struct step_world world = pipeline(2, 2, 2);
    world.models[0].kinds[0] = world.models[0].kinds[1] = TT_STEP_ENCODER;
    OPTIONS(&world, {"stretch", "off"}, {"ahead", "on"});
    step_world_arrival(&world, 0, 0)->length = 3;
    step_world_open(&world);
    step_world_run(&world);
    assert_int_equal(world.ends[0].ending, TT_ENDING_DONE);
    step_world_close(&world);
}

static void a_cancelled_request_leaves_once(void **state) {
    (void)state;
    struct step_world world = pipeline(2, 2, 2);
    OPTIONS(&world, {"stretch", "off"}, {"ahead", "on"});
    step_world_arrival(&world, 0, 0)->cancel_at = 50;
    step_world_arrival(&world, 0, 0);
    step_world_open(&world);
    step_world_run(&world);
    assert_int_equal(world.ends[0].ending, TT_ENDING_CANCELLED);
    assert_int_equal(world.ends[1].ending, TT_ENDING_DONE);
    assert_int_equal(world.ends[1].ended_at, MESSAGE + 2 * STAGE);
    step_world_close(&world);
}

/* ---- random worlds ---- */

static const char *pick(struct tt_prng *prng, const char *a, const char *b) {
    return tt_prng_below(prng, 2) ? a : b;
}

static void fill(struct step_world *world, struct tt_prng *prng) {
    world->model_count = 1 + (int32_t)tt_prng_below(prng, WORLD_MODELS);
    for (int32_t m = 0; m < world->model_count; m++) {
        struct step_world_model *model = &world->models[m];
        *model = (struct step_world_model){.steps = 1 + (int32_t)tt_prng_below(prng, 5),
                                           .slo_ns = TT_NEVER,
                                           .max_batch = 1 + (int32_t)tt_prng_below(prng, 6),
                                           .slots = tt_prng_below(prng, 3) ? 0 : 8};
        if (tt_prng_below(prng, 3) == 0)
            model->exits = (uint32_t)tt_prng_below(prng, 1u << (model->steps - 1));
        for (int32_t s = 0; s < model->steps; s++) {
            model->alpha[s] = (int64_t)tt_prng_below(prng, 60);
            model->beta[s] = 1 + (int64_t)tt_prng_below(prng, 100);
        }
    }
    int64_t at = 0;
    for (int32_t i = 0; i < 40; i++) {
        at += (int64_t)tt_prng_below(prng, 150);
        int32_t m = (int32_t)tt_prng_below(prng, (uint64_t)world->model_count);
        const struct step_world_model *model = &world->models[m];
        struct tt_sim_arrival *arrival = step_world_arrival(world, at, m);
        arrival->rows = 1 + (int32_t)tt_prng_below(prng, (uint64_t)(model->max_batch + 1) / 2);
        if (tt_prng_below(prng, 8) == 0)
            arrival->cancel_at = at + (int64_t)tt_prng_below(prng, 500);
        int32_t exit = (int32_t)tt_prng_below(prng, (uint64_t)model->steps);
        if (model->exits >> exit & 1 && tt_prng_below(prng, 2) == 0)
            arrival->exit_step = exit;
    }
}

/* Each step of a request runs once and after the one before it. */
static void check_order(const struct step_world *world) {
    for (int64_t request = 0; request < world->arrival_count; request++) {
        int64_t last_end_at = 0;
        int32_t next = 0;
        for (int32_t i = 0; i < world->log_count; i++)
            for (int32_t k = 0; k < world->log[i].count; k++) {
                if (world->log[i].members[k] != request)
                    continue;
                assert_int_equal(world->log[i].step, next);
                assert_true(world->log[i].start_at >= last_end_at);
                last_end_at = world->log[i].end_at;
                next++;
            }
        assert_true(world->ends[request].ended_at != TT_NEVER);
        const struct tt_sim_arrival *arrival = &world->arrivals[request];
        int32_t steps = world->models[arrival->model].steps;
        if (world->ends[request].ending == TT_ENDING_DONE) /* where it is known, it exits there */
            assert_int_equal(next, arrival->exit_step < 0 ? steps : arrival->exit_step + 1);
    }
}

static int64_t followed; /* gaps of 0 despite the message */

static void run_one(uint64_t seed) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 4);
    struct step_world world = {.executors = 1 + (int32_t)tt_prng_below(&prng, 4),
                               .depth = 1 + (int32_t)tt_prng_below(&prng, 3),
                               .d_ctrl_ns = (int64_t)tt_prng_below(&prng, 2) * MESSAGE,
                               .policy = "diversity"};
    fill(&world, &prng);
    char pairs[8];
    snprintf(pairs, sizeof(pairs), "%d", 1 + (int)tt_prng_below(&prng, 3));
    const struct tt_option options[] = {{"ahead", "on"},
                                        {"pairs", pairs},
                                        {"stretch", pick(&prng, "on", "off")},
                                        {"split", pick(&prng, "on", "off")},
                                        {"input", pick(&prng, "on", "off")},
                                        {"beside", pick(&prng, "always", "pays")},
                                        {"comp_wait", pick(&prng, "0ms", "1ms")}};
    world.options = options;
    world.option_count = TT_COUNT(options);
    step_world_open(&world);
    step_world_run(&world);
    check_order(&world);
    for (int64_t r = 0; world.d_ctrl_ns > 0 && r < world.arrival_count; r++)
        for (int32_t i = 1; i < world.log_count; i++)
            for (int32_t j = 0; j < i && world.log[i].members[0] == r; j++)
                followed += world.log[j].members[0] == r &&
                            world.log[j].step + 1 == world.log[i].step &&
                            world.log[j].executor != world.log[i].executor &&
                            world.log[j].end_at == world.log[i].start_at;
    step_world_close(&world);
}

static void random_worlds(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    for (uint64_t i = 0; i < 400; i++)
        run_one(seed + i);
    assert_true(followed > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_follow_each_other_without_a_message),
        cmocka_unit_test(a_busy_executor_takes_one_more),
        cmocka_unit_test(stages_of_one_executor),
        cmocka_unit_test(not_while_the_batch_may_stretch),
        cmocka_unit_test(not_where_the_batch_splits),
        cmocka_unit_test(not_where_requests_may_exit),
        cmocka_unit_test(not_within_a_block),
        cmocka_unit_test(a_cancelled_request_leaves_once),
        cmocka_unit_test(random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
