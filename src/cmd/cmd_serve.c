/* tutti serve: serves a model repository over HTTP and gRPC until SIGTERM or SIGINT. */
#include "cmd/cluster_tls_flags.h"
#include "cmd/outcome.h"
#include "cmd/serve_access.h"
#include "cmd/serve_dashboard.h"
#include "cmd/serve_grpc.h"
#include "cmd/serve_ports.h"
#include "cmd/serve_role.h"
#include "cmd/serve_telemetry.h"
#include "cmd/verbs.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/log/line_file.h"
#include "base/log/log.h"
#include "base/memory_size.h"
#include "base/processors.h"
#include "control/control.h"
#include "control/processor_plan.h"
#include "net/access/address_limits.h"
#include "net/http/listener.h"
#include "net/kserve/shared_memory.h"
#include "net/sockets/socket_group.h"
#include "record/recorder.h"
#include "serve/domain.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ACCESS_LOG_BYTES = 1 << 20 }; /* of lines that are not written yet */
enum { HOUR_MS = 3600000, GRACE_MS = 5000 };
enum { GRPC_PORT = 8001, GRPC_DEFAULT = -1 }; /* the latter: the flag is not given */

enum isolate { ISOLATE_AUTO, ISOLATE_TRUE, ISOLATE_FALSE };
enum log_format { LOG_DEFAULT, LOG_ISO8601, LOG_JSON };

struct flags {
    struct tt_control_options control;
    struct tt_limits limits;
    struct tt_network_quotas quotas;
    struct tt_listener_options listener;
    struct tt_flag_list repositories, loads;
    int64_t asked_connections; /* before fit_connections() */
    int64_t grace_ms, record_bytes, log_verbose;
    int32_t log_format;    /* enum log_format */
    int32_t isolate_loads; /* enum isolate */
    int32_t grpc_tcp_port; /* GRPC_DEFAULT; 0: no gRPC */
    bool log_info, log_warning, log_error, shows_limits, as_json;
    const char *record;     /* NULL: no recording */
    const char *dashboard;  /* NULL: none */
    const char *access_log; /* NULL: none */
    bool dashboard_admin, shared_memory;
    bool is_stuck; /* something still runs; the process must end without freeing */
    struct tt_serve_access_flags access;
    struct tt_serve_role_flags role;
    struct tt_serve_telemetry_flags spans;
    struct tt_serve_telemetry telemetry;
};

/* On one processor a thread that watches keeps those it watches for from running. */
static bool take_busy_poll(void *options, char *text) {
    struct flags *self = options;
    int64_t *busy_poll_us = &self->listener.busy_poll_us;
    if (strcmp(text, "auto") != 0)
        return tt_flags_integer(text, 0, 1000000, busy_poll_us);
    *busy_poll_us = tt_processors_usable() > 1 ? -1 : 0;
    return true;
}

static const struct tt_flag_row flag_rows[] = {
    TT_HEADING("Models"),
    TT_LIST("model-repository", "DIR", repositories, 64,
            "a model repository (required); may be repeated"),
    TT_CHOICE("model-control-mode", control.mode, "none|poll|explicit", TT_CONTROL_NONE,
              "none: load every model once; poll: follow changes in the repository; explicit: load "
              "what --load-model and clients ask for",
              .any_case = true),
    TT_INTEGER("repository-poll-secs", "N", control.poll_ns, 1, 86400, 15,
               "seconds between two scans of the repository in mode poll", .scale = TT_S),
    TT_LIST("load-model", "NAME", loads, 256,
            "a model to load at start in mode explicit; * for all; may be repeated"),
    TT_CHOICE("isolate-loads", isolate_loads, "auto|true|false", ISOLATE_AUTO,
              "load and warm up each model in a process of its own first; one that crashes it, or "
              "exceeds --max-model-bytes or --max-load-ms, is not loaded; auto: in the modes "
              "explicit and poll"),
    TT_BOOL("strict-readiness", control.strict_readiness, true,
            "/v2/health/ready is 503 while a model that should serve does not; if false, only "
            "while no model serves"),
    TT_BOOL("exit-on-error", control.exit_on_error, false,
            "exit with 1 if a model cannot be loaded at start, instead of serving the others"),
    TT_SWITCH("measure-stale", control.loader.measure_stale,
              "measure models whose profile belongs to another model file or device, instead of "
              "refusing to serve them"),
    TT_SWITCH("strict-profile", control.loader.strict_profile,
              "refuse models whose profile was measured on another device, instead of measuring"),
    TT_SWITCH(
        "strict-gpu", control.loader.strict_gpu,
        "refuse models whose instance groups ask for a GPU (KIND_GPU, gpus), instead of running "
        "them on the CPU with a warning"),
    TT_TEXT("onnxruntime", "FILE", control.loader.onnxruntime, NULL,
            "the ONNX Runtime library (default: searched for)"),
    TT_TEXT("python", "FILE", control.loader.python, NULL,
            "the Python interpreter of models with backend python; it needs numpy (default: "
            "python3, in PATH)"),
    TT_HEADING("Network"),
    TT_TEXT("http-host", "HOST", listener.host, "127.0.0.1", "address to listen on"),
    TT_INTEGER("http-port", "PORT", listener.tcp_port, 0, 65535, 8000,
               "port to listen on; 0: any free port"),
    TT_INTEGER("grpc-port", "PORT", grpc_tcp_port, 0, 65535, GRPC_DEFAULT,
               "port to listen on for gRPC, at the same address; 0: no gRPC (default: 8001, or no "
               "gRPC if it is in use)"),
    TT_INTEGER("metrics-port", "PORT", listener.metrics_tcp_port, 0, 65535, 0,
               "second port that answers only /metrics (Triton's is 8002); 0: none"),
    TT_SWITCH("shared-memory", shared_memory,
              "let clients register objects of /dev/shm, by any name, and send tensors there"),
    TT_TEXT("dashboard", "[HOST:]PORT", dashboard, NULL,
            "serve a live page of the models there; without HOST on the loopback address only"),
    TT_SWITCH(
        "dashboard-admin", dashboard_admin,
        "let the live page load and unload models (mode explicit); every client that reaches its "
        "port can",
        .needs = "dashboard"),
    TT_INTEGER(
        "drain-ms", "MS", listener.drain_ms, 0, HOUR_MS, 0,
        "time after a signal to stop, during which /v2/health/ready is 503 and everything is still "
        "served; a second signal ends it"),
    TT_INTEGER("grace-ms", "MS", grace_ms, 0, HOUR_MS, GRACE_MS,
               "time to finish accepted requests after that"),
    TT_INTEGER(
        "connection-threads", "N", listener.threads, 1, TT_SOCKET_GROUP_MAX, 1,
        "threads that serve HTTP connections, and as many for gRPC; a connection stays on the "
        "thread with the fewest when it comes"),
    TT_CALL(
        "busy-poll-us", "auto|US", take_busy_poll, "auto, or a whole number from 0 to 1000000",
        "auto",
        "time for which these threads watch their connections before they sleep: a client with one "
        "request at a time gets its answers sooner, for processor time; a number: after a wait "
        "that was about as short; 0: never; auto: 50 while nearly all recent waits for clients "
        "were shorter, 200 while nearly all were even, and only if there are several processors",
        .choices = "auto"),
    TT_HEADING("Access"),
    TT_TEXT("tls-cert", "FILE", access.tls_cert, NULL,
            "certificate in PEM for HTTP and gRPC, then those that sign it; read again when it "
            "changes, and on SIGHUP"),
    TT_TEXT("tls-key", "FILE", access.tls_key, NULL, "its private key in PEM, without a password"),
    TT_TEXT("tls-client-ca", "FILE", access.tls_client_ca, NULL,
            "certificates in PEM; clients must have one that these signed"),
    TT_TEXT("tokens", "FILE", access.tokens, NULL,
            "clients of the server: lines of NAME ROLE SHA256, as `tutti token` prints them, with "
            "the role infer, read or admin; read again as --tls-cert is"),
    TT_TEXT("admin", "HOST:PORT|unix:PATH", access.admin, NULL,
            "an interface of its own for load, unload, settings and traces, which the other ports "
            "then refuse; the clients of a Unix socket need no token"),
    TT_SWITCH("insecure", access.insecure,
              "let other machines in without TLS and tokens: every client that reaches a port may "
              "use it"),
    TT_HEADING("Execution"),
    TT_INTEGER("executors", "N", control.loader.executors, 1, TT_DOMAIN_MAX_EXECUTORS, 0,
               "batches that may run at once per scheduling domain (default: number of "
               "processors)"),
    TT_INTEGER(
        "scheduler-threads", "N", control.scheduler_threads, 0, 64, 0,
        "scheduler threads of each domain whose policy is adaptive, deferred, eager, "
        "symphony or timeout, or of each pool with --role scheduler; of several, one ranks; 0: the "
        "server's thread decides"),
    TT_HEADING("Cluster"),
    TT_CHOICE("role", role.role, "one|frontend|scheduler|backend", TT_SERVE_ALONE,
              "what this process does in a cluster; one: all of it, without a network"),
    TT_TEXT("cluster", "SPEC", role.cluster, NULL,
            "the cluster: static:FILE, a file with a line per node, or etcd://HOST:PORT/NAME"),
    TT_TEXT("node", "NAME", role.node, NULL, "the name of this process in the cluster"),
    TT_TEXT("cluster-key", "FILE", role.key, NULL,
            "the key that all nodes share; required where addresses are not of the loopback"),
    TT_CLUSTER_TLS_FLAGS(role.tls),
    TT_SWITCH("emulated", role.emulated,
              "a backend's devices are emulated: batches take as long as profiles say"),
    TT_CHOICE("cluster-memory", role.memory, "auto|off|required", TT_SERVE_MEMORY_AUTO,
              "the way of tensors between a frontend and a backend of one host: memory where both "
              "run as one user, TCP only, or a frontend that is not ready while a linked backend "
              "shares none"),
    TT_CHOICE(
        "cluster-ucx", role.ucx, "off|on|emulated", TT_SERVE_UCX_OFF,
        "through UCX a backend reaches memory of frontends of other hosts, with RDMA; between "
        "two nodes whose lanes are not one-sided tensors take TCP, unless emulated is said"),
    TT_HEADING("Scaling"),
    TT_SERVE_SCALE_FLAGS(role.scale),
    TT_HEADING("Recording and log"),
    TT_TEXT("record", "FILE", record, NULL,
            "record the events and decisions of the policies, for `tutti replay`"),
    TT_INTEGER("record-max-bytes", "N", record_bytes, 4096, INT64_MAX / 2, 0,
               "end the recording before it grows beyond this (default: no limit)",
               .needs = "record"),
    TT_TEXT("access-log", "FILE", access_log, NULL,
            "append a line of JSON for each request; - for standard output; SIGHUP opens FILE "
            "again"),
    TT_TEXT("otlp", "URL", spans.otlp, NULL,
            "send the spans of inferences to the OTLP collector at http[s]://HOST[:PORT][/PATH] "
            "(default port 4318, default path /v1/traces), in JSON"),
    TT_DECIMAL(
        "trace-sample", "R", spans.sample, 0, 1, 1,
        "with --otlp: the share of inferences that are sampled where the client does not say "
        "it in traceparent",
        .scale = TT_TRACER_ALL, .needs = "otlp"),
    TT_CHOICE("log-format", log_format, "default|ISO8601|json", LOG_DEFAULT,
              "format of the log lines on standard error"),
    TT_INTEGER("log-verbose", "N", log_verbose, 0, 9, 0,
               "level of log lines about single requests; 0: none"),
    TT_BOOL("log-info", log_info, true, "log informational lines"),
    TT_BOOL("log-warning", log_warning, true, "log warnings"),
    TT_BOOL("log-error", log_error, true, "log errors"),
    TT_HEADING("Limits"),
    TT_SWITCH("show-limits", shows_limits, "print every limit and its value, and exit"),
    TT_SWITCH("json", as_json, "with --show-limits: print JSON", .needs = "show-limits"),
};

static bool limit_flag(int32_t index, struct tt_flag_row *out_flag) {
    if (index >= tt_limit_count())
        return false;
    const struct tt_limit *limit = tt_limit_at(index);
    *out_flag = (struct tt_flag_row){.type = TT_FLAG_INTEGER,
                                     .name = limit->name,
                                     .argument = "N",
                                     .help = limit->help,
                                     .unit = limit->unit,
                                     .offset = offsetof(struct flags, limits) + limit->offset,
                                     .size = sizeof(int64_t),
                                     .minimum = limit->lowest,
                                     .maximum = limit->highest,
                                     .default_value = limit->default_value};
    return true;
}

static struct tt_listener *volatile running;
static struct tt_serve_grpc *volatile running_grpc;
static struct tt_line_file *volatile access_lines; /* NULL: no access log */
static struct tt_serve_access *volatile running_access;
static struct tt_serve_role *volatile running_role;
static struct tt_serving *volatile serving_to_end; /* for the signal handler, as these: */
static int64_t grace_ms, drain_ms;
static volatile int64_t end_at; /* of the grace */
static volatile sig_atomic_t signal_count;

static void on_signal(int number) {
    (void)number;
    struct tt_listener *listener = running;
    struct tt_serving *serving = serving_to_end;
    int64_t wait_ms = signal_count++ > 0 ? grace_ms : drain_ms + grace_ms;
    end_at = tt_instant_add(tt_clock_now(), wait_ms * TT_MS);
    if (serving)
        tt_serving_hurry_at(serving, end_at);
    tt_serve_role_retire(running_role);
    tt_serve_grpc_stop(running_grpc, grace_ms);
    if (listener)
        tt_listener_stop(listener, grace_ms);
}

/* After a rotation of the access log, or a change of certificates or tokens. */
static void on_hangup(int number) {
    (void)number;
    struct tt_line_file *lines = access_lines;
    const struct tt_serve_access *access = running_access;
    if (lines)
        tt_line_file_reopen(lines);
    if (access)
        tt_serve_access_reload(access);
}

static void catch_hangup(void) {
    struct sigaction action = {.sa_handler = on_hangup};
    sigemptyset(&action.sa_mask);
    if (access_lines || running_access)
        sigaction(SIGHUP, &action, NULL);
}

static void say(void *context, enum tt_log_level level, const char *line) {
    tt_log_write(context, level, NULL, "%s", line);
}

struct shown {
    const char *name, *unit, *meaning;
    int64_t value, default_value, lowest, highest;
    bool by_processors;
};

static void show(const struct shown *row, bool as_json, int32_t processors) {
    if (as_json)
        printf(",\n {\"flag\": \"--%s\", \"value\": %lld, \"unit\": \"%s\", \"default\": %lld, "
               "\"lowest\": %lld, \"highest\": %lld, \"meaning\": \"%s\"}",
               row->name, (long long)row->value, row->unit, (long long)row->default_value,
               (long long)row->lowest, (long long)row->highest, row->meaning);
    else if (row->by_processors)
        printf("--%-20s %12lld %-5s  %s (%d processors)\n", row->name, (long long)row->value,
               row->unit, row->meaning, processors);
    else
        printf("--%-20s %12lld %-5s  %s\n", row->name, (long long)row->value, row->unit,
               row->meaning);
}

/* Those that are no struct tt_limits: threads, as the processors allow them, and the end. */
static void show_others(const struct flags *self) {
    int32_t processors = tt_processors_usable();
    struct tt_processor_plan plan =
        tt_processor_plan_of(processors, self->control.loader.executors);
    const struct shown rows[] = {
        {"executors", "", "batches at once per scheduling domain, each on one thread",
         plan.executors, tt_processor_plan_of(processors, 0).executors, 1, TT_DOMAIN_MAX_EXECUTORS,
         true},
        {"scheduler-threads", "", "threads of each domain that schedules on its own; 0: none",
         self->control.scheduler_threads, 0, 0, 64, true},
        {"connection-threads", "", "threads for HTTP, and as many for gRPC", self->listener.threads,
         1, 1, TT_SOCKET_GROUP_MAX, true},
        {"drain-ms", "ms",
         "time after a signal to stop in which everything is still served, and not ready",
         self->listener.drain_ms, 0, 0, HOUR_MS, false},
        {"grace-ms", "ms",
         "time to finish accepted requests after that; then they are given up, and the server ends",
         self->grace_ms, GRACE_MS, 0, HOUR_MS, false},
        {"record-max-bytes", "bytes",
         "a recording (--record) ends before it grows beyond this; 0: no limit", self->record_bytes,
         0, 0, INT64_MAX / 2, false},
    };
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        show(&rows[i], self->as_json, processors);
}

static void show_limits(struct flags *self) {
    struct tt_limits *limits = &self->limits;
    bool as_json = self->as_json;
    for (int32_t i = 0; i < tt_limit_count(); i++) {
        const struct tt_limit *limit = tt_limit_at(i);
        long long value = *tt_limit_of(limits, limit);
        if (as_json)
            printf("%s{\"flag\": \"--%s\", \"value\": %lld, \"unit\": \"%s\", \"default\": %lld, "
                   "\"lowest\": %lld, \"highest\": %lld, \"meaning\": \"%s\"}",
                   i ? ",\n " : "[", limit->name, value, limit->unit,
                   (long long)limit->default_value, (long long)limit->lowest,
                   (long long)limit->highest, limit->help);
        else
            printf("--%-20s %12lld %-5s  %s\n", limit->name, value, limit->unit, limit->help);
    }
    show_others(self);
    fputs(as_json ? "]\n" : "", stdout);
}

/* Raises the process's limit of file descriptors and lowers `connections` to what it allows: each
 * connection is a descriptor. */
static void fit_connections(struct tt_limits *limits, int32_t threads) {
    enum {
        OTHERS = 128,   /* descriptors of model files, the event loop, standard error */
        PER_THREAD = 16 /* of the loops for HTTP and gRPC */
    };
    int64_t others = OTHERS + (int64_t)PER_THREAD * (threads - 1);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 && getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur == RLIM_INFINITY)
        return;
    int64_t room = (int64_t)files.rlim_cur > 2 * others ? (int64_t)files.rlim_cur - others
                                                        : (int64_t)files.rlim_cur / 2;
    if (limits->connections > room)
        limits->connections = room;
}

/* The port of gRPC that is not asked for gives way, as it does to other programs. */
static enum tt_err check_ports(struct flags *self, struct tt_log *log, struct tt_error *why) {
    enum { COUNT = 5 }; /* gRPC comes last */
    const char *host = self->listener.host;
    struct tt_serve_address admin = {.tcp_port = 0}, dashboard = {.tcp_port = 0};
    enum tt_err err = TT_OK;
    if (self->access.admin)
        err = tt_serve_address_read("admin", self->access.admin, true, &admin, why);
    if (!err && self->dashboard)
        err = tt_serve_address_read("dashboard", self->dashboard, false, &dashboard, why);
    if (err)
        return err;
    bool is_default = self->grpc_tcp_port == GRPC_DEFAULT;
    const struct tt_serve_port ports[COUNT] = {
        {"http-port", host, self->listener.tcp_port},
        {"metrics-port", host, self->listener.metrics_tcp_port},
        {"dashboard", dashboard.host, dashboard.tcp_port},
        {"admin", admin.host, admin.tcp_port},
        {"grpc-port", host, is_default ? GRPC_PORT : self->grpc_tcp_port}};
    err = tt_serve_ports_check(ports, COUNT - 1, why);
    if (err || tt_serve_ports_check(ports, COUNT, why) == TT_OK)
        return err;
    if (!is_default)
        return TT_ERR_INVALID;
    self->grpc_tcp_port = 0;
    tt_log_write(log, TT_LOG_WARNING, NULL,
                 "no gRPC: another flag has its port, %d; give --grpc-port", GRPC_PORT);
    return TT_OK;
}

/* -1: go on; else the exit code. */
static int check_flags(struct flags *self, struct tt_log *log) {
    struct tt_control_options *control = &self->control;
    tt_limits_fit(&self->limits, tt_memory_usable());
    if (self->isolate_loads == ISOLATE_TRUE ||
        (self->isolate_loads == ISOLATE_AUTO && control->mode != TT_CONTROL_NONE))
        control->trial_program = "/proc/self/exe";
    control->loader.max_model_bytes = self->limits.model_bytes;
    control->loader.max_models_bytes = self->limits.models_bytes;
    if (self->shows_limits) {
        show_limits(self);
        return EXIT_DONE;
    }
    if (self->repositories.count == 0)
        return tt_flags_refuse(&tt_verb_serve, "--model-repository DIR is required");
    if (self->loads.count > 0 && control->mode != TT_CONTROL_EXPLICIT)
        return tt_flags_refuse(&tt_verb_serve, "--load-model needs --model-control-mode explicit");
    struct tt_error why;
    if (self->dashboard && tt_serve_dashboard_check(self->dashboard, &why) != TT_OK)
        return tt_flags_refuse(&tt_verb_serve, "%s", why.text);
    if (tt_serve_access_check(&self->access, self->listener.host, self->dashboard, &why) != TT_OK)
        return tt_flags_refuse(&tt_verb_serve, "%s", why.text);
    if (check_ports(self, log, &why) != TT_OK)
        return tt_flags_refuse(&tt_verb_serve, "%s", why.text);
    if (control->loader.strict_profile && control->loader.measure_stale)
        return tt_flags_refuse(&tt_verb_serve,
                               "--strict-profile and --measure-stale exclude each other");
    control->load = self->loads.texts;
    control->load_count = self->loads.count;
    if (tt_serve_role_check(&self->role, control, &why) != TT_OK)
        return tt_flags_refuse(&tt_verb_serve, "%s", why.text);
    self->asked_connections = self->limits.connections;
    fit_connections(&self->limits, self->listener.threads);
    control->loader.executors =
        tt_processor_plan_of(tt_processors_usable(), control->loader.executors).executors;
    control->loader.say = say;
    control->loader.say_context = log;
    control->repositories = self->repositories.texts;
    control->repository_count = self->repositories.count;
    control->limits = &self->limits;
    self->listener.limits = self->limits;
    tt_network_quotas_init(&self->quotas, &self->limits);
    self->listener.quotas = &self->quotas;
    self->listener.server_version = TUTTI_VERSION;
    self->listener.log = log;
    grace_ms = self->grace_ms;
    drain_ms = self->listener.drain_ms;
    return -1;
}

static void set_log(const struct flags *self, struct tt_log *log) {
    tt_log_settings_set_iso8601(&log->settings, self->log_format == LOG_ISO8601);
    log->is_json = self->log_format == LOG_JSON;
    tt_log_settings_set_verbose(&log->settings, (uint32_t)self->log_verbose);
    tt_log_settings_switch(&log->settings, TT_LOG_INFO, self->log_info);
    tt_log_settings_switch(&log->settings, TT_LOG_WARNING, self->log_warning);
    tt_log_settings_switch(&log->settings, TT_LOG_ERROR, self->log_error);
}

static void catch_signals(struct tt_serving *serving, struct tt_listener *listener,
                          struct tt_serve_grpc *grpc) {
    serving_to_end = serving;
    running = listener;
    running_grpc = grpc;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* Logs a first request to try: to the demo's smallest model if it is there. */
static void suggest(struct tt_log *log, const struct flags *self, const char *host, int port) {
    bool has_demo = false;
    if (self->access.tls_cert || self->access.tokens) {
        tt_log_write(log, TT_LOG_INFO, NULL, "try: curl %s%shttp%s://%s:%d/v2",
                     self->access.tls_cert ? "--cacert FILE " : "",
                     self->access.tokens ? "-H 'Authorization: Bearer TOKEN' " : "",
                     self->access.tls_cert ? "s" : "", host, port);
        return;
    }
    for (int32_t i = 0; i < self->repositories.count; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof(path), "%s/mlp", self->repositories.texts[i]);
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

/* What `tutti serve` listens with; NULL: not asked for. */
struct listeners {
    struct tt_serve_grpc *grpc;
    struct tt_listener *http;
    struct tt_serve_dashboard *dashboard;
    struct tt_shared_memory *memory;
    struct tt_address_limits *addresses;
    struct tt_serve_access *access; /* borrowed; its admin interface */
};

static enum tt_err open_grpc(struct listeners *out, struct flags *self, struct tt_serving *serving,
                             struct tt_listener_options *http, struct tt_error *why) {
    bool is_default = self->grpc_tcp_port == GRPC_DEFAULT;
    const struct tt_grpc_listener_options options = {
        .host = http->host,
        .tcp_port = is_default ? GRPC_PORT : self->grpc_tcp_port,
        .threads = http->threads,
        .busy_poll_us = http->busy_poll_us,
        .quotas = http->quotas,
        .addresses = http->addresses,
        .server_version = http->server_version,
        .drain_ms = http->drain_ms,
        .log = http->log,
        .access_lines = http->access_lines,
        .tracer = http->tracer,
        .first_writer = tt_serve_writer(TT_SERVE_WRITER_GRPC, http->threads),
        .tls = http->tls,
        .access = http->access,
        .memory = http->memory,
        .limits = http->limits};
    if (!options.tcp_port)
        return TT_OK;
    enum tt_err err = tt_serve_grpc_open(serving, &options, &out->grpc, why);
    if (err == TT_ERR_IO && is_default) {
        tt_log_write(http->log, TT_LOG_WARNING, NULL, "no gRPC: %s", why->text);
        return TT_OK;
    }
    if (!err)
        self->telemetry.grpc =
            (struct tt_serve_metrics){tt_grpc_listener_metrics, tt_serve_grpc_listener(out->grpc)};
    return err;
}

static void close_listeners(struct listeners *self, bool was_stopped) {
    tt_serve_dashboard_close(self->dashboard);
    tt_serve_access_close_admin(self->access);
    tt_listener_close(self->http);
    tt_serve_grpc_close(self->grpc, was_stopped);
    tt_shared_memory_free(self->memory);
    tt_address_limits_free(self->addresses);
}

static enum tt_err open_listeners(struct listeners *out, struct flags *self,
                                  struct tt_serving *serving, struct tt_serve_access *access,
                                  struct tt_error *why) {
    struct tt_listener_options options = self->listener;
    *out = (struct listeners){.access = access};
    options.tls = tt_serve_access_tls(access);
    options.access = &access->control;
    enum tt_err err = TT_OK;
    if (self->shared_memory && !(out->memory = tt_shared_memory_new()))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the server");
    if (!err && (self->limits.per_address || self->limits.bytes_per_address) &&
        !(out->addresses =
              tt_address_limits_new(self->limits.per_address, self->limits.bytes_per_address)))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the server");
    options.memory = out->memory;
    options.addresses = out->addresses;
    options.more_metrics = tt_serve_telemetry_metrics;
    options.more_metrics_context = &self->telemetry;
    if (!err)
        err = open_grpc(out, self, serving, &options, why);
    if (!err)
        err = tt_listener_open(serving, &options, &out->http, why);
    options.more_metrics = NULL; /* these are not of the live page's port */
    if (!err && self->dashboard)
        err = tt_serve_dashboard_open(self->dashboard, self->dashboard_admin, serving, &options,
                                      &out->dashboard, why);
    if (!err)
        err = tt_serve_access_open_admin(access, serving, &options, why);
    if (err)
        close_listeners(out, false);
    return err;
}

static int serve(struct tt_control *control, struct flags *self, struct tt_serve_access *access,
                 struct tt_serve_role *role) {
    struct tt_error why;
    const struct tt_listener_options *options = &self->listener;
    struct tt_log *log = options->log;
    struct listeners listeners;
    if (role)
        self->telemetry.cluster = (struct tt_serve_metrics){tt_serve_role_metrics, role};
    enum tt_err err = open_listeners(&listeners, self, tt_control_serving(control), access, &why);
    if (err) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return err == TT_ERR_NO_MEMORY ? 1 : 2;
    }
    running_role = role;
    catch_signals(tt_control_serving(control), listeners.http, listeners.grpc);
    if (options->limits.connections < self->asked_connections)
        tt_log_write(
            log, TT_LOG_WARNING, NULL,
            "at most %lld connections instead of %lld: the system allows no more open files "
            "(ulimit -n)",
            (long long)options->limits.connections, (long long)self->asked_connections);
    const struct tt_serve_url_host host = tt_serve_url_host(options->host);
    tt_log_write(log, TT_LOG_INFO, NULL, "serving %d of %d models at http%s://%s:%d",
                 tt_control_ready_count(control), tt_control_model_count(control),
                 access->has_tls ? "s" : "", host.text, tt_listener_tcp_port(listeners.http));
    if (listeners.grpc)
        tt_log_write(log, TT_LOG_INFO, NULL, "gRPC at %s:%d", host.text,
                     tt_grpc_listener_tcp_port(tt_serve_grpc_listener(listeners.grpc)));
    tt_serve_role_listens(role, options->host, tt_listener_tcp_port(listeners.http));
    suggest(log, self, host.text, tt_listener_tcp_port(listeners.http));
    tt_listener_run(listeners.http);
    running_role = NULL;
    running = NULL;
    running_grpc = NULL;
    close_listeners(&listeners, true);
    serving_to_end = NULL;
    tt_log_write(log, TT_LOG_INFO, NULL, "stopped");
    return 0;
}

static int exit_code_of(enum tt_err err) {
    return err == TT_ERR_NOT_FOUND || err == TT_ERR_INVALID || err == TT_ERR_IO ? EXIT_USAGE
                                                                                : EXIT_FAILED;
}

static int open_and_serve(struct flags *self, struct tt_serve_access *access) {
    struct tt_error why;
    struct tt_control *control = NULL;
    struct tt_serve_role *role = NULL;
    enum tt_err err = tt_listener_check(&self->listener, &why); /* models take longer to load */
    if (!err && self->grpc_tcp_port > 0)
        err = tt_serve_grpc_check(self->listener.host, self->grpc_tcp_port, &why);
    if (!err)
        err = tt_serve_role_new(&self->role, &self->control, &self->limits, &role, &why);
    if (!err)
        err = tt_control_open(&self->control, &control, &why);
    if (!err)
        err = tt_serve_role_join(role, tt_control_serving(control), self->listener.log, &why);
    int code = err ? exit_code_of(err) : serve(control, self, access, role);
    if (err)
        fprintf(stderr, "tutti serve: %s\n", why.text);
    tt_serve_role_leave(role);
    /* A load that is under way gets the rest of the grace, if there was a signal. */
    int64_t until_at =
        end_at ? tt_instant_max(end_at, tt_instant_add(tt_clock_now(), TT_S)) : TT_NEVER;
    self->is_stuck = control && !tt_control_stop(control, until_at);
    if (self->is_stuck)
        return code;
    tt_control_close(control);
    tt_serve_role_free(role);
    return code;
}

static int serve_with_telemetry(struct flags *self, struct tt_serve_access *access,
                                struct tt_log *log) {
    struct tt_error why;
    int32_t writers = tt_serve_writer(TT_SERVE_WRITERS, self->listener.threads);
    if (tt_serve_telemetry_open(&self->telemetry, &self->spans, writers, log, &why) != TT_OK) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return EXIT_USAGE;
    }
    self->listener.tracer = tt_serve_telemetry_tracer(&self->telemetry);
    int code = open_and_serve(self, access);
    tt_serve_telemetry_close(&self->telemetry);
    return code;
}

static int serve_with_access(struct flags *self, struct tt_log *log) {
    static struct tt_serve_access access; /* the signal handler reads it */
    struct tt_error why;
    if (tt_serve_access_open(&access, &self->access, log, &why) != TT_OK) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return EXIT_USAGE;
    }
    if (self->access.tls_cert || self->access.tokens)
        running_access = &access;
    catch_hangup();
    int code = serve_with_telemetry(self, &access, log);
    running_access = NULL;
    tt_serve_access_close(&access);
    return code;
}

static int serve_with_access_log(struct flags *self, struct tt_log *log) {
    struct tt_error why;
    struct tt_line_file *lines = NULL;
    struct tt_line_file_options options = {
        .path = self->access_log,
        .name = "the access log",
        .room_bytes = ACCESS_LOG_BYTES,
        .writers = tt_serve_writer(TT_SERVE_WRITERS, self->listener.threads),
        .say = say,
        .say_context = log};
    if (self->access_log && tt_line_file_open(&options, &lines, &why) != TT_OK) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return EXIT_USAGE;
    }
    self->listener.access_lines = access_lines = lines;
    int code = serve_with_access(self, log);
    access_lines = NULL;
    tt_line_file_close(lines);
    return code;
}

static int run(void *options) {
    static struct tt_log log; /* `options` keeps a pointer to it */
    struct flags *self = options;
    tt_log_init(&log, STDERR_FILENO, false);
    set_log(self, &log);
    int code = check_flags(self, &log);
    if (code >= 0)
        return code;
    struct tt_error why;
    struct tt_recorder_options recorder = {.path = self->record,
                                           .max_bytes = self->record_bytes,
                                           .program = "tutti " TUTTI_VERSION,
                                           .say = say,
                                           .say_context = &log};
    if (self->record && tt_recorder_open(&recorder, &self->control.recorder, &why) != TT_OK) {
        fprintf(stderr, "tutti serve: %s\n", why.text);
        return EXIT_USAGE;
    }
    code = serve_with_access_log(self, &log);
    if (tt_recorder_close(self->control.recorder, &why) != TT_OK)
        tt_log_write(&log, TT_LOG_WARNING, NULL, "%s", why.text); /* the requests were served */
    tt_log_fini(&log);
    if (self->is_stuck)
        _exit(code); /* threads that cannot be joined would use what exit() takes apart */
    return code;
}

const struct tt_verb tt_verb_serve = {
    .name = "serve",
    .summary = "serve a model repository over HTTP and gRPC",
    .usage = "--model-repository DIR [OPTIONS]",
    .description =
        "Serves every model of the repository (Triton's layout) over HTTP and gRPC by the Open "
        "Inference Protocol (KServe v2). On SIGTERM or SIGINT the server finishes the accepted "
        "requests and "
        "exits with 0.",
    .options_bytes = sizeof(struct flags),
    .flags = flag_rows,
    .flag_count = TT_COUNT(flag_rows),
    .extra_flag = limit_flag,
    .run = run};
