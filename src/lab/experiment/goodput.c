#include "lab/experiment/goodput.h"

#include "base/instant.h"
#include "lab/closed_form/bound.h"
#include "lab/load/kept_gaps.h"
#include "lab/run/scenario_run.h"

enum { MAX_RUNS = 200 };
#define HIGHEST_RATE (INT64_C(1000000000) * TT_RATE_ONE)

struct search {
    const struct tt_goodput_options *options;
    const struct tt_goodput_probe *probe;
    bool close;   /* the first rate is close: use small steps */
    bool too_few; /* of the latest run */
    struct tt_goodput best;
};

/* Tries rates by runs of a scenario. */
struct runs {
    struct tt_scenario scenario; /* a shallow copy with a rate of its own */
    double bad_rate;
    const volatile sig_atomic_t *stop;
    struct tt_scenario_outputs outputs;
};

static double worst_of(const struct tt_measure *measure, int64_t *out_fewest) {
    double worst = 0;
    int64_t fewest = TT_NEVER;
    for (int32_t m = 0; m < measure->model_count; m++) {
        const struct tt_measure_model *model = &measure->models[m];
        double rate = tt_measure_bad_rate(model);
        worst = rate > worst ? rate : worst;
        if (model->arrived > 0)
            fewest = tt_instant_min(fewest, model->arrived);
    }
    *out_fewest = fewest == TT_NEVER ? 0 : fewest;
    return worst;
}

static enum tt_err run_scenario(void *context, int64_t rate, struct tt_goodput_run *out_run,
                                struct tt_error *why) {
    struct runs *self = context;
    self->scenario.rate = rate;
    struct tt_scenario_result result;
    enum tt_err err =
        tt_scenario_run(&self->scenario, false, &self->outputs, self->stop, &result, why);
    if (err)
        return err;
    int64_t fewest;
    double worst = worst_of(&result.measure, &fewest);
    *out_run = (struct tt_goodput_run){.interrupted = result.interrupted,
                                       .doubtful = result.live.is_live && result.live.doubtful,
                                       .good = !result.interrupted && !result.cut && fewest > 0 &&
                                               worst <= self->bad_rate};
    bool reads_total = out_run->good || result.live.is_live; /* the sum of many histograms */
    struct tt_measure_model total = {0};
    if (reads_total)
        tt_measure_total(&result.measure, &total);
    out_run->too_few =
        !out_run->good && result.live.is_live && (double)total.arrived * self->bad_rate < 1;
    if (out_run->good) {
        out_run->worst_bad_rate = worst;
        out_run->total_bad_rate = tt_measure_bad_rate(&total);
        out_run->requests = total.arrived;
        out_run->requests_per_model = fewest;
        out_run->median_batch = (double)tt_histogram_quantile(&total.batch_rows, 1, 2);
    }
    if (reads_total)
        tt_measure_model_fini(&total);
    tt_measure_fini(&result.measure);
    return TT_OK;
}

static enum tt_err try_rate(struct search *s, int64_t rate, bool *out_good, struct tt_error *why) {
    struct tt_goodput_run run;
    enum tt_err err = s->probe->run(s->probe->context, rate, &run, why);
    if (err)
        return err;
    s->best.runs++;
    s->best.interrupted = run.interrupted;
    s->too_few = run.too_few;
    *out_good = run.good;
    if (run.good) {
        s->best.rate = rate;
        s->best.worst_bad_rate = run.worst_bad_rate;
        s->best.total_bad_rate = run.total_bad_rate;
        s->best.requests = run.requests;
        s->best.requests_per_model = run.requests_per_model;
        s->best.median_batch = run.median_batch;
        s->best.doubtful = run.doubtful;
    } else if (!run.interrupted) {
        s->best.bad_rate_rate = rate;
    }
    return TT_OK;
}

/* Finds one rate on either side of the limit. */
static enum tt_err bracket(struct search *s, int64_t rate, struct tt_error *why) {
    bool good, first = true, was_good = false;
    while (s->best.runs < MAX_RUNS && rate >= TT_RATE_SMALLEST && rate <= HIGHEST_RATE) {
        enum tt_err err = try_rate(s, rate, &good, why);
        if (err || s->best.interrupted)
            return err;
        if ((!first && good != was_good) || s->too_few)
            return TT_OK;
        first = false;
        was_good = good;
        if (s->close)
            rate = good ? rate / 17 * 20 : rate / 20 * 17;
        else
            rate = good ? rate * 2 : rate / 2;
    }
    return TT_OK;
}

static int64_t first_rate(struct search *s, const struct tt_scenario *scenario) {
    double bound = s->options->from_bound ? tt_bound_of(scenario).staggered_per_s : 0;
    s->close = bound > 0;
    if (s->close)
        return (int64_t)(bound * TT_RATE_ONE);
    if (scenario->interval_ns > 0)
        return (int64_t)(INT64_C(1000000000000000) / scenario->interval_ns);
    return scenario->rate > 0 ? scenario->rate : 100 * TT_RATE_ONE;
}

enum tt_err tt_goodput_search_by(const struct tt_scenario *scenario,
                                 const struct tt_goodput_options *options,
                                 const struct tt_goodput_probe *probe,
                                 struct tt_goodput *out_goodput, struct tt_error *why) {
    struct search s = {.options = options, .probe = probe};
    if (scenario->arrivals_path || scenario->segment_count > 0 || scenario->step_every > 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "a search for the goodput needs a load with one rate, not a file, segments "
                       "or steps");
    enum tt_err err = bracket(&s, first_rate(&s, scenario), why);
    while (!err && !s.best.interrupted && s.best.runs < MAX_RUNS && s.best.rate > 0 &&
           s.best.bad_rate_rate > 0) {
        int64_t gap = s.best.bad_rate_rate - s.best.rate;
        if ((double)gap <= options->precision * (double)s.best.bad_rate_rate || gap < 2)
            break;
        bool good;
        err = try_rate(&s, s.best.rate + gap / 2, &good, why);
    }
    if (err)
        return err;
    *out_goodput = s.best;
    return TT_OK;
}

enum tt_err tt_goodput_search(const struct tt_scenario *scenario,
                              const struct tt_goodput_options *options,
                              const volatile sig_atomic_t *stop, struct tt_goodput *out_goodput,
                              struct tt_error *why) {
    struct runs runs = {.scenario = *scenario, .bad_rate = options->bad_rate, .stop = stop};
    runs.scenario.interval_ns = 0;
    struct tt_shared_gaps *shared = NULL;
    uint64_t key = 0;
    if (scenario->world == TT_WORLD_SIMULATED) {
        runs.outputs.bad_share = options->bad_rate;
        runs.outputs.counts_only = true;
        runs.scenario.kept_gaps = tt_kept_gaps_new(scenario->model_count);
        shared = options->shared_gaps;
        key = shared ? tt_shared_gaps_key(scenario) : 0;
        if (shared && tt_shared_gaps_load(shared, key, runs.scenario.kept_gaps))
            shared = NULL; /* there is nothing to add */
    } else {
        runs.outputs.bad_limit = (int64_t)((double)scenario->request_limit * options->bad_rate);
    }
    const struct tt_goodput_probe probe = {.context = &runs, .run = run_scenario};
    enum tt_err err = tt_goodput_search_by(scenario, options, &probe, out_goodput, why);
    if (!err && shared)
        tt_shared_gaps_store(shared, options->job, key, runs.scenario.kept_gaps);
    tt_kept_gaps_free(runs.scenario.kept_gaps);
    return err;
}
