/* The policy of a simulated domain, recorded from its first event on, as a server's is. */
#ifndef RECORDED_POLICY_H
#define RECORDED_POLICY_H

#include "policy/policy.h"
#include "record/recorder.h"

/* Makes the policy of `setup` for its mechanism, and, unless the recorder is NULL, adds the domain
 * to what is recorded. The mechanism's executors have a task each. */
static inline enum tt_err recorded_policy_create(struct tt_mechanism *mechanism, const char *policy,
                                                 const struct tt_policy_setup *setup,
                                                 struct tt_recorder *recorder,
                                                 struct tt_error *why) {
    enum tt_err err = tt_policy_create(mechanism, policy, setup, why);
    if (err || !recorder)
        return err;
    struct tt_record_domain domain = {
        .policy = (char *)policy,
        .option_count = setup->option_count,
        .limits = {.model_capacity = mechanism->model_capacity,
                   .executor_capacity = mechanism->executor_capacity,
                   .max_batch = mechanism->executors[0].tasks[0].capacity,
                   .depth = mechanism->executors[0].depth,
                   .request_limit = mechanism->requests.limit,
                   .has_rules = true,
                   .learn_percent = mechanism->lateness.percent,
                   .learns_outputs = mechanism->learns_outputs,
                   .refuses_early = mechanism->overloads != NULL,
                   .learns_delays = mechanism->delays != NULL,
                   .delay = {setup->d_ctrl_ns, setup->d_data_ns}},
        .d_ctrl_ns = setup->d_ctrl_ns,
        .d_data_ns = setup->d_data_ns,
        .lateness_ns = setup->lateness_ns};
    for (int32_t i = 0; i < setup->option_count; i++)
        domain.options[i] = setup->options[i];
    struct tt_recorder_stream *stream;
    return tt_recorder_add(recorder, mechanism, &domain, &stream, why);
}

#endif
