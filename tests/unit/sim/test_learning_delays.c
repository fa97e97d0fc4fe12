/* S4: messages to devices take time that the policies do not know at first, under every policy that
 * counts with it. They learn it from the tasks that ended. Then as many requests are in time as
 * with delays that were given. Devices may be near and far. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { DEVICES = 4 };

struct world {
    struct tt_prng prng;
    const char *policy;
    struct tt_option option;
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
    struct tt_network_delay given;
    int64_t at, until_at, mean_ns;
    int64_t watched, in_time, late; /* of requests that arrived after the first second */
    int64_t arrived, ends;
    struct tt_network_delay longest; /* as believed at the end */
};

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *w = context;
    w->at += (int64_t)tt_prng_below(&w->prng, (uint64_t)(2 * w->mean_ns));
    *out = (struct tt_sim_arrival){.at = w->at,
                                   .deadline_at = w->at + w->model.slo_ns,
                                   .cancel_at = TT_NEVER,
                                   .rows = 1,
                                   .exit_step = -1};
    w->arrived += w->at < w->until_at;
    return w->at < w->until_at;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct world *w = context;
    w->ends++;
    if (ending->arrived_at < TT_S)
        return;
    bool is_done = ending->ending == TT_ENDING_DONE;
    w->watched++;
    w->in_time += is_done && ending->ended_at <= ending->deadline_at;
    w->late += is_done && ending->ended_at > ending->deadline_at;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct world *w = context;
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .d_ctrl_ns = w->given.control_ns,
                                    .d_data_ns = w->given.data_ns,
                                    .options = &w->option,
                                    .option_count = w->option.key != NULL};
    return tt_policy_create(mechanism, w->policy, &setup, why);
}

struct scenario {
    const char *policy;
    struct tt_option option;
    struct tt_network_delay near, far, given; /* the first device is near, all others are far */
    int64_t mean_ns;
    bool learns;
};

static struct world run(const struct scenario *s, uint64_t seed) {
    struct world w = {.policy = s->policy,
                      .option = s->option,
                      .given = s->given,
                      .mean_ns = s->mean_ns,
                      .until_at = 5 * TT_S};
    tt_prng_init(&w.prng, seed, 0);
    struct tt_error why = {.text = ""};
    assert_int_equal(tt_profile_new_linear(TT_MS, 5 * TT_MS, 32, &w.profile, &why), TT_OK);
    w.step = (struct tt_step){.name = "s", .profile = w.profile};
    w.model = (struct tt_step_model){.name = "m",
                                     .step_count = 1,
                                     .steps = &w.step,
                                     .whole = w.profile,
                                     .slo_ns = 40 * TT_MS,
                                     .max_batch = 32};
    struct tt_sim_model model = {.step_model = &w.model};
    struct tt_sim_device devices[DEVICES];
    for (int32_t d = 0; d < DEVICES; d++)
        devices[d] = (struct tt_sim_device){.executors = 1, .delay = d == 0 ? s->near : s->far};
    struct tt_sim_options options = {.models = &model,
                                     .model_count = 1,
                                     .devices = devices,
                                     .device_count = DEVICES,
                                     .depth = 1,
                                     .check = true,
                                     .seed = seed,
                                     .learns_delays = s->learns,
                                     .believed_delay = s->given,
                                     .source = {.context = &w, .next = next},
                                     .observer = {.context = &w, .ended = ended},
                                     .create_policy = create,
                                     .create_context = &w};
    struct tt_simulation *simulation;
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    w.longest = tt_mechanism_longest_delay(tt_simulation_mechanism(simulation), s->given);
    tt_simulation_free(simulation);
    tt_profile_free(w.profile);
    assert_int_equal(w.ends, w.arrived); /* none is lost */
    return w;
}

static const struct {
    const char *name;
    struct tt_option option;
    bool defers; /* to the last instant: without delays its batches are late */
} policies[] = {
    {"clockwork", {NULL, NULL}, false},
    {"deferred", {NULL, NULL}, false},
    {"diversity", {"drop", "deadline"}, false},
    {"eager", {NULL, NULL}, false},
    {"nexus", {NULL, NULL}, false},
    {"shepherd", {NULL, NULL}, false},
    {"symphony", {NULL, NULL}, true},
    {"timeout", {"share", "0.9"}, true},
    {"window", {"drop", "deadline"}, false},
};

static const struct tt_network_delay none;

static void what_is_learnt_serves_as_what_is_given(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    static const struct tt_network_delay delay = {3 * TT_MS, 50 * TT_US};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {.policy = policies[i].name,
                             .option = policies[i].option,
                             .near = delay,
                             .far = delay,
                             .given = delay,
                             .mean_ns = TT_MS};
        struct world given = run(&s, seed);
        s.given = none;
        struct world without = run(&s, seed);
        s.learns = true;
        struct world learnt = run(&s, seed);
        print_message("%s: %lld in time and %lld late with given delays, %lld and %lld learnt, "
                      "%lld and %lld without; believed %lld + %lld ns\n",
                      s.policy, (long long)given.in_time, (long long)given.late,
                      (long long)learnt.in_time, (long long)learnt.late, (long long)without.in_time,
                      (long long)without.late, (long long)learnt.longest.control_ns,
                      (long long)learnt.longest.data_ns);
        assert_true(learnt.in_time * 100 >= given.in_time * 99);
        assert_true(learnt.late <= given.late + given.watched / 100);
        assert_true(!policies[i].defers || without.late > without.watched / 10);
        /* What differs by less than 5 % stays. Both values are the longest of any device. */
        int64_t off_ns = tt_network_delay_of(learnt.longest, 4) - tt_network_delay_of(delay, 4);
        assert_true(off_ns <= 600 * TT_US && off_ns >= -200 * TT_US);
    }
}

/* Timers count with the far devices, a batch for the near one starts without waiting for them. */
static void near_and_far(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {.policy = policies[i].name,
                             .option = policies[i].option,
                             .far = {6 * TT_MS, 20 * TT_US},
                             .given = {6 * TT_MS, 20 * TT_US},
                             .mean_ns = TT_MS};
        struct world given = run(&s, seed);
        s.given = none;
        s.learns = true;
        struct world learnt = run(&s, seed);
        print_message("%s: %lld in time and %lld late with the longest delay, %lld and %lld "
                      "learnt\n",
                      s.policy, (long long)given.in_time, (long long)given.late,
                      (long long)learnt.in_time, (long long)learnt.late);
        assert_true(learnt.in_time * 100 >= given.in_time * 99);
        assert_true(learnt.late <= given.late + given.watched / 100);
        s.mean_ns = 20 * TT_MS; /* few requests: all on the near device */
        struct world alone = run(&s, seed);
        assert_int_equal(alone.in_time, alone.watched);
    }
}

/* Without delays nothing is learnt, and nothing changes. */
static void no_delay_stays_none(void **state) {
    (void)state;
    uint64_t seed = test_seed(3);
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {
            .policy = policies[i].name, .option = policies[i].option, .mean_ns = TT_MS};
        struct world without = run(&s, seed);
        s.learns = true;
        struct world learnt = run(&s, seed);
        assert_int_equal(learnt.longest.control_ns + learnt.longest.data_ns, 0);
        assert_int_equal(learnt.in_time, without.in_time);
        assert_int_equal(learnt.late, without.late);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_learnt_serves_as_what_is_given),
        cmocka_unit_test(near_and_far),
        cmocka_unit_test(no_delay_stays_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
