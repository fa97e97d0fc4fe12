/* slow */
/* S6, S9: two SLOs after a burst of 100 times the load, `deferred` serves as well as before it.
 * Runs in the simulator, where every run is exact: three models on ten devices, at a quarter to
 * nine tenths of their capacity. Requests arrive in groups once a millisecond, as for a scheduler
 * that pauses between turns. The case to exclude: several arrive behind a head that waits to its
 * last moment, and a minimum batch size computed from rates that still include the burst drops that
 * head. Single arrivals do not show this defect. */
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

enum { MODELS = 3, DEVICES = 10, SLO_MS = 40, REQUESTS = 400000, SEEN_NS = TT_MS };
static const int64_t burst_at = TT_S, end_at = 3 * TT_S;

struct burst {
    int32_t factor, length_ms;
    int32_t load_percent; /* outside the burst, of 3000 r/s: a quarter of what the devices can */
};

struct scene {
    struct burst burst;
    struct tt_prng prng;
    struct tt_profile *profiles[MODELS];
    struct tt_step steps[MODELS];
    struct tt_step_model step_models[MODELS];
    int64_t at;
    int32_t count, bad_in_burst, afterwards, bad_afterwards;
    int64_t *arrived_at; /* [number] */
};

static int64_t over_at(const struct scene *self) {
    return burst_at + self->burst.length_ms * TT_MS;
}

static bool next_arrival(void *context, struct tt_sim_arrival *out) {
    struct scene *self = context;
    bool bursting = self->at >= burst_at && self->at < over_at(self);
    int64_t mean_ns = INT64_C(33333300) / self->burst.load_percent;
    mean_ns /= bursting ? self->burst.factor : 1;
    self->at += (int64_t)tt_prng_below(&self->prng, (uint64_t)(2 * mean_ns));
    if (self->at >= end_at)
        return false;
    assert_true(self->count < REQUESTS);
    self->arrived_at[self->count++] = self->at;
    *out = (struct tt_sim_arrival){.at = (self->at + SEEN_NS - 1) / SEEN_NS * SEEN_NS,
                                   .deadline_at = self->at + SLO_MS * TT_MS,
                                   .cancel_at = TT_NEVER,
                                   .model = (int32_t)tt_prng_below(&self->prng, MODELS),
                                   .rows = 1,
                                   .exit_step = -1};
    return true;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct scene *self = context;
    int64_t arrived_at = self->arrived_at[ending->number];
    bool bad = ending->reason != TT_DROP_NONE || ending->ended_at > arrived_at + SLO_MS * TT_MS;
    if (arrived_at >= burst_at && arrived_at < over_at(self))
        self->bad_in_burst += bad;
    if (arrived_at < over_at(self) + 2 * SLO_MS * TT_MS)
        return;
    self->afterwards++;
    self->bad_afterwards += bad;
}

static enum tt_err create_policy(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why) {
    struct tt_policy_setup setup = {.domain = mechanism};
    return tt_policy_create(mechanism, context, &setup, why);
}

static void make_models(struct scene *self, struct tt_sim_model *models) {
    static const struct {
        int64_t alpha_ns, beta_ns;
        int32_t max_batch;
    } kinds[MODELS] = {
        {TT_MS, 5 * TT_MS, 512}, {500 * TT_US, 4 * TT_MS, 512}, {2 * TT_MS, 6 * TT_MS, 16}};
    for (int32_t m = 0; m < MODELS; m++) {
        assert_int_equal(tt_profile_new_linear(kinds[m].alpha_ns, kinds[m].beta_ns,
                                               kinds[m].max_batch, &self->profiles[m], NULL),
                         TT_OK);
        self->steps[m] = (struct tt_step){.name = "whole", .profile = self->profiles[m]};
        self->step_models[m] = (struct tt_step_model){.name = "model",
                                                      .step_count = 1,
                                                      .steps = &self->steps[m],
                                                      .whole = self->profiles[m],
                                                      .slo_ns = SLO_MS * TT_MS,
                                                      .max_batch = kinds[m].max_batch};
        models[m] = (struct tt_sim_model){.step_model = &self->step_models[m]};
    }
}

static void run(const struct burst *burst, const char *policy, uint64_t seed, struct scene *self) {
    struct tt_sim_model models[MODELS];
    struct tt_sim_device devices[DEVICES] = {0};
    struct tt_simulation *simulation;
    struct tt_error why;
    *self = (struct scene){.burst = *burst};
    self->arrived_at = malloc(sizeof(*self->arrived_at) * REQUESTS);
    assert_non_null(self->arrived_at);
    tt_prng_init(&self->prng, seed, 0);
    make_models(self, models);
    for (int32_t d = 0; d < DEVICES; d++)
        devices[d].executors = 1;
    struct tt_sim_options options = {.models = models,
                                     .model_count = MODELS,
                                     .devices = devices,
                                     .device_count = DEVICES,
                                     .depth = 2,
                                     .source = {.context = self, .next = next_arrival},
                                     .observer = {.context = self, .ended = ended},
                                     .create_policy = create_policy,
                                     .create_context = (void *)(uintptr_t)policy};
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1000000)) {
    }
    tt_simulation_free(simulation);
    for (int32_t m = 0; m < MODELS; m++)
        tt_profile_free(self->profiles[m]);
    free(self->arrived_at);
}

/* S6: over the seeds, at most one request in a thousand is lost from two SLOs after the burst on.
 * One run may lose more: the last queue of the burst may end a few milliseconds later. */
static void test_normal_after_two_slos(void **state) {
    static const struct burst bursts[] = {
        {100, 100, 100}, {100, 400, 100}, {20, 200, 100}, {100, 100, 150}, {20, 400, 150},
        {100, 100, 180}, {100, 200, 180}, {20, 200, 180}, {100, 100, 200}, {20, 200, 200},
    };
    (void)state;
    for (size_t i = 0; i < TT_COUNT(bursts); i++) {
        int32_t bad = 0, afterwards = 0;
        for (uint64_t seed = test_seed(1), end = seed + 5; seed < end; seed++) {
            struct scene scene;
            run(&bursts[i], "deferred", seed, &scene);
            if (scene.bad_in_burst == 0)
                fail_msg("%d x for %d ms is no burst", bursts[i].factor, bursts[i].length_ms);
            bad += scene.bad_afterwards;
            afterwards += scene.afterwards;
        }
        if (bad * 1000 > afterwards)
            fail_msg("%d x for %d ms at %d %%: afterwards %d of %d", bursts[i].factor,
                     bursts[i].length_ms, bursts[i].load_percent, bad, afterwards);
    }
}

/* Without the burst nothing is lost, and in it the rule for overload is still in force: it saves
 * more requests than the published rule does. */
static void test_overload_still_counts(void **state) {
    (void)state;
    for (uint64_t seed = test_seed(1), end = seed + 3; seed < end; seed++) {
        struct burst none = {.factor = 1, .length_ms = 100, .load_percent = 200};
        struct burst long_one = {.factor = 3, .length_ms = 1500, .load_percent = 100};
        struct scene scene, published;
        run(&none, "deferred", seed, &scene);
        assert_int_equal(scene.bad_in_burst + scene.bad_afterwards, 0);
        run(&long_one, "deferred", seed, &scene);
        run(&long_one, "symphony", seed, &published);
        print_message("in a long overload: %d bad, symphony %d\n", scene.bad_in_burst,
                      published.bad_in_burst);
        assert_true(scene.bad_in_burst < published.bad_in_burst);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal_after_two_slos),
        cmocka_unit_test(test_overload_still_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
