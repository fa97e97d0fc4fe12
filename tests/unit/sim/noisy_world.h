/* A device set with noise in virtual time: one model, Poisson arrivals, queue rules, learning. What
 * becomes of each request is counted. */
#ifndef TT_TESTS_SIM_NOISY_WORLD_H
#define TT_TESTS_SIM_NOISY_WORLD_H

#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WARM_UP_S = 2 };

struct device_case {
    const char *name;
    int64_t alpha_ns, beta_ns, slo_ns;
    int32_t max_batch, executors;
};
struct figures {
    int64_t offered, in_time, late, refused, dropped, ended;
};

struct world {
    struct tt_prng prng;
    const char *policy;
    struct tt_option option;
    struct tt_noise noise;
    bool is_plain;                       /* believes the profile; no early refusal */
    const struct tt_perturbation *spans; /* when the devices are slow */
    int32_t span_count;
    int64_t seconds;
    int64_t at, mean_ns, slo_ns, drawn;
    struct figures all;
};

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *w = context;
    double u = (double)(tt_prng_below(&w->prng, 1 << 30) + 1) / (1 << 30);
    w->at += (int64_t)(-log(u) * (double)w->mean_ns);
    *out = (struct tt_sim_arrival){.at = w->at,
                                   .deadline_at = w->at + w->slo_ns,
                                   .cancel_at = TT_NEVER,
                                   .rows = 1,
                                   .exit_step = -1};
    bool more = w->at < w->seconds * TT_S;
    w->drawn += more;
    return more;
}

static void ended(void *context, const struct tt_sim_ending *e) {
    struct world *w = context;
    struct figures *f = &w->all;
    f->ended++;
    if (e->arrived_at < WARM_UP_S * TT_S)
        return;
    f->offered++;
    bool done = e->ending == TT_ENDING_DONE, in_time = e->ended_at <= e->deadline_at;
    f->in_time += done && in_time;
    f->late += done && !in_time;
    f->refused += !done && e->ended_at == e->arrived_at;
    f->dropped += !done && e->ended_at != e->arrived_at;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct world *w = context;
    struct tt_policy_setup setup = {
        .domain = mechanism, .options = &w->option, .option_count = w->option.key != NULL};
    return tt_policy_create(mechanism, w->policy, &setup, why);
}

/* The time between requests at which `load_permille` of what the devices bear is offered: batches
 * of the largest size that takes half the SLO. */
static int64_t mean_of(const struct device_case *c, int64_t load_permille) {
    int64_t size = (c->slo_ns / 2 - c->beta_ns) / c->alpha_ns;
    if (size > c->max_batch)
        size = c->max_batch;
    return (c->alpha_ns * size + c->beta_ns) * 1000 / size / c->executors / load_permille;
}

/* One run of a fresh world, whose other fields are set. */
static struct figures run(struct world *w, const struct device_case *c, int64_t load,
                          uint64_t seed) {
    static const struct tt_queue_rule drops[TT_QUEUE_MAX_LEVELS + 1];
    w->mean_ns = mean_of(c, load);
    w->slo_ns = c->slo_ns;
    tt_prng_init(&w->prng, seed, (uint64_t)load);
    struct tt_error why = {.text = ""};
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(c->alpha_ns, c->beta_ns, c->max_batch, &profile, &why),
                     TT_OK);
    struct tt_step step = {.name = "s", .profile = profile};
    struct tt_step_model model = {.name = "m",
                                  .step_count = 1,
                                  .steps = &step,
                                  .whole = profile,
                                  .slo_ns = c->slo_ns,
                                  .max_batch = c->max_batch,
                                  .rules = drops,
                                  .rule_count = 1};
    struct tt_sim_model sim_model = {.step_model = &model};
    struct tt_sim_device devices[8];
    for (int32_t d = 0; d < c->executors; d++)
        devices[d] = (struct tt_sim_device){.executors = 1};
    struct tt_sim_options options = {.models = &sim_model,
                                     .model_count = 1,
                                     .devices = devices,
                                     .device_count = c->executors,
                                     .depth = 1,
                                     .seed = seed,
                                     .noise = w->noise,
                                     .perturbations = w->spans,
                                     .perturbation_count = w->span_count,
                                     .learn_percent = w->is_plain ? 0 : TT_BELIEF_PERCENT,
                                     .source = {.context = w, .next = next},
                                     .observer = {.context = w, .ended = ended},
                                     .create_policy = create,
                                     .create_context = w};
    struct tt_simulation *simulation;
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    tt_simulation_free(simulation);
    tt_profile_free(profile);
    assert_int_equal(w->all.ended, w->drawn);
    return w->all;
}

#endif
