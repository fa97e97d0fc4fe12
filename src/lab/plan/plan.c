#include "lab/plan/plan.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"

#include <stdlib.h>

enum { FEWEST_REQUESTS = 10000, MOST_REQUESTS = 150000, SLOS_PER_RUN = 100 };

static int64_t longest_slo(const struct tt_scenario *scenario) {
    int64_t slo_ns = 0;
    for (int32_t m = 0; m < scenario->model_count; m++)
        if (scenario->models[m].step_model.slo_ns != TT_NEVER)
            slo_ns = tt_instant_max(slo_ns, scenario->models[m].step_model.slo_ns);
    return slo_ns;
}

static bool serves_late(const struct tt_scenario *scenario) {
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_queue_rule *rules = scenario->models[m].step_model.rules;
        if (rules && rules->delay_late)
            return true;
    }
    return false;
}

/* As many requests as tell 1 % of bad ones, and as come in many objectives. If late ones stay, an
 * overload makes long queues, and the time of a run grows with their square. */
static int64_t requests_at(const struct tt_scenario *scenario, double rate_per_s) {
    if (serves_late(scenario))
        return FEWEST_REQUESTS;
    double wanted = rate_per_s * (double)longest_slo(scenario) / 1e9 * SLOS_PER_RUN;
    return wanted < FEWEST_REQUESTS ? FEWEST_REQUESTS
           : wanted > MOST_REQUESTS ? MOST_REQUESTS
                                    : (int64_t)wanted;
}

/* The scenario with the given load times `factor`. Its arrivals, if any, are the caller's to free
 * as *out_arrivals. */
static struct tt_scenario loaded(const struct tt_plan *self, double factor,
                                 struct tt_sim_arrival **out_arrivals) {
    struct tt_scenario out = *self->scenario;
    *out_arrivals = NULL;
    out.duration_ns = TT_NEVER;
    out.interval_ns = 0;
    out.rate = (int64_t)(self->rate * factor * (double)TT_RATE_ONE);
    out.request_limit = requests_at(&out, self->rate * factor);
    if (self->arrivals) {
        *out_arrivals = tt_contest_faster(self->arrivals, self->arrival_count, factor);
        out.arrivals = *out_arrivals;
        out.arrival_count = self->arrival_count;
        out.request_limit = 0;
    }
    return out;
}

/* ---- a candidate, in a child process ---- */

static json_t *result_json(const struct tt_contest_result *result, int64_t highest) {
    return json_pack("{s:b,s:s,s:I,s:I,s:I,s:f,s:f,s:I,s:I,s:I,s:f,s:f,s:f}", "ran", result->ran,
                     "why", result->why.text, "arrived", (json_int_t)result->arrived, "bad",
                     (json_int_t)result->bad, "window_ns", (json_int_t)result->window_ns,
                     "goodput_per_s", result->goodput_per_s, "bad_rate", result->bad_rate,
                     "mean_ns", (json_int_t)result->mean_ns, "p50_ns", (json_int_t)result->p50_ns,
                     "p99_ns", (json_int_t)result->p99_ns, "mean_batch", result->mean_batch,
                     "utilisation", result->utilisation, "highest_per_s",
                     (double)highest / (double)TT_RATE_ONE);
}

static void work(void *context, int32_t index, struct tt_text *text) {
    const struct tt_plan *self = context;
    const struct tt_policy_candidate *candidate = &self->candidates[index];
    struct tt_contest_result result = {0};
    struct tt_error why = {""};
    struct tt_sim_arrival *arrivals;
    struct tt_scenario scenario = loaded(self, 1, &arrivals);
    int64_t highest = 0;
    scenario.request_limit = 0;
    enum tt_err err = tt_contest_highest_rate(&scenario, candidate, TT_PLAN_BAD_RATE,
                                              TT_PLAN_PRECISION, self->stop, &highest, &why);
    free(arrivals);
    if (err == TT_ERR_CANCELLED) {
        tt_jobs_answer(NULL, err, &why, text);
        return;
    }
    result.why = why;
    if (!err && (highest > 0 || self->rate > 0)) {
        struct tt_plan own = *self;
        own.rate =
            self->rate > 0 || self->arrivals ? self->rate : (double)highest / (double)TT_RATE_ONE;
        bool is_given = self->rate > 0 || self->arrivals;
        scenario = loaded(&own, is_given ? TT_PLAN_HEADROOM : 1, &arrivals);
        err = tt_contest_run(&scenario, candidate, 1, self->stop, &result, &why);
        free(arrivals);
    } else if (!err) {
        result.ran = true; /* it holds no rate at all */
    }
    bool failed = err == TT_ERR_CANCELLED;
    tt_jobs_answer(failed ? NULL : result_json(&result, highest), err, &why, text);
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static int64_t whole(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void done(void *context, int32_t index, const char *text) {
    struct tt_plan *self = context;
    struct tt_contest_result *out = &self->results[index];
    json_t *from = json_loads(text, 0, NULL);
    *out = (struct tt_contest_result){.ran = json_is_true(json_object_get(from, "ran")),
                                      .arrived = whole(from, "arrived"),
                                      .bad = whole(from, "bad"),
                                      .window_ns = whole(from, "window_ns"),
                                      .goodput_per_s = number(from, "goodput_per_s"),
                                      .bad_rate = number(from, "bad_rate"),
                                      .mean_ns = whole(from, "mean_ns"),
                                      .p50_ns = whole(from, "p50_ns"),
                                      .p99_ns = whole(from, "p99_ns"),
                                      .mean_batch = number(from, "mean_batch"),
                                      .utilisation = number(from, "utilisation")};
    const char *sentence = json_string_value(json_object_get(from, from ? "why" : ""));
    tt_fail(TT_OK, &out->why, "%s", sentence ? sentence : "the simulation ended early");
    self->highest_per_s[index] = number(from, "highest_per_s");
    json_decref(from);
}

/* ---- the decision ---- */

static void decide(struct tt_plan *self) {
    struct tt_contest_result compared[TT_POLICY_MAX_CANDIDATES];
    bool has_load = self->rate > 0 || self->arrivals;
    self->simplest = -1;
    for (int32_t i = 0; i < self->count; i++) {
        compared[i] = self->results[i];
        if (!has_load)
            compared[i].goodput_per_s = self->highest_per_s[i];
        if (compared[i].ran && self->simplest < 0)
            self->simplest = i;
    }
    self->winner = tt_contest_winner(compared, self->count, TT_PLAN_MARGIN, 1);
    if (self->winner < 0)
        return;
    double least = compared[self->simplest].goodput_per_s;
    self->gain = least > 0 ? compared[self->winner].goodput_per_s / least - 1 : -1;
}

/* Whether the winner holds the load with headroom on `devices` devices, with a processor for each.
 */
static enum tt_err holds(const struct tt_plan *self, int32_t devices, bool *out_holds,
                         struct tt_error *why) {
    struct tt_sim_arrival *arrivals;
    struct tt_scenario scenario = loaded(self, TT_PLAN_HEADROOM, &arrivals);
    struct tt_contest_result result;
    scenario.devices = tt_allocate((size_t)devices, sizeof(*scenario.devices));
    for (int32_t d = 0; d < devices; d++)
        scenario.devices[d] = self->scenario->devices[0];
    scenario.device_count = devices;
    if (scenario.server.cores > 0 && scenario.server.cores < devices)
        scenario.server.cores = devices;
    enum tt_err err =
        tt_contest_run(&scenario, &self->candidates[self->winner], 1, self->stop, &result, why);
    *out_holds = !err && result.ran && result.bad_rate <= TT_PLAN_BAD_RATE;
    free(scenario.devices);
    free(arrivals);
    return err;
}

/* The smallest number of devices that suffices, by doubling and bisection. */
static enum tt_err find_devices(struct tt_plan *self, struct tt_error *why) {
    int32_t low = 0, high = 1;
    bool suffices = false;
    enum tt_err err = holds(self, high, &suffices, why);
    while (!err && !suffices && high < TT_PLAN_MAX_DEVICES) {
        low = high;
        high *= 2;
        err = holds(self, high, &suffices, why);
    }
    if (err || !suffices)
        return err;
    while (!err && high - low > 1) {
        int32_t middle = (low + high) / 2;
        err = holds(self, middle, &suffices, why);
        if (suffices)
            high = middle;
        else
            low = middle;
    }
    self->devices_needed = high;
    return err;
}

/* The winner's highest rate if no load generator shares the processors. */
static enum tt_err find_elsewhere(struct tt_plan *self, struct tt_error *why) {
    struct tt_sim_arrival *arrivals;
    struct tt_scenario scenario = loaded(self, 1, &arrivals);
    int64_t highest = 0;
    scenario.server.client_ns = scenario.server.client_turn_ns = 0;
    scenario.server.client_rejection_ns = scenario.server.connections = 0;
    scenario.request_limit = 0;
    enum tt_err err =
        tt_contest_highest_rate(&scenario, &self->candidates[self->winner], TT_PLAN_BAD_RATE,
                                TT_PLAN_PRECISION, self->stop, &highest, why);
    self->highest_elsewhere_per_s = (double)highest / (double)TT_RATE_ONE;
    free(arrivals);
    return err;
}

enum tt_err tt_plan_make(struct tt_plan *self, struct tt_error *why) {
    self->count = tt_contest_candidates(self->scenario, self->candidates);
    self->devices_needed = 0;
    self->load_per_s = self->arrivals
                           ? (double)tt_contest_mean_rate(self->arrivals, self->arrival_count) /
                                 (double)TT_RATE_ONE
                           : self->rate;
    struct tt_jobs jobs = {.count = self->count,
                           .workers = self->workers,
                           .context = self,
                           .work = work,
                           .done = done,
                           .stop = self->stop};
    enum tt_err err = tt_jobs_run(&jobs, why);
    if (!err && self->stop && *self->stop)
        err = tt_fail(TT_ERR_CANCELLED, why, "interrupted");
    if (err)
        return err;
    decide(self);
    if (self->winner < 0)
        return tt_fail(TT_ERR_INVALID, why, "no policy can run the models: %s",
                       self->count ? self->results[0].why.text : "none fits their shapes");
    err = find_elsewhere(self, why);
    if (!err && self->load_per_s > 0)
        err = find_devices(self, why);
    else
        self->devices_needed = self->scenario->device_count;
    return err;
}

double tt_plan_goodput(const struct tt_plan *self) {
    bool searched = self->check.ran && self->check.highest_per_s > 0;
    return searched ? self->check.highest_per_s : self->highest_per_s[self->winner];
}

enum tt_err tt_plan_predict(const struct tt_plan *self, double rate, struct tt_contest_result *out,
                            struct tt_error *why) {
    struct tt_plan own = *self;
    struct tt_sim_arrival *arrivals;
    if (rate > 0) {
        own.rate = rate;
        own.arrivals = NULL;
    }
    struct tt_scenario scenario = loaded(&own, 1, &arrivals);
    enum tt_err err =
        tt_contest_run(&scenario, &self->candidates[self->winner], 1, self->stop, out, why);
    free(arrivals);
    return err;
}
