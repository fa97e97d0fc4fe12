/* tutti replay FILE: repeats the decisions of a recording, or simulates another policy on it. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/replay/name_sums.h"
#include "lab/replay/replay.h"
#include "lab/report/columns.h"
#include "lab/report/page_run.h"
#include "lab/report/report.h"
#include "lab/run/scenario_run.h"
#include "policy/auto_policy.h"

#include <stdio.h>
#include <string.h>

struct flags {
    const char *file, *policy, *tasks, *outcomes, *html;
    struct tt_flag_pairs options;
    int32_t domain; /* -1: all */
    bool json, check;
    json_t *runs; /* of the page: what was recorded, then what was simulated; NULL: no page */
};

static void policies_and_recorded(struct tt_text *out_lines) {
    tt_text_puts(out_lines, "recorded\tthe policy that was recorded\n");
    tt_flags_policies(out_lines);
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "FILE", file, true, "the recording"),
    TT_TEXT("policy", "NAME", policy, NULL,
            "simulate this policy; `recorded`: the recorded one with its options",
            .candidates = policies_and_recorded),
    TT_PAIRS("policy-option", "KEY=VALUE", options, TT_MAX_OPTIONS,
             "an option of that policy; may be repeated"),
    TT_INTEGER("domain", "N", domain, 0, TT_RECORDING_MAX_STREAMS, -1,
               "only this scheduling domain (default: all)"),
    TT_SWITCH("json", json, "print the results as JSON"),
    TT_TEXT("tasks", "FILE", tasks, NULL,
            "write what ran in the simulation of one domain, where and when, as CSV"),
    TT_TEXT("outcomes", "FILE", outcomes, NULL,
            "write the outcome of every request in the simulation of one domain as CSV"),
    TT_TEXT("html", "FILE", html, NULL,
            "write a page that shows one domain as recorded and as simulated"),
    TT_SWITCH("check", check, "check every invariant after every event (slow)"),
};

#define refuse(...) tt_flags_refuse(&tt_verb_replay, __VA_ARGS__)

/* Checks before anything is printed. -1: go on; else the exit code. */
static int check_flags(const struct flags *a) {
    bool recorded = a->policy && strcmp(a->policy, "recorded") == 0;
    if (!a->policy && (a->options.count > 0 || a->tasks || a->outcomes || a->html))
        return refuse("--policy-option, --tasks, --outcomes and --html need --policy");
    if (recorded && a->options.count > 0)
        return refuse("--policy recorded has the recorded options and excludes --policy-option");
    if (!a->policy || recorded)
        return -1;
    const struct tt_policy_kind *kind = tt_policy_find(a->policy);
    if (tt_policy_is_auto(a->policy))
        return refuse("auto is the choice of a server that serves: name one policy, or `recorded` "
                      "for those that it chose");
    if (!kind)
        return refuse("unknown policy '%s'; tutti policies lists them", a->policy);
    int64_t values[TT_MAX_OPTIONS];
    struct tt_error why;
    if (tt_options_parse(kind->options, kind->option_count, a->options.pairs, a->options.count,
                         values, &why) != TT_OK)
        return refuse("%s", why.text);
    return -1;
}

/* ---- the report on one domain ---- */

static double span_s(const struct tt_replay *replay) {
    int64_t span_ns = replay->arrival_count ? replay->last_at - replay->base_at : 0;
    return (double)span_ns / 1e9;
}

/* Prints which events were not replayed, and why. */
static void print_limits(const struct tt_replay *replay) {
    if (replay->lost > 0)
        fprintf(
            stderr,
            "tutti replay: domain %d: %lld events are missing after event %lld; it and the %lld "
            "events behind the gap are left out\n",
            replay->stream, (long long)replay->lost, (long long)replay->events,
            (long long)replay->left_out);
    if (replay->cut)
        fprintf(stderr,
                "tutti replay: domain %d: the file was cut (it has no end mark); replayed up to "
                "there, event %lld\n",
                replay->stream, (long long)replay->events);
    if (replay->differs)
        fprintf(stderr, "tutti replay: %s\n", replay->difference.text);
}

static json_t *domain_json(const struct tt_replay *replay) {
    json_t *out = json_pack(
        "{s:i,s:s,s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:i,s:f,s:b,s:I,s:I,s:I,s:b}", "domain",
        replay->stream, "policy", replay->domain->policy, "program", replay->domain->program,
        "model_count", replay->model_count, "executors", replay->executors, "requests",
        (json_int_t)replay->arrival_count, "events", (json_int_t)replay->events, "decisions",
        (json_int_t)replay->decisions, "turns", (json_int_t)replay->turns, "scheduler_threads",
        replay->domain->scheduler_threads, "span_s", span_s(replay), "identical", !replay->differs,
        "lost_events", (json_int_t)replay->lost, "left_out_events", (json_int_t)replay->left_out,
        "unknown_ends", (json_int_t)replay->unknown_ends, "cut", replay->cut);
    if (replay->differs)
        json_object_set_new(out, "difference", json_string(replay->difference.text));
    return out;
}

static void print_domain(const struct tt_replay *replay) {
    char turns[80] = "";
    if (replay->domain->scheduler_threads > 0)
        snprintf(turns, sizeof(turns), "%lld turns of %d scheduler thread%s, ",
                 (long long)replay->turns, replay->domain->scheduler_threads,
                 replay->domain->scheduler_threads == 1 ? "" : "s");
    printf("domain %d: policy %s, %d model%s, %d executor%s, %.3f s: %lld requests, %lld events, "
           "%s%lld decisions%s\n",
           replay->stream, replay->domain->policy, replay->model_count,
           replay->model_count == 1 ? "" : "s", replay->executors,
           replay->executors == 1 ? "" : "s", span_s(replay), (long long)replay->arrival_count,
           (long long)replay->events, turns, (long long)replay->decisions,
           replay->differs ? ", the next one differs" : ", all identical");
}

/* ---- the runs of one domain ---- */

/* A run that is kept until all are reported side by side: what was recorded, the recorded policy
 * simulated, the asked policy simulated. */
struct run {
    const char *heading;
    struct tt_scenario scenario;
    struct tt_scenario_result result;
};

struct runs {
    struct run items[TT_REPORT_MAX_COLUMNS];
    int32_t count;
};

static void runs_fini(struct runs *self) {
    for (int32_t i = 0; i < self->count; i++) {
        if (i > 0) /* what was recorded is the replay's */
            tt_measure_fini(&self->items[i].result.measure);
        tt_scenario_fini(&self->items[i].scenario);
    }
}

/* The recorded results, as an experiment reports them. */
static enum tt_err add_recorded(struct runs *runs, struct tt_replay *replay, const struct flags *a,
                                struct tt_page_run *page, json_t *out, struct tt_error *why) {
    struct run *run = &runs->items[0];
    enum tt_err err = tt_replay_scenario(replay, NULL, NULL, 0, &run->scenario, why);
    if (err)
        return err;
    runs->count = 1;
    run->heading = "recorded";
    run->scenario.world = TT_WORLD_RECORDED;
    run->result = (struct tt_scenario_result){.measure = replay->measure, .events = replay->events};
    if (a->runs) {
        page->scenario = page->timeline.scenario = &run->scenario;
        tt_timeline_since(&page->timeline, replay->base_at);
        json_array_append_new(a->runs, tt_page_run_json(page, &run->result));
    }
    if (a->json)
        json_object_set_new(out, "recorded",
                            tt_report_json(&run->scenario, "recorded", &run->result));
    return TT_OK;
}

/* Simulates the run's scenario. `a`: with the files that it writes. */
static enum tt_err run_scenario(struct run *run, const struct flags *a, struct tt_error *why) {
    struct tt_page_run page;
    struct tt_scenario_outputs outputs = {.tasks_path = a->tasks, .outcomes_path = a->outcomes};
    if (a->html) {
        tt_page_run_init(&page, &run->scenario);
        outputs.also = tt_page_run_observer(&page);
    }
    enum tt_err err =
        tt_scenario_run(&run->scenario, a->check, &outputs, &tt_interrupted, &run->result, why);
    if (!err && a->html) {
        json_array_append_new(a->runs, tt_page_run_json(&page, &run->result));
        err = tt_page_run_write("Recorded requests, simulated again", json_incref(a->runs), a->html,
                                why);
        if (err)
            tt_measure_fini(&run->result.measure);
    }
    if (a->html)
        tt_page_run_fini(&page);
    return err;
}

/* Simulates a policy on the recorded requests; NULL: the recorded one. `key`: in the JSON. */
static enum tt_err add_simulated(struct runs *runs, struct tt_replay *replay, const char *policy,
                                 const char *key, const struct flags *a, json_t *out,
                                 struct tt_error *why) {
    struct run *run = &runs->items[runs->count];
    enum tt_err err = tt_replay_scenario(replay, policy, policy ? a->options.pairs : NULL,
                                         policy ? a->options.count : 0, &run->scenario, why);
    if (err)
        return err;
    run->heading = "simulated";
    err = run_scenario(run, a, why);
    if (err) {
        tt_scenario_fini(&run->scenario);
        return err;
    }
    runs->count++;
    if (a->json)
        json_object_set_new(
            out, key,
            tt_report_json(&run->scenario, "simulated from the recorded requests", &run->result));
    return TT_OK;
}

/* Prints which facts the simulation does not know. */
static void print_guesses(const struct tt_replay *replay) {
    if (replay->unknown_ends > 0)
        fprintf(stderr,
                "tutti replay: domain %d: %lld requests left before the end of their output was "
                "found; simulated, they end with the cell after the last that was computed\n",
                replay->stream, (long long)replay->unknown_ends);
}

static void print_columns(const struct runs *runs) {
    struct tt_report_column columns[TT_REPORT_MAX_COLUMNS];
    for (int32_t i = 0; i < runs->count; i++)
        columns[i] = (struct tt_report_column){runs->items[i].heading, &runs->items[i].scenario,
                                               &runs->items[i].result};
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, "\n");
    tt_report_columns(columns, runs->count, &text);
    tt_outcome_print_text(&text);
}

/* A simulation is faster than the server that it describes. So another policy is compared with the
 * recorded one in the same world. */
static enum tt_err report(struct tt_replay *replay, const struct flags *a, struct tt_page_run *page,
                          json_t *out, struct tt_error *why) {
    struct runs runs = {.count = 0};
    struct flags quiet = *a; /* only the last simulation writes files */
    quiet.tasks = quiet.outcomes = quiet.html = NULL;
    enum tt_err err = add_recorded(&runs, replay, a, page, out, why);
    if (!err && a->policy && !tt_interrupted) {
        print_guesses(replay);
        bool is_other = strcmp(a->policy, "recorded") != 0;
        if (is_other)
            err = add_simulated(&runs, replay, NULL, "simulated_recorded", &quiet, out, why);
        if (!err && !tt_interrupted)
            err =
                add_simulated(&runs, replay, is_other ? a->policy : NULL, "simulated", a, out, why);
    }
    if (!err && !a->json)
        print_columns(&runs);
    runs_fini(&runs);
    return err;
}

/* ---- the verb ---- */

static enum tt_err replay_domain(const struct tt_recording *recording, int32_t stream,
                                 const struct flags *a, struct tt_name_sums *sums, json_t *all,
                                 bool *out_differs, struct tt_error *why) {
    struct tt_replay replay;
    struct tt_page_run page = {0};
    if (a->html)
        tt_page_run_init(&page, NULL); /* its scenario follows from the replay */
    struct tt_sim_observer observer = tt_page_run_observer(&page);
    enum tt_err err = tt_replay_run_observed(
        recording, stream, a->check, a->html ? &observer : NULL, &tt_interrupted, &replay, why);
    if (err) {
        tt_page_run_fini(&page);
        return err;
    }
    json_t *out = domain_json(&replay);
    if (!a->json)
        print_domain(&replay);
    print_limits(&replay);
    tt_name_sums_add(sums, &replay);
    *out_differs |= replay.differs;
    bool reports = replay.arrival_count > 0 && !replay.differs && (a->json || a->policy);
    if (reports)
        err = report(&replay, a, &page, out, why);
    json_array_append_new(all, out);
    tt_page_run_fini(&page);
    tt_replay_fini(&replay);
    return err;
}

static enum tt_err replay_all(const struct tt_recording *recording, const struct flags *a,
                              bool *out_differs, struct tt_error *why) {
    int32_t first = a->domain >= 0 ? a->domain : 0;
    int32_t end = a->domain >= 0 ? first + 1 : recording->domain_count;
    if (recording->domain_count == 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s has no domain: it ends before the first one was described",
                       recording->name);
    if (first >= recording->domain_count)
        return tt_fail(TT_ERR_INVALID, why, "%s has %d domains, numbered from 0; there is no %d",
                       recording->name, recording->domain_count, first);
    if (end - first > 1 && (a->tasks || a->outcomes || a->html))
        return tt_fail(
            TT_ERR_INVALID, why,
            "--tasks, --outcomes and --html need a single domain, but %s has %d: choose one "
            "with --domain",
            recording->name, recording->domain_count);
    json_t *all = json_array();
    struct tt_name_sums sums = {0};
    enum tt_err err = TT_OK;
    for (int32_t stream = first; !err && stream < end && !tt_interrupted; stream++)
        err = replay_domain(recording, stream, a, &sums, all, out_differs, why);
    if (!err && a->json) {
        json_t *out = json_pack("{s:s,s:b,s:b,s:O,s:o}", "recording", recording->name, "identical",
                                !*out_differs, "complete", recording->complete, "domains", all,
                                "models", tt_name_sums_json(&sums));
        tt_outcome_print_json(out);
    } else if (!err) {
        struct tt_text text;
        tt_text_init(&text);
        tt_name_sums_table(&sums, &text);
        tt_outcome_print_text(&text);
    }
    tt_name_sums_fini(&sums);
    json_decref(all);
    return err;
}

static int run(void *options) {
    struct flags *a = options;
    int code = check_flags(a);
    if (code >= 0)
        return code;
    tt_outcome_catch_interrupt();
    struct tt_error why;
    struct tt_recording recording;
    a->runs = a->html ? json_array() : NULL;
    enum tt_err err = tt_recording_open(a->file, &recording, &why);
    bool differs = false;
    if (!err) {
        err = replay_all(&recording, a, &differs, &why);
        tt_recording_close(&recording);
    }
    json_decref(a->runs);
    if (err)
        return tt_outcome_print_error("replay", err, &why);
    return tt_interrupted ? EXIT_INTERRUPTED : differs ? EXIT_FAILED : EXIT_DONE;
}

const struct tt_verb tt_verb_replay = {
    .name = "replay",
    .summary = "replay a server's recording, under its policy or another",
    .usage = "FILE [OPTIONS]",
    .description =
        "Runs a recording of `tutti serve` through the same policies in virtual time. The "
        "decisions "
        "must be identical; otherwise the first difference is printed and the exit code is 1. With "
        "--policy, another policy is simulated on the recorded requests with the recorded "
        "profiles. It is reported beside the recorded results and beside the recorded policy in "
        "the "
        "same simulation, which is what it should be compared with.",
    TT_VERB_RUNS(flag_rows, run)};
