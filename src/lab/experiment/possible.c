#include "lab/experiment/possible.h"

#include "lab/clairvoyant/clairvoyant_bound.h"
#include "lab/clairvoyant/clairvoyant_plan.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

enum { MAX_BOUNDS = 60 };

struct search {
    struct tt_scenario scenario; /* a shallow copy with a rate of its own */
    double bad_rate, precision;
    const struct tt_possible_options *options;
    struct tt_possible_rate out;
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

static enum tt_err draw(struct search *s, int64_t rate, struct tt_clairvoyant_case *out_given,
                        struct tt_error *why) {
    s->scenario.rate = rate;
    return tt_clairvoyant_case_init(out_given, &s->scenario, why);
}

static enum tt_err try_bound(struct search *s, int64_t rate, struct tt_error *why) {
    struct tt_clairvoyant_case given;
    enum tt_err err = draw(s, rate, &given, why);
    if (err)
        return err;
    int64_t *wanted = tt_allocate((size_t)given.model_count, sizeof(*wanted));
    for (int32_t m = 0; m < given.model_count; m++)
        wanted[m] = wanted_of(given.models[m].count, s->bad_rate);
    struct tt_clairvoyant_options options = bound_options(s->options);
    options.wanted = wanted;
    struct tt_clairvoyant_bound bound;
    err = tt_clairvoyant_bound(&given, &options, &bound, why);
    free(wanted);
    tt_clairvoyant_case_fini(&given);
    if (err)
        return err;
    s->out.bounds++;
    s->out.interrupted = s->out.interrupted || bound.interrupted;
    if (bound.impossible)
        s->out.impossible = rate;
    else if (!bound.interrupted)
        s->out.open = rate;
    return TT_OK;
}

static bool close_enough(const struct search *s, int64_t low, int64_t high) {
    return (double)(high - low) <= s->precision * (double)high || high - low < 2;
}

/* An impossible rate by steps of 10 %, then halves the gap. */
static enum tt_err search_bound(struct search *s, struct tt_error *why) {
    enum tt_err err = TT_OK;
    while (!err && !s->out.interrupted && s->out.bounds < MAX_BOUNDS) {
        if (s->out.impossible == 0)
            err = try_bound(s, s->out.open / 10 * 11 + 1, why);
        else if (!close_enough(s, s->out.open, s->out.impossible))
            err = try_bound(s, s->out.open + (s->out.impossible - s->out.open) / 2, why);
        else
            break;
    }
    return err;
}

/* The plans between the goodput and what is impossible. */
static enum tt_err search_plan(struct search *s, int64_t good, struct tt_error *why) {
    int64_t bad = s->out.impossible;
    while (!s->out.interrupted && bad > 0 && !close_enough(s, good, bad)) {
        struct tt_clairvoyant_case given;
        int64_t rate = good + (bad - good) / 2;
        enum tt_err err = draw(s, rate, &given, why);
        if (err)
            return err;
        bool one = plannable(&given);
        int64_t in_time = one ? plan(&given, s->options) : 0;
        int64_t wanted = one ? wanted_of(given.models[0].count, s->bad_rate) : 0;
        tt_clairvoyant_case_fini(&given);
        if (!one)
            return TT_OK;
        if (in_time < 0)
            s->out.interrupted = true;
        else if (in_time >= wanted)
            s->out.planned = good = rate;
        else
            bad = rate;
    }
    return TT_OK;
}

enum tt_err tt_possible_rate(const struct tt_scenario *scenario,
                             const struct tt_goodput_options *limits,
                             const struct tt_goodput *goodput,
                             const struct tt_possible_options *options,
                             struct tt_possible_rate *out_rate, struct tt_error *why) {
    tt_assert(goodput->rate > 0);
    struct search s = {.scenario = *scenario,
                       .bad_rate = limits->bad_rate,
                       .precision = limits->precision,
                       .options = options,
                       .out.open = goodput->rate};
    s.scenario.interval_ns = 0;
    enum tt_err err = search_bound(&s, why);
    if (!err)
        err = search_plan(&s, goodput->rate, why);
    if (!err)
        *out_rate = s.out;
    return err;
}
