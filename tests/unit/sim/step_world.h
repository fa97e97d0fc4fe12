/* Small worlds of multi-step models for tests: described by plain numbers, run in the simulator,
 * and logged step by step.
 *
 * Usage: fill a `struct step_world` (models, arrivals, executors, policy and options), call
 * step_world_open, then step_world_instant until it returns false (or step_world_run), read `log`
 * and `ends`, call step_world_close. A step of b rows of at most length n takes
 * alpha b + beta + gamma b n. For tests only: it aborts on misuse. */
#ifndef TT_TEST_STEP_WORLD_H
#define TT_TEST_STEP_WORLD_H

#include "base/instant.h"
#include "policy/policy.h"
#include "sim/simulation.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORLD_LENGTH = 8 }; /* of an input whose steps have gamma */
enum { WORLD_STEPS = 8, WORLD_MODELS = 3, WORLD_REQUESTS = 64, WORLD_LOG = 8192, WORLD_ITEMS = 16 };

struct step_world_model {
    int32_t steps;
    enum tt_step_kind kinds[WORLD_STEPS];
    int64_t alpha[WORLD_STEPS], beta[WORLD_STEPS];
    int64_t gamma[WORLD_STEPS]; /* per row and element of its input, up to WORLD_LENGTH */
    int64_t slo_ns;
    struct tt_token_slo tokens;
    int32_t max_batch;
    int32_t output; /* the output length at all quantiles; 0: no decoder */
    int32_t output_limit;
    bool padded;
    int32_t min_rows; /* of every step, for policies by cells */
    int32_t slots;
    uint32_t exits; /* bit s: requests may leave behind step s */
};

struct step_world_entry { /* one step that ran */
    int64_t start_at, end_at;
    int32_t executor, model, step, count;
    int64_t members[WORLD_ITEMS];
};

struct step_world {
    struct step_world_model models[WORLD_MODELS];
    int32_t model_count, executors, depth;
    int64_t busy_until_at;
    int64_t d_ctrl_ns; /* how long a task's message takes */
    int64_t copy_ns;   /* E1: how long the copy of a row takes, alone and when it arrives */
    struct tt_sim_arrival arrivals[WORLD_REQUESTS];
    int32_t arrival_count;
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    /* results */
    struct tt_simulation *simulation;
    struct step_world_entry *log;
    int32_t log_count;
    struct tt_sim_ending ends[WORLD_REQUESTS];
    /* internal */
    int32_t next;
    struct tt_step_model step_models[WORLD_MODELS];
    struct tt_step steps[WORLD_MODELS][WORLD_STEPS];
    struct tt_profile *profiles[WORLD_MODELS][WORLD_STEPS + 1];
    int32_t quantiles[WORLD_MODELS][TT_QUANTILES];
};

static inline bool step_world_next(void *context, struct tt_sim_arrival *out) {
    struct step_world *self = context;
    if (self->next == self->arrival_count)
        return false;
    *out = self->arrivals[self->next++];
    return true;
}

static inline void step_world_ended(void *context, const struct tt_sim_ending *ending) {
    struct step_world *self = context;
    tt_assert(self->ends[ending->number].ended_at == TT_NEVER); /* a request leaves once */
    self->ends[ending->number] = *ending;
}

static inline void step_world_started(void *context, int64_t now, const struct tt_task *task,
                                      int32_t step, const int64_t *numbers) {
    struct step_world *self = context;
    tt_assert(self->log_count < WORLD_LOG && task->count <= WORLD_ITEMS);
    struct step_world_entry *entry = &self->log[self->log_count++];
    *entry = (struct step_world_entry){.start_at = now,
                                       .end_at = TT_NEVER,
                                       .executor = task->executor,
                                       .model = task->model,
                                       .step = step,
                                       .count = task->count};
    for (int32_t i = 0; i < task->count; i++)
        entry->members[i] = numbers[i];
}

static inline void step_world_over(void *context, int64_t now, const struct tt_task *task,
                                   int32_t step) {
    struct step_world *self = context;
    for (int32_t i = self->log_count - 1; i >= 0; i--)
        if (self->log[i].executor == task->executor) {
            tt_assert(self->log[i].end_at == TT_NEVER);
            self->log[i].end_at = now;
            self->log[i].step = step;
            return;
        }
}

static inline enum tt_err step_world_create(void *context, struct tt_mechanism *mechanism,
                                            struct tt_error *why) {
    struct step_world *self = context;
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .d_ctrl_ns = self->d_ctrl_ns,
                                    .options = self->options,
                                    .option_count = self->option_count};
    return tt_policy_create(mechanism, self->policy, &setup, why);
}

static inline struct tt_profile *step_world_profile(int64_t alpha, int64_t beta, int64_t gamma,
                                                    int32_t max_batch) {
    struct tt_profile_point points[WORLD_LENGTH * 64];
    struct tt_profile *profile = NULL;
    struct tt_error why;
    int32_t count = 0;
    tt_assert(gamma == 0 || max_batch <= 64);
    for (int32_t length = 1; gamma > 0 && length <= WORLD_LENGTH; length++)
        for (int32_t b = 1; b <= max_batch; b++)
            points[count++] = (struct tt_profile_point){
                .length = length, .batch = b, .latency_ns = alpha * b + beta + gamma * b * length};
    enum tt_err err = count > 0 ? tt_profile_new_points(points, count, max_batch, &profile, &why)
                                : tt_profile_new_linear(alpha, beta, max_batch, &profile, &why);
    tt_assert(err == TT_OK);
    return profile;
}

static inline void step_world_make(struct step_world *self, int32_t m) {
    const struct step_world_model *from = &self->models[m];
    int64_t alpha = 0, beta = 0, gamma = 0;
    for (int32_t s = 0; s <= from->steps; s++) {
        bool whole = s == from->steps;
        self->profiles[m][s] =
            step_world_profile(whole ? alpha : from->alpha[s], whole ? beta : from->beta[s],
                               whole ? gamma : from->gamma[s], from->max_batch);
        if (whole)
            break;
        alpha += from->alpha[s];
        beta += from->beta[s];
        gamma += from->gamma[s];
        self->steps[m][s] = (struct tt_step){.name = "step",
                                             .profile = self->profiles[m][s],
                                             .kind = from->kinds[s],
                                             .may_exit = from->exits >> s & 1,
                                             .min_rows = from->min_rows};
    }
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        self->quantiles[m][p] = p == TT_QUANTILES - 1 && from->output_limit > from->output
                                    ? from->output_limit
                                    : from->output;
    self->step_models[m] =
        (struct tt_step_model){.name = "model",
                               .step_count = from->steps,
                               .steps = self->steps[m],
                               .whole = self->profiles[m][from->steps],
                               .slo_ns = from->slo_ns,
                               .tokens = from->tokens,
                               .max_batch = from->max_batch,
                               .padded = from->padded,
                               .slots = from->slots,
                               .output_quantiles = from->output ? self->quantiles[m] : NULL};
}

static inline void step_world_open(struct step_world *self) {
    struct tt_sim_model models[WORLD_MODELS] = {0};
    for (int32_t m = 0; m < self->model_count; m++) {
        step_world_make(self, m);
        models[m].step_model = &self->step_models[m];
        models[m].input_bytes = self->copy_ns > 0;
    }
    for (int32_t i = 0; i < WORLD_REQUESTS; i++)
        self->ends[i].ended_at = TT_NEVER;
    self->log = calloc(WORLD_LOG, sizeof(*self->log));
    tt_assert(self->log != NULL);
    struct tt_sim_device devices[4];
    for (int32_t d = 0; d < self->executors; d++)
        devices[d] = (struct tt_sim_device){.executors = 1, .busy_until_at = self->busy_until_at};
    if (self->copy_ns > 0) {
        devices[0].copy_in.fixed_ns = self->copy_ns;
        devices[0].pool_slots = WORLD_REQUESTS;
    }
    struct tt_sim_options options = {
        .models = models,
        .model_count = self->model_count,
        .devices = devices,
        .device_count = self->executors,
        .depth = self->depth ? self->depth : 1,
        .d_ctrl_ns = self->d_ctrl_ns,
        .check = true,
        .source = {.context = self, .next = step_world_next},
        .observer = {.context = self,
                     .ended = step_world_ended,
                     .step_started = step_world_started,
                     .step_ended = step_world_over},
        .create_policy = step_world_create,
        .create_context = self,
    };
    struct tt_error why = {""};
    if (tt_simulation_new(&options, &self->simulation, &why)) {
        fprintf(stderr, "step_world: %s\n", why.text);
        abort();
    }
}

/* Runs one instant, or one decision within it; false at the end. */
static inline bool step_world_instant(struct step_world *self) {
    return tt_simulation_run(self->simulation, 1);
}

static inline void step_world_run(struct step_world *self) {
    while (tt_simulation_run(self->simulation, 1000))
        continue;
}

static inline const struct tt_policy *step_world_policy(const struct step_world *self) {
    return tt_simulation_mechanism(self->simulation)->policy;
}

static inline void step_world_close(struct step_world *self) {
    tt_simulation_free(self->simulation);
    for (int32_t m = 0; m < self->model_count; m++)
        for (int32_t s = 0; s <= self->models[m].steps; s++)
            tt_profile_free(self->profiles[m][s]);
    free(self->log);
}

/* Adds an arrival, not before the one added last, with the model's SLO as its deadline. */
static inline struct tt_sim_arrival *step_world_arrival(struct step_world *self, int64_t at,
                                                        int32_t model) {
    tt_assert(self->arrival_count < WORLD_REQUESTS);
    struct tt_sim_arrival *arrival = &self->arrivals[self->arrival_count++];
    *arrival =
        (struct tt_sim_arrival){.at = at,
                                .deadline_at = tt_instant_add(at, self->models[model].slo_ns),
                                .cancel_at = TT_NEVER,
                                .model = model,
                                .rows = 1,
                                .length = 1,
                                .output_length = 1,
                                .exit_step = -1};
    return arrival;
}

#endif
