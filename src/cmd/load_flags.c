#include "cmd/load_flags.h"

#include "cmd/arguments.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: tutti load [URL] (--model NAME[:WEIGHT] ... | --load FILE) [OPTIONS]\n"
    "\n"
    "Sends requests to a server that speaks KServe v2 over HTTP (URL, http://127.0.0.1:8000 where\n"
    "absent) and reports goodput, bad rate, latencies and the reasons of what went wrong. Open "
    "loop:\n"
    "requests come when they are due, answered or not, and a latency counts from the instant at\n"
    "which the request was intended, so that a slow server hides nothing.\n"
    "\n"
    "Who is asked, and when:\n"
    "  --model NAME[:WEIGHT]   a served model, and its share of the requests (1); may be repeated\n"
    "  --load FILE             models, load, deadlines, seed and times of an experiment's file\n"
    "  --map NAME=SERVED       that model of the experiment is served as SERVED; *=SERVED: all "
    "others\n"
    "  --arrivals FILE         these requests (CSV, as experiments take it) instead of drawn ones\n"
    "  --rate R                requests per second over all models (100)\n"
    "  --process P             poisson, uniform, or gamma with --gamma-shape (poisson)\n"
    "  --gamma-shape K         of gamma: 1 is poisson, less is burstier\n"
    "  --duration S            seconds in which requests are sent (10)\n"
    "  --warm-up S             the first so many seconds are sent but not counted (0)\n"
    "  --requests N            end after so many requests\n"
    "  --seed N                of everything that is drawn (1)\n"
    "  --concurrency N         closed loop instead: N clients that wait for their answers\n"
    "\n"
    "What they send:\n"
    "  --rows N                rows per request (1)\n"
    "  --length L              what open dimensions take: N, A-B (any, drawn), or @FILE, a number "
    "a\n"
    "                          line of which one is drawn\n"
    "  --shape [MODEL/]INPUT:DIMS   an input's dimensions without the rows, as 3,224,224\n"
    "  --input-file [MODEL=]FILE    infer requests in JSON, one a line, sent in turn; else drawn "
    "values\n"
    "  --binary                tensors as binary data (this is the standard)\n"
    "  --json-body             tensors as JSON\n"
    "  --slo-ms [MODEL=]MS     answers are due so long after their request was intended; also "
    "sent, as\n"
    "                          the request's `timeout`\n"
    "  --timeout-us US         send this `timeout` instead; 0: none\n"
    "  --priority N            the request's `priority`\n"
    "\n"
    "How, and with what result:\n"
    "  --connections N         most connections at once (256)\n"
    "  --give-up-ms MS         a request without an answer is given up after this (10000)\n"
    "  --json                  the report as JSON\n"
    "  --csv FILE              a line per request\n"
    "  --svg FILE              a picture of the latencies\n"
    "  --html FILE             the report as a page\n"
    "  --fail-bad-rate X       exit code 1 where a larger share than X (0 .. 1) is bad\n"
    "  --yes-remote            load a server on another machine. Have its owner's consent: this is "
    "a\n"
    "                          program to drive servers to their limits\n"
    "  --help                  this text\n";

enum flag {
    FLAG_MODEL = 256,
    FLAG_LOAD,
    FLAG_MAP,
    FLAG_ARRIVALS,
    FLAG_RATE,
    FLAG_PROCESS,
    FLAG_GAMMA_SHAPE,
    FLAG_DURATION,
    FLAG_WARM_UP,
    FLAG_REQUESTS,
    FLAG_SEED,
    FLAG_CONCURRENCY,
    FLAG_ROWS,
    FLAG_LENGTH,
    FLAG_SHAPE,
    FLAG_INPUT_FILE,
    FLAG_BINARY,
    FLAG_JSON_BODY,
    FLAG_SLO_MS,
    FLAG_TIMEOUT_US,
    FLAG_PRIORITY,
    FLAG_CONNECTIONS,
    FLAG_GIVE_UP_MS,
    FLAG_JSON,
    FLAG_CSV,
    FLAG_SVG,
    FLAG_HTML,
    FLAG_FAIL_BAD_RATE,
    FLAG_YES_REMOTE,
    FLAG_HELP,
};

static const struct option options[] = {
    {"model", required_argument, NULL, FLAG_MODEL},
    {"load", required_argument, NULL, FLAG_LOAD},
    {"map", required_argument, NULL, FLAG_MAP},
    {"arrivals", required_argument, NULL, FLAG_ARRIVALS},
    {"rate", required_argument, NULL, FLAG_RATE},
    {"process", required_argument, NULL, FLAG_PROCESS},
    {"gamma-shape", required_argument, NULL, FLAG_GAMMA_SHAPE},
    {"duration", required_argument, NULL, FLAG_DURATION},
    {"warm-up", required_argument, NULL, FLAG_WARM_UP},
    {"requests", required_argument, NULL, FLAG_REQUESTS},
    {"seed", required_argument, NULL, FLAG_SEED},
    {"concurrency", required_argument, NULL, FLAG_CONCURRENCY},
    {"rows", required_argument, NULL, FLAG_ROWS},
    {"length", required_argument, NULL, FLAG_LENGTH},
    {"shape", required_argument, NULL, FLAG_SHAPE},
    {"input-file", required_argument, NULL, FLAG_INPUT_FILE},
    {"binary", no_argument, NULL, FLAG_BINARY},
    {"json-body", no_argument, NULL, FLAG_JSON_BODY},
    {"slo-ms", required_argument, NULL, FLAG_SLO_MS},
    {"timeout-us", required_argument, NULL, FLAG_TIMEOUT_US},
    {"priority", required_argument, NULL, FLAG_PRIORITY},
    {"connections", required_argument, NULL, FLAG_CONNECTIONS},
    {"give-up-ms", required_argument, NULL, FLAG_GIVE_UP_MS},
    {"json", no_argument, NULL, FLAG_JSON},
    {"csv", required_argument, NULL, FLAG_CSV},
    {"svg", required_argument, NULL, FLAG_SVG},
    {"html", required_argument, NULL, FLAG_HTML},
    {"fail-bad-rate", required_argument, NULL, FLAG_FAIL_BAD_RATE},
    {"yes-remote", no_argument, NULL, FLAG_YES_REMOTE},
    {"help", no_argument, NULL, FLAG_HELP},
    {0},
};

static bool add(struct tt_load_items *items, const char *text) {
    if (items->count == TT_LOAD_FLAG_ITEMS)
        return false;
    items->texts[items->count++] = text;
    return true;
}

static bool take_process(struct tt_load_flags *f, const char *text) {
    static const char *const names[] = {[TT_PROCESS_POISSON] = "poisson",
                                        [TT_PROCESS_GAMMA] = "gamma",
                                        [TT_PROCESS_UNIFORM] = "uniform"};
    for (size_t i = 0; i < TT_COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            f->process = (enum tt_process)i;
            f->has_process = true;
            return true;
        }
    return false;
}

static bool take_gamma_shape(struct tt_load_flags *f, const char *text) {
    double shape;
    if (!tt_arguments_decimal(text, 0.01, 1000, &shape))
        return false;
    f->gamma_shape_ppm = (int64_t)(shape * 1e6 + 0.5);
    return true;
}

/* NULL: taken; else what would be right. Flags with a number. */
static const char *take_number(struct tt_load_flags *f, int flag, const char *text) {
    static const struct {
        int flag;
        int64_t low, high;
        const char *right;
    } whole[] = {
        {FLAG_REQUESTS, 1, INT64_C(1000000000000), "--requests wants a number from 1, not"},
        {FLAG_SEED, 0, INT64_MAX, "--seed wants a whole number from 0, not"},
        {FLAG_CONCURRENCY, 1, 100000, "--concurrency wants a number from 1 to 100000, not"},
        {FLAG_ROWS, 1, 65536, "--rows wants a number from 1 to 65536, not"},
        {FLAG_TIMEOUT_US, 0, INT64_C(1000000000000), "--timeout-us wants microseconds from 0, not"},
        {FLAG_PRIORITY, 0, INT32_MAX, "--priority wants a number from 0, not"},
        {FLAG_CONNECTIONS, 1, 100000, "--connections wants a number from 1 to 100000, not"},
        {FLAG_GIVE_UP_MS, 1, 3600000, "--give-up-ms wants milliseconds from 1 to 3600000, not"},
    };
    int64_t *const fields[] = {&f->requests,   &f->seed,     &f->concurrency, &f->rows,
                               &f->timeout_us, &f->priority, &f->connections, &f->give_up_ms};
    for (size_t i = 0; i < TT_COUNT(whole); i++)
        if (whole[i].flag == flag)
            return tt_arguments_number(text, whole[i].low, whole[i].high, fields[i])
                       ? NULL
                       : whole[i].right;
    switch (flag) {
    case FLAG_RATE:
        return tt_arguments_decimal(text, 0.001, 1e7, &f->rate)
                   ? NULL
                   : "--rate wants requests per second from 0.001 to 10000000, not";
    case FLAG_DURATION:
        return tt_arguments_decimal(text, 0.001, 1e6, &f->duration_s)
                   ? NULL
                   : "--duration wants seconds from 0.001 to 1000000, not";
    case FLAG_WARM_UP:
        return tt_arguments_decimal(text, 0, 1e6, &f->warm_up_s)
                   ? NULL
                   : "--warm-up wants seconds from 0, not";
    case FLAG_FAIL_BAD_RATE:
        return tt_arguments_decimal(text, 0, 1, &f->fail_bad_rate)
                   ? NULL
                   : "--fail-bad-rate wants a share from 0 to 1, not";
    default: return "unknown flag";
    }
}

/* NULL: taken; else what would be right. */
static const char *take(struct tt_load_flags *f, int flag, const char *text) {
    static const char too_many[] = "a flag may be repeated 64 times; this is one more:";
    switch (flag) {
    case FLAG_LOAD: f->experiment = text; return NULL;
    case FLAG_ARRIVALS: f->arrivals = text; return NULL;
    case FLAG_LENGTH: f->length = text; return NULL;
    case FLAG_CSV: f->csv = text; return NULL;
    case FLAG_SVG: f->svg = text; return NULL;
    case FLAG_HTML: f->html = text; return NULL;
    case FLAG_JSON: f->json = true; return NULL;
    case FLAG_YES_REMOTE: f->yes_remote = true; return NULL;
    case FLAG_BINARY: f->binary = true; return NULL;
    case FLAG_JSON_BODY: f->binary = false; return NULL;
    case FLAG_MODEL: return add(&f->models, text) ? NULL : too_many;
    case FLAG_MAP: return add(&f->maps, text) ? NULL : too_many;
    case FLAG_SHAPE: return add(&f->shapes, text) ? NULL : too_many;
    case FLAG_INPUT_FILE: return add(&f->input_files, text) ? NULL : too_many;
    case FLAG_SLO_MS: return add(&f->slos, text) ? NULL : too_many;
    case FLAG_PROCESS:
        return take_process(f, text) ? NULL : "--process is poisson, gamma or uniform, not";
    case FLAG_GAMMA_SHAPE:
        return take_gamma_shape(f, text) ? NULL
                                         : "--gamma-shape wants a number from 0.01 to 1000, not";
    default: return take_number(f, flag, text);
    }
}

/* What makes no sense together; NULL: everything does. */
static const char *contradiction(const struct tt_load_flags *f) {
    bool drawn = f->rate >= 0 || f->has_process;
    if (!f->experiment && f->models.count == 0)
        return "whom to ask? give --model NAME, or --load FILE";
    if (f->experiment && f->models.count)
        return "--model and --load exclude each other; --map says who stands for a model of the "
               "file";
    if (!f->experiment && f->maps.count)
        return "--map belongs to --load";
    if (f->experiment && (f->has_process || f->rows))
        return "--process, --gamma-shape and --rows are said by the file of --load";
    if (f->concurrency && (drawn || f->arrivals))
        return "--concurrency is a closed loop: --rate, --process and --arrivals have no meaning "
               "there";
    if (f->arrivals && (drawn || f->duration_s >= 0))
        return "--arrivals says when requests come: --rate, --process and --duration do not";
    if ((f->has_process && f->process == TT_PROCESS_GAMMA) != (f->gamma_shape_ppm > 0))
        return "--gamma-shape and --process gamma belong together";
    return NULL;
}

int tt_load_flags_parse(int argc, char **argv, struct tt_load_flags *out_flags) {
    struct tt_load_flags f = {.url = "http://127.0.0.1:8000",
                              .rate = -1,
                              .duration_s = -1,
                              .warm_up_s = -1,
                              .requests = -1,
                              .seed = -1,
                              .binary = true,
                              .timeout_us = -1,
                              .connections = 256,
                              .give_up_ms = 10000,
                              .fail_bad_rate = -1};
    opterr = 0;
    optind = 1;
    for (int flag; (flag = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (flag == FLAG_HELP) {
            fputs(help, stdout);
            return 0;
        }
        if (flag == ':')
            return tt_arguments_refuse("load", "a value is missing after", argv[optind - 1]);
        if (flag == '?')
            return tt_arguments_refuse("load", "unknown flag", argv[optind - 1]);
        const char *right = take(&f, flag, optarg);
        if (right)
            return tt_arguments_refuse("load", right, optarg);
    }
    if (optind < argc)
        f.url = argv[optind++];
    if (optind < argc)
        return tt_arguments_refuse("load", "unexpected argument", argv[optind]);
    const char *problem = contradiction(&f);
    if (problem)
        return tt_arguments_refuse("load", problem, NULL);
    *out_flags = f;
    return -1;
}
