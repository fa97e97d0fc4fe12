#include "lab/plan/contest.h"

#include "base/instant.h"
#include "lab/run/scenario_run.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

enum { INPUT_SLOTS = 1 << 14 }; /* of each model's ring; a full one delays inputs */

/* Workers share one device, whose inputs are there before their batches. */
static void set_workers(struct tt_scenario *entry, int32_t workers) {
    entry->devices = tt_allocate(1, sizeof(*entry->devices));
    entry->devices[0].executors = workers;
    entry->devices[0].pool_slots = INPUT_SLOTS;
    entry->device_count = 1;
}

struct tt_scenario tt_contest_entry(const struct tt_scenario *base,
                                    const struct tt_policy_candidate *candidate) {
    struct tt_scenario out = *base;
    out.world = TT_WORLD_SIMULATED;
    out.policy = tt_copy_text(candidate->policy->name);
    out.depth = base->depth > 0 ? base->depth : candidate->policy->traits.default_depth;
    out.option_count = candidate->option_count;
    out.option_texts = tt_allocate(2 * (size_t)candidate->option_count, sizeof(char *));
    char **text = out.option_texts;
    for (int32_t i = 0; i < candidate->option_count; i++) {
        *text++ = tt_copy_text(candidate->options[i].key);
        *text++ = tt_copy_text(candidate->options[i].value);
    }
    int32_t workers = tt_policy_candidate_workers(candidate);
    if (workers > 0)
        set_workers(&out, workers);
    return out;
}

void tt_contest_entry_fini(struct tt_scenario *entry, const struct tt_scenario *base) {
    if (entry->devices != base->devices)
        free(entry->devices);
    for (int32_t i = 0; i < 2 * entry->option_count; i++)
        free(entry->option_texts[i]);
    free(entry->option_texts);
    free(entry->policy);
}

static void fill(struct tt_contest_result *out, const struct tt_measure *measure) {
    struct tt_measure_model total;
    tt_measure_total(measure, &total);
    *out = (struct tt_contest_result){.ran = true,
                                      .arrived = total.arrived - total.cancelled,
                                      .bad = tt_measure_bad(&total),
                                      .window_ns = tt_measure_window_ns(measure),
                                      .mean_ns = tt_histogram_mean(&total.latency_ns),
                                      .p50_ns = tt_histogram_quantile(&total.latency_ns, 1, 2),
                                      .p99_ns = tt_histogram_quantile(&total.latency_ns, 99, 100),
                                      .mean_batch = (double)tt_histogram_mean(&total.batch_rows),
                                      .utilisation = tt_measure_utilisation(measure)};
    out->goodput_per_s = (double)total.ok * 1e9 / (double)out->window_ns;
    for (int32_t m = 0; m < measure->model_count; m++) {
        double bad_rate = tt_measure_bad_rate(&measure->models[m]);
        out->bad_rate = bad_rate > out->bad_rate ? bad_rate : out->bad_rate;
    }
    tt_measure_model_fini(&total);
}

static enum tt_err run_one(const struct tt_scenario *scenario,
                           const struct tt_policy_candidate *candidate,
                           const volatile sig_atomic_t *stop, struct tt_contest_result *out) {
    struct tt_scenario entry = tt_contest_entry(scenario, candidate);
    struct tt_scenario_result result;
    *out = (struct tt_contest_result){0};
    enum tt_err err = tt_scenario_run(&entry, false, NULL, stop, &result, &out->why);
    tt_contest_entry_fini(&entry, scenario);
    if (err)
        return TT_OK; /* the policy refuses the scenario: that is its result */
    if (!result.interrupted)
        fill(out, &result.measure);
    tt_measure_fini(&result.measure);
    return result.interrupted ? TT_ERR_CANCELLED : TT_OK;
}

enum tt_err tt_contest_run(const struct tt_scenario *scenario,
                           const struct tt_policy_candidate *candidates, int32_t count,
                           const volatile sig_atomic_t *stop, struct tt_contest_result *results,
                           struct tt_error *why) {
    bool has_load = scenario->arrivals ? scenario->arrival_count > 0
                                       : scenario->rate > 0 || scenario->interval_ns > 0 ||
                                             scenario->segment_count > 0 || scenario->arrivals_path;
    if (!has_load || scenario->model_count == 0 || scenario->device_count == 0)
        return tt_fail(TT_ERR_INVALID, why, "the scenario has no %s to compare policies with",
                       !has_load                    ? "requests"
                       : scenario->model_count == 0 ? "models"
                                                    : "devices");
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < count; i++)
        err = run_one(scenario, &candidates[i], stop, &results[i]);
    return err ? tt_fail(err, why, "interrupted") : TT_OK;
}

/* Whether `b` is better than `a`, which is simpler. */
static bool beats(const struct tt_contest_result *a, const struct tt_contest_result *b,
                  double margin, double margin_latency) {
    if (b->goodput_per_s > a->goodput_per_s * (1 + margin))
        return true;
    bool ties = b->goodput_per_s >= a->goodput_per_s * (1 - margin);
    return ties && (double)b->mean_ns < (double)a->mean_ns * (1 - margin_latency);
}

int32_t tt_contest_winner(const struct tt_contest_result *results, int32_t count, double margin,
                          double margin_latency) {
    int32_t best = -1;
    for (int32_t i = 0; i < count; i++)
        if (results[i].ran &&
            (best < 0 || beats(&results[best], &results[i], margin, margin_latency)))
            best = i;
    return best;
}
