#include "lab/plan/plan_check.h"

#include "base/instant.h"
#include "lab/plan/plan_load.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_ATTEMPTS = 8 };
#define STEP 1.15 /* the first, until one rate is good and one is bad */
#define CLOSE_ENOUGH 1.1
#define WARM_UP_S 0.5

struct attempt {
    double offered_per_s, goodput_per_s, bad_rate, p99_ms;
};

static double number_at(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void read_report(const json_t *report, struct attempt *out) {
    const json_t *total = json_object_get(report, "total"), *model;
    *out = (struct attempt){.offered_per_s = number_at(total, "offered_per_s"),
                            .goodput_per_s = number_at(total, "good_per_s"),
                            .p99_ms = number_at(json_object_get(total, "latency_ms"), "p99")};
    size_t index;
    json_array_foreach(json_object_get(report, "models"), index,
                       model) if (number_at(model, "bad_rate") > out->bad_rate) out->bad_rate =
        number_at(model, "bad_rate");
}

/* `rate` 0: the arrivals of the file `arrivals`. */
static enum tt_err attempt(struct tt_plan_trial *trial, const char *experiment, double rate,
                           const char *arrivals, int64_t second_ns, struct attempt *out,
                           struct tt_error *why) {
    char url[64], rate_text[32], duration[32], warm_up[32];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", trial->port);
    snprintf(rate_text, sizeof(rate_text), "%.6f", rate);
    snprintf(duration, sizeof(duration), "%g", (double)second_ns / 1e9 + WARM_UP_S);
    snprintf(warm_up, sizeof(warm_up), "%g", WARM_UP_S);
    const char *drawn[] = {"load",       url,      "--load",    experiment, "--rate", rate_text,
                           "--duration", duration, "--warm-up", warm_up,    "--json", NULL};
    const char *given[] = {"load",       url,      "--load", experiment,
                           "--arrivals", arrivals, "--json", NULL};
    struct tt_text text;
    tt_text_init(&text);
    /* Exit code 1: no request was answered in time, which is a result here. */
    enum tt_err err = tt_plan_trial_run(trial, rate > 0 ? drawn : given, 1, false, &text, why);
    json_t *report = err ? NULL : json_loads(tt_text_string(&text), 0, NULL);
    tt_text_fini(&text);
    if (!err && !report)
        err = tt_fail(TT_ERR_INTERNAL, why, "tutti load printed no report");
    if (!err)
        read_report(report, out);
    json_decref(report);
    return err;
}

static void show(double rate, const struct attempt *made) {
    fprintf(stderr, "tutti plan: real server, %.0f per second: %.2f %% bad\n",
            rate > 0 ? rate : made->offered_per_s, 100 * made->bad_rate);
}

static enum tt_err search(struct tt_plan *plan, struct tt_plan_trial *trial, const char *experiment,
                          int64_t second_ns, struct tt_error *why) {
    struct tt_plan_check *check = &plan->check;
    double good = 0, bad = 0, step = STEP, rate = plan->highest_per_s[plan->winner];
    enum tt_err err = TT_OK;
    for (int i = 0; !err && i < MAX_ATTEMPTS && rate > 0.1; i++) {
        struct attempt made;
        err = attempt(trial, experiment, rate, NULL, second_ns, &made, why);
        if (err)
            break;
        show(rate, &made);
        bool is_good = made.goodput_per_s > 0 && made.bad_rate <= TT_PLAN_BAD_RATE;
        if (is_good || good <= 0) {
            check->offered_per_s = made.offered_per_s;
            check->goodput_per_s = made.goodput_per_s;
            check->bad_rate = made.bad_rate;
            check->p99_ms = made.p99_ms;
        }
        if (is_good)
            good = rate;
        else
            bad = rate;
        if (good > 0 && bad > 0 && bad <= good * CLOSE_ENOUGH)
            break;
        rate = bad <= 0 ? good * step : good <= 0 ? bad / step : (good + bad) / 2;
        step *= step; /* far from the prediction, ever larger steps */
    }
    check->highest_per_s = good;
    return err;
}

enum tt_err tt_plan_check_run(struct tt_plan *plan, const struct tt_plan_models *models,
                              struct tt_plan_trial *trial, int32_t executors, int64_t second_ns,
                              struct tt_error *why) {
    struct tt_plan_check *check = &plan->check;
    struct tt_contest_result predicted;
    struct attempt made;
    char arrivals[320];
    bool has_load = plan->rate > 0 || plan->arrivals;
    snprintf(arrivals, sizeof(arrivals), "%s/.arrivals.csv", trial->folder.path);
    enum tt_err err = tt_plan_models_set(models, trial, &plan->candidates[plan->winner], true, why);
    if (!err)
        err = tt_plan_models_write(models, executors, true, why);
    if (!err && plan->arrivals)
        err = tt_plan_load_write(arrivals, models, plan->arrivals, plan->arrival_count, second_ns,
                                 why);
    if (!err)
        err = tt_plan_trial_start(trial, executors, false, why);
    if (!err && has_load)
        err = attempt(trial, models->experiment_path, plan->arrivals ? 0 : plan->rate, arrivals,
                      second_ns, &made, why);
    else if (!err)
        err = search(plan, trial, models->experiment_path, second_ns, why);
    tt_plan_trial_stop(trial);
    if (err)
        return err;
    check->ran = true;
    check->predicted_per_s = plan->highest_per_s[plan->winner];
    if (has_load) {
        show(0, &made);
        check->offered_per_s = made.offered_per_s;
        check->goodput_per_s = made.goodput_per_s;
        check->bad_rate = made.bad_rate;
        check->p99_ms = made.p99_ms;
    }
    /* What was simulated of the rate that the check reports. */
    double rate = has_load                   ? 0
                  : check->highest_per_s > 0 ? check->highest_per_s
                                             : check->offered_per_s;
    err = tt_plan_predict(plan, rate, &predicted, why);
    if (err || !predicted.ran)
        return err;
    check->predicted_bad_rate = predicted.bad_rate;
    check->predicted_p99_ms = (double)predicted.p99_ns / 1e6;
    if (has_load)
        check->predicted_per_s = predicted.goodput_per_s;
    return TT_OK;
}
