#include "control/policy_trial.h"

#include "base/instant.h"

#include <stdlib.h>

enum { INSTANTS_PER_QUESTION = 1024, INPUT_SLOTS = 1 << 14 };

struct run {
    const struct tt_policy_trial *trial;
    int32_t position; /* of the next arrival */
    struct tt_auto_half half;
};

static bool next(void *context, struct tt_sim_arrival *out_arrival) {
    struct run *run = context;
    if (run->position == run->trial->arrival_count)
        return false;
    *out_arrival = run->trial->arrivals[run->position++];
    return true;
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct run *run = context;
    if (ending->ending != TT_ENDING_DONE)
        return;
    run->half.answered++;
    run->half.on_time += tt_sim_ending_in_time(ending);
    run->half.latency_ns =
        tt_instant_add(run->half.latency_ns, ending->ended_at - ending->arrived_at);
}

static enum tt_err create_policy(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why) {
    const struct run *run = context;
    const struct tt_policy_candidate *candidate = run->trial->candidate;
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .options = candidate->options,
                                    .option_count = candidate->option_count};
    return tt_policy_create(mechanism, candidate->policy->name, &setup, why);
}

/* What an aborted batch may still take on devices that cannot stop one. */
static int64_t longest_ns(const struct tt_policy_trial *trial) {
    int64_t longest_ns = 0;
    for (int32_t m = 0; m < trial->model_count; m++) {
        const struct tt_step_model *model = trial->models[m];
        int32_t length = model->whole->lengths[model->whole->length_count - 1];
        int64_t ns = tt_profile_latency(model->whole, model->max_batch, length);
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return longest_ns;
}

static enum tt_err simulate(struct run *run, const struct tt_sim_options *options,
                            struct tt_error *why) {
    struct tt_simulation *simulation;
    enum tt_err err = tt_simulation_new(options, &simulation, why);
    if (err)
        return err;
    while (!err && tt_simulation_run(simulation, INSTANTS_PER_QUESTION))
        if (run->trial->may_continue && !run->trial->may_continue(run->trial->context))
            err = tt_fail(TT_ERR_CANCELLED, why, "the trial was ended");
    tt_simulation_free(simulation);
    return err;
}

/* The devices as the server would make them for this candidate. Returns their count; `out` has room
 * for one per executor. */
static int32_t set_devices(const struct tt_policy_trial *trial, int32_t executors,
                           struct tt_sim_device *out) {
    const struct tt_auto_devices *devices = &trial->devices;
    int32_t each = devices->processors > 0         ? executors
                   : devices->device_executors > 0 ? devices->device_executors
                                                   : 1;
    int32_t count = 0;
    for (int32_t left = executors; left > 0; left -= each)
        out[count++] = (struct tt_sim_device){.executors = left < each ? left : each,
                                              .processors = devices->processors};
    if (trial->candidate->policy->traits.waits_for_inputs)
        out[0].pool_slots = INPUT_SLOTS; /* the candidate's workers have one device */
    return count;
}

enum tt_err tt_policy_trial_run(const struct tt_policy_trial *self, struct tt_auto_half *out_half,
                                struct tt_error *why) {
    struct run run = {.trial = self};
    struct tt_sim_model *models = calloc((size_t)self->model_count, sizeof(*models));
    int32_t workers = tt_policy_candidate_workers(self->candidate);
    int32_t executors = workers > 0 ? workers : self->devices.executors;
    struct tt_sim_device *devices = calloc((size_t)executors, sizeof(*devices));
    enum tt_err err = models && devices ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t m = 0; !err && m < self->model_count; m++)
        models[m] = (struct tt_sim_model){.step_model = self->models[m], .tree = TT_TREE_NONE};
    struct tt_sim_options options = {.models = models,
                                     .model_count = self->model_count,
                                     .devices = devices,
                                     .device_count =
                                         devices ? set_devices(self, executors, devices) : 0,
                                     .depth = self->depth,
                                     .request_limit = self->arrival_count + 1,
                                     .abort_ns = longest_ns(self),
                                     .source = {.context = &run, .next = next},
                                     .observer = {.context = &run, .ended = on_ended},
                                     .create_policy = create_policy,
                                     .create_context = &run};
    if (!err)
        err = simulate(&run, &options, why);
    free(models);
    free(devices);
    if (!err)
        *out_half = run.half;
    return err;
}
