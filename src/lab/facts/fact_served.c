#include "lab/facts/fact_served.h"

#include "lab/facts/fact_repository.h"
#include "lab/plan/plan_trial.h"
#include "lab/report/report.h"
#include "lab/scenario/allocate.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_MODELS = 8, MAX_ARGS = 63, TRIES = 3 };

enum tt_err tt_fact_served_check(const struct tt_fact_served *self, struct tt_error *why) {
    const struct tt_scenario *scenario = self->scenario;
    if (scenario->model_count > MAX_MODELS)
        return tt_fail(TT_ERR_INVALID, why, "a served run has at most %d models, not %d",
                       MAX_MODELS, scenario->model_count);
    if (scenario->arrivals_path || scenario->segment_count > 0 || scenario->step_every > 0 ||
        scenario->duration_ns == TT_NEVER)
        return tt_fail(TT_ERR_INVALID, why,
                       "a served run needs a load with one rate and a duration");
    for (int32_t m = 0; m < scenario->model_count; m++)
        if (scenario->models[m].rows != 1)
            return tt_fail(TT_ERR_INVALID, why,
                           "model '%s': requests of a served run have one row, not %d",
                           scenario->models[m].name, scenario->models[m].rows);
    return tt_fact_repository_check(scenario, self->reply_ns, why);
}

/* ---- one run ---- */

/* The words of `tutti load`; all texts are freed together. */
struct words {
    const char *args[MAX_ARGS + 1];
    char *owned[MAX_ARGS];
    int32_t count, owned_count;
};

static void put_word(struct words *self, const char *flag, char *take_value) {
    tt_assert(self->count + 2 <= MAX_ARGS);
    self->args[self->count++] = flag;
    if (!take_value)
        return;
    self->owned[self->owned_count++] = take_value;
    self->args[self->count++] = take_value;
}

static double seconds(int64_t ns) { return (double)ns / 1e9; }

static void put_words(struct words *self, const struct tt_scenario *scenario, int port) {
    static const char *const processes[] = {[TT_PROCESS_POISSON] = "poisson",
                                            [TT_PROCESS_GAMMA] = "gamma",
                                            [TT_PROCESS_UNIFORM] = "uniform"};
    int64_t weights = 0;
    for (int32_t m = 0; m < scenario->model_count; m++)
        weights += scenario->models[m].weight;
    put_word(self, "load", tt_format_text("http://127.0.0.1:%d", port));
    put_word(self, "--json", NULL);
    put_word(self, "--timeout-us", tt_copy_text("0")); /* the server has its own objective */
    put_word(self, "--connections", tt_copy_text("2048"));
    put_word(self, "--seed", tt_format_text("%llu", (unsigned long long)scenario->seed));
    double rate = scenario->interval_ns > 0 ? 1e9 / (double)scenario->interval_ns
                                            : (double)scenario->rate / TT_RATE_ONE;
    put_word(self, "--rate", tt_format_text("%.6f", rate));
    put_word(self, "--duration", tt_format_text("%.6f", seconds(scenario->duration_ns)));
    put_word(self, "--warm-up", tt_format_text("%.6f", seconds(scenario->warm_up_ns)));
    put_word(self, "--process", tt_copy_text(processes[scenario->process]));
    if (scenario->process == TT_PROCESS_GAMMA)
        put_word(self, "--gamma-shape", tt_format_text("%.6f", (double)scenario->shape_ppm / 1e6));
    if (scenario->request_limit > 0)
        put_word(self, "--requests", tt_format_text("%lld", (long long)scenario->request_limit));
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        double share = weights > 0 ? (double)model->weight / (double)weights : 1;
        put_word(self, "--model", tt_format_text("%s:%.6f", model->name, 1000 * share));
        if (model->step_model.slo_ns != TT_NEVER)
            put_word(
                self, "--slo-ms",
                tt_format_text("%s=%.6f", model->name, (double)model->step_model.slo_ns / 1e6));
    }
}

static double number(const json_t *object, const char *first, const char *second,
                     const char *third) {
    const json_t *value = json_object_get(object, first);
    value = second ? json_object_get(value, second) : value;
    value = third ? json_object_get(value, third) : value;
    return json_number_value(value);
}

/* The rule of a run in this process (lab/run): the lag is a tenth of the mean latency, or the 99th
 * percentile half of that of the latency. */
static bool fell_behind(const json_t *report) {
    return 10 * number(report, "total", "lag_ms", "mean") >
               number(report, "total", "latency_ms", "mean") ||
           2 * number(report, "total", "lag_ms", "p99") >
               number(report, "total", "latency_ms", "p99");
}

static enum tt_err load_server(struct tt_plan_trial *trial, const struct tt_scenario *scenario,
                               json_t **out_json, struct tt_error *why) {
    struct words words = {.count = 0};
    struct tt_text text;
    tt_text_init(&text);
    put_words(&words, scenario, trial->port);
    /* Its code is 1 if no request was answered: then all are bad. */
    enum tt_err err = tt_plan_trial_run(trial, words.args, 1, false, &text, why);
    for (int32_t i = 0; i < words.owned_count; i++)
        free(words.owned[i]);
    json_t *report = err ? NULL : json_loads(tt_text_string(&text), 0, NULL);
    tt_text_fini(&text);
    if (!err && !report)
        return tt_fail(TT_ERR_INTERNAL, why, "tutti load printed no report");
    if (!err)
        *out_json = report;
    return err;
}

static enum tt_err run_once(const struct tt_fact_served *self, json_t **out_json,
                            struct tt_error *why) {
    const struct tt_scenario *scenario = self->scenario;
    struct tt_plan_trial trial = {.stop = self->stop};
    int32_t executors = 0;
    for (int32_t d = 0; d < scenario->device_count; d++)
        executors += scenario->devices[d].executors;
    enum tt_err err = tt_plan_trial_open(&trial, why);
    if (err)
        return err;
    err = tt_fact_repository_write(scenario, self->reply_ns, trial.folder.path, why);
    if (!err)
        err = tt_plan_trial_start(&trial, executors, false, why);
    struct tt_plan_trial_cpu idle = tt_plan_trial_cpu(&trial);
    if (!err)
        err = load_server(&trial, scenario, out_json, why);
    if (!err) {
        struct tt_plan_trial_cpu used = tt_plan_trial_cpu(&trial);
        double server_s = seconds(used.main_ns + used.executors_ns + used.others_ns - idle.main_ns -
                                  idle.executors_ns - idle.others_ns);
        double processors = (server_s + number(*out_json, "generator_cpu_s", NULL, NULL)) /
                            seconds(scenario->duration_ns);
        json_object_set_new(*out_json, "processors", json_real(processors));
        json_object_set_new(*out_json, "doubtful", json_boolean(fell_behind(*out_json)));
    }
    tt_plan_trial_close(&trial);
    return err;
}

enum tt_err tt_fact_served_run(const struct tt_fact_served *self, json_t **out_json,
                               struct tt_error *why) {
    enum tt_err err = run_once(self, out_json, why);
    if (err && self->stop && *self->stop) {
        *out_json = json_pack("{s:b}", "interrupted", true);
        return TT_OK;
    }
    return err;
}

/* ---- the search ---- */

struct probe {
    struct tt_fact_served served;
    struct tt_scenario scenario; /* a shallow copy with a rate of its own */
    double bad_rate;
    json_t *best; /* the report of the best good run; owned */
};

static void judge(const struct probe *self, const json_t *report, struct tt_goodput_run *out_run) {
    size_t m;
    const json_t *model;
    double worst = 0, fewest = 0;
    json_array_foreach(json_object_get(report, "models"), m, model) {
        double bad = number(model, "bad_rate", NULL, NULL);
        double arrived = number(model, "arrived", NULL, NULL);
        worst = bad > worst ? bad : worst;
        fewest = m == 0 || arrived < fewest ? arrived : fewest;
    }
    *out_run =
        (struct tt_goodput_run){.interrupted = json_is_true(json_object_get(report, "interrupted")),
                                .worst_bad_rate = worst,
                                .total_bad_rate = number(report, "total", "bad_rate", NULL),
                                .requests = (int64_t)number(report, "total", "arrived", NULL),
                                .requests_per_model = (int64_t)fewest};
    out_run->good = !out_run->interrupted && fewest > 0 && worst <= self->bad_rate;
    out_run->too_few = !out_run->good && (double)out_run->requests * self->bad_rate < 1;
}

static enum tt_err try_rate(void *context, int64_t rate, struct tt_goodput_run *out_run,
                            struct tt_error *why) {
    struct probe *self = context;
    self->scenario.rate = rate;
    for (int32_t try = 0; try < TRIES; try++) {
        json_t *report;
        enum tt_err err = tt_fact_served_run(&self->served, &report, why);
        if (err)
            return err;
        judge(self, report, out_run);
        bool again = !out_run->good && out_run->doubtful;
        if (out_run->good) {
            json_decref(self->best);
            self->best = report;
        } else {
            json_decref(report);
        }
        if (!again || out_run->interrupted)
            break;
    }
    return TT_OK;
}

enum tt_err tt_fact_served_search(const struct tt_fact_served *self,
                                  const struct tt_goodput_options *options, json_t **out_json,
                                  struct tt_error *why) {
    struct probe probe = {
        .served = *self, .scenario = *self->scenario, .bad_rate = options->bad_rate};
    probe.served.scenario = &probe.scenario;
    probe.scenario.interval_ns = 0;
    const struct tt_goodput_probe how = {.context = &probe, .run = try_rate};
    struct tt_goodput goodput;
    enum tt_err err = tt_goodput_search_by(self->scenario, options, &how, &goodput, why);
    if (!err) {
        json_t *out = tt_report_goodput_json(&goodput);
        json_object_del(out, "median_batch");
        json_object_set_new(out, "doubtful", json_boolean(goodput.doubtful));
        json_object_set(out, "processors", json_object_get(probe.best, "processors"));
        *out_json = out;
    }
    json_decref(probe.best);
    return err;
}
