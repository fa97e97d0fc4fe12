/* slow */
/* D5, D6, D7: the paper's figure 3, in units of its T; early exit and layer skip; random worlds. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { T = 1000000, MAX_REQUESTS = 4000, MAX_STARTS = 64 };

struct world {
    struct tt_sim_arrival arrivals[MAX_REQUESTS];
    int32_t arrival_count, next;
    int64_t latency[MAX_REQUESTS];
    int32_t ended, done;
    struct {
        int64_t at;
        int32_t executor, step, rows;
        int64_t first;
    } starts[MAX_STARTS];
    int32_t start_count;
    const struct tt_option *options;
    int32_t option_count;
    int32_t executors;
    uint64_t seed;
};

static bool next_arrival(void *context, struct tt_sim_arrival *out) {
    struct world *self = context;
    if (self->next == self->arrival_count)
        return false;
    *out = self->arrivals[self->next++];
    return true;
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct world *self = context;
    self->ended++;
    self->done += ending->ending == TT_ENDING_DONE;
    self->latency[ending->number] = ending->ended_at - ending->arrived_at;
}

static void on_step(void *context, int64_t now, const struct tt_task *task, int32_t step,
                    const int64_t *numbers) {
    struct world *self = context;
    if (self->start_count == MAX_STARTS)
        return;
    self->starts[self->start_count].at = now;
    self->starts[self->start_count].executor = task->executor;
    self->starts[self->start_count].step = step;
    self->starts[self->start_count].rows = task->rows;
    self->starts[self->start_count++].first = numbers[0];
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    const struct world *self = context;
    struct tt_policy_setup setup = {
        .domain = mechanism, .options = self->options, .option_count = self->option_count};
    return tt_policy_create(mechanism, "diversity", &setup, why);
}

static void arrive(struct world *self, int64_t at, int32_t length) {
    self->arrivals[self->arrival_count++] = (struct tt_sim_arrival){.at = at,
                                                                    .deadline_at = TT_NEVER,
                                                                    .cancel_at = TT_NEVER,
                                                                    .rows = 1,
                                                                    .length = length,
                                                                    .exit_step = -1};
}

static void run(struct world *self, const struct tt_step_model *model) {
    struct tt_sim_model sim_model = {.step_model = model};
    struct tt_sim_device device = {.executors = self->executors};
    struct tt_sim_options options = {
        .models = &sim_model,
        .model_count = 1,
        .devices = &device,
        .device_count = 1,
        .depth = 1,
        .check = true,
        .source = {.context = self, .next = next_arrival},
        .observer = {.context = self, .ended = on_ended, .step_started = on_step},
        .create_policy = create,
        .create_context = self};
    struct tt_simulation *simulation;
    struct tt_error why;
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1000))
        ;
    assert_int_equal(self->ended, self->arrival_count);
    tt_simulation_free(simulation);
}

/* A profile by a rule l(batch, length), with the given share of the device. */
static struct tt_profile *profile_of(int64_t (*latency)(int32_t batch, int32_t length),
                                     int32_t max_length, double demand) {
    static struct tt_profile_point points[512];
    int32_t count = 0;
    for (int32_t length = max_length > 0 ? 1 : 0; length <= max_length; length++)
        for (int32_t batch = 1; batch <= 16; batch++)
            points[count++] = (struct tt_profile_point){.batch = batch,
                                                        .length = length,
                                                        .latency_ns = latency(batch, length),
                                                        .demand_ppm = (int32_t)(demand * 1e6)};
    struct tt_profile *profile;
    struct tt_error why;
    assert_int_equal(tt_profile_new_points(points, count, 16, &profile, &why), TT_OK);
    return profile;
}

static int64_t one_unit(int32_t batch, int32_t length) { /* up to 4 rows cost the same */
    (void)length;
    return batch <= 4 ? T : (int64_t)batch * T / 4;
}
static int64_t by_row(int32_t batch, int32_t length) { /* one row fills the device */
    (void)length;
    return (int64_t)batch * T / 4;
}
static int64_t by_length(int32_t batch, int32_t length) {
    (void)batch;
    return (int64_t)length * T;
}
static int64_t four_units(int32_t batch, int32_t length) { return 4 * one_unit(batch, length); }

/* A model of several stages with one profile, and another profile for the whole. */
struct staged {
    struct tt_profile *stage, *whole;
    struct tt_step steps[4];
    struct tt_step_model model;
};

static void staged_init(struct staged *self, int32_t count, struct tt_profile *take_stage,
                        struct tt_profile *take_whole) {
    static const char *const names[] = {"A", "B", "C", "D"};
    *self = (struct staged){.stage = take_stage,
                            .whole = take_whole,
                            .model = {.name = "m",
                                      .step_count = count,
                                      .steps = self->steps,
                                      .whole = take_whole,
                                      .slo_ns = TT_NEVER,
                                      .max_batch = 4}};
    for (int32_t i = 0; i < count; i++)
        self->steps[i] = (struct tt_step){.name = names[i], .profile = take_stage};
}

static void staged_fini(struct staged *self) {
    tt_profile_free(self->stage);
    tt_profile_free(self->whole);
}

static int64_t sum_of(const struct world *self) {
    int64_t sum = 0;
    for (int32_t i = 0; i < self->arrival_count; i++)
        sum += self->latency[i];
    return sum;
}

/* D5: figure 3, case I: three short queries and a long one. One batch takes 4 T for all; two side
 * by side take 2 T and 4 T: 2.5 T on average. */
static void figure_3_input_diversity(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 1, profile_of(by_length, 4, 0.5), profile_of(by_length, 4, 0.5));
    for (int mixed = 0; mixed < 2; mixed++) {
        struct tt_option options[] = {{"window", "0"}, {"input", mixed ? "off" : "on"}};
        struct world world = {.options = options, .option_count = 2, .executors = 2};
        for (int i = 0; i < 4; i++)
            arrive(&world, 0, i < 3 ? 2 : 4);
        run(&world, &m.model);
        assert_int_equal(sum_of(&world), mixed ? 4 * 4 * T : 4 * 5 * T / 2);
    }
    staged_fini(&m);
}

/* D5: a batch of two takes twice the time of one. With no request behind, the first would wait for
 * the second in vain, and the profile shows it: T and 2 T instead of 2 T and 2 T. */
static void input_diversity_where_it_pays(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 1, profile_of(by_row, 0, 1), profile_of(by_row, 0, 1));
    int64_t one = tt_profile_latency(m.whole, 1, 0);
    assert_int_equal(tt_profile_latency(m.whole, 2, 0), 2 * one);
    for (int pays = 0; pays < 2; pays++) {
        struct tt_option options[] = {{"window", "0"}, {"input", pays ? "pays" : "on"}};
        struct world world = {.options = options, .option_count = 2, .executors = 1};
        arrive(&world, 0, 2);
        arrive(&world, 0, 2);
        run(&world, &m.model);
        assert_int_equal(sum_of(&world), pays ? 3 * one : 4 * one);
    }
    staged_fini(&m);
}

/* D6: case II: A takes up to four rows in one T; B, C and D take a quarter of T per row. Behind A
 * the batch is split into single queries: 2.875 T on average instead of 4 T. */
static void figure_3_operator_diversity(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 4, profile_of(by_row, 0, 1), profile_of(four_units, 0, 1));
    struct tt_profile *a = profile_of(one_unit, 0, 1);
    m.steps[0].profile = a;
    for (int whole_batch = 0; whole_batch < 2; whole_batch++) {
        struct tt_option options[] = {{"split", whole_batch ? "off" : "on"}};
        struct world world = {.options = options, .option_count = 1, .executors = 4};
        for (int i = 0; i < 4; i++)
            arrive(&world, 0, 0);
        run(&world, &m.model);
        /* 1.75, 2.5, 3.25 and 4 T */
        assert_int_equal(sum_of(&world), whole_batch ? 16 * T : 23 * T / 2);
        assert_int_equal(world.starts[1].rows, whole_batch ? 4 : 1);
        assert_int_equal(world.starts[1].first, 0);
    }
    tt_profile_free(a);
    staged_fini(&m);
}

/* D7: case III: query 1 has waited its window of 4 T and run A alone when 2, 3 and 4 arrive, at 5
 * T. They catch up, and B, C and D run for all four: 5.25 T on average instead of 8 T. */
static void figure_3_load_diversity(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 4, profile_of(one_unit, 0, 1), profile_of(four_units, 0, 1));
    struct tt_option options[] = {{"window", "4ms"}}; /* T is 1 ms here */
    struct world world = {.options = options, .option_count = 1, .executors = 4};
    arrive(&world, 0, 0);
    for (int i = 0; i < 3; i++)
        arrive(&world, 5 * T, 0);
    run(&world, &m.model);
    assert_int_equal(sum_of(&world), 4 * 21 * T / 4);
    assert_int_equal(world.latency[0], 9 * T);
    static const struct {
        int64_t at;
        int32_t step, rows;
    } expected[] = {{4, 0, 1}, {5, 0, 3}, {6, 1, 4}, {7, 2, 4}, {8, 3, 4}};
    assert_int_equal(world.start_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(world.starts[i].at, expected[i].at * T);
        assert_int_equal(world.starts[i].step, expected[i].step);
        assert_int_equal(world.starts[i].rows, expected[i].rows);
    }
    staged_fini(&m);
}

/* D8: a request that exits behind B leaves there; the others continue. */
static void early_exits_leave_at_the_boundary(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 4, profile_of(one_unit, 0, 1), profile_of(four_units, 0, 1));
    struct world world = {.executors = 4};
    for (int i = 0; i < 4; i++)
        arrive(&world, 0, 0);
    world.arrivals[1].exit_step = world.arrivals[2].exit_step = 1;
    run(&world, &m.model);
    assert_int_equal(world.latency[0], 4 * T);
    assert_int_equal(world.latency[1], 2 * T);
    assert_int_equal(world.latency[2], 2 * T);
    assert_int_equal(world.starts[2].rows, 2);
    staged_fini(&m);
}

/* D8: requests that skip B and C overtake: two are in D while the others are in B. */
static void a_request_that_skips_stages_continues_behind_them(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 4, profile_of(one_unit, 0, 0.25), profile_of(four_units, 0, 1));
    m.model.slots = 4;
    struct world world = {.executors = 4};
    for (int i = 0; i < 4; i++)
        arrive(&world, 0, 0);
    world.arrivals[1].exit_step = world.arrivals[2].exit_step = 0;
    world.arrivals[1].exit_to = world.arrivals[2].exit_to = 3;
    run(&world, &m.model);
    assert_int_equal(world.latency[0], 4 * T);
    assert_int_equal(world.latency[1], 2 * T);
    assert_int_equal(world.latency[3], 4 * T);
    /* Each of the two has a part of its own, and D one executor: */
    assert_int_equal(world.latency[2], 3 * T);
    staged_fini(&m);
}

/* D2: with one slot for four stages the second request begins when the first has left. With two
 * they follow each other, and the third begins when the first has left. */
static void a_request_without_a_slot_waits(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 4, profile_of(one_unit, 0, 0.25), profile_of(four_units, 0, 1));
    static const int64_t last[] = {6, 12, 8};
    for (int32_t slots = 0; slots <= 2; slots++) {
        m.model.slots = slots;
        struct tt_option options[] = {{"bs_max", "1"}, {"stretch", "off"}};
        struct world world = {.options = options, .option_count = 2, .executors = 4};
        for (int i = 0; i < 3; i++)
            arrive(&world, 0, 0);
        run(&world, &m.model);
        assert_int_equal(world.latency[0], 4 * T);
        assert_int_equal(world.latency[2], last[slots] * T);
    }
    staged_fini(&m);
}

/* D2, D7: a batch is stretched only by as many requests as find slots beside it. */
static void a_stretch_takes_slots(void **state) {
    (void)state;
    struct staged m;
    staged_init(&m, 4, profile_of(one_unit, 0, 1), profile_of(four_units, 0, 1));
    m.model.slots = 2;
    struct world world = {.executors = 4};
    for (int i = 0; i < 4; i++)
        arrive(&world, i ? T / 2 : 0, 0);
    run(&world, &m.model);
    assert_int_equal(world.starts[1].rows, 1); /* the second catches up, */
    assert_int_equal(world.starts[2].rows, 2); /* continues with the first, */
    assert_int_equal(world.latency[1], world.latency[0] - T / 2);
    assert_int_equal(world.latency[2],
                     world.latency[3]); /* and the others begin when both have left */
    assert_int_equal(world.latency[3], 9 * T - T / 2);
    staged_fini(&m);
}

/* In every case the internal checks hold after every instant (the simulation runs them) and all
 * requests leave: with 1 .. 5 stages, 1 .. 6 executors, any options, exits and cancellations. */
static void random_worlds_lose_nothing(void **state) {
    (void)state;
    struct tt_profile *profiles[] = {profile_of(one_unit, 0, 0.6), profile_of(by_row, 0, 1),
                                     profile_of(by_length, 8, 0.5)};
    const char *wanted = getenv("TUTTI_TEST_WORLDS");
    uint64_t worlds = wanted ? strtoull(wanted, NULL, 10) : 120;
    uint64_t first = test_seed(1);
    int64_t events = 0;
    for (uint64_t seed = first; seed < first + worlds; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct tt_step steps[5];
        struct tt_step_model model = {.name = "m",
                                      .step_count = 1 + (int32_t)tt_prng_below(&prng, 5),
                                      .steps = steps,
                                      .whole = profiles[tt_prng_below(&prng, 3)],
                                      .slo_ns = TT_NEVER,
                                      .max_batch = 16,
                                      .slots = (int32_t)tt_prng_below(&prng, 24)};
        for (int32_t s = 0; s < model.step_count; s++)
            steps[s] = (struct tt_step){.name = "s", .profile = profiles[tt_prng_below(&prng, 3)]};
        static const char *const inputs[] = {"off", "off", "on", "pays"};
        char pairs[8], bs_max[8];
        snprintf(pairs, sizeof(pairs), "%d", 1 + (int)tt_prng_below(&prng, 3));
        snprintf(bs_max, sizeof(bs_max), "%d", 1 + (int)tt_prng_below(&prng, 16));
        struct tt_option options[] = {{"pairs", pairs},
                                      {"bs_max", bs_max},
                                      {"split", tt_prng_below(&prng, 2) ? "on" : "off"},
                                      {"stretch", tt_prng_below(&prng, 2) ? "on" : "off"},
                                      {"input", inputs[tt_prng_below(&prng, 4)]},
                                      {"window", tt_prng_below(&prng, 2) ? "0" : "2ms"},
                                      {"drop", tt_prng_below(&prng, 3) ? "none" : "deadline"}};
        static struct world world;
        world = (struct world){.options = options,
                               .option_count = 7,
                               .executors = 1 + (int32_t)tt_prng_below(&prng, 6),
                               .seed = seed};
        int64_t at = 0, gap = 1 + (int64_t)tt_prng_below(&prng, 4 * T);
        for (int32_t i = 0; i < 600; i++) {
            at += (int64_t)tt_prng_below(&prng, 3) * (int64_t)tt_prng_below(&prng, (uint64_t)gap);
            arrive(&world, at, 1 + (int32_t)tt_prng_below(&prng, 8));
            struct tt_sim_arrival *arrival = &world.arrivals[i];
            arrival->rows = tt_prng_below(&prng, 5) ? 1 : 1 + (int32_t)tt_prng_below(&prng, 4);
            if (tt_prng_below(&prng, 4) == 0)
                arrival->exit_step = (int32_t)tt_prng_below(&prng, (uint64_t)model.step_count);
            if (arrival->exit_step >= 0 && arrival->exit_step < model.step_count - 2)
                arrival->exit_to = tt_prng_below(&prng, 2) ? arrival->exit_step + 2 : 0;
            if (tt_prng_below(&prng, 8) == 0)
                arrival->cancel_at = at + (int64_t)tt_prng_below(&prng, 40 * T);
            if (tt_prng_below(&prng, 2) == 0)
                arrival->deadline_at = at + (int64_t)tt_prng_below(&prng, 100 * T);
        }
        run(&world, &model);
        if (world.done == 0)
            fail_msg("seed %d: nothing was computed", (int)seed);
        events += world.ended;
    }
    print_message("%lld requests of %lld worlds from seed %lld\n", (long long)events,
                  (long long)worlds, (long long)first);
    for (int i = 0; i < 3; i++)
        tt_profile_free(profiles[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_3_input_diversity),
        cmocka_unit_test(input_diversity_where_it_pays),
        cmocka_unit_test(figure_3_operator_diversity),
        cmocka_unit_test(figure_3_load_diversity),
        cmocka_unit_test(early_exits_leave_at_the_boundary),
        cmocka_unit_test(a_request_that_skips_stages_continues_behind_them),
        cmocka_unit_test(a_request_without_a_slot_waits),
        cmocka_unit_test(a_stretch_takes_slots),
        cmocka_unit_test(random_worlds_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
