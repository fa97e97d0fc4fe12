/* What policy auto chooses, from the requests to the decision: on random small cases each candidate
 * does in the contest what its naive model does (unit/policy/naive_variant.h), and the choice is
 * that of naive_auto.h. Cases have several models and executors, rows, priorities, and requests
 * with and without deadlines. TUTTI_SEED and TUTTI_TEST_CASES select other seeds and more cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "control/auto_contest.h"
#include "unit/control/naive_auto.h"
#include "unit/policy/naive_variant.h"
#include "unit/seed.h"

enum { CASES = 200, CANDIDATES = 7, UNIT_NS = 1000, UNTIL = 20000 };

static int32_t between(struct tt_prng *prng, int32_t low, int32_t high) {
    return low + (int32_t)tt_prng_below(prng, (uint64_t)(high - low + 1));
}

/* ---- a case ---- */

static struct variant window_with(int64_t delay_ns) {
    struct naive_window window = {.drop = true, .delay_ns = delay_ns};
    struct variant self = {.policy = "window", .decide = naive_window_decide};
    self.initial.window = window;
    self.initial.window.last = -1;
    variant_put(&self, "drop", "deadline");
    variant_put_ns(&self, "max_delay", delay_ns);
    return self;
}

static struct variant draw_variant(struct tt_prng *prng) {
    int64_t delay_ns = between(prng, 0, 20) * UNIT_NS;
    switch (between(prng, 0, 5)) {
    case 0: return variant_serial(between(prng, 0, 3) > 0);
    case 1: return variant_clockwork(between(prng, 0, 1));
    case 2: return variant_published("eager", between(prng, 0, 1), 0, 0);
    case 3: return variant_published("symphony", between(prng, 0, 1), 0, 0);
    case 4: return variant_published("timeout", true, delay_ns, 0);
    default: return window_with(between(prng, 0, 1) ? 0 : delay_ns);
    }
}

static void draw_models(struct tt_prng *prng, struct drive_model *models, int32_t count) {
    for (int32_t m = 0; m < count; m++) {
        models[m].alpha_ns = between(prng, 0, 4) * UNIT_NS;
        models[m].beta_ns = between(prng, 1, 12) * UNIT_NS;
        models[m].max_batch = between(prng, 3, 14);
        models[m].slo_ns = models[m].alpha_ns + models[m].beta_ns + between(prng, 0, 60) * UNIT_NS;
        if (between(prng, 0, 5) == 0)
            models[m].slo_ns = TT_NEVER;
    }
}

/* Instants are even numbers of units, so that their halves are whole ones. */
static int32_t draw_arrivals(struct tt_prng *prng, const struct drive_model *models, int32_t count,
                             struct tt_sim_arrival *out) {
    int32_t arrivals = between(prng, 2, WORLD_REQUESTS), spread = between(prng, 0, 5);
    bool rows = between(prng, 0, 2) == 0, priorities = between(prng, 0, 3) == 0;
    int64_t at = 0;
    for (int32_t i = 0; i < arrivals; i++) {
        at += between(prng, 0, spread) * 2 * UNIT_NS;
        int32_t m = between(prng, 0, count - 1);
        out[i] = (struct tt_sim_arrival){.at = at,
                                         .deadline_at = tt_instant_add(at, models[m].slo_ns),
                                         .cancel_at = TT_NEVER,
                                         .model = m,
                                         .rows = rows ? between(prng, 1, 3) : 1,
                                         .priority = priorities ? between(prng, 0, 2) : 0,
                                         .exit_step = -1};
    }
    return arrivals;
}

/* ---- the naive contest ---- */

/* The requests from, .. to - 1, at instants divided by `pace`. */
static struct tt_auto_half naive_trial(struct variant *variant, const struct drive_setup *setup,
                                       const struct tt_sim_arrival *arrivals, int32_t from,
                                       int32_t to, int32_t pace) {
    struct drive drive; /* its models and arrivals only: its policy does not run */
    struct world world;
    struct tt_auto_half half = {0};
    drive_open(&drive, setup);
    for (int32_t i = from; i < to; i++) {
        const struct tt_sim_arrival *given = &arrivals[i];
        struct drive_arrival *arrival = drive_arrival(&drive, given->at / pace, given->model);
        arrival->rows = given->rows;
        arrival->priority = given->priority;
    }
    variant->memory = variant->initial;
    world_open(&world, &drive, variant->decide, &variant->memory);
    world.quantum_ns = UNIT_NS;
    world_walk(&world, (int64_t)UNTIL * UNIT_NS);
    for (int32_t r = 0; r < world.request_count; r++) {
        const struct drive_outcome *outcome = &world.requests[r].outcome;
        assert_int_equal(world.requests[r].state, WORLD_LEFT);
        if (outcome->ending != TT_ENDING_DONE)
            continue;
        half.answered++;
        half.on_time += outcome->ended_at <= drive.arrivals[r].deadline_at;
        half.latency_ns += outcome->ended_at - drive.arrivals[r].at;
    }
    drive_close(&drive);
    return half;
}

static void assert_alike(const struct tt_auto_half *found, const struct tt_auto_half *expected,
                         const char *policy, const char *which, uint64_t number) {
    if (found->on_time == expected->on_time && found->answered == expected->answered &&
        found->latency_ns == expected->latency_ns)
        return;
    fail_msg("case %llu, %s, %s: %lld on time, %lld answered in %lld ns; naive: %lld, %lld, %lld",
             (unsigned long long)number, policy, which, (long long)found->on_time,
             (long long)found->answered, (long long)found->latency_ns, (long long)expected->on_time,
             (long long)expected->answered, (long long)expected->latency_ns);
}

/* One case; returns the reason of its verdict. */
static enum tt_auto_reason one_case(uint64_t seed, uint64_t number) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, number);
    struct drive_model models[WORLD_MODELS] = {0};
    struct drive_setup setup = {.models = models, .policy = "serial"};
    setup.model_count = between(&prng, 1, WORLD_MODELS);
    setup.executors = between(&prng, 1, WORLD_EXECUTORS);
    draw_models(&prng, models, setup.model_count);
    struct tt_sim_arrival arrivals[2 * WORLD_REQUESTS];
    struct drive drive;
    drive_open(&drive, &setup);
    const struct tt_step_model *step_models[WORLD_MODELS];
    for (int32_t m = 0; m < setup.model_count; m++)
        step_models[m] = &drive.models[m];
    struct tt_auto_view view = {.step_models = step_models,
                                .model_count = setup.model_count,
                                .arrivals = arrivals,
                                .choice.devices.executors = setup.executors};
    view.arrival_count = draw_arrivals(&prng, models, setup.model_count, arrivals);
    tt_auto_view_add_faster(&view);
    struct variant variants[CANDIDATES];
    int32_t count = view.choice.candidate_count = between(&prng, 2, CANDIDATES);
    for (int32_t c = 0; c < count; c++) {
        struct tt_policy_candidate *candidate = &view.choice.candidates[c];
        variants[c] = draw_variant(&prng);
        candidate->policy = tt_policy_find(variants[c].policy);
        candidate->option_count = variants[c].option_count;
        for (int32_t i = 0; i < variants[c].option_count; i++)
            candidate->options[i] =
                (struct tt_option){variants[c].options[i].key, variants[c].values[i]};
    }
    struct tt_auto_result found[CANDIDATES], expected[CANDIDATES];
    struct tt_auto_contest contest = {.view = &view};
    tt_auto_contest_run(&contest, found);
    int32_t all = view.arrival_count, middle = all / 2;
    for (int32_t c = 0; c < count; c++) {
        struct variant *it = &variants[c];
        expected[c].is_valid = true;
        expected[c].halves[0] = naive_trial(it, &setup, arrivals, 0, middle, 1);
        expected[c].halves[1] = naive_trial(it, &setup, arrivals, middle, all, 1);
        expected[c].faster = naive_trial(it, &setup, arrivals, 0, all, 2);
        assert_true(found[c].is_valid);
        assert_alike(&found[c].halves[0], &expected[c].halves[0], it->policy, "first half", number);
        assert_alike(&found[c].halves[1], &expected[c].halves[1], it->policy, "second half",
                     number);
        assert_alike(&found[c].faster, &expected[c].faster, it->policy, "twice the rate", number);
    }
    int32_t current = between(&prng, 0, count - 1), permille = between(&prng, 10, 120);
    struct tt_auto_verdict verdict = tt_auto_decide(found, count, current, permille);
    struct tt_auto_verdict naive = naive_verdict(expected, count, current, permille);
    assert_int_equal(verdict.reason, naive.reason);
    assert_int_equal(verdict.choice, naive.choice);
    drive_close(&drive);
    return verdict.reason;
}

static void the_choice_is_that_of_the_naive_contest(void **state) {
    (void)state;
    const char *given = getenv("TUTTI_TEST_CASES");
    uint64_t cases = given ? strtoull(given, NULL, 10) : CASES, seed = test_seed(20261124);
    uint64_t seen[3] = {0};
    for (uint64_t number = 0; number < cases; number++)
        seen[one_case(seed, number)]++;
    print_message("%llu cases: %llu stay, %llu change for requests on time, %llu for latency\n",
                  (unsigned long long)cases, (unsigned long long)seen[TT_AUTO_STAYS],
                  (unsigned long long)seen[TT_AUTO_ON_TIME],
                  (unsigned long long)seen[TT_AUTO_LATENCY]);
    for (int32_t reason = 0; reason < 3; reason++)
        assert_true(seen[reason] > cases / 50);
}

static void end_the_second_trial(void *context) { (*(int32_t *)context)++; }
static bool until_the_second_trial(void *context) { return *(int32_t *)context < 2; }

/* A trial that is ended makes its candidate invalid, and no other trial of it begins. */
static void a_trial_that_is_ended_is_no_result(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    struct drive_model model = {.alpha_ns = UNIT_NS, .beta_ns = UNIT_NS, .max_batch = 4};
    model.slo_ns = TT_NEVER;
    struct drive_setup setup = {
        .models = &model, .model_count = 1, .executors = 1, .policy = "serial"};
    struct drive drive;
    drive_open(&drive, &setup);
    const struct tt_step_model *step_models[] = {&drive.models[0]};
    struct tt_sim_arrival *arrivals = calloc((size_t)2 * COUNT, sizeof(*arrivals));
    assert_non_null(arrivals);
    for (int32_t i = 0; i < COUNT; i++)
        arrivals[i] = (struct tt_sim_arrival){.at = (int64_t)i * 4 * UNIT_NS,
                                              .deadline_at = TT_NEVER,
                                              .cancel_at = TT_NEVER,
                                              .rows = 1,
                                              .exit_step = -1};
    struct tt_auto_view view = {.step_models = step_models,
                                .model_count = 1,
                                .arrivals = arrivals,
                                .arrival_count = COUNT,
                                .choice = {.devices.executors = 1, .candidate_count = 1}};
    view.choice.candidates[0] = tt_policy_candidate_of(tt_policy_find("serial"));
    tt_auto_view_add_faster(&view);
    int32_t trials = 0;
    struct tt_auto_contest contest = {.view = &view,
                                      .begins = end_the_second_trial,
                                      .may_continue = until_the_second_trial,
                                      .context = &trials};
    struct tt_auto_result result;
    tt_auto_contest_run(&contest, &result);
    assert_false(result.is_valid);
    assert_int_equal(trials, 2);
    assert_int_equal(result.halves[0].on_time, COUNT / 2);
    free(arrivals);
    drive_close(&drive);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_that_of_the_naive_contest),
        cmocka_unit_test(a_trial_that_is_ended_is_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
