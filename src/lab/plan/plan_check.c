#include "lab/plan/plan_check.h"

#include "base/clock.h"
#include "base/instant.h"
#include "lab/plan/plan_load.h"

#include <stdio.h>
#include <stdlib.h>

enum { WINDOWS = 3 };
#define STEP 1.15 /* the first, until one rate is good and one is bad */
#define CLOSE_ENOUGH 1.1
#define SEARCH_NS (14 * TT_S) /* no rate is begun later */
#define WARM_UP_S ((double)TT_PLAN_WARM_UP_NS / 1e9)

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

/* One server under one kind of load. */
struct real {
    struct tt_plan_trial *trial;
    const char *experiment;
    int64_t window_ns;
};

static bool is_good(const struct attempt *made) {
    return made->goodput_per_s > 0 && made->bad_rate <= TT_PLAN_BAD_RATE;
}

/* Whether two of three windows of half the length hold the rate; two are enough if they agree. */
static enum tt_err holds(const struct real *real, double rate, bool *out_holds,
                         struct tt_error *why) {
    int votes[2] = {0};
    enum tt_err err = TT_OK;
    while (!err && votes[0] < 2 && votes[1] < 2) {
        struct attempt made;
        err = attempt(real->trial, real->experiment, rate, NULL, real->window_ns / 2, &made, why);
        if (err)
            break;
        show(rate, &made);
        votes[is_good(&made)]++;
    }
    *out_holds = votes[1] == 2;
    return err;
}

/* `good`: a rate that is held; 0: none is known, and `bad` is too high. */
static enum tt_err search(struct tt_plan *plan, const struct real *real, double good, double bad,
                          struct tt_error *why) {
    double step = STEP, rate = good > 0 ? plan->highest_per_s[plan->winner] : bad / STEP;
    int64_t until = tt_clock_now() + SEARCH_NS;
    bool is_sure = false;
    enum tt_err err = TT_OK;
    while (!err && tt_clock_now() < until && rate > 0.1) {
        bool held;
        err = holds(real, rate, &held, why);
        if (err)
            break;
        if (held)
            good = rate;
        if (!held || bad <= rate)
            bad = held ? 0 : rate;
        if (good > 0 && bad > 0 && bad <= good * CLOSE_ENOUGH) {
            if (is_sure)
                break;
            is_sure = true; /* a pause of the machine may have made it bad: once more */
            rate = bad;
            continue;
        }
        step *= step; /* far from the prediction, ever larger steps */
        rate = bad <= 0 ? good * step : good <= 0 ? bad / step : (good + bad) / 2;
    }
    plan->check.highest_per_s = good;
    return err;
}

static int by_goodput(const void *a, const void *b) {
    const struct attempt *left = a, *right = b;
    return (left->goodput_per_s > right->goodput_per_s) -
           (left->goodput_per_s < right->goodput_per_s);
}

/* `rate` 0: the arrivals, once. */
static enum tt_err measure(struct tt_plan *plan, const struct real *real, double rate,
                           const char *arrivals, struct tt_error *why) {
    struct attempt made[WINDOWS] = {0};
    int count = rate > 0 ? WINDOWS : 1;
    enum tt_err err = TT_OK;
    for (int w = 0; !err && w < count; w++) {
        err =
            attempt(real->trial, real->experiment, rate, arrivals, real->window_ns, &made[w], why);
        if (!err)
            show(rate, &made[w]);
    }
    if (err)
        return err;
    qsort(made, (size_t)count, sizeof(*made), by_goodput);
    const struct attempt *median = &made[count / 2];
    struct tt_plan_check *check = &plan->check;
    check->windows = count;
    check->offered_per_s = median->offered_per_s;
    check->goodput_per_s = median->goodput_per_s;
    check->bad_rate = median->bad_rate;
    check->p99_ms = median->p99_ms;
    return TT_OK;
}

static enum tt_err predict(struct tt_plan *plan, double rate, struct tt_error *why) {
    struct tt_plan_check *check = &plan->check;
    struct tt_contest_result predicted;
    enum tt_err err = tt_plan_predict(plan, rate, &predicted, why);
    if (err || !predicted.ran)
        return err;
    /* The same share of what was really offered: drawn arrivals differ by some percent. */
    double share = predicted.arrived > 0
                       ? (double)(predicted.arrived - predicted.bad) / (double)predicted.arrived
                       : 0;
    check->predicted_per_s = share * check->offered_per_s;
    check->predicted_bad_rate = predicted.bad_rate;
    check->predicted_p99_ms = (double)predicted.p99_ns / 1e6;
    return TT_OK;
}

enum tt_err tt_plan_check_run(struct tt_plan *plan, const struct tt_plan_models *models,
                              struct tt_plan_trial *trial, int32_t executors, int64_t window_ns,
                              struct tt_error *why) {
    struct real real = {
        .trial = trial, .experiment = models->experiment_path, .window_ns = window_ns};
    char arrivals[320];
    bool has_load = plan->rate > 0 || plan->arrivals;
    double rate = plan->arrivals ? 0
                  : has_load     ? plan->rate
                                 : plan->highest_per_s[plan->winner] / TT_PLAN_HEADROOM;
    snprintf(arrivals, sizeof(arrivals), "%s/.arrivals.csv", trial->folder.path);
    enum tt_err err = tt_plan_models_set(models, trial, &plan->candidates[plan->winner], true, why);
    if (!err)
        err = tt_plan_models_write(models, executors, true, why);
    if (!err && plan->arrivals)
        err = tt_plan_load_write(arrivals, models, plan->arrivals, plan->arrival_count, window_ns,
                                 why);
    if (!err)
        err = tt_plan_trial_start(trial, executors, false, why);
    if (!err)
        err = measure(plan, &real, rate, arrivals, why);
    if (!err && !has_load) {
        bool held = plan->check.bad_rate <= TT_PLAN_BAD_RATE && plan->check.goodput_per_s > 0;
        err = search(plan, &real, held ? rate : 0, held ? 0 : rate, why);
    }
    tt_plan_trial_stop(trial);
    if (!err)
        err = predict(plan, rate, why);
    plan->check.ran = !err;
    return err;
}
