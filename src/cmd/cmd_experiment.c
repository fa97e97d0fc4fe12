/* tutti experiment FILE: one run, the same in several worlds, a goodput search, or a sweep. */
#include "base/clock.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/experiment/experiment.h"
#include "lab/report/page.h"
#include "lab/report/page_run.h"
#include "lab/report/possible_report.h"
#include "lab/report/report.h"
#include "lab/report/worlds.h"
#include "lab/run/scenario_run.h"
#include "lab/sweep/sweep.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRACE_RECORDS = 1 << 18 }; /* the last records; more would not load in a viewer */

struct flags {
    const char *file, *arrivals, *tasks, *outcomes, *html, *svg, *trace, *resume, *worlds;
    double from_ms, until_ms; /* what charts show; until 0: as much as fits */
    bool json, goodput, check, bound;
    int32_t workers;
    struct tt_flag_pairs settings; /* for tt_experiment_set, in the order of the command line */
};

static bool take_window(void *options, char *text) {
    struct flags *self = options;
    char *end;
    self->from_ms = strtod(text, &end);
    if (end == text || *end != ',' || !(self->from_ms >= 0))
        return false;
    const char *until = end + 1;
    self->until_ms = strtod(until, &end);
    return end != until && *end == '\0' && self->until_ms > self->from_ms && self->until_ms < 1e12;
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "FILE", file, true, "the experiment"),
    TT_HEADING("What runs"),
    TT_PAIRS("world", "NAME", settings, TT_FLAG_MAX_PAIRS,
             "simulated, emulated, real or cluster, instead of the file's", .key = "world",
             .choices = "simulated|emulated|real|cluster"),
    TT_TEXT("worlds", "A,B,...", worlds, NULL,
            "run the experiment in each of these worlds, and print the results side by side",
            .choices = "simulated|emulated|real|cluster"),
    TT_SWITCH("goodput", goodput,
              "search the highest rate at which every model's bad rate is at most 1 %"),
    TT_SWITCH("bound", bound,
              "also prove what no scheduler can exceed, even if it knows all requests in advance"),
    TT_PAIRS("policy", "NAME", settings, TT_FLAG_MAX_PAIRS, "policy instead of the file's",
             .key = "policy", .candidates = tt_flags_policies),
    TT_PAIRS("rate", "R", settings, TT_FLAG_MAX_PAIRS, "requests per second instead of the file's",
             .key = "rate"),
    TT_PAIRS("seed", "N", settings, TT_FLAG_MAX_PAIRS, "seed instead of the file's", .key = "seed"),
    TT_PAIRS("set", "NAME=VALUE", settings, TT_FLAG_MAX_PAIRS,
             "set any parameter that a sweep can set; may be repeated"),
    TT_TEXT("arrivals", "FILE", arrivals, NULL,
            "requests of a CSV file instead of the file's load"),
    TT_SWITCH("check", check, "check every invariant after every event (slow)"),
    TT_TEXT("resume", "FILE", resume, NULL,
            "keep finished points of a sweep or search in this file, and skip those that it "
            "already holds"),
    TT_INTEGER("workers", "N", workers, 1, 64, 0,
               "maximum number of processes in sweeps and searches (default: number of "
               "processors)"),
    TT_HEADING("Results"),
    TT_SWITCH("json", json, "print the summary as JSON"),
    TT_TEXT("tasks", "FILE", tasks, NULL, "write what ran, where and when, as CSV"),
    TT_TEXT("outcomes", "FILE", outcomes, NULL, "write the outcome of every request as CSV"),
    TT_TEXT("html", "FILE", html, NULL,
            "write a report with charts; also of --goodput and --worlds"),
    TT_TEXT("svg", "FILE", svg, NULL, "write a timeline of the executors"),
    TT_CALL("draw", "FROM,UNTIL", take_window, "FROM,UNTIL in milliseconds, such as 100,250", NULL,
            "the part of the run that charts show, in milliseconds (default: the beginning)"),
    TT_TEXT("trace", "FILE", trace, NULL,
            "write the last batches and requests for ui.perfetto.dev"),
};

/* ---- one run ---- */

static enum tt_err write_trace(struct tt_trace *trace, const char *path, struct tt_error *why) {
    struct tt_text json;
    tt_text_init(&json);
    enum tt_err err = tt_trace_write(trace, 0, &json, why);
    if (!err)
        err = tt_text_write_file(path, &json, why);
    tt_text_fini(&json);
    return err;
}

static void set_window(const struct flags *a, struct tt_timeline *timeline) {
    if (a->until_ms <= 0)
        return;
    timeline->from_at = (int64_t)(a->from_ms * 1e6);
    timeline->until_at = (int64_t)(a->until_ms * 1e6);
}

static void say(void *context, const char *line) {
    (void)context;
    fprintf(stderr, "%s\n", line);
}

/* Runs the scenario and writes the files that the flags name. */
static enum tt_err run_scenario(const struct tt_scenario *scenario, const struct flags *a,
                                const char *title, struct tt_scenario_result *out_result,
                                struct tt_error *why) {
    struct tt_page_run page;
    struct tt_scenario_outputs outputs = {.tasks_path = a->tasks,
                                          .outcomes_path = a->outcomes,
                                          .progress = tt_outcome_progress,
                                          .say = say};
    if (a->trace && tt_trace_new(TRACE_RECORDS, &outputs.trace, why) != TT_OK)
        return TT_ERR_NO_MEMORY;
    if (a->html || a->svg) {
        tt_page_run_init(&page, scenario);
        set_window(a, &page.timeline);
        outputs.also = tt_page_run_observer(&page);
    }
    struct tt_scenario_result result;
    enum tt_err err = tt_scenario_run(scenario, a->check, &outputs, &tt_interrupted, &result, why);
    bool ran = err == TT_OK;
    if (!err && a->html)
        err = tt_page_run_write(title, json_pack("[o]", tt_page_run_json(&page, &result)), a->html,
                                why);
    if (!err && a->svg)
        err = tt_timeline_write(&page.timeline, a->svg, why);
    if (a->html || a->svg)
        tt_page_run_fini(&page);
    if (!err && a->trace)
        err = write_trace(outputs.trace, a->trace, why);
    tt_trace_free(outputs.trace);
    if (err && ran)
        tt_measure_fini(&result.measure);
    if (!err)
        *out_result = result;
    return err;
}

static void print_possible(const json_t *result) {
    struct tt_text text;
    tt_text_init(&text);
    tt_possible_report_text(result, &text);
    if (text.length > 0)
        printf("%s\n", tt_text_string(&text));
    tt_text_fini(&text);
}

static void print_run(const struct tt_scenario *scenario, const char *title,
                      const struct tt_scenario_result *result,
                      const struct tt_possible_run *possible, const struct flags *a) {
    json_t *json = a->json || a->bound ? tt_report_json(scenario, title, result) : NULL;
    if (a->bound)
        tt_possible_report_run(json, possible);
    if (a->json) {
        tt_outcome_print_json(json);
        return;
    }
    struct tt_text text;
    tt_text_init(&text);
    tt_report_table(scenario, title, result, &text);
    tt_outcome_print_text(&text);
    print_possible(json);
    json_decref(json);
}

static int run_once(struct tt_experiment *experiment, const struct flags *a) {
    struct tt_error why;
    struct tt_scenario scenario;
    enum tt_err err = tt_experiment_build(experiment, &scenario, &why);
    if (err)
        return tt_outcome_print_error(NULL, err, &why);
    if (a->bound)
        err = tt_possible_covers(&scenario, TT_POSSIBLE_OF_RUN, &why);
    if (err) {
        tt_scenario_fini(&scenario);
        return tt_outcome_print_error(NULL, err, &why);
    }
    struct tt_scenario_result result;
    int64_t started_at = tt_clock_now();
    const char *title = experiment->message->title;
    err = run_scenario(&scenario, a, title, &result, &why);
    double took_s = (double)(tt_clock_now() - started_at) / 1e9;
    struct tt_possible_run possible = {0};
    const struct tt_possible_options options = {.stop = &tt_interrupted,
                                                .progress = tt_outcome_progress};
    if (!err && a->bound) {
        err = tt_possible_run(&scenario, &options, &possible, &why);
        if (err)
            tt_measure_fini(&result.measure);
    }
    if (err) {
        tt_scenario_fini(&scenario);
        return tt_outcome_print_error(NULL, err, &why);
    }
    print_run(&scenario, title, &result, &possible, a);
    if (!a->json && scenario.world == TT_WORLD_SIMULATED)
        fprintf(stderr, "%.2f M events in %.2f s, %.1f M/s\n", (double)result.events / 1e6, took_s,
                (double)result.events / 1e6 / (took_s > 0 ? took_s : 1e-9));
    int code = result.interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
    tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
    return code;
}

/* ---- several worlds ---- */

static int run_worlds(struct tt_experiment *experiment, const struct flags *a) {
    struct tt_scenario_outputs outputs = {.progress = tt_outcome_progress, .say = say};
    struct tt_worlds worlds;
    struct tt_error why;
    enum tt_err err = tt_worlds_init(&worlds, experiment, a->worlds, &why);
    if (!err)
        err = tt_worlds_run(&worlds, a->check, &outputs, &tt_interrupted, &why);
    if (!err && a->json) {
        tt_outcome_print_json(tt_worlds_json(&worlds));
    } else if (!err) {
        struct tt_text text;
        tt_text_init(&text);
        tt_worlds_table(&worlds, &text);
        tt_outcome_print_text(&text);
    }
    if (!err && a->html)
        err = tt_worlds_html(&worlds, a->html, &why);
    int code = err                              ? tt_outcome_print_error(NULL, err, &why)
               : tt_worlds_interrupted(&worlds) ? EXIT_INTERRUPTED
                                                : EXIT_DONE;
    tt_worlds_fini(&worlds);
    return code;
}

/* ---- many runs: sweeps, and searches with several seeds ---- */

static void show_progress(void *context, int32_t finished, int32_t all) {
    if (all > 1)
        tt_outcome_progress(context, finished, all);
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void print_goodput(const json_t *result) {
    printf("goodput %.1f r/s (bad at %.1f; %d seed%s", number(result, "goodput_per_s"),
           number(result, "bad_at_per_s"), (int)number(result, "seeds"),
           number(result, "seeds") > 1 ? "s" : "");
    if (json_object_get(result, "goodput_per_s_min"))
        printf(", %.1f .. %.1f", number(result, "goodput_per_s_min"),
               number(result, "goodput_per_s_max"));
    printf(")");
    if (json_object_get(result, "staggered_per_s"))
        printf(", %.1f %% of the staggered bound %.1f",
               100 * number(result, "goodput_per_s") / number(result, "staggered_per_s"),
               number(result, "staggered_per_s"));
    printf(", worst model's bad rate %.3f %%, median batch %.0f, %.0f requests per run (%.0f of "
           "the rarest model), %.0f runs%s\n",
           100 * number(result, "worst_bad_rate"), number(result, "median_batch"),
           number(result, "requests_per_run"), number(result, "requests_per_model"),
           number(result, "runs"),
           json_is_true(json_object_get(result, "interrupted")) ? " (interrupted)" : "");
    print_possible(result);
}

static void print_point(const json_t *result, bool goodput) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get((json_t *)result, "point"), key, value)
        printf("%s %s  ", key, json_string_value(value));
    if (goodput) {
        print_goodput(result);
        return;
    }
    const json_t *total = json_object_get(result, "total");
    const json_t *queueing = json_object_get(total, "queueing_ms");
    printf("good %.1f/s  bad %.3f %%  p99 %.3f ms  wait p50 %.3f p99 %.3f ms  batch %.2f  busy "
           "%.1f %%  devices %.0f%s\n",
           number(total, "good_per_s"), 100 * number(total, "bad_rate"),
           number(json_object_get(total, "latency_ms"), "p99"), number(queueing, "p50"),
           number(queueing, "p99"), number(json_object_get(total, "batch"), "mean"),
           100 * number(result, "utilisation"), number(result, "devices_used"),
           json_is_true(json_object_get(result, "interrupted")) ? " (interrupted)" : "");
    print_possible(result);
}

static enum tt_err print_points(const struct tt_sweep *sweep, const struct flags *a,
                                struct tt_error *why) {
    json_t *all = json_array();
    for (int32_t point = 0; point < sweep->points; point++) {
        json_t *result = tt_sweep_point(sweep, point);
        if (!result)
            continue;
        if (!a->json)
            print_point(result, a->goodput);
        json_array_append_new(all, result);
    }
    enum tt_err err = TT_OK;
    if (a->html)
        err = tt_page_write("goodput", sweep->experiment->message->title,
                            json_pack("{s:O,s:I}", "points", all, "seed",
                                      (json_int_t)sweep->experiment->message->seed),
                            a->html, why);
    bool single = sweep->points == 1 && json_array_size(all) == 1;
    if (a->json)
        tt_outcome_print_json(single ? json_incref(json_array_get(all, 0))
                                     : json_pack("{s:O}", "points", all));
    json_decref(all);
    return err;
}

static int run_many(struct tt_experiment *experiment, const struct flags *a) {
    struct tt_sweep_options options = {.goodput = a->goodput,
                                       .bound = a->bound,
                                       .check = a->check,
                                       .workers = a->workers,
                                       .state_path = a->resume,
                                       .stop = &tt_interrupted,
                                       .progress = show_progress};
    struct tt_sweep sweep;
    struct tt_error why;
    enum tt_err err = tt_sweep_init(&sweep, experiment, &options, &why);
    if (err)
        return tt_outcome_print_error(NULL, err, &why);
    err = tt_sweep_run(&sweep, &why);
    if (!err)
        err = print_points(&sweep, a, &why);
    if (!err && tt_interrupted)
        fprintf(stderr, "interrupted after %d of %d runs%s%s\n", sweep.finished,
                sweep.points * sweep.seeds, a->resume ? "; continue with --resume " : "",
                a->resume ? a->resume : "");
    tt_sweep_fini(&sweep);
    return err              ? tt_outcome_print_error(NULL, err, &why)
           : tt_interrupted ? EXIT_INTERRUPTED
                            : EXIT_DONE;
}

/* Flags that exclude or need each other. */
static enum tt_err check_flags(const struct flags *a, bool many, struct tt_error *why) {
    bool single = a->tasks || a->outcomes || a->trace || a->svg || a->until_ms > 0;
    if (many && (single || (a->html && !a->goodput)))
        return tt_fail(TT_ERR_INVALID, why,
                       "--tasks, --outcomes, --trace, --svg and --draw need a single run, not a "
                       "sweep or a search; --html needs a single run or --goodput");
    if (a->until_ms > 0 && !a->svg && !a->html)
        return tt_fail(TT_ERR_INVALID, why, "--draw needs a chart: --svg or --html");
    if (a->bound && a->worlds)
        return tt_fail(TT_ERR_INVALID, why,
                       "--bound holds for simulated devices only; it excludes --worlds");
    if (a->worlds && (many || single))
        return tt_fail(TT_ERR_INVALID, why,
                       "--worlds runs the experiment once in each world; it excludes sweeps, "
                       "--goodput, --tasks, --outcomes, --trace, --svg and --draw");
    if (!many && a->resume)
        return tt_fail(TT_ERR_INVALID, why,
                       "--resume keeps the points of a sweep or of --goodput, but this is a single "
                       "run");
    return TT_OK;
}

static int run(void *options) {
    const struct flags *a = options;
    tt_outcome_catch_interrupt();
    tt_outcome_catch_termination(); /* processes of a cluster would go on */
    struct tt_error why;
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, a->file, &why);
    if (err)
        return tt_outcome_print_error(NULL, err, &why);
    for (int32_t i = 0; !err && i < a->settings.count; i++)
        err = tt_experiment_set(&experiment, a->settings.pairs[i].key, a->settings.pairs[i].value,
                                &why);
    if (!err && a->arrivals)
        tt_experiment_set_arrivals(&experiment, a->arrivals);
    bool many = a->goodput || experiment.message->n_sweep > 0;
    if (!err)
        err = check_flags(a, many, &why);
    int code = err         ? tt_outcome_print_error(NULL, err, &why)
               : a->worlds ? run_worlds(&experiment, a)
               : many      ? run_many(&experiment, a)
                           : run_once(&experiment, a);
    tt_experiment_close(&experiment);
    return code;
}

const struct tt_verb tt_verb_experiment = {
    .name = "experiment",
    .summary = "run an experiment (simulated, emulated, real or on a cluster) and report",
    .usage = "FILE [OPTIONS]",
    .description =
        "Runs an experiment: in virtual time, on emulated devices, on the real model, or on a "
        "cluster of processes. "
        "With sweeps or --goodput, many runs in parallel processes.",
    TT_VERB_RUNS(flag_rows, run)};
