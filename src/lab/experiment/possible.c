#include "lab/experiment/possible.h"

#include "lab/clairvoyant/clairvoyant_bound.h"
#include "lab/clairvoyant/clairvoyant_plan.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

/* Tries rates without a policy. */
struct rates {
    struct tt_scenario scenario; /* a shallow copy with a rate of its own */
    double bad_rate;
    const struct tt_possible_options *options;
    bool planned; /* by a plan; else by the bound */
};

static bool plannable(const struct tt_clairvoyant_case *given) {
    return given->model_count == 1 && !given->models[0].relaxed;
}

/* A plan's number of requests in time; -1: there is no plan. */
static int64_t plan(const struct tt_clairvoyant_case *given,
                    const struct tt_possible_options *options) {
    struct tt_clairvoyant_plan found;
    if (!plannable(given) ||
        !tt_clairvoyant_plan_find(given, TT_CLAIRVOYANT_WIDTH, options->stop, &found))
        return -1;
    tt_clairvoyant_plan_check(&found, given);
    int64_t in_time = found.in_time;
    tt_clairvoyant_plan_fini(&found);
    return in_time;
}

static struct tt_clairvoyant_options bound_options(const struct tt_possible_options *options) {
    return (struct tt_clairvoyant_options){.rounds = TT_CLAIRVOYANT_ROUNDS,
                                           .stop = options->stop,
                                           .progress = options->progress,
                                           .progress_context = options->progress_context};
}

enum tt_err tt_possible_run(const struct tt_scenario *scenario,
                            const struct tt_possible_options *options,
                            struct tt_possible_run *out_run, struct tt_error *why) {
    struct tt_clairvoyant_case given;
    enum tt_err err = tt_clairvoyant_case_init(&given, scenario, why);
    if (err)
        return err;
    struct tt_clairvoyant_options wanted = bound_options(options);
    struct tt_clairvoyant_bound bound;
    err = tt_clairvoyant_bound(&given, &wanted, &bound, why);
    if (!err)
        *out_run = (struct tt_possible_run){.requests = bound.requests,
                                            .most = bound.most,
                                            .planned = plan(&given, options),
                                            .interrupted = bound.interrupted};
    tt_clairvoyant_case_fini(&given);
    return err;
}

/* How many of `count` requests have to be in time for a good bad rate. */
static int64_t wanted_of(int64_t count, double bad_rate) {
    int64_t bad = (int64_t)((double)count * bad_rate) + 1;
    while (bad > 0 && (bad > count || (double)bad / (double)count > bad_rate))
        bad--;
    return count - bad;
}

static enum tt_err bound_at(const struct rates *self, const struct tt_clairvoyant_case *given,
                            struct tt_goodput_run *out_run, struct tt_error *why) {
    int64_t *wanted = tt_allocate((size_t)given->model_count, sizeof(*wanted));
    for (int32_t m = 0; m < given->model_count; m++)
        wanted[m] = wanted_of(given->models[m].count, self->bad_rate);
    struct tt_clairvoyant_options options = bound_options(self->options);
    options.wanted = wanted;
    struct tt_clairvoyant_bound bound;
    enum tt_err err = tt_clairvoyant_bound(given, &options, &bound, why);
    free(wanted);
    if (!err)
        *out_run = (struct tt_goodput_run){.good = !bound.impossible && !bound.interrupted,
                                           .interrupted = bound.interrupted};
    return err;
}

/* A rate is good if a plan has enough requests in time, or else if it is not proved impossible. */
static enum tt_err try_rate(void *context, int64_t rate, struct tt_goodput_run *out_run,
                            struct tt_error *why) {
    struct rates *self = context;
    self->scenario.rate = rate;
    struct tt_clairvoyant_case given;
    enum tt_err err = tt_clairvoyant_case_init(&given, &self->scenario, why);
    if (err)
        return err;
    if (!self->planned) {
        err = bound_at(self, &given, out_run, why);
    } else {
        int64_t in_time = plan(&given, self->options);
        int64_t wanted = wanted_of(given.models[0].count, self->bad_rate);
        *out_run = (struct tt_goodput_run){.good = in_time >= wanted, .interrupted = in_time < 0};
    }
    tt_clairvoyant_case_fini(&given);
    return err;
}

/* Whether plans can be made for the requests; they are of one kind at every rate. */
static enum tt_err may_plan(const struct tt_scenario *scenario, bool *out_may,
                            struct tt_error *why) {
    struct tt_clairvoyant_case given;
    enum tt_err err = tt_clairvoyant_case_init(&given, scenario, why);
    if (err)
        return err;
    *out_may = plannable(&given);
    tt_clairvoyant_case_fini(&given);
    return TT_OK;
}

enum tt_err tt_possible_rate(const struct tt_scenario *scenario,
                             const struct tt_goodput_options *limits,
                             const struct tt_possible_options *options,
                             struct tt_possible_rate *out_rate, struct tt_error *why) {
    struct rates rates = {.scenario = *scenario, .bad_rate = limits->bad_rate, .options = options};
    rates.scenario.interval_ns = 0;
    const struct tt_goodput_probe probe = {.context = &rates, .run = try_rate};
    struct tt_goodput_options search = *limits;
    search.from_bound = true; /* a try takes long */
    struct tt_goodput bound, planned = {0};
    enum tt_err err = tt_goodput_search_by(scenario, &search, &probe, &bound, why);
    if (!err)
        err = may_plan(scenario, &rates.planned, why);
    if (!err && rates.planned && !bound.interrupted)
        err = tt_goodput_search_by(scenario, &search, &probe, &planned, why);
    if (!err)
        *out_rate =
            (struct tt_possible_rate){.impossible = bound.bad_rate_rate,
                                      .open = bound.rate,
                                      .planned = planned.rate,
                                      .interrupted = bound.interrupted || planned.interrupted};
    return err;
}
