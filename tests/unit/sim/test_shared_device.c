/* Executors that share a device, in virtual time: runs beside each other take longer. That is not
 * learnt as a property of the model, and `adaptive` begins a batch beside another only if that
 * pays.
 */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct world {
    struct tt_prng prng;
    const char *policy;
    struct tt_option option;
    int32_t executors;
    int32_t demand_ppm; /* of every batch on the device */
    bool is_known;      /* to the policy */
    int64_t at, mean_ns;
    int64_t arrived, in_time;
    int64_t longest_ns; /* from arrival to end */
    int64_t moves;      /* of the belief */
};

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *w = context;
    w->at += (int64_t)tt_prng_below(&w->prng, (uint64_t)(2 * w->mean_ns));
    *out = (struct tt_sim_arrival){.at = w->at,
                                   .deadline_at = w->at + 20 * TT_MS,
                                   .cancel_at = TT_NEVER,
                                   .rows = 1,
                                   .exit_step = -1};
    w->arrived += w->at < 20 * TT_S;
    return w->at < 20 * TT_S;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct world *w = context;
    w->in_time += ending->ending == TT_ENDING_DONE && ending->ended_at <= ending->deadline_at;
    w->longest_ns = tt_instant_max(w->longest_ns, ending->ended_at - ending->arrived_at);
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct world *w = context;
    struct tt_policy_setup setup = {
        .domain = mechanism, .options = &w->option, .option_count = w->option.key != NULL};
    return tt_policy_create(mechanism, w->policy, &setup, why);
}

/* l(b) = 3 ms + 0.5 ms per row. */
static void run(struct world *w, uint64_t seed) {
    struct tt_error why = {.text = ""};
    struct tt_profile *profile;
    tt_prng_init(&w->prng, seed, 0);
    assert_int_equal(tt_profile_new_linear(TT_MS / 2, 3 * TT_MS, 32, &profile, &why), TT_OK);
    for (int32_t b = 1; b <= 32; b++)
        profile->demand_ppm[b] = w->demand_ppm;
    profile->knows_demand = w->is_known;
    struct tt_step step = {.name = "s", .profile = profile};
    struct tt_step_model model = {.name = "m",
                                  .step_count = 1,
                                  .steps = &step,
                                  .whole = profile,
                                  .slo_ns = 20 * TT_MS,
                                  .max_batch = 32};
    struct tt_sim_model sim_model = {.step_model = &model};
    struct tt_sim_device device = {.executors = w->executors};
    struct tt_sim_options options = {.models = &sim_model,
                                     .model_count = 1,
                                     .devices = &device,
                                     .device_count = 1,
                                     .depth = 1,
                                     .check = true,
                                     .seed = seed,
                                     .learn_percent = TT_BELIEF_PERCENT,
                                     .source = {.context = w, .next = next},
                                     .observer = {.context = w, .ended = ended},
                                     .create_policy = create,
                                     .create_context = w};
    struct tt_simulation *simulation;
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    w->moves = tt_simulation_mechanism(simulation)->beliefs[0]->moves;
    tt_simulation_free(simulation);
    tt_profile_free(profile);
}

/* Batches of one row run beside each other about half of the time, and then take 1.6 times as long.
 * If demands are not known, that looks like a slower model. */
static void what_others_take_is_not_learnt(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    for (int32_t is_known = 0; is_known <= 1; is_known++) {
        struct world w = {.policy = "window",
                          .option = {"max_delay", "0"},
                          .executors = 2,
                          .demand_ppm = 800000,
                          .is_known = is_known,
                          .mean_ns = 4 * TT_MS};
        run(&w, seed);
        assert_true(w.longest_ns > 5 * TT_MS);
        if (is_known)
            assert_int_equal(w.moves, 0);
        else
            assert_true(w.moves > 0);
    }
}

/* Where two batches at once would take 1.6 times as long, the second executor is no worse than
 * none: it runs nothing beside the first. Where they do not slow each other down, it helps. */
static void a_second_executor_does_no_harm(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    static const char *const beside[] = {"pays", "always"};
    int64_t in_time[2][2], alone;
    for (int32_t demand = 0; demand < 2; demand++)
        for (int32_t option = 0; option < 2; option++) {
            struct world w = {.policy = "adaptive",
                              .option = {"beside", beside[option]},
                              .executors = 2,
                              .demand_ppm = demand == 0 ? 500000 : 800000,
                              .is_known = true,
                              .mean_ns = TT_MS * 3 / 4};
            run(&w, seed);
            in_time[demand][option] = w.in_time;
        }
    struct world w = {.policy = "adaptive",
                      .executors = 1,
                      .demand_ppm = 800000,
                      .is_known = true,
                      .mean_ns = TT_MS * 3 / 4};
    run(&w, seed);
    alone = w.in_time;
    assert_int_equal(in_time[0][0], in_time[0][1]);
    assert_true(in_time[0][0] > alone);
    assert_true(in_time[1][0] > in_time[1][1]);
    assert_true(100 * in_time[1][0] >= 99 * alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_take_is_not_learnt),
        cmocka_unit_test(a_second_executor_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
