/* The highest rate at which a policy keeps the bad rate within the limit. */
#include "base/instant.h"
#include "lab/experiment/goodput.h"
#include "lab/plan/contest.h"
#include "lab/run/scenario_run.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_RUNS = 40, FEWEST_REQUESTS = 10000, MOST_REQUESTS = 150000, SLOS_PER_RUN = 100 };

/* Where the search begins: what the devices sustain with the largest batches that are in time. */
static int64_t first_rate(const struct tt_scenario *scenario) {
    double weights = 0, device_s = 0;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        const struct tt_step_model *steps = &model->step_model;
        int32_t batch = steps->max_batch;
        if (steps->slo_ns != TT_NEVER)
            batch = tt_profile_largest_batch(steps->whole, steps->slo_ns / 2, model->length, batch);
        batch = batch > model->rows ? batch : model->rows;
        double task_ns = (double)tt_profile_latency(steps->whole, batch, model->length) +
                         (double)scenario->server.batch_ns;
        weights += (double)model->weight;
        device_s += (double)model->weight * model->rows *
                    (task_ns / batch + (double)scenario->server.request_ns) / 1e9;
    }
    double rate = device_s > 0 ? scenario->device_count * weights / device_s : 100;
    return rate < 1 ? TT_RATE_ONE : (int64_t)(rate * (double)TT_RATE_ONE);
}

/* Many objectives long: an overload shows only when its backlog takes longer than one. */
static int64_t requests_at(const struct tt_scenario *scenario, int64_t rate) {
    double slo_s = 0;
    for (int32_t m = 0; m < scenario->model_count; m++)
        if (scenario->models[m].step_model.slo_ns != TT_NEVER)
            slo_s = fmax(slo_s, (double)scenario->models[m].step_model.slo_ns / 1e9);
    double wanted = (double)rate / (double)TT_RATE_ONE * slo_s * SLOS_PER_RUN;
    return (int64_t)fmin(fmax(wanted, FEWEST_REQUESTS), MOST_REQUESTS);
}

static enum tt_err search_rate(struct tt_scenario *entry, double bad_rate, double precision,
                               const volatile sig_atomic_t *stop, int64_t *out_rate,
                               struct tt_error *why) {
    struct tt_goodput_options options = {.bad_rate = bad_rate, .precision = precision};
    struct tt_goodput found;
    entry->rate = first_rate(entry);
    if (entry->request_limit == 0 && entry->duration_ns == TT_NEVER)
        entry->request_limit = requests_at(entry, entry->rate);
    entry->interval_ns = 0;
    enum tt_err err = tt_goodput_search(entry, &options, stop, &found, why);
    if (err)
        return err;
    *out_rate = found.rate;
    return found.interrupted ? tt_fail(TT_ERR_CANCELLED, why, "interrupted") : TT_OK;
}

/* ---- arrivals in memory ---- */

int64_t tt_contest_mean_rate(const struct tt_sim_arrival *arrivals, int64_t count) {
    if (count < 2)
        return count * TT_RATE_ONE;
    int64_t span_ns = arrivals[count - 1].at - arrivals[0].at;
    double rate = (double)(count - 1) * 1e9 / (double)(span_ns > 0 ? span_ns : 1);
    return (int64_t)(rate * (double)TT_RATE_ONE);
}

struct tt_sim_arrival *tt_contest_faster(const struct tt_sim_arrival *arrivals, int64_t count,
                                         double factor) {
    struct tt_sim_arrival *out = tt_allocate((size_t)count, sizeof(*out));
    for (int64_t i = 0; i < count; i++) {
        out[i] = arrivals[i];
        out[i].at = (int64_t)((double)arrivals[i].at / factor);
        int64_t earlier_ns = arrivals[i].at - out[i].at;
        if (out[i].deadline_at != TT_NEVER)
            out[i].deadline_at -= earlier_ns;
        if (out[i].cancel_at != TT_NEVER)
            out[i].cancel_at -= earlier_ns;
    }
    return out;
}

static enum tt_err try_factor(const struct tt_scenario *entry, double factor, double bad_rate,
                              const volatile sig_atomic_t *stop, bool *out_good,
                              struct tt_error *why) {
    struct tt_scenario faster = *entry;
    struct tt_sim_arrival *arrivals =
        tt_contest_faster(entry->arrivals, entry->arrival_count, factor);
    faster.arrivals = arrivals;
    struct tt_scenario_result result;
    struct tt_scenario_outputs outputs = {
        .bad_limit = (int64_t)(bad_rate * (double)entry->arrival_count) + 1};
    enum tt_err err = tt_scenario_run(&faster, false, &outputs, stop, &result, why);
    free(arrivals);
    if (err)
        return err;
    *out_good = !result.interrupted && !result.cut;
    for (int32_t m = 0; m < result.measure.model_count; m++)
        *out_good = *out_good && tt_measure_bad_rate(&result.measure.models[m]) <= bad_rate;
    tt_measure_fini(&result.measure);
    return result.interrupted ? tt_fail(TT_ERR_CANCELLED, why, "interrupted") : TT_OK;
}

static enum tt_err search_factor(const struct tt_scenario *entry, double bad_rate, double precision,
                                 const volatile sig_atomic_t *stop, double *out_factor,
                                 struct tt_error *why) {
    double good = 0, bad = 0, factor = 1;
    enum tt_err err = TT_OK;
    for (int run = 0; !err && run < MAX_RUNS; run++) {
        bool is_good = false;
        err = try_factor(entry, factor, bad_rate, stop, &is_good, why);
        if (is_good)
            good = factor;
        else
            bad = factor;
        if (good > 0 && bad > 0 && bad - good <= precision * bad)
            break;
        factor = bad <= 0 ? 2 * factor : good <= 0 ? factor / 2 : (good + bad) / 2;
    }
    *out_factor = good;
    return err;
}

enum tt_err tt_contest_highest_rate(const struct tt_scenario *scenario,
                                    const struct tt_policy_candidate *candidate, double bad_rate,
                                    double precision, const volatile sig_atomic_t *stop,
                                    int64_t *out_rate, struct tt_error *why) {
    struct tt_scenario entry = tt_contest_entry(scenario, candidate);
    enum tt_err err;
    if (scenario->arrivals) {
        double factor = 0;
        err = search_factor(&entry, bad_rate, precision, stop, &factor, why);
        double mean = (double)tt_contest_mean_rate(scenario->arrivals, scenario->arrival_count);
        if (!err)
            *out_rate = (int64_t)(factor * mean);
    } else {
        err = search_rate(&entry, bad_rate, precision, stop, out_rate, why);
    }
    tt_contest_entry_fini(&entry, scenario);
    return err;
}
