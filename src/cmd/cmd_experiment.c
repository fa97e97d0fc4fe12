/* tutti experiment FILE: one run, the same in several worlds, a search for the goodput, or a sweep.
 */
#include "base/clock.h"
#include "base/instant.h"
#include "cmd/arguments.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/sweep.h"
#include "lab/report/html_goodput.h"
#include "lab/report/html_report.h"
#include "lab/report/report.h"
#include "lab/report/worlds.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_SETTINGS = 64,
    TRACE_RECORDS = 1 << 18, /* the last so many: what a viewer can still load */
};

struct arguments {
    const char *file, *arrivals, *tasks, *outcomes, *html, *svg, *trace, *resume, *worlds;
    double from_ms, until_ms; /* what is drawn; until 0: as much as fits */
    bool json, goodput, check;
    int32_t workers;
    const char *names[MAX_SETTINGS], *values[MAX_SETTINGS]; /* for tt_experiment_set */
    int32_t settings;
};

static const char usage[] =
    "Usage: tutti experiment FILE [options]\n"
    "  --arrivals A.csv    these requests instead of the file's load\n"
    "  --tasks T.csv       write what ran, where and when\n"
    "  --outcomes O.csv    write what became of every request\n"
    "  --html REPORT.html  write a report with pictures (also of a search, or of --worlds)\n"
    "  --svg PICTURE.svg   write who ran when as a picture\n"
    "  --draw FROM,UNTIL   the part of the run that pictures show, in ms (the beginning)\n"
    "  --trace TRACE.json  write the last batches and requests, for ui.perfetto.dev\n"
    "  --json              the summary as JSON\n"
    "  --world NAME        simulated, emulated or real, instead of the file's\n"
    "  --worlds A,B,...    run it in each of these, and show the results side by side\n"
    "  --goodput           search the highest rate with bad rate <= 1 % for every model\n"
    "  --check             check every invariant after every event (slow)\n"
    "  --seed N, --policy NAME, --rate R   instead of the file's\n"
    "  --set NAME=VALUE    any parameter that a sweep can set; may be repeated\n"
    "  --resume STATE      keep finished points of a sweep or search in this file, and do not do\n"
    "                      again what it already has\n"
    "  --workers N         processes at once in sweeps and searches (all processors)\n";

static bool add_setting(struct arguments *a, const char *name, const char *value) {
    if (a->settings == MAX_SETTINGS)
        return false;
    a->names[a->settings] = name;
    a->values[a->settings++] = value;
    return true;
}

enum flag {
    FLAG_ARRIVALS = 256,
    FLAG_TASKS,
    FLAG_OUTCOMES,
    FLAG_HTML,
    FLAG_TRACE,
    FLAG_JSON,
    FLAG_GOODPUT,
    FLAG_CHECK,
    FLAG_SEED,
    FLAG_POLICY,
    FLAG_RATE,
    FLAG_SET,
    FLAG_RESUME,
    FLAG_WORKERS,
    FLAG_SVG,
    FLAG_DRAW,
    FLAG_WORLD,
    FLAG_WORLDS,
    FLAG_HELP
};

static const struct option flags[] = {{"arrivals", required_argument, NULL, FLAG_ARRIVALS},
                                      {"tasks", required_argument, NULL, FLAG_TASKS},
                                      {"outcomes", required_argument, NULL, FLAG_OUTCOMES},
                                      {"html", required_argument, NULL, FLAG_HTML},
                                      {"trace", required_argument, NULL, FLAG_TRACE},
                                      {"json", no_argument, NULL, FLAG_JSON},
                                      {"goodput", no_argument, NULL, FLAG_GOODPUT},
                                      {"check", no_argument, NULL, FLAG_CHECK},
                                      {"seed", required_argument, NULL, FLAG_SEED},
                                      {"policy", required_argument, NULL, FLAG_POLICY},
                                      {"rate", required_argument, NULL, FLAG_RATE},
                                      {"set", required_argument, NULL, FLAG_SET},
                                      {"resume", required_argument, NULL, FLAG_RESUME},
                                      {"workers", required_argument, NULL, FLAG_WORKERS},
                                      {"svg", required_argument, NULL, FLAG_SVG},
                                      {"draw", required_argument, NULL, FLAG_DRAW},
                                      {"world", required_argument, NULL, FLAG_WORLD},
                                      {"worlds", required_argument, NULL, FLAG_WORLDS},
                                      {"help", no_argument, NULL, FLAG_HELP},
                                      {NULL, 0, NULL, 0}};

static bool take_window(struct arguments *a, const char *text) {
    char *end;
    a->from_ms = strtod(text, &end);
    if (end == text || *end != ',' || !(a->from_ms >= 0))
        return false;
    const char *until = end + 1;
    a->until_ms = strtod(until, &end);
    return end != until && *end == '\0' && a->until_ms > a->from_ms && a->until_ms < 1e12;
}

static bool take_flag(struct arguments *a, int flag) {
    switch (flag) {
    case FLAG_ARRIVALS: a->arrivals = optarg; return true;
    case FLAG_TASKS: a->tasks = optarg; return true;
    case FLAG_OUTCOMES: a->outcomes = optarg; return true;
    case FLAG_HTML: a->html = optarg; return true;
    case FLAG_TRACE: a->trace = optarg; return true;
    case FLAG_JSON: a->json = true; return true;
    case FLAG_GOODPUT: a->goodput = true; return true;
    case FLAG_CHECK: a->check = true; return true;
    case FLAG_RESUME: a->resume = optarg; return true;
    case FLAG_SVG: a->svg = optarg; return true;
    case FLAG_DRAW: return take_window(a, optarg);
    case FLAG_WORLD: return add_setting(a, "world", optarg);
    case FLAG_WORLDS: a->worlds = optarg; return true;
    case FLAG_SEED: return add_setting(a, "seed", optarg);
    case FLAG_POLICY: return add_setting(a, "policy", optarg);
    case FLAG_RATE: return add_setting(a, "rate", optarg);
    case FLAG_WORKERS: return tt_arguments_workers(optarg, &a->workers);
    case FLAG_SET: {
        char *equals = strchr(optarg, '=');
        if (!equals)
            return false;
        *equals = '\0';
        return add_setting(a, optarg, equals + 1);
    }
    default: return false;
    }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct arguments *a) {
    optind = 1;
    for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (flag == FLAG_HELP) {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (!take_flag(a, flag)) {
            if (flag != '?')
                fprintf(stderr, "tutti experiment: the value '%s' makes no sense%s\n", optarg,
                        flag == FLAG_WORKERS ? "; --workers takes 1 .. 64" : "");
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "tutti experiment: %s\n%s",
                optind == argc ? "which experiment? give its file" : "one file only", usage);
        return EXIT_USAGE;
    }
    a->file = argv[optind];
    return -1;
}

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

static void set_window(const struct arguments *a, struct tt_timeline *timeline) {
    if (a->until_ms <= 0)
        return;
    timeline->from_at = (int64_t)(a->from_ms * 1e6);
    timeline->until_at = (int64_t)(a->until_ms * 1e6);
}

static void say(void *context, const char *line) {
    (void)context;
    fprintf(stderr, "%s\n", line);
}

/* The run, and the files that were asked for besides its figures. */
static enum tt_err run_scenario(const struct tt_scenario *scenario, const struct arguments *a,
                                const char *title, struct tt_scenario_result *out_result,
                                struct tt_error *why) {
    struct tt_html_report html;
    struct tt_scenario_outputs outputs = {.tasks_path = a->tasks,
                                          .outcomes_path = a->outcomes,
                                          .progress = tt_outcome_progress,
                                          .say = say};
    if (a->trace && tt_trace_new(TRACE_RECORDS, &outputs.trace, why) != TT_OK)
        return TT_ERR_NO_MEMORY;
    if (a->html || a->svg) {
        tt_html_report_init(&html, scenario);
        set_window(a, &html.timeline);
        outputs.also = tt_html_report_observer(&html);
    }
    struct tt_scenario_result result;
    enum tt_err err = tt_scenario_run(scenario, a->check, &outputs, &tt_interrupted, &result, why);
    bool ran = err == TT_OK;
    if (!err && a->html)
        err = tt_html_report_write(&html, title, &result, a->html, why);
    if (!err && a->svg)
        err = tt_timeline_write(&html.timeline, a->svg, why);
    if (a->html || a->svg)
        tt_html_report_fini(&html);
    if (!err && a->trace)
        err = write_trace(outputs.trace, a->trace, why);
    tt_trace_free(outputs.trace);
    if (err && ran)
        tt_measure_fini(&result.measure);
    if (!err)
        *out_result = result;
    return err;
}

static int run_once(struct tt_experiment *experiment, const struct arguments *a) {
    struct tt_error why;
    struct tt_scenario scenario;
    enum tt_err err = tt_experiment_build(experiment, &scenario, &why);
    if (err)
        return tt_outcome_complain(err, &why);
    struct tt_scenario_result result;
    int64_t started_at = tt_clock_now();
    const char *title = experiment->message->title;
    err = run_scenario(&scenario, a, title, &result, &why);
    double took_s = (double)(tt_clock_now() - started_at) / 1e9;
    if (err) {
        tt_scenario_fini(&scenario);
        return tt_outcome_complain(err, &why);
    }
    if (a->json) {
        tt_outcome_print_json(tt_report_json(&scenario, title, &result));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_report_table(&scenario, title, &result, &text);
        fputs(tt_text_string(&text), stdout);
        tt_text_fini(&text);
        if (scenario.world == TT_WORLD_SIMULATED)
            fprintf(stderr, "%.2f M events in %.2f s, %.1f M/s\n", (double)result.events / 1e6,
                    took_s, (double)result.events / 1e6 / (took_s > 0 ? took_s : 1e-9));
    }
    int code = result.interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
    tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
    return code;
}

/* ---- the same in several worlds ---- */

static int run_worlds(struct tt_experiment *experiment, const struct arguments *a) {
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
        fputs(tt_text_string(&text), stdout);
        tt_text_fini(&text);
    }
    if (!err && a->html)
        err = tt_worlds_html(&worlds, a->html, &why);
    int code = err                              ? tt_outcome_complain(err, &why)
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
}

static enum tt_err print_points(const struct tt_sweep *sweep, const struct arguments *a,
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
        err = tt_html_goodput_write(all, sweep->experiment->message->title, a->html, why);
    bool single = sweep->points == 1 && json_array_size(all) == 1;
    if (a->json)
        tt_outcome_print_json(single ? json_incref(json_array_get(all, 0))
                                     : json_pack("{s:O}", "points", all));
    json_decref(all);
    return err;
}

static int run_many(struct tt_experiment *experiment, const struct arguments *a) {
    struct tt_sweep_options options = {.goodput = a->goodput,
                                       .check = a->check,
                                       .workers = a->workers,
                                       .state_path = a->resume,
                                       .stop = &tt_interrupted,
                                       .progress = show_progress};
    struct tt_sweep sweep;
    struct tt_error why;
    enum tt_err err = tt_sweep_init(&sweep, experiment, &options, &why);
    if (err)
        return tt_outcome_complain(err, &why);
    err = tt_sweep_run(&sweep, &why);
    if (!err)
        err = print_points(&sweep, a, &why);
    if (!err && tt_interrupted)
        fprintf(stderr, "interrupted after %d of %d%s%s\n", sweep.finished,
                sweep.points * sweep.seeds, a->resume ? "; go on with --resume " : "",
                a->resume ? a->resume : "");
    tt_sweep_fini(&sweep);
    return err ? tt_outcome_complain(err, &why) : tt_interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

int tt_cmd_experiment(int argc, char **argv) {
    struct arguments a = {0};
    int code = parse(argc, argv, &a);
    if (code >= 0)
        return code;
    tt_outcome_catch_interrupt();
    struct tt_error why;
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, a.file, &why);
    if (err)
        return tt_outcome_complain(err, &why);
    for (int32_t i = 0; !err && i < a.settings; i++)
        err = tt_experiment_set(&experiment, a.names[i], a.values[i], &why);
    if (!err && a.arrivals)
        err = tt_experiment_set_arrivals(&experiment, a.arrivals, &why);
    bool many = a.goodput || experiment.message->n_sweep > 0;
    bool single = a.tasks || a.outcomes || a.trace || a.svg || a.until_ms > 0;
    if (!err && many && (single || (a.html && !a.goodput)))
        err = tt_fail(TT_ERR_INVALID, &why,
                      "--tasks, --outcomes, --trace, --svg and --draw belong to a single run, not "
                      "to a sweep or a search, --html to a single run or to --goodput");
    if (!err && a.worlds && (many || single))
        err = tt_fail(TT_ERR_INVALID, &why,
                      "--worlds runs the experiment once in each; it goes with --html and --json, "
                      "not with sweeps, --goodput, --tasks, --outcomes, --trace, --svg, --draw");
    if (!err && !many && a.resume)
        err = tt_fail(TT_ERR_INVALID, &why,
                      "--resume keeps the points of a sweep or a search (--goodput), and this is a "
                      "single run");
    if (err)
        code = tt_outcome_complain(err, &why);
    else
        code = a.worlds ? run_worlds(&experiment, &a)
               : many   ? run_many(&experiment, &a)
                        : run_once(&experiment, &a);
    tt_experiment_close(&experiment);
    return code;
}
