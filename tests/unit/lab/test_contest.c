/* The contest of policies, in virtual time: closed forms where the best policy is known, ties, the
 * choice of candidates, the costs of a server. */
#include "base/instant.h"
#include "lab/plan/contest.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BATCH = 16, ARRIVALS = 4000 };
#define ALPHA_NS (100 * TT_US)
#define BETA_NS (900 * TT_US)
#define SLO_NS (50 * TT_MS)

struct world {
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_scenario_model model;
    struct tt_sim_device devices[4];
    struct tt_scenario scenario;
    struct tt_policy_candidate candidates[TT_POLICY_MAX_CANDIDATES];
    int32_t candidate_count;
};

/* One model with l(b) = 100 us b + 900 us, on `devices` devices. */
static void world_init(struct world *w, int32_t devices) {
    *w = (struct world){0};
    assert_int_equal(tt_profile_new_linear(ALPHA_NS, BETA_NS, MAX_BATCH, &w->profile, NULL), 0);
    w->step = (struct tt_step){.name = "whole", .profile = w->profile};
    w->model = (struct tt_scenario_model){.name = "m",
                                          .step_model = {.name = "m",
                                                         .step_count = 1,
                                                         .steps = &w->step,
                                                         .whole = w->profile,
                                                         .slo_ns = SLO_NS,
                                                         .max_batch = MAX_BATCH},
                                          .weight = 1,
                                          .rows = 1};
    for (int32_t d = 0; d < devices; d++)
        w->devices[d].executors = 1;
    w->scenario = (struct tt_scenario){.models = &w->model,
                                       .model_count = 1,
                                       .devices = w->devices,
                                       .device_count = devices,
                                       .seed = 1,
                                       .duration_ns = TT_NEVER,
                                       .request_limit = 60000,
                                       .process = TT_PROCESS_POISSON};
    w->candidate_count = tt_contest_candidates(&w->scenario, w->candidates);
}

static int32_t index_of(const struct world *w, const char *name) {
    for (int32_t i = 0; i < w->candidate_count; i++)
        if (strcmp(w->candidates[i].policy->name, name) == 0)
            return i;
    return -1;
}

static void candidates_follow_from_traits(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 1);
    assert_true(w.candidate_count >= 5);
    assert_true(w.candidates[0].policy->traits.runs_alone); /* the simplest is first */
    for (int32_t i = 0; i < w.candidate_count; i++) {
        assert_int_equal(w.candidates[i].policy->traits.granularity, TT_GRANULARITY_GRAPH);
        assert_false(w.candidates[i].policy->traits.waits_for_inputs);
    }
    /* Requests of other lengths: batches of one shape, an option that is given once. */
    struct tt_profile by_length = *w.profile;
    by_length.length_count = 2;
    w.model.step_model.whole = &by_length;
    int32_t shaped = tt_contest_candidates(&w.scenario, w.candidates);
    assert_true(shaped < w.candidate_count);
    for (int32_t i = 0; i < shaped; i++) {
        const struct tt_policy_candidate *c = &w.candidates[i];
        int64_t values[TT_MAX_OPTIONS];
        assert_int_equal(tt_options_parse(c->policy->options, c->policy->option_count, c->options,
                                          c->option_count, values, NULL),
                         TT_OK);
        assert_true(c->policy->traits.runs_alone ||
                    tt_options_have(c->policy->serving.same_shape, c->options, c->option_count));
    }
    w.model.step_model.whole = w.profile;
    w.candidate_count = tt_contest_candidates(&w.scenario, w.candidates);
    struct tt_step steps[2] = {w.step, w.step};
    w.model.step_model.steps = steps;
    w.model.step_model.step_count = 2;
    int32_t staged = tt_contest_candidates(&w.scenario, w.candidates);
    assert_true(staged > w.candidate_count);
    w.candidate_count = staged;
    assert_true(index_of(&w, "lazy") > 0);
    assert_true(index_of(&w, "cellular") < 0);
    steps[0].kind = TT_STEP_ENCODER; /* a model of cells */
    w.candidate_count = tt_contest_candidates(&w.scenario, w.candidates);
    assert_true(index_of(&w, "cellular") > 0);
    assert_true(index_of(&w, "diversity") < 0);
    tt_profile_free(w.profile);
}

/* Batches are needed above 1 / l(1) = 1000 per second; below, evenly spaced requests are served
 * alone under every policy, and the simplest wins. */
static void best_policy_is_known(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result results[TT_POLICY_MAX_CANDIDATES];
    world_init(&w, 1);
    w.scenario.process = TT_PROCESS_UNIFORM;
    w.scenario.rate = 500 * TT_RATE_ONE;
    assert_int_equal(
        tt_contest_run(&w.scenario, w.candidates, w.candidate_count, NULL, results, NULL), TT_OK);
    assert_int_equal(tt_contest_winner(results, w.candidate_count, 0.01, 1), 0);
    assert_int_equal(results[0].bad, 0);
    assert_int_equal(results[0].mean_ns, ALPHA_NS + BETA_NS);

    w.scenario.rate = 3000 * TT_RATE_ONE;
    assert_int_equal(
        tt_contest_run(&w.scenario, w.candidates, w.candidate_count, NULL, results, NULL), TT_OK);
    int32_t best = tt_contest_winner(results, w.candidate_count, 0.01, 1);
    assert_false(w.candidates[best].policy->traits.runs_alone);
    assert_int_equal(results[best].bad, 0);
    assert_true(results[0].bad_rate > 0.5); /* serial serves 1000 of 3000 */
    assert_true(results[0].goodput_per_s < 1000.5);
    tt_profile_free(w.profile);
}

static void ties_go_to_the_simplest(void **state) {
    (void)state;
    struct tt_contest_result results[4] = {
        {.ran = false},
        {.ran = true, .goodput_per_s = 100, .mean_ns = 1000},
        {.ran = true, .goodput_per_s = 100.9, .mean_ns = 990},
        {.ran = true, .goodput_per_s = 102, .mean_ns = 5000},
    };
    assert_int_equal(tt_contest_winner(results, 1, 0.01, 0.05), -1);
    assert_int_equal(tt_contest_winner(results, 3, 0.01, 0.05), 1);
    assert_int_equal(tt_contest_winner(results, 4, 0.01, 0.05), 3);
    assert_int_equal(tt_contest_winner(results, 4, 0.05, 0.05), 1);
    results[2].mean_ns = 900; /* as many, and sooner */
    assert_int_equal(tt_contest_winner(results, 3, 0.01, 0.05), 2);
}

static int64_t highest(const struct world *w, const char *policy) {
    int64_t rate = -1;
    assert_int_equal(tt_contest_highest_rate(&w->scenario, &w->candidates[index_of(w, policy)],
                                             0.01, 0.01, NULL, &rate, NULL),
                     TT_OK);
    return rate;
}

/* With as many devices as processors, whatever a request costs is taken from them: the rate times
 * (l(B) + batch) / B + request + client is at most their number. */
static void costs_limit_the_rate(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 2);
    int64_t without = highest(&w, "deferred");
    double per_row_s = ((double)(ALPHA_NS * MAX_BATCH + BETA_NS)) / MAX_BATCH / 1e9;
    assert_true((double)without / TT_RATE_ONE > 0.85 * 2 / per_row_s);
    assert_true((double)without / TT_RATE_ONE < 1.03 * 2 / per_row_s);

    w.scenario.server = (struct tt_server_cost){
        .cores = 2, .request_ns = 60 * TT_US, .client_ns = 40 * TT_US, .batch_ns = 160 * TT_US};
    int64_t with = highest(&w, "deferred");
    double limit = 2 / (per_row_s + 10e-6 + 100e-6);
    assert_true((double)with / TT_RATE_ONE > 0.85 * limit);
    assert_true((double)with / TT_RATE_ONE < 1.03 * limit);

    /* The connection thread alone limits it too. */
    w.scenario.server = (struct tt_server_cost){.cores = 8, .request_ns = 500 * TT_US};
    with = highest(&w, "deferred");
    assert_true(with > 1700 * TT_RATE_ONE);
    assert_true(with <= 2010 * TT_RATE_ONE);
    tt_profile_free(w.profile);
}

/* A processor that no executor uses pays for the other threads. */
static void spare_processors_pay_for_requests(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 2);
    int64_t without = highest(&w, "deferred");
    w.scenario.server =
        (struct tt_server_cost){.cores = 3, .request_ns = 60 * TT_US, .client_ns = 10 * TT_US};
    int64_t with = highest(&w, "deferred");
    assert_true((double)with > 0.95 * (double)without);
    w.scenario.server.cores = 2;
    assert_true((double)highest(&w, "deferred") < 0.8 * (double)with);
    tt_profile_free(w.profile);
}

/* A thread that is behind needs fewer turns: their time delays requests, and limits no rate. */
static void turns_are_shared_by_what_waits(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result alone;
    world_init(&w, 1);
    w.scenario.server = (struct tt_server_cost){.cores = 8,
                                                .request_ns = 10 * TT_US,
                                                .turn_ns = 400 * TT_US,
                                                .client_turn_ns = 100 * TT_US};
    w.scenario.process = TT_PROCESS_UNIFORM;
    w.scenario.rate = 100 * TT_RATE_ONE;
    w.scenario.request_limit = 100;
    assert_int_equal(tt_contest_run(&w.scenario, w.candidates, 1, NULL, &alone, NULL), TT_OK);
    /* Two turns of each thread, and a batch of one. */
    assert_int_equal(alone.mean_ns, 2 * 500 * TT_US + 10 * TT_US + ALPHA_NS + BETA_NS);
    w.scenario.process = TT_PROCESS_POISSON;
    w.scenario.request_limit = 60000;
    /* 1 / 400 us would be 2500 per second. */
    assert_true(highest(&w, "deferred") > 5000 * TT_RATE_ONE);
    tt_profile_free(w.profile);
}

/* Under overload, what a rejection costs takes the thread's time from requests that could be in
 * time. */
static void rejections_cost_goodput(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result cheap, dear;
    world_init(&w, 1);
    w.scenario.server = (struct tt_server_cost){.cores = 8, .request_ns = 500 * TT_US};
    w.scenario.rate = 4000 * TT_RATE_ONE; /* twice what the thread can do */
    w.scenario.request_limit = 20000;
    const struct tt_policy_candidate *candidate = &w.candidates[index_of(&w, "eager")];
    assert_int_equal(tt_contest_run(&w.scenario, candidate, 1, NULL, &cheap, NULL), TT_OK);
    w.scenario.server.rejection_ns = 2 * TT_MS;
    assert_int_equal(tt_contest_run(&w.scenario, candidate, 1, NULL, &dear, NULL), TT_OK);
    assert_true(cheap.bad > 0);
    assert_true(dear.goodput_per_s < cheap.goodput_per_s);
    tt_profile_free(w.profile);
}

/* At a rate that it could serve for ever, a server does not recover from a stall if rejections take
 * more of its time than answers. */
static void rates_must_survive_a_stall(void **state) {
    (void)state;
    struct world w;
    struct tt_perturbation stall = {.until_at = 60 * TT_MS};
    world_init(&w, 1);
    w.scenario.server = (struct tt_server_cost){.cores = 8, .request_ns = 200 * TT_US};
    w.scenario.warm_up_ns = 500 * TT_MS;
    w.scenario.perturbations = &stall;
    int64_t cheap[2], dear[2];
    for (int32_t k = 0; k < 2; k++) {
        w.scenario.perturbation_count = k;
        w.scenario.server.rejection_ns = 0;
        cheap[k] = highest(&w, "eager");
        w.scenario.server.rejection_ns = 200 * TT_US;
        dear[k] = highest(&w, "eager");
    }
    assert_true((double)cheap[1] > 0.9 * (double)cheap[0]);
    assert_true((double)dear[0] > 0.9 * (double)cheap[0]);
    assert_true((double)dear[1] < 0.8 * (double)dear[0]);
    tt_profile_free(w.profile);
}

/* Without an idle connection a request waits at its client, and is late without having been sent.
 */
static void connections_limit_what_is_under_way(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result result;
    world_init(&w, 1);
    w.scenario.server =
        (struct tt_server_cost){.cores = 8, .request_ns = 10 * TT_US, .connections = 1};
    w.scenario.process = TT_PROCESS_UNIFORM;
    w.scenario.rate = 500 * TT_RATE_ONE;
    w.scenario.request_limit = 1000;
    int32_t eager = index_of(&w, "eager");
    const struct tt_policy_candidate *candidate = &w.candidates[eager];
    assert_int_equal(tt_contest_run(&w.scenario, candidate, 1, NULL, &result, NULL), TT_OK);
    assert_int_equal(result.bad, 0);
    w.scenario.rate = 2000 * TT_RATE_ONE; /* one at a time, about 1 ms each */
    assert_int_equal(tt_contest_run(&w.scenario, candidate, 1, NULL, &result, NULL), TT_OK);
    assert_true(result.bad > 400); /* 500 but for those of the last objective */
    w.scenario.server.connections = 100;
    assert_int_equal(tt_contest_run(&w.scenario, candidate, 1, NULL, &result, NULL), TT_OK);
    assert_int_equal(result.bad, 0);
    tt_profile_free(w.profile);
}

/* A spread of one factor makes every batch longer by it. */
static void spread_lengthens_batches(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result slow, plain;
    world_init(&w, 1);
    w.scenario.process = TT_PROCESS_UNIFORM;
    w.scenario.rate = 100 * TT_RATE_ONE;
    w.scenario.request_limit = 100;
    assert_int_equal(tt_contest_run(&w.scenario, w.candidates, 1, NULL, &plain, NULL), TT_OK);
    for (int32_t p = 0; p < TT_SPREAD_POINTS; p++)
        w.scenario.server.spread.permille[p] = 3000;
    assert_int_equal(tt_contest_run(&w.scenario, w.candidates, 1, NULL, &slow, NULL), TT_OK);
    assert_int_equal(slow.mean_ns, 3 * plain.mean_ns);
    tt_profile_free(w.profile);
}

static void spread_follows_its_quantiles(void **state) {
    (void)state;
    struct tt_spread spread;
    struct tt_prng prng;
    int32_t below = 0;
    double sum = 0;
    tt_prng_init(&prng, test_seed(7), 1);
    for (int32_t p = 0; p < TT_SPREAD_POINTS; p++)
        spread.permille[p] = 500 + 10 * p; /* uniform on 500 .. 1500 */
    for (int32_t i = 0; i < 100000; i++) {
        int32_t drawn = tt_spread_draw(&spread, &prng);
        assert_in_range(drawn, 500, 1500);
        below += drawn < 750;
        sum += drawn;
    }
    assert_in_range(below, 24000, 26000); /* a quarter, within seven deviations */
    assert_true(sum / 100000 > 993 && sum / 100000 < 1007);
    struct tt_spread none = {{0}};
    struct tt_prng before = prng;
    assert_int_equal(tt_spread_draw(&none, &prng), 1000);
    assert_memory_equal(&before, &prng, sizeof(prng));
}

/* Arrivals in memory, and the same ones faster. */
static void arrivals_in_memory(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result results[2][TT_POLICY_MAX_CANDIDATES];
    struct tt_sim_arrival *arrivals = calloc(ARRIVALS, sizeof(*arrivals));
    world_init(&w, 1);
    for (int64_t i = 0; i < ARRIVALS; i++)
        arrivals[i] = (struct tt_sim_arrival){.at = i * TT_MS,
                                              .deadline_at = i * TT_MS + SLO_NS,
                                              .cancel_at = TT_NEVER,
                                              .rows = 1,
                                              .exit_step = -1};
    w.scenario.arrivals = arrivals;
    w.scenario.arrival_count = ARRIVALS;
    assert_int_equal(tt_contest_mean_rate(arrivals, ARRIVALS), 1000 * TT_RATE_ONE);
    for (int32_t k = 0; k < 2; k++)
        assert_int_equal(
            tt_contest_run(&w.scenario, w.candidates, w.candidate_count, NULL, results[k], NULL),
            TT_OK);
    for (int32_t i = 0; i < w.candidate_count; i++) {
        assert_true(results[0][i].ran);
        assert_int_equal(results[0][i].arrived, ARRIVALS);
        assert_int_equal(results[0][i].bad, results[1][i].bad);
        assert_int_equal(results[0][i].mean_ns, results[1][i].mean_ns);
    }
    struct tt_sim_arrival *faster = tt_contest_faster(arrivals, ARRIVALS, 2);
    assert_int_equal(faster[1000].at, 500 * TT_MS);
    assert_int_equal(faster[1000].deadline_at, 500 * TT_MS + SLO_NS);
    assert_int_equal(faster[1000].cancel_at, TT_NEVER);
    free(faster);
    /* Even arrivals of one device: full batches of 16 take 2.5 ms, 6400 per second. */
    int64_t rate = highest(&w, "deferred");
    assert_true(rate > 5400 * TT_RATE_ONE);
    assert_true(rate <
                7040 * TT_RATE_ONE); /* 1 % is late, and 50 ms of backlog remain at the end */
    free(arrivals);
    tt_profile_free(w.profile);
}

static void refusals(void **state) {
    (void)state;
    struct world w;
    struct tt_contest_result result;
    struct tt_error why;
    world_init(&w, 1);
    assert_int_equal(tt_contest_run(&w.scenario, w.candidates, 1, NULL, &result, &why),
                     TT_ERR_INVALID);
    assert_string_equal(why.text, "the scenario has no requests to compare policies with");
    w.scenario.rate = TT_RATE_ONE;
    w.scenario.request_limit = 10;
    struct tt_policy_candidate wrong = {
        .policy = tt_policy_find("window"), .options = {{"no_such", "1"}}, .option_count = 1};
    assert_int_equal(tt_contest_run(&w.scenario, &wrong, 1, NULL, &result, &why), TT_OK);
    assert_false(result.ran);
    assert_non_null(strstr(result.why.text, "no_such"));
    volatile sig_atomic_t stop = 1;
    w.scenario.request_limit = 1000000;
    assert_int_equal(tt_contest_run(&w.scenario, w.candidates, 1, &stop, &result, &why),
                     TT_ERR_CANCELLED);
    tt_profile_free(w.profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_follow_from_traits),
        cmocka_unit_test(best_policy_is_known),
        cmocka_unit_test(ties_go_to_the_simplest),
        cmocka_unit_test(costs_limit_the_rate),
        cmocka_unit_test(spare_processors_pay_for_requests),
        cmocka_unit_test(turns_are_shared_by_what_waits),
        cmocka_unit_test(rejections_cost_goodput),
        cmocka_unit_test(rates_must_survive_a_stall),
        cmocka_unit_test(connections_limit_what_is_under_way),
        cmocka_unit_test(spread_lengthens_batches),
        cmocka_unit_test(spread_follows_its_quantiles),
        cmocka_unit_test(arrivals_in_memory),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
