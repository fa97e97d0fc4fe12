#include "fleet/scheduler_threads.h"
#include "lab/experiment/experiment_build.h"
#include "lab/processes/process_cluster.h"
#include "lab/run/live_models.h"

#include <string.h>

enum { DEFAULT_BACKENDS = 4 };

static const double default_reply_ms = 1;

/* NULL: a cluster serves such a model. */
static const char *unservable(const struct tt_scenario *scenario,
                              const struct tt_scenario_model *model) {
    const struct tt_step_model *steps = &model->step_model;
    if (tt_live_models_is_of_cells(scenario, model))
        return "is of cells";
    if (scenario->inside.policy && steps->whole->length_count > 1)
        return "has run times by length, and rows on a device have one size";
    if (steps->rules)
        return "has a rule for late requests";
    if (steps->window_ns > 0 || steps->preferred_count > 0 || steps->executor_count > 0 ||
        steps->slots > 0 || steps->delay_ns > 0 || steps->target > 0)
        return "has settings of its own for its queue, executors or slots";
    if (model->input_bytes > 0 || model->output_bytes > 0)
        return "has copies";
    return NULL;
}

static enum tt_err check_models(const struct tt_experiment *self,
                                const struct tt_scenario *scenario, struct tt_error *why) {
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        const char *what = unservable(scenario, model);
        if (what)
            return tt_experiment_wrong(self, self->message, "model", why,
                                       "model '%s' %s; in the cluster world models are one graph, "
                                       "whole, without settings of their own: leave them out, or "
                                       "take another world",
                                       model->name, what);
        if (model->step_model.slo_ns <= scenario->cluster.reply_ns)
            return tt_experiment_wrong(self, self->message, "model", why,
                                       "model '%s': its objective of %g ms leaves nothing beside "
                                       "the %g ms that cluster { reply_ms } keeps for the way to a "
                                       "frontend and back",
                                       model->name, (double)model->step_model.slo_ns / 1e6,
                                       (double)scenario->cluster.reply_ns / 1e6);
    }
    return TT_OK;
}

/* What a scheduler of a cluster decides by. */
static enum tt_err check_policy(const struct tt_experiment *self,
                                const struct tt_scenario *scenario, struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    if (strcmp(scenario->policy, TT_CLUSTER_POLICY) != 0 || scenario->option_count > 0)
        return tt_experiment_wrong(self, message, "policy", why,
                                   "policy %s%s; a cluster's scheduler runs policy %s without "
                                   "options: say --policy %s, or take another world",
                                   scenario->policy,
                                   scenario->option_count > 0 ? " with options" : "",
                                   TT_CLUSTER_POLICY, TT_CLUSTER_POLICY);
    if (scenario->depth > 2)
        return tt_experiment_wrong(self, message, "depth", why,
                                   "depth is %d; a device of a cluster has one batch, and one that "
                                   "is sent ahead of its end: 2",
                                   scenario->depth);
    if (scenario->learns)
        return tt_experiment_wrong(self, message, NULL, why,
                                   "a cluster's scheduler learns delays of messages only; leave "
                                   "learn out, or take another world");
    return TT_OK;
}

static enum tt_err check_devices(const struct tt_experiment *self,
                                 const struct tt_scenario *scenario, struct tt_error *why) {
    const Tutti__Experiment *message = self->message;
    const struct tt_sim_device *first = &scenario->devices[0];
    for (int32_t d = 0; d < scenario->device_count && scenario->inside.policy; d++)
        if (scenario->devices[d].executors != first->executors || first->pool_slots > 0)
            return tt_experiment_wrong(self, message->device[0], NULL, why,
                                       "in the cluster world devices with a policy inside are "
                                       "granted equally many batches at once, and have no slots "
                                       "for inputs");
    for (int32_t d = 0; d < scenario->device_count && !scenario->inside.policy; d++)
        if (scenario->devices[d].executors > 1 || scenario->devices[d].pool_slots > 0)
            return tt_experiment_wrong(self, message->device[0], NULL, why,
                                       "in the cluster world a device has one executor and no "
                                       "slots for inputs; leave executors and pool_slots out");
    if (scenario->jitter_permille > 0 || scenario->noise.spread_permille > 0 ||
        scenario->noise.outlier_permille > 0 || scenario->abort_ns > 0)
        return tt_experiment_wrong(self, message, NULL, why,
                                   "the devices of a cluster have no jitter, noise or abort_ms; "
                                   "leave them out, or take another world");
    return TT_OK;
}

static enum tt_err build_layout(const struct tt_experiment *self, struct tt_scenario *scenario,
                                struct tt_error *why) {
    const Tutti__ExperimentCluster *given = self->message->cluster;
    struct tt_scenario_cluster *cluster = &scenario->cluster;
    int32_t devices = scenario->device_count;
    cluster->frontends = given && given->frontends ? given->frontends : 1;
    cluster->backends = given && given->backends     ? given->backends
                        : scenario->inside.policy    ? devices
                        : devices < DEFAULT_BACKENDS ? devices
                                                     : DEFAULT_BACKENDS;
    if (cluster->frontends < 1 || cluster->frontends > TT_PROCESS_FRONTENDS)
        return tt_experiment_wrong(self, given, "frontends", why,
                                   "frontends is %d; it must be 1 .. %d", cluster->frontends,
                                   TT_PROCESS_FRONTENDS);
    if (cluster->backends < 1 || cluster->backends > TT_PROCESS_BACKENDS ||
        cluster->backends > devices)
        return tt_experiment_wrong(self, given, "backends", why,
                                   "backends is %d; it must be 1 .. %d, and at most the number of "
                                   "devices, %d",
                                   cluster->backends, TT_PROCESS_BACKENDS, devices);
    if (scenario->inside.policy && cluster->backends != devices)
        return tt_experiment_wrong(self, given, "backends", why,
                                   "backends is %d; devices with a policy inside, %d here, have a "
                                   "backend each: leave it out",
                                   cluster->backends, devices);
    double reply_ms = given && given->reply_ms != 0 ? given->reply_ms : default_reply_ms;
    if (!tt_experiment_ns(reply_ms, TT_MS, &cluster->reply_ns))
        return tt_experiment_wrong(self, given, "reply_ms", why, "reply_ms is %g; it must be > 0",
                                   reply_ms);
    return TT_OK;
}

enum tt_err tt_experiment_build_cluster(const struct tt_experiment *self,
                                        struct tt_scenario *scenario, struct tt_error *why) {
    if (scenario->world != TT_WORLD_CLUSTER)
        return TT_OK;
    enum tt_err err = build_layout(self, scenario, why);
    if (!err)
        err = check_policy(self, scenario, why);
    if (!err)
        err = check_devices(self, scenario, why);
    return err ? err : check_models(self, scenario, why);
}
