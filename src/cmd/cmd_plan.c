/* tutti plan DIR: which policy to serve models with, on how many devices, up to which rate.
 * plan_models.h chooses and profiles, plan_cost.h measures the server, lab/plan/plan.h simulates
 * and decides, plan_check.h compares with a real server; this file runs them in this order. */
#include "cmd/outcome.h"
#include "cmd/plan_fleet.h"
#include "cmd/verbs.h"

#include "base/instant.h"
#include "base/processors.h"
#include "client/http_login.h"
#include "lab/plan/pauses.h"
#include "lab/plan/plan_check.h"
#include "lab/plan/plan_cost.h"
#include "lab/plan/plan_load.h"
#include "lab/plan/plan_report.h"
#include "lab/report/page.h"
#include "lab/scenario/allocate.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODELS = 64 }; /* named by --model */
#define SPIN_NS TT_S
#define PAUSES_UNTIL_NS (600 * TT_S) /* longer than any simulated run */

struct flags {
    const char *directory, *fleet, *recording, *url, *html, *onnxruntime;
    struct tt_http_login_options login;
    struct tt_flag_list models;
    double rate, slo_ms, seconds; /* rate, slo_ms 0: not given */
    int32_t devices, length;      /* 0: not given */
    bool json, writes, simulates_only;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "DIR", directory, false, "the model repository"),
    TT_TEXT("fleet", "FILE", fleet, NULL,
            "plan a fleet instead: devices of which types, by the hour, at least cost"),
    TT_LIST("model", "NAME[:WEIGHT]", models, MAX_MODELS,
            "a model and its weight among the requests (default: all, 1 each); may be repeated"),
    TT_DECIMAL("rate", "R", rate, DBL_MIN, 1e7, 0,
               "requests per second over all models, drawn by Poisson (default: the highest rate "
               "is searched)"),
    TT_TEXT("recording", "FILE", recording, NULL,
            "take the arrivals of a recording of tutti serve instead"),
    TT_TEXT("url", "URL", url, NULL, "take the rates that this server receives now instead"),
    TT_TEXT("token-file", "FILE", login.token_file, NULL,
            "file with the bearer token (default: TUTTI_TOKEN of the environment)"),
    TT_TEXT("tls-ca", "FILE", login.tls_ca, NULL,
            "certificates in PEM that sign those of https servers (default: those of the system)"),
    TT_DECIMAL("slo-ms", "MS", slo_ms, 0.001, 86400000, 0,
               "objective of every model (default: the models', else ten times one request)"),
    TT_INTEGER("devices", "N", devices, 1, TT_PLAN_MAX_DEVICES, 0,
               "devices to plan with (default: number of processors)"),
    TT_INTEGER("length", "N", length, 1, 1 << 20, 0,
               "input length of requests where it varies (default: the middle one profiled)"),
    TT_DECIMAL(
        "seconds", "S", seconds, 0.2, 60, 2,
        "how long the real server is loaded per measurement; the check has three of twice as long"),
    TT_SWITCH("simulate-only", simulates_only,
              "start no server: costs and the check are left out, rates come out too high"),
    TT_SWITCH("write", writes, "write each model's tutti.pbtxt"),
    TT_SWITCH("json", json, "print the plan as JSON"),
    TT_TEXT("html", "FILE", html, NULL, "also write the plan as a page with charts"),
    TT_TEXT("onnxruntime", "FILE", onnxruntime, NULL,
            "the ONNX Runtime library (default: searched for)"),
};

/* -1: go on; else the exit code. A plan of a fleet needs nothing of what follows. */
static int check_flags(const struct flags *a) {
    if (a->fleet && a->directory)
        return tt_flags_refuse(&tt_verb_plan, "DIR and --fleet exclude each other");
    if (a->fleet)
        return tt_plan_fleet(a->fleet, a->json, a->html);
    if (!a->directory)
        return tt_flags_refuse(&tt_verb_plan, "DIR is missing: the model repository");
    if ((a->rate > 0) + (a->recording != NULL) + (a->url != NULL) > 1)
        return tt_flags_refuse(&tt_verb_plan,
                               "--rate, --recording and --url exclude each other: each states the "
                               "load");
    int32_t processors = tt_processors_usable();
    if (!a->simulates_only && a->devices > processors)
        return tt_flags_refuse(&tt_verb_plan,
                               "--devices is %d, and this machine has %d processors for them; "
                               "--simulate-only plans without a server",
                               a->devices, processors);
    return -1;
}

struct work {
    const struct flags *flags;
    struct tt_plan_trial trial;
    struct tt_plan_models models;
    struct tt_plan plan;
    struct tt_sim_arrival *arrivals;
    int32_t devices;
    double load_average;
};

static void say(const char *what) { fprintf(stderr, "tutti plan: %s\n", what); }

static enum tt_err open_models(struct work *w, struct tt_error *why) {
    const struct tt_flag_list *list = &w->flags->models;
    struct tt_plan_choice choices[MAX_MODELS];
    for (int32_t i = 0; i < list->count; i++) {
        size_t bytes;
        if (!tt_flags_weighted(list->texts[i], &bytes, &choices[i].weight))
            return tt_fail(TT_ERR_INVALID, why,
                           "--model '%s' must be NAME or NAME:WEIGHT, WEIGHT > 0", list->texts[i]);
        snprintf(choices[i].name, sizeof(choices[i].name), "%.*s", (int)bytes, list->texts[i]);
    }
    int64_t slo_ns = (int64_t)(w->flags->slo_ms * 1e6);
    return tt_plan_models_open(&w->models, w->flags->directory, choices, list->count, slo_ns, why);
}

static enum tt_err prepare(struct work *w, struct tt_error *why) {
    const struct flags *a = w->flags;
    enum tt_err err = open_models(w, why);
    if (!err && a->url)
        err = tt_plan_load_live(a->url, &a->login, (int64_t)(a->seconds * 1e9), &w->models,
                                &w->plan.rate, why);
    if (!err)
        err = tt_plan_trial_open(&w->trial, why);
    if (!err)
        err = tt_plan_models_prepare(&w->models, &w->trial, why);
    if (!err)
        err = tt_plan_models_build(&w->models, &w->trial, w->devices, a->length, why);
    if (!err && a->recording)
        err = tt_plan_load_recording(a->recording, &w->models, &w->arrivals, &w->plan.arrival_count,
                                     why);
    w->plan.arrivals = w->arrivals;
    w->plan.scenario = &w->models.scenario;
    return err;
}

/* The candidate that costs are measured with: batches as they come, without deadlines. */
static const struct tt_policy_candidate *
plain_candidate(const struct tt_scenario *scenario,
                struct tt_policy_candidate candidates[TT_POLICY_MAX_CANDIDATES]) {
    int32_t count = tt_contest_candidates(scenario, candidates);
    for (int32_t i = 0; i < count; i++)
        if (candidates[i].policy->traits.runs_as_they_came &&
            !candidates[i].policy->traits.runs_alone)
            return &candidates[i];
    return NULL;
}

static int64_t shortest_slo(const struct tt_scenario *scenario) {
    int64_t slo_ns = TT_NEVER;
    for (int32_t m = 0; m < scenario->model_count; m++)
        slo_ns = tt_instant_min(slo_ns, scenario->models[m].step_model.slo_ns);
    return slo_ns;
}

/* Puts what other programs take from the processors into the scenario. */
static enum tt_err measure_pauses(struct work *w, struct tt_error *why) {
    struct tt_scenario *scenario = &w->models.scenario;
    struct tt_plan_pauses pauses;
    enum tt_err err =
        tt_plan_pauses_measure(scenario->server.cores, SPIN_NS, &tt_interrupted, &pauses, why);
    if (err)
        return err;
    int64_t stall_ns = 0;
    if (!w->plan.arrivals) { /* recorded ones began long before */
        stall_ns = tt_instant_min(shortest_slo(scenario), TT_PLAN_STALL_NS);
        scenario->warm_up_ns = TT_PLAN_WARM_UP_NS;
    }
    free(scenario->perturbations);
    scenario->perturbation_count =
        tt_plan_pauses_spans(&pauses, scenario->server.share, stall_ns, PAUSES_UNTIL_NS,
                             scenario->seed, &scenario->perturbations);
    tt_plan_pauses_fini(&pauses);
    return TT_OK;
}

static enum tt_err measure_costs(struct work *w, struct tt_error *why) {
    struct tt_policy_candidate candidates[TT_POLICY_MAX_CANDIDATES];
    const struct tt_policy_candidate *plain = plain_candidate(&w->models.scenario, candidates);
    struct tt_plan_cost_options options = {.experiment = w->models.experiment_path,
                                           .scenario = &w->models.scenario,
                                           .executors = w->devices,
                                           .second_ns = (int64_t)(w->flags->seconds * 1e9)};
    for (int32_t m = 0; m < w->models.count; m++)
        options.on_processors |= !w->models.items[m].from->config->engine->emulates;
    say("measuring what the server costs per request and batch");
    enum tt_err err = tt_plan_models_set(&w->models, &w->trial, plain, false, why);
    if (!err)
        err = tt_plan_models_write(&w->models, w->devices, false, why);
    if (!err)
        err = tt_plan_cost_measure(&w->trial, &options, &w->models.scenario.server, why);
    /* Emulated devices do not stop when other programs run. */
    return err || !options.on_processors ? err : measure_pauses(w, why);
}

static enum tt_err make_plan(struct work *w, struct tt_error *why) {
    const struct flags *a = w->flags;
    enum tt_err err = prepare(w, why);
    if (!err && !a->simulates_only)
        err = measure_costs(w, why);
    if (!err) {
        say("simulating the policies");
        w->plan.rate = a->rate > 0 ? a->rate : w->plan.rate;
        w->plan.stop = &tt_interrupted;
        err = tt_plan_make(&w->plan, why);
    }
    if (!err && !a->simulates_only && w->plan.highest_per_s[w->plan.winner] > 0) {
        say("checking the best policy on a real server");
        err = tt_plan_check_run(&w->plan, &w->models, &w->trial, w->devices,
                                (int64_t)(a->seconds * 2e9), why);
    }
    return err;
}

/* ---- the result ---- */

static enum tt_err write_settings(const struct work *w, const struct tt_plan_report_model *models,
                                  struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < w->models.count; m++) {
        char path[4096];
        struct tt_text text;
        snprintf(path, sizeof(path), "%s/tutti.pbtxt", w->models.items[m].from->directory);
        tt_text_init(&text);
        tt_text_puts(&text, models[m].settings);
        err = tt_text_write_file(path, &text, why);
        tt_text_fini(&text);
        if (!err)
            fprintf(stderr, "tutti plan: wrote %s\n", path);
    }
    return err;
}

static enum tt_err report(const struct work *w, struct tt_error *why) {
    const struct flags *a = w->flags;
    size_t count = (size_t)w->models.count;
    struct tt_text *texts = tt_allocate(count, sizeof(*texts));
    struct tt_plan_report_model *models = tt_allocate(count, sizeof(*models));
    enum tt_err err = TT_OK;
    for (size_t m = 0; !err && m < count; m++) {
        const struct tt_plan_model *model = &w->models.items[m];
        tt_text_init(&texts[m]);
        err = tt_plan_models_settings(model, &w->plan.candidates[w->plan.winner], true, &texts[m],
                                      why);
        models[m] = (struct tt_plan_report_model){.name = model->from->name,
                                                  .settings = tt_text_string(&texts[m]),
                                                  .slo_ns = model->slo_ns,
                                                  .slo_is_default = model->slo_is_default};
    }
    struct tt_plan_report report = {.plan = &w->plan,
                                    .load = a->recording  ? "recording"
                                            : a->url      ? "live"
                                            : a->rate > 0 ? "poisson"
                                                          : "highest rate",
                                    .models = models,
                                    .load_average = w->load_average};
    if (!err && a->json) {
        tt_outcome_print_json(tt_plan_report_json(&report));
    } else if (!err) {
        struct tt_text text;
        tt_text_init(&text);
        tt_plan_report_table(&report, &text);
        tt_outcome_print_text(&text);
    }
    if (!err && a->html)
        err = tt_page_write("plan", "Plan", tt_plan_report_json(&report), a->html, why);
    if (!err && a->writes)
        err = write_settings(w, models, why);
    for (size_t m = 0; m < count; m++)
        tt_text_fini(&texts[m]);
    free(texts);
    free(models);
    return err;
}

static int run(void *options) {
    const struct flags *a = options;
    int code = check_flags(a);
    if (code >= 0)
        return code;
    tt_outcome_catch_interrupt();
    tt_outcome_catch_termination();
    struct work *w = tt_allocate(1, sizeof(*w));
    struct tt_error why;
    w->flags = a;
    w->trial.stop = &tt_interrupted;
    w->trial.onnxruntime = a->onnxruntime;
    w->devices = a->devices > 0 ? a->devices : tt_processors_usable();
    if (getloadavg(&w->load_average, 1) != 1)
        w->load_average = 0;
    enum tt_err err = make_plan(w, &why);
    if (!err)
        err = report(w, &why);
    code = err ? tt_outcome_print_error("plan", tt_interrupted ? TT_ERR_CANCELLED : err, &why)
               : EXIT_DONE;
    if (!err && w->plan.highest_per_s[w->plan.winner] <= 0)
        code = EXIT_FAILED;
    tt_plan_trial_close(&w->trial);
    tt_plan_models_close(&w->models);
    free(w->arrivals);
    free(w);
    return code;
}

const struct tt_verb tt_verb_plan = {
    .name = "plan",
    .summary = "choose the policy, the devices and the highest rate for models and their load",
    .usage = "DIR [OPTIONS] | --fleet FILE [OPTIONS]",
    .description =
        "Profiles models that have no valid profile, measures what the server costs per request "
        "and batch on this machine, simulates the load under every policy that can run the "
        "models, checks the best one on a real server for some seconds, and prints the policy, the "
        "tutti.pbtxt to write, the devices needed with 30 % headroom, the highest rate with at "
        "most 1 % bad requests, and the gain over the simplest policy.\n\n"
        "Without --rate, --recording or --url it searches the highest rate. Servers and load "
        "generators are child processes on loopback. Exit code 1: no policy holds any rate.",
    TT_VERB_RUNS(flag_rows, run)};
