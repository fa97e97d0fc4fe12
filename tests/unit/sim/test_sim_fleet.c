/* Fleets that change while they serve: no request is lost, and a resize does what it says. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/sim_fleet.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CAPACITY = 12, WORLDS = 40, RESIZES = 60 };

struct endless {
    struct tt_prng prng;
    int64_t at, given, ended;
};

static bool next(void *context, struct tt_sim_arrival *out) {
    struct endless *self = context;
    self->at += (int64_t)tt_prng_below(&self->prng, 2 * TT_MS);
    self->given++;
    *out = (struct tt_sim_arrival){.at = self->at,
                                   .deadline_at = self->at + 30 * TT_MS,
                                   .cancel_at = TT_NEVER,
                                   .rows = 1,
                                   .exit_step = -1};
    return true;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct endless *self = context;
    (void)ending;
    self->ended++;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct tt_policy_setup setup = {.domain = mechanism};
    return tt_policy_create(mechanism, context, &setup, why);
}

struct world {
    struct endless load;
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model step_model;
    struct tt_simulation *simulation;
};

static void world_init(struct world *w, const char *policy, int32_t devices, uint64_t seed) {
    *w = (struct world){0};
    tt_prng_init(&w->load.prng, seed, 1);
    assert_int_equal(tt_profile_new_linear(TT_MS, 4 * TT_MS, 16, &w->profile, NULL), TT_OK);
    w->step = (struct tt_step){.name = "whole", .profile = w->profile};
    w->step_model = (struct tt_step_model){.name = "m",
                                           .step_count = 1,
                                           .steps = &w->step,
                                           .whole = w->profile,
                                           .slo_ns = 30 * TT_MS,
                                           .max_batch = 16};
    struct tt_sim_model model = {.step_model = &w->step_model};
    struct tt_sim_device all[CAPACITY] = {0};
    for (int32_t d = 0; d < CAPACITY; d++)
        all[d] =
            (struct tt_sim_device){.executors = 1, .busy_until_at = d < devices ? 0 : TT_NEVER};
    struct tt_sim_options options = {.models = &model,
                                     .model_count = 1,
                                     .devices = all,
                                     .device_count = CAPACITY,
                                     .depth = 1,
                                     .check = true,
                                     .source = {.context = &w->load, .next = next},
                                     .observer = {.context = &w->load, .ended = ended},
                                     .create_policy = create,
                                     .create_context = (void *)policy};
    struct tt_error why;
    if (tt_simulation_new(&options, &w->simulation, &why))
        fail_msg("%s", why.text);
}

static void world_fini(struct world *w) {
    tt_simulation_free(w->simulation);
    tt_profile_free(w->profile);
}

static void a_resize_does_what_it_says(void **state) {
    (void)state;
    struct world w;
    world_init(&w, "deferred", 4, 1);
    tt_simulation_run_until(w.simulation, TT_S);
    assert_int_equal(tt_simulation_fleet(w.simulation).up, 4);
    tt_simulation_resize(w.simulation, 7, 3 * TT_S);
    tt_simulation_run_until(w.simulation, 3 * TT_S - 1);
    assert_int_equal(tt_simulation_fleet(w.simulation).up, 4);
    assert_int_equal(tt_simulation_fleet(w.simulation).starting, 3);
    tt_simulation_run_until(w.simulation, 3 * TT_S);
    assert_int_equal(tt_simulation_fleet(w.simulation).up, 7);
    tt_simulation_resize(w.simulation, 12, 9 * TT_S);
    tt_simulation_resize(w.simulation, 9, 9 * TT_S); /* starts are cancelled first */
    assert_int_equal(tt_simulation_fleet(w.simulation).starting, 2);
    tt_simulation_resize(w.simulation, 2, 9 * TT_S);
    struct tt_sim_fleet fleet = tt_simulation_fleet(w.simulation);
    assert_true(fleet.up == 2 && fleet.starting == 0 && fleet.draining <= 5);
    tt_simulation_run_until(w.simulation, 4 * TT_S); /* batches take at most 20 ms */
    assert_int_equal(tt_simulation_fleet(w.simulation).draining, 0);
    assert_int_equal(tt_simulation_now(w.simulation), 4 * TT_S);
    world_fini(&w);
}

/* At every stop: given = ended + in the system + the one taken ahead. */
static void resizes_lose_no_request(void **state) {
    (void)state;
    static const char *const policies[] = {"deferred", "eager", "symphony", "window", "serial"};
    uint64_t seed = test_seed(1);
    for (uint64_t i = 0; i < WORLDS; i++) {
        struct world w;
        struct tt_prng prng;
        tt_prng_init(&prng, seed + i, 2);
        const char *policy = policies[tt_prng_below(&prng, TT_COUNT(policies))];
        world_init(&w, policy, 1 + (int32_t)tt_prng_below(&prng, CAPACITY), seed + i);
        for (int32_t k = 0; k < RESIZES; k++) {
            int64_t now = tt_simulation_now(w.simulation);
            int32_t count = 1 + (int32_t)tt_prng_below(&prng, CAPACITY);
            tt_simulation_resize(w.simulation, count,
                                 now + (int64_t)tt_prng_below(&prng, 50 * TT_MS));
            struct tt_sim_fleet fleet = tt_simulation_fleet(w.simulation);
            int32_t absent = CAPACITY - fleet.starting - fleet.up - fleet.draining;
            assert_true(absent >= 0);
            /* Those that drain cannot start again before they have left. */
            assert_true(fleet.starting + fleet.up == count || absent == 0);
            tt_simulation_run_until(w.simulation, now + (int64_t)tt_prng_below(&prng, 40 * TT_MS));
            const struct tt_mechanism *m = tt_simulation_mechanism(w.simulation);
            assert_int_equal(w.load.given, w.load.ended + m->requests.in_use + 1);
        }
        world_fini(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resize_does_what_it_says),
        cmocka_unit_test(resizes_lose_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
