/* E5: the workers of policy elastic in an experiment, from an offline search: E2bird's first phase.
 */
#include "lab/experiment/experiment_build.h"
#include "lab/scenario/allocate.h"
#include "policy/elastic/elastic_plan.h"
#include "policy/policy.h"
#include "profile/worker_search.h"

#include <stdlib.h>
#include <string.h>

static const int32_t totals[] = {4, 8, 16, 32};

static const char *option_of(const struct tt_scenario *scenario, const char *key) {
    for (int32_t i = 0; i < scenario->option_count; i++) {
        struct tt_option option = tt_scenario_option(scenario, i);
        if (strcmp(option.key, key) == 0)
            return option.value;
    }
    return NULL;
}

/* There is room for it. */
static void add_option(struct tt_scenario *scenario, const char *key, const char *value) {
    if (option_of(scenario, key))
        return;
    char **pair = &scenario->option_texts[2 * (ptrdiff_t)scenario->option_count++];
    pair[0] = tt_copy_text(key);
    pair[1] = tt_copy_text(value);
}

/* The best choice of each total by the profile; returns how many totals have one. */
static int32_t search(const struct tt_profile *profile, int64_t promise_ns,
                      struct tt_worker_mix *out_mixes) {
    int32_t found = 0;
    for (size_t i = 0; i < TT_COUNT(totals); i++) {
        int32_t available[TT_ELASTIC_SIZES];
        for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
            available[k] = totals[i];
        struct tt_elastic_choice best =
            tt_elastic_plan_within(profile, available, totals[i], promise_ns);
        if (best.total == 0)
            continue;
        struct tt_worker_mix *mix = &out_mixes[found++];
        *mix = (struct tt_worker_mix){.runs = 1,
                                      .mean_ns = best.latency_sum / best.worker_count,
                                      .last_ns = tt_elastic_corun_last(profile, best.counts)};
        memcpy(mix->counts, best.counts, sizeof(mix->counts));
    }
    return found;
}

/* The mixes are the caller's. */
static enum tt_err find(const struct tt_experiment *self, const struct tt_scenario *scenario,
                        struct tt_worker_mix **out_mixes, int32_t *out_count,
                        struct tt_error *why) {
    const Tutti__ExperimentPolicy *given = self->message->policy;
    const struct tt_step_model *model = &scenario->models[0].step_model;
    if (strcmp(given->workers, "SEARCH") == 0) {
        *out_mixes = tt_allocate(TT_COUNT(totals), sizeof(**out_mixes));
        *out_count = search(model->whole, model->slo_ns, *out_mixes);
        return TT_OK;
    }
    char *path = tt_experiment_path(self, given->workers);
    struct tt_error inner = {0};
    enum tt_err err = tt_worker_file_read(path, NULL, out_mixes, out_count, &inner);
    free(path);
    if (err)
        return tt_experiment_wrong(self, given, "workers", why,
                                   "%s; workers is SEARCH, or a file that tutti profile --workers "
                                   "wrote",
                                   inner.text);
    *out_count = tt_worker_search_within(*out_mixes, *out_count, model->slo_ns);
    return TT_OK;
}

static void set_executors(const struct tt_experiment *self, struct tt_scenario *scenario,
                          const char *key) {
    int32_t sizes[TT_ELASTIC_MAX_TOTAL];
    const struct tt_option workers = {key, option_of(scenario, key)};
    int32_t count = tt_options_sizes(key, &workers, 1, sizes, TT_ELASTIC_MAX_TOTAL);
    for (size_t i = 0; i < self->message->n_device; i++)
        if (self->message->device[i]->executors > 0)
            return;
    for (int32_t d = 0; d < scenario->device_count && count > 0; d++)
        scenario->devices[d].executors = count;
}

enum tt_err tt_experiment_find_workers(const struct tt_experiment *self,
                                       struct tt_scenario *scenario, struct tt_error *why) {
    const Tutti__ExperimentPolicy *given = self->message->policy;
    if (!given || !given->workers[0])
        return TT_OK;
    const struct tt_policy_workers *keys = &tt_policy_find(scenario->policy)->serving.workers;
    if (!keys->sizes)
        return tt_experiment_wrong(self, given, "workers", why,
                                   "policy %s has no workers of several sizes; elastic does, or "
                                   "leave workers out",
                                   scenario->policy);
    if (option_of(scenario, keys->plans))
        return tt_experiment_wrong(self, given, "workers", why,
                                   "workers and option %s both say which workers count; leave one "
                                   "out",
                                   keys->plans);
    struct tt_worker_mix *mixes = NULL;
    int32_t count = 0;
    struct tt_worker_options found;
    enum tt_err err = find(self, scenario, &mixes, &count, why);
    if (err)
        return err;
    bool any = tt_worker_search_options_of(mixes, count, option_of(scenario, keys->sizes), &found);
    free(mixes);
    if (!any)
        return tt_experiment_wrong(self, given, "workers", why,
                                   "no load of 4 rows or more has a choice of workers: the model's "
                                   "max_batch, or the given workers, are too small");
    add_option(scenario, keys->measured.key, keys->measured.value);
    add_option(scenario, keys->sizes, found.workers);
    add_option(scenario, keys->plans, found.configurations);
    set_executors(self, scenario, keys->sizes);
    scenario->found_workers = true;
    return TT_OK;
}
