/* tutti serve: a model repository over HTTP until SIGTERM or SIGINT. */
#include "cmd/verbs.h"

#include "base/instant.h"
#include "base/log.h"
#include "cmd/arguments.h"
#include "control/control.h"
#include "net/listener.h"
#include "serve/trace_settings.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

static const char help[] =
    "Usage: tutti serve --model-repository DIR [OPTIONS]\n"
    "\n"
    "Serves every model of the repository (Triton's layout) by the Open Inference Protocol (KServe "
    "v2) over HTTP,\n"
    "until SIGTERM or SIGINT; then finishes what was accepted and exits with 0.\n"
    "\n"
    "  --model-repository DIR   the repository (needed); several: given as often\n"
    "  --model-control-mode M   none: load every model and leave it at that; poll: follow what "
    "changes in the\n"
    "                           repository; explicit: load what --load-model and clients say "
    "(none)\n"
    "  --repository-poll-secs N seconds between two looks at the repository in mode poll (15)\n"
    "  --load-model NAME        a model to load at the start in mode explicit; * for all; may be "
    "repeated\n"
    "  --http-host HOST         address to listen on (127.0.0.1)\n"
    "  --http-port PORT         port to listen on, 0 for any free one (8000)\n"
    "  --metrics-port PORT      a port that answers /metrics and nothing else (Triton's is 8002), "
    "0 "
    "for none (0)\n"
    "  --executors N            batches that may run at once, per scheduling domain (number of "
    "processors)\n"
    "  --scheduler-threads N    threads of their own for each domain of the policies deferred, "
    "eager, symphony and\n"
    "                           timeout: 1: one; more: one of them ranks; 0: they share the "
    "server's thread (0)\n"
    "  --grace-ms MS            time to finish accepted requests when told to stop (5000)\n"
    "  --record FILE            record what the policies see and decide, for `tutti replay`\n"
    "  --record-max-bytes N     the recording ends when it would grow larger; no limit\n"
    "  --measure-stale          measure models whose profile is of another model file or\n"
    "                           device, instead of refusing to serve them\n"
    "  --log-format FORMAT      default, ISO8601 or json: how lines on standard error look "
    "(default)\n"
    "  --log-verbose N          also lines about single requests, from 1 (0)\n"
    "  --log-info BOOL          lines about what goes as it should (true)\n"
    "  --log-warning BOOL       lines about what does not, and need not stop anything (true)\n"
    "  --log-error BOOL         lines about what failed (true)\n"
    "  --onnxruntime FILE       the ONNX Runtime library to load (looked for)\n"
    "  --show-limits            print every limit, as the other flags set it, and serve nothing\n"
    "  --json                   with --show-limits: for programs\n"
    "  --help                   this text\n"
    "\n"
    "Limits (a flag with a number each):\n";

static struct tt_listener *volatile running;
static int64_t grace_ms = 5000;

static void on_signal(int number) {
    (void)number;
    struct tt_listener *listener = running;
    if (listener)
        tt_listener_stop(listener, grace_ms);
}

static void say(void *context, enum tt_log_level level, const char *line) {
    tt_log_write(context, level, NULL, "%s", line);
}

enum { MAX_LOADS = 256, MAX_REPOSITORIES = 64, MAX_LIMITS = 32, FIRST_LIMIT = 1000 };

struct flags {
    struct tt_control_options control;
    struct tt_limits limits;
    int64_t asked_connections; /* before they were held to what the system has */
    bool shows_limits, as_json;
    const char *loads[MAX_LOADS];
    const char *repositories[MAX_REPOSITORIES];
    struct tt_listener_options listener;
    const char *record; /* NULL: no recording */
    int64_t record_bytes;
    struct tt_log *log;
};

static void show_help(void) {
    fputs(help, stdout);
    for (int32_t i = 0; i < tt_limit_count(); i++) {
        const struct tt_limit *limit = tt_limit_at(i);
        char flag[64];
        snprintf(flag, sizeof(flag), "--%s N", limit->name);
        printf("  %-24s %s (%lld%s%s)\n", flag, limit->help, (long long)limit->default_value,
               *limit->unit ? " " : "", limit->unit);
    }
}

static void show_limits(struct tt_limits *limits, bool as_json) {
    for (int32_t i = 0; i < tt_limit_count(); i++) {
        const struct tt_limit *limit = tt_limit_at(i);
        long long value = *tt_limit_of(limits, limit);
        if (as_json)
            printf("%s{\"flag\": \"--%s\", \"value\": %lld, \"unit\": \"%s\", \"standard\": %lld, "
                   "\"lowest\": %lld, \"highest\": %lld, \"meaning\": \"%s\"}",
                   i ? ",\n " : "[", limit->name, value, limit->unit,
                   (long long)limit->default_value, (long long)limit->lowest,
                   (long long)limit->highest, limit->help);
        else
            printf("--%-20s %12lld %-5s  %s\n", limit->name, value, limit->unit, limit->help);
    }
    fputs(as_json ? "]\n" : "", stdout);
}

static bool parse_bool(const char *text, bool *out_value) {
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return false;
    *out_value = yes;
    return true;
}

/* As Triton's: default and ISO8601; and JSON. */
static bool parse_format(const char *text, struct tt_log *log) {
    tt_log_settings_set_iso8601(&log->settings, strcmp(text, "ISO8601") == 0);
    log->is_json = strcmp(text, "json") == 0;
    return log->is_json || strcmp(text, "ISO8601") == 0 || strcmp(text, "default") == 0;
}

static bool parse_mode(const char *text, enum tt_control_mode *out_mode) {
    static const char *const names[] = {
        [TT_CONTROL_NONE] = "none", [TT_CONTROL_POLL] = "poll", [TT_CONTROL_EXPLICIT] = "explicit"};
    for (size_t i = 0; i < TT_COUNT(names); i++) {
        if (strcasecmp(text, names[i]) == 0) {
            *out_mode = (enum tt_control_mode)i;
            return true;
        }
    }
    return false;
}

/* A number within its limits; else the exit code, having said why. */
static int take_number(const char *flag, const char *unit, int64_t lowest, int64_t highest,
                       int64_t *out_number) {
    if (tt_arguments_number(optarg, lowest, highest, out_number))
        return -1;
    char sentence[160];
    snprintf(sentence, sizeof(sentence), "--%s wants %s from %lld to %lld, not", flag, unit,
             (long long)lowest, (long long)highest);
    return tt_arguments_refuse("serve", sentence, optarg);
}

/* The flags of the log; -2: another flag. */
static int take_log_flag(struct tt_log *log, int flag, const char *name) {
    int64_t number = 0;
    bool on = true;
    switch (flag) {
    case 'F':
        return parse_format(optarg, log)
                   ? -1
                   : tt_arguments_refuse(
                         "serve", "--log-format wants default, ISO8601 or json, not", optarg);
    case 'V': {
        int code = take_number(name, "a number", 0, 9, &number);
        tt_log_settings_set_verbose(&log->settings, (uint32_t)number);
        return code;
    }
    case 'I':
    case 'W':
    case 'E':
        if (!parse_bool(optarg, &on))
            return tt_arguments_refuse("serve", "the levels of the log are true or false, not",
                                       optarg);
        tt_log_settings_switch(&log->settings,
                               flag == 'I'   ? TT_LOG_INFO
                               : flag == 'W' ? TT_LOG_WARNING
                                             : TT_LOG_ERROR,
                               on);
        return -1;
    default: return -2;
    }
}

/* -1: go on; else the exit code. */
static int take_flag(struct flags *flags, int flag, const char *name) {
    struct tt_control_options *control = &flags->control;
    int64_t number = 0;
    int code = take_log_flag(flags->log, flag, name);
    if (code != -2)
        return code;
    code = -1;
    if (flag >= FIRST_LIMIT) {
        const struct tt_limit *limit = tt_limit_at(flag - FIRST_LIMIT);
        return take_number(name, *limit->unit ? limit->unit : "a number", limit->lowest,
                           limit->highest, tt_limit_of(&flags->limits, limit));
    }
    switch (flag) {
    case 'r':
        if (control->repository_count == MAX_REPOSITORIES)
            return tt_arguments_refuse("serve", "more than 64 times --model-repository", NULL);
        flags->repositories[control->repository_count++] = optarg;
        break;
    case 'H': flags->listener.host = optarg; break;
    case 'o': control->loader.onnxruntime = optarg; break;
    case 'R': flags->record = optarg; break;
    case 'X': code = take_number(name, "bytes", 4096, INT64_MAX / 2, &flags->record_bytes); break;
    case 'S': control->loader.measure_stale = true; break;
    case 'm':
        if (!parse_mode(optarg, &control->mode))
            return tt_arguments_refuse(
                "serve", "--model-control-mode wants none, poll or explicit, not", optarg);
        break;
    case 's':
        code = take_number(name, "seconds", 1, 86400, &number);
        control->poll_ns = number * TT_S;
        break;
    case 'l':
        if (control->load_count == MAX_LOADS)
            return tt_arguments_refuse("serve", "more than 256 times --load-model", NULL);
        flags->loads[control->load_count++] = optarg;
        break;
    case 'p':
        code = take_number(name, "a number", 0, 65535, &number);
        flags->listener.port = (int32_t)number;
        break;
    case 'M':
        code = take_number(name, "a number", 0, 65535, &number);
        flags->listener.metrics_port = (int32_t)number;
        break;
    case 'e':
        code = take_number(name, "a number", 1, 256, &number);
        control->loader.executors = (int32_t)number;
        break;
    case 't':
        code = take_number(name, "a number", 0, 64, &number);
        control->scheduler_threads = (int32_t)number;
        break;
    case 'g': code = take_number(name, "milliseconds", 0, 3600000, &grace_ms); break;
    case 'L': flags->shows_limits = true; break;
    case 'J': flags->as_json = true; break;
    case 'h': show_help(); return 0;
    case ':': return tt_arguments_refuse("serve", "a value is missing after", name);
    default: return tt_arguments_refuse("serve", "unknown flag", name);
    }
    return code;
}

/* A connection is a file descriptor: as many are asked for as the system lets us have, and no more
 * connections are promised than there are of them. */
static void fit_connections(struct tt_limits *limits) {
    enum { OTHERS = 128 }; /* the repository's files, the loop's, standard error */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 && getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur == RLIM_INFINITY)
        return;
    int64_t room = (int64_t)files.rlim_cur > 2 * OTHERS ? (int64_t)files.rlim_cur - OTHERS
                                                        : (int64_t)files.rlim_cur / 2;
    if (limits->connections > room)
        limits->connections = room;
}

static int check_flags(struct flags *flags) {
    if (flags->as_json && !flags->shows_limits)
        return tt_arguments_refuse("serve", "--json goes with --show-limits", NULL);
    if (flags->shows_limits) {
        show_limits(&flags->limits, flags->as_json);
        return 0;
    }
    if (flags->control.repository_count == 0)
        return tt_arguments_refuse("serve", "--model-repository DIR is needed", NULL);
    if (flags->control.load_count > 0 && flags->control.mode != TT_CONTROL_EXPLICIT)
        return tt_arguments_refuse("serve", "--load-model goes with --model-control-mode explicit",
                                   NULL);
    if (flags->record_bytes && !flags->record)
        return tt_arguments_refuse("serve", "--record-max-bytes goes with --record", NULL);
    flags->control.load = flags->loads;
    flags->control.repositories = flags->repositories;
    flags->asked_connections = flags->limits.connections;
    fit_connections(&flags->limits);
    flags->control.limits = &flags->limits;
    flags->listener.limits = flags->limits;
    return -1;
}

/* -1: go on; else the exit code. */
static int parse_flags(int argc, char **argv, struct flags *flags) {
    static const struct option own[] = {
        {"model-repository", required_argument, NULL, 'r'},
        {"model-control-mode", required_argument, NULL, 'm'},
        {"repository-poll-secs", required_argument, NULL, 's'},
        {"load-model", required_argument, NULL, 'l'},
        {"http-host", required_argument, NULL, 'H'},
        {"http-port", required_argument, NULL, 'p'},
        {"metrics-port", required_argument, NULL, 'M'},
        {"executors", required_argument, NULL, 'e'},
        {"scheduler-threads", required_argument, NULL, 't'},
        {"grace-ms", required_argument, NULL, 'g'},
        {"onnxruntime", required_argument, NULL, 'o'},
        {"show-limits", no_argument, NULL, 'L'},
        {"json", no_argument, NULL, 'J'},
        {"record", required_argument, NULL, 'R'},
        {"record-max-bytes", required_argument, NULL, 'X'},
        {"measure-stale", no_argument, NULL, 'S'},
        {"log-format", required_argument, NULL, 'F'},
        {"log-verbose", required_argument, NULL, 'V'},
        {"log-info", required_argument, NULL, 'I'},
        {"log-warning", required_argument, NULL, 'W'},
        {"log-error", required_argument, NULL, 'E'},
        {"help", no_argument, NULL, 'h'},
    };
    struct option options[TT_COUNT(own) + MAX_LIMITS + 1] = {0};
    tt_assert(tt_limit_count() <= MAX_LIMITS);
    memcpy(options, own, sizeof(own));
    for (int32_t i = 0; i < tt_limit_count(); i++)
        options[TT_COUNT(own) + (size_t)i] =
            (struct option){tt_limit_at(i)->name, required_argument, NULL, FIRST_LIMIT + i};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    flags->record = NULL;
    flags->record_bytes = 0;
    flags->control = (struct tt_control_options){
        .poll_ns = 15 * TT_S,
        .loader = {.executors = processors > 0 ? (int32_t)processors : 1,
                   .say = say,
                   .say_context = flags->log}};
    tt_limits_default(&flags->limits);
    tt_listener_options_default(&flags->listener);
    flags->shows_limits = flags->as_json = false;
    flags->listener.server_version = TUTTI_VERSION;
    opterr = 0;
    optind = 1;
    int flag, index = 0;
    while ((flag = getopt_long(argc, argv, "+:", options, &index)) != -1) {
        bool known = flag != ':' && flag != '?';
        int code = take_flag(flags, flag, known ? options[index].name : argv[optind - 1]);
        if (code >= 0)
            return code;
    }
    if (optind < argc)
        return tt_arguments_refuse("serve", "unexpected argument", argv[optind]);
    return check_flags(flags);
}

static void catch_signals(struct tt_listener *listener) {
    running = listener;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* What to type next: a question to the demo's smallest model, or what there is. */
static void suggest(struct tt_log *log, const struct flags *flags, const char *host, int port) {
    bool has_demo = false;
    for (int32_t i = 0; i < flags->control.repository_count; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof(path), "%s/mlp", flags->repositories[i]);
        has_demo = has_demo || (length < (int)sizeof(path) && access(path, F_OK) == 0);
    }
    if (has_demo)
        tt_log_write(log, TT_LOG_INFO, NULL,
                     "try: curl http://%s:%d/v2/models/mlp/infer -d '{\"inputs\":[{\"name\":"
                     "\"input\",\"shape\":[1,16],\"datatype\":\"FP32\",\"data\":[1,0,0,0,0,0,0,0,0,"
                     "0,0,0,0,0,0,0]}]}'",
                     host, port);
    else
        tt_log_write(log, TT_LOG_INFO, NULL, "try: curl -X POST http://%s:%d/v2/repository/index",
                     host, port);
}

static int serve(struct tt_control *control, const struct flags *flags) {
    struct tt_error why;
    struct tt_listener_options options = flags->listener;
    struct tt_trace_settings *trace;
    if (tt_trace_settings_new(&tt_trace_setting_default, &trace)) {
        fprintf(stderr, "tutti serve: out of memory\n");
        return 1;
    }
    struct tt_log *log = flags->listener.log;
    options.trace = trace;
    struct tt_listener *listener;
    enum tt_err err = tt_listener_open(tt_control_serving(control), &options, &listener, &why);
    if (err) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        tt_trace_settings_free(trace);
        return err == TT_ERR_NO_MEMORY ? 1 : 2;
    }
    catch_signals(listener);
    if (options.limits.connections < flags->asked_connections)
        tt_log_write(log, TT_LOG_WARNING, NULL,
                     "at most %lld connections, not %lld: the system allows no more open files "
                     "(ulimit -n)",
                     (long long)options.limits.connections, (long long)flags->asked_connections);
    tt_log_write(log, TT_LOG_INFO, NULL, "serving %d of %d models at http://%s:%d",
                 tt_control_ready_count(control), tt_control_model_count(control), options.host,
                 tt_listener_port(listener));
    suggest(log, flags, options.host, tt_listener_port(listener));
    tt_listener_run(listener);
    running = NULL;
    tt_listener_close(listener);
    tt_trace_settings_free(trace);
    tt_log_write(log, TT_LOG_INFO, NULL, "stopped");
    return 0;
}

static int open_and_serve(struct flags *flags) {
    struct tt_error why;
    struct tt_control *control;
    enum tt_err err = tt_control_open(&flags->control, &control, &why);
    if (err) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return err == TT_ERR_NOT_FOUND || err == TT_ERR_INVALID || err == TT_ERR_IO ? 2 : 1;
    }
    int code = serve(control, flags);
    tt_control_close(control);
    return code;
}

int tt_cmd_serve(int argc, char **argv) {
    struct tt_log log;
    tt_log_init(&log, STDERR_FILENO, false);
    struct flags flags = {.log = &log};
    int code = parse_flags(argc, argv, &flags);
    if (code >= 0)
        return code;
    flags.listener.log = &log;
    struct tt_error why;
    struct tt_recorder_options options = {.path = flags.record,
                                          .max_bytes = flags.record_bytes,
                                          .program = "tutti " TUTTI_VERSION,
                                          .say = say,
                                          .say_context = &log};
    if (flags.record && tt_recorder_open(&options, &flags.control.recorder, &why) != TT_OK) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return 2;
    }
    code = open_and_serve(&flags);
    if (tt_recorder_close(flags.control.recorder, &why) != TT_OK)
        tt_log_write(&log, TT_LOG_WARNING, NULL, "%s", why.text); /* what was served was served */
    tt_log_fini(&log);
    return code;
}
