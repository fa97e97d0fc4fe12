/* L3: under policy lazy a model of an encoder and a decoder, of which only the largest output is
 * known, learns how long outputs are. It then serves nearly as many requests in time as with the
 * true quantiles. What is pinned stays. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SECONDS = 8, LIMIT = 400, SHORTEST = 5, LONGEST = 15 };

struct world {
    struct tt_prng prng;
    int64_t at, mean_ns, slo_ns;
    int64_t offered, in_time;
    int64_t moves;
    int32_t believed; /* the 90th percentile, at the end */
};

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *w = context;
    w->at += (int64_t)tt_prng_below(&w->prng, (uint64_t)(2 * w->mean_ns));
    *out = (struct tt_sim_arrival){
        .at = w->at,
        .deadline_at = w->at + w->slo_ns,
        .cancel_at = TT_NEVER,
        .rows = 1,
        .length = 4,
        .output_length = SHORTEST + (int32_t)tt_prng_below(&w->prng, LONGEST - SHORTEST + 1),
        .exit_step = -1};
    return w->at < SECONDS * TT_S;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct world *w = context;
    w->offered++;
    w->in_time += ending->ending == TT_ENDING_DONE && ending->ended_at <= ending->deadline_at;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    (void)context;
    struct tt_policy_setup setup = {.domain = mechanism};
    return tt_policy_create(mechanism, "lazy", &setup, why);
}

/* How the quantiles begin: true, or all at the limit. */
static void run(struct world *w, bool knows, bool pins, int32_t learn_percent, uint64_t seed) {
    *w = (struct world){.mean_ns = 2 * TT_MS, .slo_ns = 60 * TT_MS};
    tt_prng_init(&w->prng, seed, 0);
    struct tt_error why = {.text = ""};
    struct tt_profile *profile, *whole;
    int32_t quantiles[TT_QUANTILES];
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        quantiles[p] = knows ? SHORTEST + (LONGEST - SHORTEST) * p / 100 : LIMIT;
    assert_int_equal(tt_profile_new_linear(50 * TT_US, 500 * TT_US, 16, &profile, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(TT_MS, 10 * TT_MS, 16, &whole, &why), TT_OK);
    struct tt_step steps[] = {{.name = "e", .profile = profile, .kind = TT_STEP_ENCODER},
                              {.name = "d", .profile = profile, .kind = TT_STEP_DECODER}};
    struct tt_step_model step_model = {.name = "m",
                                       .step_count = 2,
                                       .steps = steps,
                                       .whole = whole,
                                       .slo_ns = w->slo_ns,
                                       .max_batch = 16,
                                       .output_quantiles = quantiles,
                                       .pins_outputs = pins};
    struct tt_sim_model model = {.step_model = &step_model};
    struct tt_sim_device device = {.executors = 1};
    struct tt_sim_options options = {.models = &model,
                                     .model_count = 1,
                                     .devices = &device,
                                     .device_count = 1,
                                     .depth = 1,
                                     .check = true,
                                     .seed = seed,
                                     .learn_percent = learn_percent,
                                     .source = {.context = w, .next = next},
                                     .observer = {.context = w, .ended = ended},
                                     .create_policy = create,
                                     .create_context = w};
    struct tt_simulation *simulation;
    if (tt_simulation_new(&options, &simulation, &why))
        fail_msg("%s", why.text);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    const struct tt_mechanism *mechanism = tt_simulation_mechanism(simulation);
    const struct tt_output_lengths *outputs =
        mechanism->beliefs ? mechanism->beliefs[0]->outputs : NULL;
    w->moves = outputs ? outputs->moves : 0;
    w->believed = mechanism->models[0]->output_quantiles[90];
    tt_simulation_free(simulation);
    tt_profile_free(profile);
    tt_profile_free(whole);
}

static void test_lengths_are_learnt(void **state) {
    (void)state;
    uint64_t seed = test_seed(5);
    struct world knowing, ignorant, learning, pinned;
    run(&knowing, true, false, 0, seed);
    run(&ignorant, false, false, 0, seed);
    run(&learning, false, false, 95, seed);
    run(&pinned, false, true, 95, seed);
    print_message("in time of %lld: knowing %lld, ignorant %lld, learning %lld, pinned %lld\n",
                  (long long)knowing.offered, (long long)knowing.in_time,
                  (long long)ignorant.in_time, (long long)learning.in_time,
                  (long long)pinned.in_time);
    assert_int_equal(learning.offered, knowing.offered);
    assert_true(learning.moves >= 1);
    assert_in_range(learning.believed, LONGEST - 2, LONGEST);
    assert_int_equal(pinned.moves, 0);
    assert_int_equal(pinned.believed, LIMIT);
    assert_true(learning.in_time * 100 >= knowing.in_time * 98);
    assert_true(ignorant.in_time * 100 < learning.in_time * 90);
    assert_true(pinned.in_time * 100 < learning.in_time * 90);
}

/* True quantiles that are learnt again change little, and the same run gives the same result. */
static void test_what_is_known_stays(void **state) {
    (void)state;
    uint64_t seed = test_seed(6);
    struct world knowing, learning, again;
    run(&knowing, true, false, 0, seed);
    run(&learning, true, false, 95, seed);
    run(&again, true, false, 95, seed);
    assert_int_equal(learning.in_time, again.in_time);
    assert_int_equal(learning.moves, again.moves);
    assert_true(learning.in_time * 100 >= knowing.in_time * 99);
    assert_in_range(learning.believed, LONGEST - 2, LONGEST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_are_learnt),
        cmocka_unit_test(test_what_is_known_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
