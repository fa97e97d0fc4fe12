/* slow */
/* plain build only: minutes of simulation, whose parts have tests of their own */
/* Learning in virtual time, under every policy that decides by latencies: a profile that is wrong
 * by three, a device that is half as fast for a minute, a device that stops for 500 ms. The share
 * of requests in time comes back to what a right profile gives. Devices that take what their
 * profiles say: nothing changes at all. */
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

enum { DEVICES = 4, BINS = 1200, REQUESTS = 1 << 20 };
#define BIN_NS (100 * TT_MS)

struct world {
    struct tt_prng prng;
    const char *policy;
    struct tt_option options[2];
    int32_t option_count;
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
    int64_t at, until_at, mean_ns;
    int64_t offered[BINS], in_time[BINS]; /* by instant of arrival */
    int64_t watch_from, watch_until;      /* of arrivals: exact bounds for what follows */
    int64_t watch_offered, watch_in_time;
    int64_t arrived, ends; /* requests; how many of them ended */
    uint8_t *has_ended;    /* [REQUESTS], by number */
    int64_t moves;
    uint64_t digest; /* of how and when each request ended */
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
    int64_t bin = ending->arrived_at / BIN_NS;
    bool is_in_time = ending->ending == TT_ENDING_DONE && ending->ended_at <= ending->deadline_at;
    assert_true(ending->number < REQUESTS);
    assert_false(w->has_ended[ending->number]); /* once */
    w->has_ended[ending->number] = 1;
    w->ends++;
    w->offered[bin]++;
    w->in_time[bin] += is_in_time;
    if (ending->arrived_at >= w->watch_from && ending->arrived_at < w->watch_until) {
        w->watch_offered++;
        w->watch_in_time += is_in_time;
    }
    uint64_t values[3] = {(uint64_t)ending->number, (uint64_t)ending->ended_at,
                          (uint64_t)ending->ending};
    for (int32_t i = 0; i < 3; i++)
        w->digest = (w->digest ^ values[i]) * UINT64_C(0x100000001b3);
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct world *w = context;
    struct tt_policy_setup setup = {
        .domain = mechanism, .options = w->options, .option_count = w->option_count};
    return tt_policy_create(mechanism, w->policy, &setup, why);
}

struct scenario {
    const char *policy;
    struct tt_option option;
    int64_t scale_permille; /* of the profile */
    int64_t slo_ns, mean_ns, seconds;
    const struct tt_perturbation *perturbations;
    int32_t perturbation_count;
    int32_t learn_percent;
    int32_t jitter_permille;
    int64_t watch_from, watch_until;
    bool has_rules; /* as in the server, where requests are refused early (core/overload.h) */
};

static uint8_t has_ended[REQUESTS];

static const struct tt_queue_rule drops[1];

static void run(struct world *w, const struct scenario *s, uint64_t seed) {
    memset(has_ended, 0, sizeof(has_ended));
    *w = (struct world){.policy = s->policy,
                        .watch_from = s->watch_from,
                        .watch_until = s->watch_until,
                        .has_ended = has_ended,
                        .options = {s->option},
                        .option_count = s->option.key != NULL,
                        .mean_ns = s->mean_ns,
                        .until_at = s->seconds * TT_S};
    tt_prng_init(&w->prng, seed, 0);
    struct tt_error why = {.text = ""};
    assert_int_equal(tt_profile_new_linear(1053 * s->scale_permille, 5072 * s->scale_permille, 64,
                                           &w->profile, &why),
                     TT_OK);
    w->step = (struct tt_step){.name = "s", .profile = w->profile};
    w->model = (struct tt_step_model){.name = "m",
                                      .step_count = 1,
                                      .steps = &w->step,
                                      .whole = w->profile,
                                      .slo_ns = s->slo_ns,
                                      .rule_count = s->has_rules,
                                      .rules = s->has_rules ? drops : NULL,
                                      .max_batch = 64};
    struct tt_sim_model model = {.step_model = &w->model};
    struct tt_sim_device devices[DEVICES];
    for (int32_t d = 0; d < DEVICES; d++)
        devices[d] = (struct tt_sim_device){.executors = 1};
    struct tt_sim_options options = {.models = &model,
                                     .model_count = 1,
                                     .devices = devices,
                                     .device_count = DEVICES,
                                     .depth = 1,
                                     .check = true,
                                     .seed = seed,
                                     .jitter_permille = s->jitter_permille,
                                     .perturbations = s->perturbations,
                                     .perturbation_count = s->perturbation_count,
                                     .learn_percent = s->learn_percent,
                                     .source = {.context = w, .next = next},
                                     .observer = {.context = w, .ended = ended},
                                     .create_policy = create,
                                     .create_context = w};
    struct tt_simulation *simulation;
    enum tt_err err = tt_simulation_new(&options, &simulation, &why);
    if (err)
        print_message("%s\n", why.text);
    assert_int_equal(err, TT_OK);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    const struct tt_mechanism *mechanism = tt_simulation_mechanism(simulation);
    w->moves = mechanism->beliefs ? mechanism->beliefs[0]->moves : 0;
    tt_simulation_free(simulation);
    tt_profile_free(w->profile);
    assert_int_equal(w->ends, w->arrived); /* none is lost */
}

static int64_t in_time(const struct world *w, int64_t from_ns, int64_t until_ns) {
    int64_t sum = 0;
    for (int64_t bin = (from_ns + BIN_NS - 1) / BIN_NS; bin < until_ns / BIN_NS; bin++)
        sum += w->in_time[bin];
    return sum;
}

/* True if more than half of what was offered was in time. */
static bool keeps_goodput(const struct world *w) {
    int64_t offered = 0;
    for (int32_t bin = 0; bin < BINS; bin++)
        offered += w->offered[bin];
    return 2 * in_time(w, 0, BINS * BIN_NS) > offered;
}

static const struct {
    const char *name;
    struct tt_option option;
} policies[] = {
    {"clockwork", {NULL, NULL}},
    {"deferred", {NULL, NULL}},
    {"diversity", {"drop", "deadline"}},
    {"eager", {NULL, NULL}},
    {"elastic", {"drop", "deadline"}},
    {"lazy", {"drop", "deadline"}},
    {"nexus", {NULL, NULL}},
    {"serial", {"drop", "deadline"}},
    {"shepherd", {NULL, NULL}},
    {"symphony", {NULL, NULL}},
    {"timeout", {NULL, NULL}},
    {"window", {"drop", "deadline"}},
};

static struct world right, learnt, believing;

/* The goodput after the change of speed, beside that with a profile that is right, and with one
 * that is believed whatever happens. */
static void compare(const char *what, const struct scenario *s, int64_t from_ns, int64_t until_ns) {
    int64_t expected = in_time(&right, from_ns, until_ns);
    int64_t got = in_time(&learnt, from_ns, until_ns);
    int64_t without = in_time(&believing, from_ns, until_ns);
    print_message("%s, %s: %lld in time with a right profile, %lld learnt, %lld with the wrong "
                  "one\n",
                  what, s->policy, (long long)expected, (long long)got, (long long)without);
    assert_true(expected > 100);
    assert_true(got * 100 >= expected * 95);
}

/* `load_permille` of the rate that the devices would bear at the largest batches. */
static int64_t mean_of(int64_t load_permille, int64_t slowness) {
    int64_t row_ns = slowness * (1053 * 1000 + 5072 * 1000 / 8); /* batches of 8 */
    return row_ns * 1000 / DEVICES / load_permille;
}

static void a_profile_that_is_wrong_by_three(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    static const struct tt_perturbation slow = {0, INT64_MAX / 4, 333};
    for (size_t i = 0; i < TT_COUNT(policies); i++)
        for (int64_t load = 500; load <= 1300; load += 400) {
            struct scenario s = {.policy = policies[i].name,
                                 .option = policies[i].option,
                                 .scale_permille = 3003,
                                 .slo_ns = 100 * TT_MS,
                                 .mean_ns = mean_of(load, 3),
                                 .seconds = 20};
            run(&right, &s, seed);
            s.scale_permille = 1000;
            s.perturbations = &slow;
            s.perturbation_count = 1;
            run(&believing, &s, seed);
            s.learn_percent = TT_BELIEF_PERCENT;
            run(&learnt, &s, seed);
            assert_true(learnt.moves > 0);
            /* In overload, policies whose batches outgrow the SLO collapse with any profile. */
            if (load < 1000 || keeps_goodput(&right))
                compare("wrong by 3", &s, TT_S, 20 * TT_S);
        }
}

static void a_device_that_is_slow_for_a_minute(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    static const struct tt_perturbation slow = {10 * TT_S, 70 * TT_S, 500};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {.policy = policies[i].name,
                             .option = policies[i].option,
                             .scale_permille = 2000,
                             .slo_ns = 60 * TT_MS,
                             .mean_ns = mean_of(900, 2),
                             .seconds = 90};
        run(&right, &s, seed);
        s.scale_permille = 1000;
        s.perturbations = &slow;
        s.perturbation_count = 1;
        run(&believing, &s, seed);
        s.learn_percent = TT_BELIEF_PERCENT;
        run(&learnt, &s, seed);
        /* Two SLOs and some tens of batches: 500 ms. */
        compare("half as fast", &s, 10 * TT_S + 500 * TT_MS, 70 * TT_S);
        s.scale_permille = 1000;
        s.learn_percent = s.perturbation_count = 0;
        run(&right, &s, seed);
        compare("fast again", &s, 70 * TT_S + 500 * TT_MS, 90 * TT_S);
    }
}

static void a_device_that_stops(void **state) {
    (void)state;
    uint64_t seed = test_seed(3);
    static const struct tt_perturbation stop = {5 * TT_S, 5 * TT_S + 500 * TT_MS, 0};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {.policy = policies[i].name,
                             .option = policies[i].option,
                             .scale_permille = 1000,
                             .slo_ns = 30 * TT_MS,
                             .mean_ns = mean_of(900, 1),
                             .seconds = 10};
        run(&right, &s, seed);
        s.perturbations = &stop;
        s.perturbation_count = 1;
        run(&believing, &s, seed);
        s.learn_percent = TT_BELIEF_PERCENT;
        run(&learnt, &s, seed);
        compare("stopped", &s, 5 * TT_S + 600 * TT_MS, 10 * TT_S);
    }
}

/* Requests that arrive later than two SLOs after the cause has ended, of one second: as many are in
 * time as if there had been no cause. Early refusal is part of it: without it clockwork, eager,
 * symphony and timeout sometimes stay with batches that are too small for the load. */
static void within_two_slos(void **state) {
    (void)state;
    static const struct {
        const char *what;
        struct tt_perturbation span;
        int64_t load_permille;
    } causes[] = {{"stopped for 500 ms", {5 * TT_S, 5 * TT_S + 500 * TT_MS, 0}, 800},
                  {"a clock that jumps by 500 ms",
                   {.from_at = 5 * TT_S, .until_at = 5 * TT_S + 500 * TT_MS, .jumps = true},
                   800},
                  {"half as fast for 3 s", {3 * TT_S, 6 * TT_S, 500}, 800},
                  {"a third as fast for 3 s", {3 * TT_S, 6 * TT_S, 333}, 800}};
    uint64_t seed = test_seed(6);
    for (size_t i = 0; i < TT_COUNT(policies); i++)
        for (size_t c = 0; c < TT_COUNT(causes); c++) {
            struct scenario s = {.policy = policies[i].name,
                                 .option = policies[i].option,
                                 .scale_permille = 1000,
                                 .slo_ns = 30 * TT_MS,
                                 .mean_ns = mean_of(causes[c].load_permille, 1),
                                 .learn_percent = TT_BELIEF_PERCENT,
                                 .has_rules = true,
                                 .seconds = 9};
            s.watch_from = causes[c].span.until_at + 2 * s.slo_ns;
            s.watch_until = s.watch_from + TT_S;
            run(&right, &s, seed);
            if (!keeps_goodput(&right)) { /* it makes batches that are too small for this load */
                s.mean_ns *= 5;
                run(&right, &s, seed);
            }
            assert_true(keeps_goodput(&right));
            s.perturbations = &causes[c].span;
            s.perturbation_count = 1;
            run(&learnt, &s, seed);
            print_message("%s, %s: %lld of %lld in time, %lld without the cause\n", causes[c].what,
                          policies[i].name, (long long)learnt.watch_in_time,
                          (long long)learnt.watch_offered, (long long)right.watch_in_time);
            assert_int_equal(learnt.watch_offered, right.watch_offered);
            assert_true(learnt.watch_in_time * 100 >= right.watch_in_time * 95);
        }
}

static void what_is_exact_stays_exact(void **state) {
    (void)state;
    uint64_t seed = test_seed(4);
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {.policy = policies[i].name,
                             .option = policies[i].option,
                             .scale_permille = 1000,
                             .slo_ns = 30 * TT_MS,
                             .mean_ns = mean_of(1300, 1),
                             .seconds = 10};
        run(&right, &s, seed);
        s.learn_percent = TT_BELIEF_PERCENT;
        run(&learnt, &s, seed);
        assert_int_equal(learnt.moves, 0);
        assert_int_equal(learnt.digest, right.digest);
    }
}

static void noise_costs_little(void **state) {
    (void)state;
    uint64_t seed = test_seed(5);
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        struct scenario s = {.policy = policies[i].name,
                             .option = policies[i].option,
                             .scale_permille = 1000,
                             .slo_ns = 30 * TT_MS,
                             .mean_ns = mean_of(900, 1),
                             .seconds = 20,
                             .jitter_permille = 100};
        run(&right, &s, seed);
        believing = right;
        s.learn_percent = TT_BELIEF_PERCENT;
        run(&learnt, &s, seed);
        compare("10 % noise", &s, 0, 20 * TT_S);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_exact_stays_exact),
        cmocka_unit_test(a_profile_that_is_wrong_by_three),
        cmocka_unit_test(a_device_that_is_slow_for_a_minute),
        cmocka_unit_test(a_device_that_stops),
        cmocka_unit_test(within_two_slos),
        cmocka_unit_test(noise_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
