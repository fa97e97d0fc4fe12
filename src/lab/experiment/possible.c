#include "lab/experiment/possible.h"

#include "base/fnv.h"
#include "lab/clairvoyant/clairvoyant_bound.h"
#include "lab/clairvoyant/clairvoyant_plan.h"
#include "lab/clairvoyant/work_bound.h"
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

/* ---- a run ---- */

/* What is known of the requests of a run, or of one rate. */
struct requests {
    struct tt_clairvoyant_case given;
    struct tt_work_bound work;
    bool is_given, has_work; /* a run has at least one of them */
};

/* Neither bound holds: adds why the second one does not. */
static enum tt_err neither(const struct tt_error *of_work, struct tt_error *why) {
    struct tt_error of_case = *why;
    return tt_fail(TT_ERR_INVALID, why, "%s; %s", of_case.text, of_work->text);
}

enum tt_err tt_possible_covers(const struct tt_scenario *scenario, enum tt_possible_of of,
                               struct tt_error *why) {
    struct tt_error of_work;
    enum tt_err err = tt_clairvoyant_case_covers(scenario, why);
    if (of == TT_POSSIBLE_OF_RATE || err != TT_ERR_INVALID)
        return err;
    return tt_work_bound_covers(scenario, &of_work) == TT_OK ? TT_OK : neither(&of_work, why);
}

static void close_requests(struct requests *self) {
    if (self->is_given)
        tt_clairvoyant_case_fini(&self->given);
    if (self->has_work)
        tt_work_bound_fini(&self->work);
}

static enum tt_err open_requests(struct requests *self, const struct tt_scenario *scenario,
                                 enum tt_possible_of of, struct tt_error *why) {
    *self = (struct requests){0};
    enum tt_err err = tt_clairvoyant_case_init(&self->given, scenario, why);
    self->is_given = !err;
    if (of == TT_POSSIBLE_OF_RATE || (err && err != TT_ERR_INVALID))
        return err;
    struct tt_error of_work;
    enum tt_err work_err = tt_work_bound_init(&self->work, scenario, &of_work);
    self->has_work = !work_err;
    if (work_err == TT_ERR_INVALID)
        return err ? neither(&of_work, why) : TT_OK;
    if (work_err) {
        close_requests(self);
        *why = of_work;
    }
    return work_err;
}

enum tt_err tt_possible_identity(const struct tt_scenario *scenario, enum tt_possible_of of,
                                 uint64_t *out_identity, struct tt_error *why) {
    struct requests requests;
    enum tt_err err = open_requests(&requests, scenario, of, why);
    if (err)
        return err;
    const uint64_t parts[] = {requests.is_given ? tt_clairvoyant_case_identity(&requests.given) : 0,
                              requests.has_work ? tt_work_bound_identity(&requests.work) : 0};
    *out_identity = tt_fnv_add(TT_FNV_START, parts, sizeof(parts));
    close_requests(&requests);
    return TT_OK;
}

static enum tt_err bound_given(const struct tt_clairvoyant_case *given,
                               const struct tt_possible_options *options,
                               struct tt_possible_run *out_run, struct tt_error *why) {
    struct tt_clairvoyant_options wanted = bound_options(options);
    struct tt_clairvoyant_bound bound;
    enum tt_err err = tt_clairvoyant_bound(given, &wanted, &bound, why);
    if (!err)
        *out_run = (struct tt_possible_run){.requests = bound.requests,
                                            .most = bound.most,
                                            .planned = plan(given, options),
                                            .least_mean_ns = -1,
                                            .interrupted = bound.interrupted};
    return err;
}

enum tt_err tt_possible_run(const struct tt_scenario *scenario,
                            const struct tt_possible_options *options,
                            struct tt_possible_run *out_run, struct tt_error *why) {
    struct requests requests;
    enum tt_err err = open_requests(&requests, scenario, TT_POSSIBLE_OF_RUN, why);
    if (err)
        return err;
    const struct tt_work_bound *work = &requests.work;
    bool has_deadlines = scenario->models[0].step_model.slo_ns != TT_NEVER;
    if (requests.is_given)
        err = bound_given(&requests.given, options, out_run, why);
    else
        *out_run =
            (struct tt_possible_run){.requests = work->count,
                                     .most = has_deadlines ? tt_work_bound_most_in_time(work) : -1,
                                     .planned = -1,
                                     .least_mean_ns = -1};
    if (!err && requests.has_work && work->count > 0)
        out_run->least_mean_ns = tt_work_bound_least_latency_ns(work) / work->count;
    close_requests(&requests);
    return err;
}

/* ---- a rate ---- */

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
