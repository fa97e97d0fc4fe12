/* Composition in virtual time: devices whose own policy runs the requests that they are granted. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS = 3, MAX_BATCH = 8, REQUESTS = 300, DEVICES = 3 };
enum { STAGE = 100 };

struct world {
    struct tt_step inner_steps[STEPS], whole_step;
    struct tt_step_model inner_model, whole_model;
    struct tt_profile *stage, *whole;
    const char *outer, *inner; /* policies */
    struct tt_option inner_option;
    struct tt_sim_arrival arrivals[REQUESTS];
    int32_t arrival_count, next;
    int64_t ended_at[REQUESTS];
    enum tt_ending ending[REQUESTS];
    int32_t tasks, at_once, most_at_once;
};

static enum tt_err create_outer(void *context, struct tt_mechanism *mechanism,
                                struct tt_error *why) {
    const struct world *self = context;
    const struct tt_policy_setup setup = {.domain = mechanism};
    return tt_policy_create(mechanism, self->outer, &setup, why);
}

static enum tt_err create_inner(void *context, struct tt_mechanism *mechanism,
                                struct tt_error *why) {
    const struct world *self = context;
    const struct tt_policy_setup setup = {.domain = mechanism,
                                          .options = &self->inner_option,
                                          .option_count = self->inner_option.key != NULL};
    return tt_policy_create(mechanism, self->inner, &setup, why);
}

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *self = context;
    if (self->next == self->arrival_count)
        return false;
    *out = self->arrivals[self->next++];
    return true;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct world *self = context;
    assert_int_equal(self->ended_at[ending->number], TT_NEVER); /* each ends once */
    self->ended_at[ending->number] = ending->ended_at;
    self->ending[ending->number] = ending->ending;
}

static void step_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                         const int64_t *numbers) {
    struct world *self = context;
    (void)now;
    (void)task;
    (void)numbers;
    assert_int_equal(step, 0);
    self->tasks++;
    self->at_once++;
    self->most_at_once = self->at_once > self->most_at_once ? self->at_once : self->most_at_once;
}

static void step_ended(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct world *self = context;
    (void)now;
    (void)task;
    assert_int_equal(step, 0);
    self->at_once--;
}

/* Stages of STAGE ns whatever the rows. */
static void world_init(struct world *self, const char *outer, const char *inner, int64_t slo_ns) {
    struct tt_error why;
    *self = (struct world){.outer = outer, .inner = inner};
    assert_int_equal(tt_profile_new_linear(0, STAGE, MAX_BATCH, &self->stage, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(0, STEPS * STAGE, MAX_BATCH, &self->whole, &why), TT_OK);
    for (int32_t s = 0; s < STEPS; s++)
        self->inner_steps[s] = (struct tt_step){.name = "stage", .profile = self->stage};
    self->whole_step = (struct tt_step){.name = "whole", .profile = self->whole};
    self->inner_model = (struct tt_step_model){.name = "model",
                                               .step_count = STEPS,
                                               .steps = self->inner_steps,
                                               .whole = self->whole,
                                               .slo_ns = slo_ns,
                                               .max_batch = MAX_BATCH};
    self->whole_model = self->inner_model;
    self->whole_model.step_count = 1;
    self->whole_model.steps = &self->whole_step;
    for (int32_t i = 0; i < REQUESTS; i++)
        self->ended_at[i] = TT_NEVER;
}

static struct tt_sim_arrival *arrive(struct world *self, int64_t at) {
    struct tt_sim_arrival *arrival = &self->arrivals[self->arrival_count++];
    int64_t slo_ns = self->whole_model.slo_ns;
    *arrival = (struct tt_sim_arrival){.at = at,
                                       .deadline_at = tt_instant_add(at, slo_ns),
                                       .cancel_at = TT_NEVER,
                                       .rows = 1,
                                       .exit_step = -1};
    return arrival;
}

static void run(struct world *self, int32_t devices, int32_t grants, int32_t executors) {
    struct tt_sim_device each[DEVICES];
    for (int32_t d = 0; d < devices; d++)
        each[d] = (struct tt_sim_device){.executors = grants, .processors = executors};
    const struct tt_sim_model whole = {.step_model = &self->whole_model};
    const struct tt_sim_model inner = {.step_model = &self->inner_model};
    const struct tt_sim_inside_options inside = {.models = &inner,
                                                 .executors = executors,
                                                 .depth = 1,
                                                 .create_policy = create_inner,
                                                 .create_context = self};
    const struct tt_sim_options options = {.models = &whole,
                                           .model_count = 1,
                                           .devices = each,
                                           .device_count = devices,
                                           .inside = &inside,
                                           .depth = 1,
                                           .check = true,
                                           .source = {.context = self, .next = next},
                                           .observer = {.context = self,
                                                        .ended = ended,
                                                        .step_started = step_started,
                                                        .step_ended = step_ended},
                                           .create_policy = create_outer,
                                           .create_context = self};
    struct tt_simulation *simulation;
    struct tt_error why = {""};
    if (tt_simulation_new(&options, &simulation, &why))
        fail_msg("%s", why.text);
    while (tt_simulation_run(simulation, 1000))
        continue;
    tt_simulation_free(simulation);
    for (int32_t i = 0; i < self->arrival_count; i++)
        assert_int_not_equal(self->ended_at[i], TT_NEVER);
    assert_int_equal(self->at_once, 0);
    tt_profile_free(self->stage);
    tt_profile_free(self->whole);
}

/* With one grant at a time a stage waits for the whole batch before it; with two they overlap. */
static void stages_of_two_grants_overlap(void **state) {
    (void)state;
    for (int32_t grants = 1; grants <= 2; grants++) {
        struct world world;
        world_init(&world, "serial", "diversity", TT_NEVER);
        world.inner_option = (struct tt_option){"stretch", "off"};
        arrive(&world, 0);
        arrive(&world, STAGE / 10);
        run(&world, 1, grants, STEPS);
        assert_int_equal(world.ended_at[0], STEPS * STAGE);
        assert_int_equal(world.ended_at[1], (grants == 1 ? 2 * STEPS : STEPS + 1) * STAGE);
        assert_int_equal(world.most_at_once, grants);
    }
}

/* A batch that is granted while another one is in its first stage catches up with it. */
static void a_later_grant_joins(void **state) {
    (void)state;
    struct world world;
    world_init(&world, "serial", "diversity", TT_NEVER);
    arrive(&world, 0);
    arrive(&world, STAGE / 2);
    run(&world, 1, 2, STEPS);
    assert_int_equal(world.ended_at[0], world.ended_at[1]);
    assert_int_equal(world.ended_at[1], (STEPS + 1) * STAGE);
    assert_int_equal(world.tasks, 2);
}

/* D8: a request that leaves early is answered then, before its batch; others do not notice. */
static void each_is_answered_when_it_has_ended(void **state) {
    (void)state;
    struct world world;
    world_init(&world, "window", "diversity", TT_NEVER);
    world.inner_steps[0].may_exit = true;
    arrive(&world, 0)->exit_step = 0;
    arrive(&world, 0);
    run(&world, 1, 1, STEPS);
    assert_int_equal(world.tasks, 1);
    assert_int_equal(world.ended_at[0], STAGE);
    assert_int_equal(world.ended_at[1], STEPS * STAGE);
    assert_int_equal(world.ending[0], TT_ENDING_DONE);
}

/* What the inner policy gives up has failed, whatever became of the others. */
static void what_is_dropped_inside_fails(void **state) {
    (void)state;
    struct world world;
    world_init(&world, "serial", "diversity", TT_NEVER);
    world.inner_option = (struct tt_option){"drop", "deadline"};
    world.inner_model.slo_ns = world.whole_model.slo_ns = STEPS * STAGE + STAGE / 2;
    world.inner_model.max_batch = 1;
    for (int32_t i = 0; i < 4; i++) /* of these only the first can be in time */
        arrive(&world, 0);
    run(&world, 1, 4, 1);
    assert_int_equal(world.ending[0], TT_ENDING_DONE);
    for (int32_t i = 1; i < 4; i++)
        assert_int_equal(world.ending[i], TT_ENDING_FAILED);
}

static void random_worlds(void **state) {
    (void)state;
    uint64_t seed = test_seed(7);
    static const char *const outers[] = {"symphony", "window", "serial", "deferred"};
    static const char *const inners[] = {"diversity", "lazy", "cellular"};
    for (uint64_t n = 0; n < 120; n++) {
        struct tt_prng prng;
        struct world world;
        tt_prng_init(&prng, seed, n);
        world_init(&world, outers[tt_prng_below(&prng, 4)], inners[tt_prng_below(&prng, 3)],
                   (int64_t)(2 + tt_prng_below(&prng, 8)) * STEPS * STAGE);
        int64_t at = 0;
        for (int32_t i = 0; i < REQUESTS; i++) {
            at += (int64_t)tt_prng_below(&prng, STAGE);
            struct tt_sim_arrival *arrival = arrive(&world, at);
            arrival->rows = 1 + (int32_t)tt_prng_below(&prng, 2);
            if (tt_prng_below(&prng, 10) == 0)
                arrival->cancel_at = at + (int64_t)tt_prng_below(&prng, 3 * STAGE);
        }
        run(&world, 1 + (int32_t)tt_prng_below(&prng, DEVICES),
            1 + (int32_t)tt_prng_below(&prng, 4), 1 + (int32_t)tt_prng_below(&prng, 3));
        int32_t done = 0;
        for (int32_t i = 0; i < REQUESTS; i++)
            done += world.ending[i] == TT_ENDING_DONE;
        assert_true(done > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_of_two_grants_overlap),
        cmocka_unit_test(a_later_grant_joins),
        cmocka_unit_test(each_is_answered_when_it_has_ended),
        cmocka_unit_test(what_is_dropped_inside_fails),
        cmocka_unit_test(random_worlds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
