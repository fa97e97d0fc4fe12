/* A random simulated world under a policy, recorded to a file: models of one to three steps,
 * bursts, rows, lengths, priorities, deadlines or none, early exits, cancellations, executors that
 * appear late, a small limit of requests. */
#ifndef RECORDED_WORLD_H
#define RECORDED_WORLD_H

#include "base/instant.h"
#include "base/prng.h"
#include "sim/simulation.h"
#include "unit/lab/recorded_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD_MODELS = 4 };

struct recorded_world {
    struct tt_prng prng;
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    struct tt_recorder *recorder;
    struct tt_step_model models[WORLD_MODELS];
    struct tt_step steps[WORLD_MODELS][3];
    struct tt_profile *profiles[WORLD_MODELS][4];
    int32_t quantiles[TT_QUANTILES];
    struct tt_queue_rule rules[3]; /* of every second model; priorities are 0 to 2 */
    int64_t at, left, mean_ns;
    int64_t ended[TT_ENDING_CANCELLED + 1], executions;
    struct tt_sim_options setup;
    int64_t lateness_ns; /* of the policy's setup */
    /* With learning (tt_sim_options.learn_percent): the devices are slow, then fast, then stop. */
    int32_t learn_percent;
    struct tt_perturbation perturbations[3];
    struct tt_network_delay given; /* of the policy's setup */
    int64_t moves;                 /* of beliefs */
    int64_t delay_moves;           /* devices that were found to have a delay */
};

static inline int64_t world_draw(struct recorded_world *w, int64_t below) {
    return (int64_t)tt_prng_below(&w->prng, (uint64_t)below);
}

static inline bool world_next(void *context, struct tt_sim_arrival *out) {
    struct recorded_world *w = context;
    if (w->left-- == 0)
        return false;
    if (world_draw(w, 3) > 0)
        w->at += world_draw(w, 2 * w->mean_ns);
    int32_t model = (int32_t)world_draw(w, WORLD_MODELS);
    const struct tt_step_model *m = &w->models[model];
    *out = (struct tt_sim_arrival){.at = w->at,
                                   .deadline_at = tt_instant_add(w->at, m->slo_ns),
                                   .cancel_at = TT_NEVER,
                                   .model = model,
                                   .rows = 1 + (int32_t)world_draw(w, m->max_batch < 3 ? 1 : 3),
                                   .length = (int32_t)world_draw(w, 40),
                                   .output_length = 1 + (int32_t)world_draw(w, 12),
                                   .priority = (int32_t)world_draw(w, 3),
                                   .exit_step = -1};
    if (world_draw(w, 16) == 0)
        out->deadline_at = TT_NEVER;
    if (world_draw(w, 8) == 0)
        out->cancel_at = w->at + world_draw(w, 30 * TT_MS);
    if (world_draw(w, 8) == 0)
        out->exit_step = (int32_t)world_draw(w, m->step_count);
    if (out->exit_step >= 0 && out->exit_step < m->step_count - 2 && !m->output_quantiles)
        out->exit_to = world_draw(w, 2) ? out->exit_step + 2 : 0;
    return true;
}

static inline void world_ended(void *context, const struct tt_sim_ending *ending) {
    struct recorded_world *w = context;
    w->ended[ending->ending]++;
}

static inline void world_started(void *context, int64_t now, const struct tt_task *task,
                                 int32_t step, const int64_t *numbers) {
    (void)step;
    (void)numbers;
    struct recorded_world *w = context;
    w->executions += task->started_at == now; /* its first step; a block may come back to it */
}

static inline enum tt_err world_policy(void *context, struct tt_mechanism *mechanism,
                                       struct tt_error *why) {
    struct recorded_world *w = context;
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .d_ctrl_ns = w->given.control_ns,
                                    .d_data_ns = w->given.data_ns,
                                    .lateness_ns = w->lateness_ns,
                                    .options = w->options,
                                    .option_count = w->option_count};
    return recorded_policy_create(mechanism, w->policy, &setup, w->recorder, why);
}

static inline void world_model(struct recorded_world *w, int32_t m) {
    struct tt_error why;
    int32_t steps = 1 + (int32_t)world_draw(w, 3), max_batch = 1 + (int32_t)world_draw(w, 24);
    struct tt_profile_point points[12], sums[12];
    bool recurs = world_draw(w, 3) == 0;
    for (int32_t s = 0; s < steps; s++) {
        int64_t base = (1 + world_draw(w, 4000)) * TT_US;
        for (int32_t i = 0; i < 12; i++) {
            points[i] = (struct tt_profile_point){.length = 10 * (1 + i / 4),
                                                  .batch = 1 << 2 * (i % 4),
                                                  .latency_ns = base * (1 + i % 4) * (2 + i / 4)};
            int64_t before = s ? sums[i].latency_ns : 0;
            sums[i] = points[i];
            sums[i].latency_ns += before;
        }
        tt_assert(tt_profile_new_points(points, 12, max_batch, &w->profiles[m][s], &why) == TT_OK);
        w->steps[m][s] = (struct tt_step){.name = "s", .profile = w->profiles[m][s]};
        if (recurs && s > 0)
            w->steps[m][s].kind = s == 1 ? TT_STEP_ENCODER : TT_STEP_DECODER;
    }
    tt_assert(tt_profile_new_points(sums, 12, max_batch, &w->profiles[m][3], &why) == TT_OK);
    static const char *const names[WORLD_MODELS] = {"a", "b", "c", "d"};
    w->models[m] = (struct tt_step_model){
        .name = names[m],
        .step_count = steps,
        .steps = w->steps[m],
        .whole = w->profiles[m][3],
        .slo_ns = 3 * tt_profile_latency(w->profiles[m][3], max_batch < 4 ? max_batch : 4, 10) +
                  world_draw(w, 20) * TT_MS,
        .max_batch = max_batch,
        .slots = (int32_t)world_draw(w, 12),
        .output_quantiles = recurs ? w->quantiles : NULL,
        .window_ns = world_draw(w, 4) * TT_MS,
        .delay_ns = m % 2 * TT_MS,
        .target = m % 2 * 2,
        .dec_timesteps = m % 2 * 3,
        .rule_count = m % 2 ? 3 : 0,
        .rules = m % 2 ? w->rules : NULL};
}

static inline void world_learns(struct recorded_world *w) {
    int64_t at = world_draw(w, TT_S);
    static const int32_t speeds[3] = {400, 2000, 0};
    for (int32_t i = 0; i < 3; i++) {
        int64_t until_at = at + 1 + world_draw(w, i < 2 ? 5 * TT_S : TT_S / 2);
        w->perturbations[i] = (struct tt_perturbation){
            .from_at = at, .until_at = until_at, .speed_permille = speeds[i]};
        at = until_at + world_draw(w, TT_S);
    }
    w->lateness_ns = 0;
    w->given = (struct tt_network_delay){0, 0}; /* each device has another one, to be learnt */
    w->setup.learns_delays = true;
    w->setup.perturbations = w->perturbations;
    w->setup.perturbation_count = 3;
    w->setup.learn_percent = w->learn_percent;
    w->setup.check = true;
}

/* Runs `requests` requests of the world of this seed to the end, under `recorder` (may be NULL).
 * learn_percent > 0: latencies are learnt from devices that change. */
static inline void learning_world_run(struct recorded_world *w, uint64_t seed, int64_t requests,
                                      const char *policy, const struct tt_option *options,
                                      int32_t option_count, struct tt_recorder *recorder,
                                      int32_t learn_percent) {
    *w = (struct recorded_world){.policy = policy,
                                 .options = options,
                                 .option_count = option_count,
                                 .recorder = recorder,
                                 .left = requests,
                                 .learn_percent = learn_percent};
    tt_prng_init(&w->prng, seed, 0);
    struct tt_sim_model models[WORLD_MODELS];
    for (int32_t r = 0; r < 3; r++)
        w->rules[r] = (struct tt_queue_rule){.max_count = world_draw(w, 2) * 5,
                                             .delay_late = world_draw(w, 2) == 0,
                                             .compute_late = world_draw(w, 4) == 0,
                                             .late_every = (int32_t)world_draw(w, 3) * 4};
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        w->quantiles[p] = 1 + p / 10;
    for (int32_t m = 0; m < WORLD_MODELS; m++) {
        world_model(w, m);
        models[m] = (struct tt_sim_model){.step_model = &w->models[m]};
    }
    w->mean_ns = (200 + world_draw(w, 4000)) * TT_US;
    struct tt_sim_device devices[3] = {{.executors = 1},
                                       {.executors = 1,
                                        .delay = {learn_percent * 3 * TT_US, learn_percent * 300},
                                        .busy_until_at = world_draw(w, TT_S)},
                                       {.executors = 1 + (int32_t)world_draw(w, 2)}};
    w->lateness_ns = world_draw(w, 2) * TT_MS;
    w->setup = (struct tt_sim_options){
        .models = models,
        .model_count = WORLD_MODELS,
        .devices = devices,
        .device_count = 1 + (int32_t)world_draw(w, 3),
        .depth = 1 + (int32_t)world_draw(w, 3),
        .request_limit = world_draw(w, 4) == 0 ? 24 : 1 << 16, /* a replay makes room for all */
        .d_ctrl_ns = world_draw(w, 2) * 100 * TT_US,
        .d_data_ns = world_draw(w, 2) * 20 * TT_US,
        .abort_ns = 1 + world_draw(w, 5 * TT_MS),
        .jitter_permille = (int32_t)world_draw(w, 2) * 100,
        .seed = seed,
        .source = {.context = w, .next = world_next},
        .observer = {.context = w, .ended = world_ended, .step_started = world_started},
        .create_policy = world_policy,
        .create_context = w};
    w->given = (struct tt_network_delay){w->setup.d_ctrl_ns, w->setup.d_data_ns};
    if (learn_percent > 0)
        world_learns(w);
    struct tt_simulation *simulation;
    struct tt_error why;
    enum tt_err err = tt_simulation_new(&w->setup, &simulation, &why);
    if (err)
        fprintf(stderr, "%s\n", why.text);
    tt_assert(err == TT_OK);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    const struct tt_mechanism *mechanism = tt_simulation_mechanism(simulation);
    for (int32_t m = 0; mechanism->beliefs && m < WORLD_MODELS; m++)
        w->moves += mechanism->beliefs[m]->moves;
    for (int32_t e = 0; mechanism->delays && e < mechanism->executor_capacity; e++)
        w->delay_moves += mechanism->delays[e].believed.control_ns > 0;
    tt_simulation_free(simulation);
    for (int32_t m = 0; m < WORLD_MODELS; m++)
        for (int32_t p = 0; p < 4; p++)
            tt_profile_free(w->profiles[m][p]);
}

static inline void recorded_world_run(struct recorded_world *w, uint64_t seed, int64_t requests,
                                      const char *policy, const struct tt_option *options,
                                      int32_t option_count, struct tt_recorder *recorder) {
    learning_world_run(w, seed, requests, policy, options, option_count, recorder, 0);
}

#endif
