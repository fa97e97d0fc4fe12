#include "control/auto_candidates.h"

#include "control/placing.h"
#include "policy/auto_policy.h"
#include "serve/served_model_state.h"

#include <stdlib.h>

enum { MOST_WORKERS = 16 };

/* The number of executors is fixed if the configuration states it, or if each is an emulated device
 * of its own: workers would be more devices. */
static int32_t worker_limit(const struct tt_repository_model *model,
                            const struct tt_auto_devices *devices) {
    if (tt_placing_instances(model->config) > 0)
        return 0;
    return devices->processors > 0 ? MOST_WORKERS : devices->device_executors;
}

static struct tt_policy_needs needs_of(const struct tt_repository_model *model,
                                       const struct tt_served_model *served,
                                       const struct tt_auto_devices *devices) {
    const struct tt_model_settings *settings = model->settings;
    bool varies = tt_signature_varies(served->signature) && served->signature->max_batch > 1;
    bool has_cells = served->cells != NULL;
    const struct tt_profile *whole = served->profile;
    return (struct tt_policy_needs){.has_graphs = !has_cells,
                                    .has_cells = has_cells,
                                    .has_trees = tt_model_settings_has_trees(settings),
                                    .has_stages = served->step_model.step_count > 1,
                                    .mixes_shapes = varies && !settings->pad && !has_cells,
                                    .has_lengths = settings->pad && !has_cells && whole &&
                                                   whole->length_count > 1,
                                    .has_ring = settings->input_slots > 0,
                                    .max_batch = served->step_model.max_batch,
                                    .worker_limit = worker_limit(model, devices)};
}

static enum tt_err read_options(const struct tt_repository_model *model,
                                struct tt_auto_options *out_options, struct tt_error *why) {
    const Tutti__ModelPolicy *policy = model->settings->message->policy;
    struct tt_option options[TT_MAX_OPTIONS];
    int32_t count = 0;
    for (; count < (int32_t)policy->n_option && count < TT_MAX_OPTIONS; count++)
        options[count] = (struct tt_option){.key = policy->option[count]->key,
                                            .value = policy->option[count]->value};
    return tt_auto_options_parse(options, count, out_options, why);
}

enum tt_err tt_auto_candidates_find(const struct tt_repository_model *model,
                                    const struct tt_auto_devices *devices,
                                    struct tt_served_model *served, struct tt_error *why) {
    served->recent = tt_model_stats_recent(served->stats);
    served->choice = calloc(1, sizeof(*served->choice));
    if (!served->recent || !served->choice)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    served->choice->devices = *devices;
    served->choice->needs = needs_of(model, served, devices);
    tt_auto_choice_list(served->choice);
    return read_options(model, &served->choice->options, why);
}
