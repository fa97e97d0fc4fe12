/* tutti replay FILE: a recording again, to the same decisions; or what another policy would have
 * done. */
#include "cmd/arguments.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"
#include "lab/replay/replay.h"
#include "lab/report/html_report.h"
#include "lab/report/report.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: tutti replay FILE [options]\n"
    "\n"
    "Runs a recording of `tutti serve` through the same policies in virtual time: "
    "identical decisions, or\n"
    "exit code 1 and the first difference. With --policy: what another policy would have done with "
    "the recorded\n"
    "requests, simulated with the models' recorded profiles, beside what really happened.\n"
    "\n"
    "  --policy NAME         simulate this policy; `recorded`: the one that was recorded, with its "
    "options\n"
    "  --policy-option K=V   an option of that policy; may be repeated\n"
    "  --domain N            this scheduling domain only (all)\n"
    "  --json                the results as JSON\n"
    "  --tasks T.csv, --outcomes O.csv, --html REPORT.html\n"
    "                        of the simulation, as `tutti experiment` writes them; of one domain\n"
    "  --check               check every invariant after every event (slow)\n"
    "  --help                this text\n";

struct arguments {
    const char *file, *policy, *tasks, *outcomes, *html;
    struct tt_option options[TT_MAX_OPTIONS];
    int32_t option_count;
    int64_t domain; /* -1: all */
    bool json, check;
};

static int refuse(const char *sentence, const char *detail) {
    return tt_arguments_refuse("replay", sentence, detail);
}

static int add_option(struct arguments *a, char *text) {
    char *equals = strchr(text, '=');
    if (!equals)
        return refuse("--policy-option wants KEY=VALUE, not", text);
    if (a->option_count == TT_MAX_OPTIONS)
        return refuse("too many options for a policy", NULL);
    *equals = '\0';
    a->options[a->option_count++] = (struct tt_option){.key = text, .value = equals + 1};
    return -1;
}

static int take_flag(struct arguments *a, int flag, char **argv) {
    switch (flag) {
    case 'p': a->policy = optarg; return -1;
    case 'o': return add_option(a, optarg);
    case 'd':
        if (!tt_arguments_number(optarg, 0, TT_RECORDING_MAX_STREAMS, &a->domain))
            return refuse("--domain wants a number, from 0, not", optarg);
        return -1;
    case 'j': a->json = true; return -1;
    case 't': a->tasks = optarg; return -1;
    case 'u': a->outcomes = optarg; return -1;
    case 'w': a->html = optarg; return -1;
    case 'c': a->check = true; return -1;
    case 'h': fputs(usage, stdout); return EXIT_DONE;
    case ':': return refuse("a value is missing after", argv[optind - 1]);
    default: return refuse("unknown flag", argv[optind - 1]);
    }
}

/* That the policy exists and takes its options, before anything is printed. */
static int check_policy(const struct arguments *a) {
    if (!a->policy || strcmp(a->policy, "recorded") == 0)
        return -1;
    const struct tt_policy_kind *kind = tt_policy_find(a->policy);
    if (!kind)
        return refuse("no policy is called", a->policy);
    int64_t values[TT_MAX_OPTIONS];
    struct tt_error why;
    if (tt_options_parse(kind->options, kind->option_count, a->options, a->option_count, values,
                         &why) != TT_OK)
        return refuse(why.text, NULL);
    return -1;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct arguments *a) {
    static const struct option flags[] = {
        {"policy", required_argument, NULL, 'p'}, {"policy-option", required_argument, NULL, 'o'},
        {"domain", required_argument, NULL, 'd'}, {"json", no_argument, NULL, 'j'},
        {"tasks", required_argument, NULL, 't'},  {"outcomes", required_argument, NULL, 'u'},
        {"html", required_argument, NULL, 'w'},   {"check", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},         {0}};
    opterr = 0;
    optind = 1;
    a->domain = -1;
    for (int flag; (flag = getopt_long(argc, argv, ":", flags, NULL)) != -1;) {
        int code = take_flag(a, flag, argv);
        if (code >= 0)
            return code;
    }
    if (optind + 1 != argc)
        return refuse(optind == argc ? "which recording? give its file" : "one file only", NULL);
    a->file = argv[optind];
    if (!a->policy && (a->option_count > 0 || a->tasks || a->outcomes || a->html))
        return refuse("--policy-option, --tasks, --outcomes and --html belong to --policy", NULL);
    if (a->policy && strcmp(a->policy, "recorded") == 0 && a->option_count > 0)
        return refuse("--policy recorded has the recorded options", NULL);
    return check_policy(a);
}

/* ---- what is said of one domain ---- */

static double span_s(const struct tt_replay *replay) {
    int64_t span_ns = replay->arrival_count ? replay->last_at - replay->base_at : 0;
    return (double)span_ns / 1e9;
}

/* What of the recording was not carried out, and why. */
static void tell_limits(const struct tt_replay *replay) {
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

/* The figures of what was, in the form of an experiment's. */
static enum tt_err report_recorded(struct tt_replay *replay, const struct arguments *a, json_t *out,
                                   struct tt_error *why) {
    struct tt_scenario scenario;
    enum tt_err err = tt_replay_scenario(replay, NULL, NULL, 0, &scenario, why);
    if (err)
        return err;
    scenario.world = TT_WORLD_RECORDED;
    struct tt_scenario_result was = {.measure = replay->measure, .events = replay->events};
    if (a->json) {
        json_object_set_new(out, "recorded", tt_report_json(&scenario, "recorded", &was));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_text_puts(&text, "\n");
        tt_report_table(&scenario, "", &was, &text);
        fputs(tt_text_string(&text), stdout);
        tt_text_fini(&text);
    }
    tt_scenario_fini(&scenario);
    return TT_OK;
}

static enum tt_err run_scenario(const struct tt_scenario *scenario, const struct arguments *a,
                                json_t *out, struct tt_error *why) {
    struct tt_html_report html;
    struct tt_scenario_outputs outputs = {.tasks_path = a->tasks, .outcomes_path = a->outcomes};
    if (a->html) {
        tt_html_report_init(&html, scenario);
        outputs.also = tt_html_report_observer(&html);
    }
    struct tt_scenario_result result;
    enum tt_err err = tt_scenario_run(scenario, a->check, &outputs, &tt_interrupted, &result, why);
    const char *title = "simulated from the recorded requests";
    if (!err && a->html)
        err = tt_html_report_write(&html, title, &result, a->html, why);
    if (a->html)
        tt_html_report_fini(&html);
    if (err)
        return err;
    if (a->json) {
        json_object_set_new(out, "simulated", tt_report_json(scenario, title, &result));
    } else {
        struct tt_text text;
        tt_text_init(&text);
        tt_text_printf(&text, "\n");
        tt_report_table(scenario, title, &result, &text);
        fputs(tt_text_string(&text), stdout);
        tt_text_fini(&text);
    }
    tt_measure_fini(&result.measure);
    return TT_OK;
}

/* What the simulation has to guess. */
static void tell_guesses(const struct tt_replay *replay) {
    if (replay->unknown_ends > 0)
        fprintf(stderr,
                "tutti replay: domain %d: %lld requests left before the end of their output was "
                "found; simulated, they end with the cell after the last that was computed\n",
                replay->stream, (long long)replay->unknown_ends);
}

static enum tt_err simulate(struct tt_replay *replay, const struct arguments *a, json_t *out,
                            struct tt_error *why) {
    struct tt_scenario scenario;
    const char *policy = strcmp(a->policy, "recorded") == 0 ? NULL : a->policy;
    enum tt_err err =
        tt_replay_scenario(replay, policy, a->options, a->option_count, &scenario, why);
    if (err)
        return err;
    tell_guesses(replay);
    err = run_scenario(&scenario, a, out, why);
    tt_scenario_fini(&scenario);
    return err;
}

/* ---- the verb ---- */

static enum tt_err replay_domain(const struct tt_recording *recording, int32_t stream,
                                 const struct arguments *a, json_t *all, bool *out_differs,
                                 struct tt_error *why) {
    struct tt_replay replay;
    enum tt_err err = tt_replay_run(recording, stream, a->check, &tt_interrupted, &replay, why);
    if (err)
        return err;
    json_t *out = domain_json(&replay);
    if (!a->json)
        print_domain(&replay);
    tell_limits(&replay);
    *out_differs |= replay.differs;
    bool reports = replay.arrival_count > 0 && !replay.differs && (a->json || a->policy);
    if (reports)
        err = report_recorded(&replay, a, out, why);
    if (!err && reports && a->policy && !tt_interrupted)
        err = simulate(&replay, a, out, why);
    json_array_append_new(all, out);
    tt_replay_fini(&replay);
    return err;
}

static enum tt_err replay_all(const struct tt_recording *recording, const struct arguments *a,
                              bool *out_differs, struct tt_error *why) {
    int32_t first = a->domain >= 0 ? (int32_t)a->domain : 0;
    int32_t end = a->domain >= 0 ? first + 1 : recording->domain_count;
    if (first >= recording->domain_count)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: it has %d domains, numbered from 0; there is no %d", recording->name,
                       recording->domain_count, first);
    if (end - first > 1 && (a->tasks || a->outcomes || a->html))
        return tt_fail(
            TT_ERR_INVALID, why,
            "--tasks, --outcomes and --html are of one domain, and %s has %d: choose one "
            "with --domain",
            recording->name, recording->domain_count);
    json_t *all = json_array();
    enum tt_err err = TT_OK;
    for (int32_t stream = first; !err && stream < end && !tt_interrupted; stream++)
        err = replay_domain(recording, stream, a, all, out_differs, why);
    if (!err && a->json) {
        json_t *out = json_pack("{s:s,s:b,s:b,s:O}", "recording", recording->name, "identical",
                                !*out_differs, "complete", recording->complete, "domains", all);
        tt_outcome_print_json(out);
    }
    json_decref(all);
    return err;
}

int tt_cmd_replay(int argc, char **argv) {
    struct arguments a = {0};
    int code = parse(argc, argv, &a);
    if (code >= 0)
        return code;
    tt_outcome_catch_interrupt();
    struct tt_error why;
    struct tt_recording recording;
    enum tt_err err = tt_recording_open(a.file, &recording, &why);
    bool differs = false;
    if (!err) {
        err = replay_all(&recording, &a, &differs, &why);
        tt_recording_close(&recording);
    }
    if (err) {
        fprintf(stderr, "tutti replay: %s\n", why.text);
        return tt_outcome_code(err);
    }
    return tt_interrupted ? EXIT_INTERRUPTED : differs ? EXIT_FAILED : EXIT_DONE;
}
