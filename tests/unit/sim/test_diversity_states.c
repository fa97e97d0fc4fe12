/* D3: the states of executors and buffers in policy `diversity`, as observers see them: by hand for
 * one and two buffer pairs, and in random worlds against shadows and a second table of moves. */
#include "base/instant.h"
#include "base/prng.h"
#include "core/observer.h"
#include "policy/policy.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { T = 1000000, STAGES = 4, MODELS = 2, EXECUTORS = 6, MAX_REQUESTS = 400 };

/* The legal moves, as words. */
static const char *const executor_moves =
    " active>checking checking>working checking>inactive working>active working>inactive "
    "inactive>active ";
static const char *const buffer_moves = " available>inreading available>inwriting "
                                        "invalid>inwriting inwriting>available "
                                        "inreading>invalid invalid>available ";

struct world {
    struct tt_observer observer;
    struct tt_sim_arrival arrivals[MAX_REQUESTS];
    int32_t arrival_count, next, ended;
    const struct tt_option *options;
    int32_t option_count, executor_count, pairs;
    /* Shadows, changed by observed moves only. */
    int32_t executors[EXECUTORS];
    int32_t buffers[MODELS][STAGES][TT_STAGE_BUFFER_STATES];
    int32_t moves, inactive;
    char *log; /* NULL: not wanted */
    size_t log_bytes;
};

static void note(struct world *self, int64_t now, const struct tt_stage_event *stage,
                 const char *what) {
    if (!self->log)
        return;
    size_t at = strlen(self->log);
    if (stage->executor >= 0)
        snprintf(self->log + at, self->log_bytes - at, "%d e%d %s\n", (int)(now / T),
                 stage->executor, what);
    else
        snprintf(self->log + at, self->log_bytes - at, "%d b%d %s\n", (int)(now / T), stage->stage,
                 what);
}

static void moved(struct world *self, const struct tt_event *event) {
    const struct tt_stage_event *stage = event->stage;
    bool is_executor = stage->executor >= 0;
    char what[64], word[66];
    if (is_executor)
        snprintf(what, sizeof(what), "%s>%s",
                 tt_stage_executor_state_name((enum tt_stage_executor_state)stage->from),
                 tt_stage_executor_state_name((enum tt_stage_executor_state)stage->to));
    else
        snprintf(what, sizeof(what), "%s>%s",
                 tt_stage_buffer_state_name((enum tt_stage_buffer_state)stage->from),
                 tt_stage_buffer_state_name((enum tt_stage_buffer_state)stage->to));
    snprintf(word, sizeof(word), " %s ", what);
    assert_non_null(strstr(is_executor ? executor_moves : buffer_moves, word));
    note(self, event->now, stage, what);
    self->moves++;
    if (is_executor) {
        assert_int_equal(self->executors[stage->executor], stage->from);
        self->executors[stage->executor] = stage->to;
        self->inactive += stage->to == TT_STAGE_EXECUTOR_INACTIVE;
        return;
    }
    int32_t *counts = self->buffers[stage->model][stage->stage];
    assert_true(stage->count >= 1 && counts[stage->from] >= stage->count);
    counts[stage->from] -= stage->count;
    counts[stage->to] += stage->count;
}

/* Before a decision exactly the executors with a task work, and as many buffers are written as
 * stages run that have one. */
static void look(const struct world *self, const struct tt_mechanism *domain) {
    int32_t written[MODELS] = {0}, running[MODELS] = {0};
    for (int32_t e = 0; e < self->executor_count; e++) {
        const struct tt_executor *executor = &domain->executors[e];
        assert_int_equal(executor->queued > 0, self->executors[e] == TT_STAGE_EXECUTOR_WORKING);
        for (int32_t k = 0; k < executor->queued; k++) {
            const struct tt_task *task = &executor->tasks[(executor->oldest + k) % executor->depth];
            running[task->model] += task->last_step < domain->models[task->model]->step_count - 1;
        }
    }
    for (int32_t m = 0; m < domain->model_capacity; m++) {
        for (int32_t s = 0; s < STAGES - 1; s++)
            written[m] += self->buffers[m][s][TT_STAGE_BUFFER_INWRITING];
        assert_int_equal(written[m], running[m]);
    }
}

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct world *self = TT_CONTAINER_OF(observer, struct world, observer);
    if (event->kind == TT_EVENT_STAGE)
        moved(self, event);
    else if (event->kind == TT_EVENT_RUN)
        assert_int_equal(self->executors[event->task->executor], TT_STAGE_EXECUTOR_WORKING);
    else if (event->kind == TT_EVENT_DECIDE)
        look(self, event->domain);
}

static bool next_arrival(void *context, struct tt_sim_arrival *out) {
    struct world *self = context;
    if (self->next == self->arrival_count)
        return false;
    *out = self->arrivals[self->next++];
    return true;
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    (void)ending;
    ((struct world *)context)->ended++;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct world *self = context;
    const struct tt_policy_setup setup = {
        .domain = mechanism, .options = self->options, .option_count = self->option_count};
    self->observer.observe = observe;
    tt_mechanism_observe(mechanism, &self->observer);
    return tt_policy_create(mechanism, "diversity", &setup, why);
}

static void run(struct world *self, const struct tt_step_model *models, int32_t model_count,
                int32_t depth) {
    struct tt_sim_model sim_models[MODELS];
    for (int32_t m = 0; m < model_count; m++) {
        sim_models[m] = (struct tt_sim_model){.step_model = &models[m]};
        for (int32_t s = 0; s < STAGES - 1; s++)
            self->buffers[m][s][TT_STAGE_BUFFER_AVAILABLE] = self->pairs;
    }
    const struct tt_sim_device device = {.executors = self->executor_count};
    const struct tt_sim_options options = {.models = sim_models,
                                           .model_count = model_count,
                                           .devices = &device,
                                           .device_count = 1,
                                           .depth = depth,
                                           .check = true,
                                           .source = {.context = self, .next = next_arrival},
                                           .observer = {.context = self, .ended = on_ended},
                                           .create_policy = create,
                                           .create_context = self};
    struct tt_simulation *simulation;
    struct tt_error why;
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1000))
        continue;
    assert_int_equal(self->ended, self->arrival_count);
    /* All is over: every buffer is free, and nothing works. */
    for (int32_t m = 0; m < model_count; m++)
        for (int32_t s = 0; s < models[m].step_count - 1; s++)
            assert_int_equal(self->buffers[m][s][TT_STAGE_BUFFER_AVAILABLE], self->pairs);
    for (int32_t e = 0; e < self->executor_count; e++)
        assert_int_not_equal(self->executors[e], TT_STAGE_EXECUTOR_WORKING);
    tt_simulation_free(simulation);
}

static struct tt_sim_arrival *arrive(struct world *self, int64_t at, int32_t model) {
    struct tt_sim_arrival *arrival = &self->arrivals[self->arrival_count++];
    *arrival = (struct tt_sim_arrival){.at = at,
                                       .deadline_at = TT_NEVER,
                                       .cancel_at = TT_NEVER,
                                       .model = model,
                                       .rows = 1,
                                       .exit_step = -1};
    return arrival;
}

static struct tt_profile *profile_of(int64_t base_ns, int64_t row_ns) {
    struct tt_profile *profile;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(row_ns, base_ns, 16, &profile, &why), TT_OK);
    return profile;
}

/* ---- by hand ---- */

/* Two batches of one request on two stages, each of T. */
static void demand_log(const char *pairs, const char *expected) {
    static char log[4096];
    struct tt_profile *profile = profile_of(T, 0);
    const struct tt_step steps[] = {{.name = "A", .profile = profile},
                                    {.name = "B", .profile = profile}};
    const struct tt_step_model model = {.name = "m",
                                        .step_count = 2,
                                        .steps = steps,
                                        .whole = profile,
                                        .slo_ns = TT_NEVER,
                                        .max_batch = 16};
    const struct tt_option options[] = {{"pairs", pairs}, {"bs_max", "1"}};
    struct world world = {.options = options,
                          .option_count = 2,
                          .executor_count = 2,
                          .pairs = pairs[0] - '0',
                          .log = log,
                          .log_bytes = sizeof(log)};
    log[0] = '\0';
    arrive(&world, 0, 0);
    arrive(&world, 0, 0);
    run(&world, &model, 1, 1);
    assert_string_equal(log, expected);
    tt_profile_free(profile);
}

/* Stage A begins the second batch only when stage B has read its input and is active again. */
static void one_pair_runs_one_batch_at_a_time(void **state) {
    (void)state;
    demand_log("1", "0 e0 active>checking\n"
                    "0 e0 checking>working\n"
                    "0 b0 available>inwriting\n"
                    "1 b0 inwriting>available\n"
                    "1 e0 working>inactive\n"
                    "1 e1 active>checking\n"
                    "1 e1 checking>working\n"
                    "1 b0 available>inreading\n"
                    "2 b0 inreading>invalid\n"
                    "2 b0 invalid>available\n"
                    "2 e1 working>active\n"
                    "2 e0 inactive>active\n"
                    "2 e0 active>checking\n"
                    "2 e0 checking>working\n"
                    "2 b0 available>inwriting\n"
                    "3 b0 inwriting>available\n"
                    "3 e0 working>inactive\n"
                    "3 e1 active>checking\n"
                    "3 e1 checking>working\n"
                    "3 b0 available>inreading\n"
                    "4 b0 inreading>invalid\n"
                    "4 b0 invalid>available\n"
                    "4 e1 working>active\n"
                    "4 e0 inactive>active\n");
}

/* Both executors work from T to 3 T: they share the device. */
static void two_pairs_make_a_pipeline(void **state) {
    (void)state;
    demand_log("2", "0 e0 active>checking\n"
                    "0 e0 checking>working\n"
                    "0 b0 available>inwriting\n"
                    "1 b0 inwriting>available\n"
                    "1 e0 working>active\n"
                    "1 e1 active>checking\n"
                    "1 e1 checking>working\n"
                    "1 b0 available>inreading\n"
                    "1 e0 active>checking\n"
                    "1 e0 checking>working\n"
                    "1 b0 available>inwriting\n"
                    "3 b0 inwriting>available\n"
                    "3 e0 working>inactive\n"
                    "3 b0 inreading>invalid\n"
                    "3 b0 invalid>available\n"
                    "3 e1 working>active\n"
                    "3 e0 inactive>active\n"
                    "3 e1 active>checking\n"
                    "3 e1 checking>working\n"
                    "3 b0 available>inreading\n"
                    "4 b0 inreading>invalid\n"
                    "4 b0 invalid>available\n"
                    "4 e1 working>active\n");
}

/* ---- at random ---- */

static void play(struct tt_prng *prng, struct tt_profile *const *profiles, struct world *world) {
    static const char *const words[] = {"off", "on"};
    struct tt_step steps[MODELS][STAGES];
    struct tt_step_model models[MODELS];
    int32_t model_count = 1 + (int32_t)tt_prng_below(prng, MODELS);
    for (int32_t m = 0; m < model_count; m++) {
        models[m] = (struct tt_step_model){.name = m ? "second" : "first",
                                           .step_count = 1 + (int32_t)tt_prng_below(prng, STAGES),
                                           .steps = steps[m],
                                           .whole = profiles[2],
                                           .slo_ns = TT_NEVER,
                                           .max_batch = 16};
        for (int32_t s = 0; s < models[m].step_count; s++)
            steps[m][s] =
                (struct tt_step){.name = "s", .profile = profiles[tt_prng_below(prng, 2)]};
    }
    char pairs[8], bs_max[8];
    world->pairs = 1 + (int32_t)tt_prng_below(prng, 3);
    snprintf(pairs, sizeof(pairs), "%d", world->pairs);
    snprintf(bs_max, sizeof(bs_max), "%d", 1 + (int)tt_prng_below(prng, 8));
    const struct tt_option options[] = {{"pairs", pairs},
                                        {"bs_max", bs_max},
                                        {"split", words[tt_prng_below(prng, 2)]},
                                        {"stretch", words[tt_prng_below(prng, 2)]},
                                        {"ahead", words[tt_prng_below(prng, 2)]}};
    world->options = options;
    world->option_count = (int32_t)TT_COUNT(options);
    world->executor_count = 1 + (int32_t)tt_prng_below(prng, EXECUTORS);
    int64_t at = 0, gap = 1 + (int64_t)tt_prng_below(prng, 3 * T);
    for (int32_t i = 0; i < MAX_REQUESTS; i++) {
        at += (int64_t)tt_prng_below(prng, (uint64_t)gap);
        int32_t model = (int32_t)tt_prng_below(prng, (uint64_t)model_count);
        struct tt_sim_arrival *arrival = arrive(world, at, model);
        if (tt_prng_below(prng, 4) == 0)
            arrival->exit_step = (int32_t)tt_prng_below(prng, (uint64_t)models[model].step_count);
        if (tt_prng_below(prng, 8) == 0)
            arrival->cancel_at = at + (int64_t)tt_prng_below(prng, 20 * T);
    }
    run(world, models, model_count, 1 + (int32_t)tt_prng_below(prng, 2));
}

static void random_worlds_make_legal_moves_only(void **state) {
    (void)state;
    struct tt_profile *profiles[] = {profile_of(T, T / 8), profile_of(T / 8, T / 2),
                                     profile_of(3 * T, T)};
    uint64_t first = test_seed(7);
    int64_t moves = 0, inactive = 0;
    for (uint64_t seed = first; seed < first + 60; seed++) {
        static struct world world;
        struct tt_prng prng;
        world = (struct world){0};
        tt_prng_init(&prng, seed, 0);
        play(&prng, profiles, &world);
        moves += world.moves;
        inactive += world.inactive;
    }
    assert_true(moves > 60 * MAX_REQUESTS);
    assert_true(inactive > 60);
    for (int i = 0; i < 3; i++)
        tt_profile_free(profiles[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pair_runs_one_batch_at_a_time),
        cmocka_unit_test(two_pairs_make_a_pipeline),
        cmocka_unit_test(random_worlds_make_legal_moves_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
