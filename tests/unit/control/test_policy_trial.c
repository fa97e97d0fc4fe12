/* Trials of policies in virtual time, in cases whose figures follow from a calculation by hand. */
#include "control/policy_trial.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_BATCH = 16, EVERY_MS = 10 };

/* One model: a row takes alpha + beta. */
struct bench {
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model model;
    const struct tt_step_model *models[1];
};

static void bench_init(struct bench *self, int64_t alpha_ns, int64_t beta_ns, int64_t window_ns) {
    struct tt_error why;
    *self = (struct bench){0};
    assert_int_equal(tt_profile_new_linear(alpha_ns, beta_ns, MAX_BATCH, &self->profile, &why),
                     TT_OK);
    self->step = (struct tt_step){.name = "whole", .profile = self->profile};
    self->model = (struct tt_step_model){.name = "m",
                                         .step_count = 1,
                                         .steps = &self->step,
                                         .whole = self->profile,
                                         .slo_ns = TT_NEVER,
                                         .max_batch = MAX_BATCH,
                                         .window_ns = window_ns};
    self->models[0] = &self->model;
}

/* Requests every `interval_ns`, each with `time_ns` until its deadline (TT_NEVER: none). */
static struct tt_sim_arrival *regular(int32_t count, int64_t interval_ns, int64_t time_ns) {
    struct tt_sim_arrival *arrivals = calloc((size_t)count, sizeof(*arrivals));
    assert_non_null(arrivals);
    for (int32_t i = 0; i < count; i++)
        arrivals[i] =
            (struct tt_sim_arrival){.at = i * interval_ns,
                                    .deadline_at = tt_instant_add(i * interval_ns, time_ns),
                                    .cancel_at = TT_NEVER,
                                    .rows = 1,
                                    .exit_step = -1};
    return arrivals;
}

static struct tt_auto_half half_of(const struct bench *bench, const char *policy,
                                   const struct tt_sim_arrival *arrivals, int32_t count) {
    assert_non_null(tt_policy_find(policy));
    struct tt_policy_candidate candidate = tt_policy_candidate_of(tt_policy_find(policy));
    struct tt_policy_trial trial = {.models = bench->models,
                                    .model_count = 1,
                                    .devices.executors = 1,
                                    .candidate = &candidate,
                                    .depth = 2,
                                    .arrivals = arrivals,
                                    .arrival_count = count};
    struct tt_auto_half half;
    struct tt_error why;
    assert_int_equal(tt_policy_trial_run(&trial, &half, &why), TT_OK);
    return half;
}

static void light_load_takes_the_run_time(void **state) {
    (void)state;
    struct bench bench;
    bench_init(&bench, TT_MS, 4 * TT_MS, 3 * TT_MS);
    struct tt_sim_arrival *arrivals = regular(100, EVERY_MS * TT_MS, TT_NEVER);
    struct tt_auto_half serial = half_of(&bench, "serial", arrivals, 100);
    assert_int_equal(serial.on_time, 100);
    assert_int_equal(serial.answered, 100);
    assert_int_equal(serial.latency_ns, 100 * 5 * TT_MS);
    /* Each request waits for the window, as no second one comes within it. */
    struct tt_auto_half window = half_of(&bench, "window", arrivals, 100);
    assert_int_equal(window.on_time, 100);
    assert_int_equal(window.latency_ns, 100 * 8 * TT_MS);
    free(arrivals);
    tt_profile_free(bench.profile);
}

/* A request alone takes 10 ms and one comes every 5 ms: one at a time serves half of them on time,
 * once the queue is as long as the deadlines allow; batches serve all. */
static void batches_win_where_one_at_a_time_cannot_keep_up(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    struct bench bench;
    bench_init(&bench, TT_MS, 9 * TT_MS, 0);
    struct tt_sim_arrival *arrivals = regular(COUNT, 5 * TT_MS, 50 * TT_MS);
    struct tt_auto_half serial = half_of(&bench, "serial", arrivals, COUNT);
    struct tt_auto_half eager = half_of(&bench, "eager", arrivals, COUNT);
    assert_true(serial.on_time >= COUNT / 2);
    assert_true(serial.on_time <= COUNT / 2 + 10);
    assert_int_equal(serial.answered, serial.on_time); /* the others are dropped */
    assert_int_equal(eager.on_time, COUNT);
    free(arrivals);
    tt_profile_free(bench.profile);
}

/* Every policy that a model of one graph can have ends every trial, and answers what it may. */
static void every_policy_is_simulated(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    struct tt_prng prng = {0};
    tt_prng_init(&prng, test_seed(1911), 0);
    struct bench bench;
    bench_init(&bench, TT_MS, 5 * TT_MS, 2 * TT_MS);
    bench.model.slo_ns = 60 * TT_MS;
    struct tt_sim_arrival *arrivals = regular(COUNT, 0, 60 * TT_MS);
    int64_t at = 0;
    for (int32_t i = 0; i < COUNT; i++) {
        at += (int64_t)tt_prng_below(&prng, 3 * TT_MS);
        arrivals[i].at = at;
        arrivals[i].deadline_at = at + 60 * TT_MS;
        arrivals[i].rows = 1 + (int32_t)tt_prng_below(&prng, 4);
    }
    for (int32_t p = 0; p < tt_policy_count(); p++) {
        const struct tt_policy_kind *kind = tt_policy_at(p);
        if (tt_policy_is_by_cells(kind) || kind->traits.waits_for_inputs)
            continue;
        struct tt_auto_half half = half_of(&bench, kind->name, arrivals, COUNT);
        struct tt_auto_half again = half_of(&bench, kind->name, arrivals, COUNT);
        assert_memory_equal(&half, &again, sizeof(half));
        assert_in_range(half.on_time, 1, COUNT);
        assert_in_range(half.answered, half.on_time, COUNT);
        assert_true(half.latency_ns >= half.answered * 6 * TT_MS);
    }
    free(arrivals);
    tt_profile_free(bench.profile);
}

/* Bursts of 4 every 100 ms; one row takes 10 ms, two take 12 ms. Workers of 1, 1 and 2 rows run at
 * once. Three tasks on two processors: those of one row end after 15 ms, and the other has 2 ms of
 * work left then. On one processor: after 30 ms and 32 ms. */
static void workers_share_processors(void **state) {
    (void)state;
    enum { BURSTS = 50, COUNT = 4 * BURSTS };
    struct bench bench;
    bench_init(&bench, 2 * TT_MS, 8 * TT_MS, 0);
    struct tt_sim_arrival *arrivals = regular(COUNT, 0, TT_NEVER);
    for (int32_t i = 0; i < COUNT; i++)
        arrivals[i].at = i / 4 * 100 * TT_MS;
    struct tt_policy_candidate workers = {
        .policy = tt_policy_find("elastic"), .options = {{"workers", "1,1,2"}}, .option_count = 1};
    for (int32_t processors = 1; processors <= 2; processors++) {
        struct tt_policy_trial trial = {
            .models = bench.models,
            .model_count = 1,
            .devices = {.executors = processors, .processors = processors},
            .candidate = &workers,
            .depth = 1,
            .arrivals = arrivals,
            .arrival_count = COUNT};
        struct tt_auto_half half;
        struct tt_error why;
        assert_int_equal(tt_policy_trial_run(&trial, &half, &why), TT_OK);
        assert_int_equal(half.answered, COUNT);
        int64_t sum_ms = processors == 1 ? 30 + 30 + 2 * 32 : 15 + 15 + 2 * 17;
        assert_true(half.latency_ns >= BURSTS * (sum_ms - 1) * TT_MS);
        assert_true(half.latency_ns <= BURSTS * (sum_ms + 1) * TT_MS);
    }
    free(arrivals);
    tt_profile_free(bench.profile);
}

/* More executors than processors serve no more: requests of 10 ms, one every 6 ms, alone. */
static void executors_share_processors(void **state) {
    (void)state;
    enum { COUNT = 500 };
    struct bench bench;
    bench_init(&bench, 10 * TT_MS, 0, 0);
    struct tt_sim_arrival *arrivals = regular(COUNT, 6 * TT_MS, TT_NEVER);
    struct tt_policy_candidate serial = tt_policy_candidate_of(tt_policy_find("serial"));
    int64_t mean_ns[3];
    for (int32_t processors = 0; processors < 3; processors++) {
        struct tt_policy_trial trial = {.models = bench.models,
                                        .model_count = 1,
                                        .devices = {.executors = 2, .processors = processors},
                                        .candidate = &serial,
                                        .depth = 1,
                                        .arrivals = arrivals,
                                        .arrival_count = COUNT};
        struct tt_auto_half half;
        struct tt_error why;
        assert_int_equal(tt_policy_trial_run(&trial, &half, &why), TT_OK);
        mean_ns[processors] = half.latency_ns / COUNT;
    }
    assert_int_equal(mean_ns[0], 10 * TT_MS); /* two devices */
    assert_int_equal(mean_ns[2], 10 * TT_MS);
    assert_true(mean_ns[1] > 900 * TT_MS); /* the queue grows by 4 ms per request */
    free(arrivals);
    tt_profile_free(bench.profile);
}

static bool never(void *context) {
    (*(int32_t *)context)++;
    return false;
}

static void a_trial_can_be_ended(void **state) {
    (void)state;
    int32_t asked = 0;
    struct bench bench;
    bench_init(&bench, TT_MS, 0, 0);
    struct tt_sim_arrival *arrivals = regular(20000, 2 * TT_MS, TT_NEVER);
    struct tt_policy_candidate serial = tt_policy_candidate_of(tt_policy_find("serial"));
    struct tt_policy_trial trial = {.models = bench.models,
                                    .model_count = 1,
                                    .devices.executors = 1,
                                    .candidate = &serial,
                                    .depth = 1,
                                    .arrivals = arrivals,
                                    .arrival_count = 20000,
                                    .may_continue = never,
                                    .context = &asked};
    struct tt_auto_half half = {.on_time = -1};
    struct tt_error why;
    assert_int_equal(tt_policy_trial_run(&trial, &half, &why), TT_ERR_CANCELLED);
    assert_int_equal(asked, 1);
    assert_int_equal(half.on_time, -1);
    free(arrivals);
    tt_profile_free(bench.profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(light_load_takes_the_run_time),
        cmocka_unit_test(batches_win_where_one_at_a_time_cannot_keep_up),
        cmocka_unit_test(every_policy_is_simulated),
        cmocka_unit_test(workers_share_processors),
        cmocka_unit_test(executors_share_processors),
        cmocka_unit_test(a_trial_can_be_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
