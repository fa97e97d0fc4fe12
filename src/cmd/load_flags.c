#include "cmd/load_flags.h"

#include "cmd/verbs.h"
#include "lab/load/arrivals.h"

enum { MAX_REPEATS = 64 };

struct flags {
    struct tt_load_flags load;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "URL", load.url, false, "the server",
               .default_text = "http://127.0.0.1:8000"),
    TT_TEXT("token-file", "FILE", load.login.token_file, NULL,
            "file with the bearer token (default: TUTTI_TOKEN of the environment)"),
    TT_TEXT("tls-ca", "FILE", load.login.tls_ca, NULL,
            "certificates in PEM that sign those of https servers (default: those of the system)"),
    TT_HEADING("Models and arrivals"),
    TT_LIST("model", "NAME[:WEIGHT]", load.models, MAX_REPEATS,
            "a served model and its weight among the requests (default 1); may be repeated"),
    TT_TEXT("load", "FILE", load.experiment, NULL,
            "take models, load, deadlines, seed and times from an experiment file"),
    TT_LIST("map", "NAME=SERVED", load.maps, MAX_REPEATS,
            "the experiment's model NAME is served as SERVED; *=SERVED: all others; may be "
            "repeated"),
    TT_TEXT("arrivals", "FILE", load.arrivals, NULL,
            "send the requests of a CSV file, as experiments take it, instead of drawn ones"),
    TT_DECIMAL("rate", "R", load.rate, 0.001, 1e7, -1,
               "requests per second over all models (default 100)"),
    TT_CHOICE("process", load.process, "poisson|gamma|uniform", -1,
              "distribution of the arrivals; gamma needs --gamma-shape (default poisson)"),
    TT_DECIMAL("gamma-shape", "K", load.gamma_shape_ppm, 0.01, 1000, 0,
               "shape of the gamma distribution: 1 is poisson, less is burstier", .scale = 1000000),
    TT_DECIMAL("duration", "SECONDS", load.duration_s, 0.001, 1e6, -1,
               "how long requests are sent (default 10)"),
    TT_DECIMAL("warm-up", "SECONDS", load.warm_up_s, 0, 1e6, -1,
               "requests of the first seconds are sent but not counted (default 0)"),
    TT_INTEGER("requests", "N", load.requests, 1, INT64_C(1000000000000), -1,
               "end after N requests"),
    TT_INTEGER("seed", "N", load.seed, 0, INT64_MAX, -1, "seed of all random numbers (default 1)"),
    TT_INTEGER("concurrency", "N", load.concurrency, 1, 100000, 0,
               "closed loop: N clients, each of which waits for its response"),
    TT_HEADING("Requests"),
    TT_INTEGER("rows", "N", load.rows, 1, 65536, 0, "rows per request (default 1)"),
    TT_TEXT("length", "N|A-B|@FILE", load.length, NULL,
            "size of variable dimensions: fixed, drawn from a range, or drawn from the lines of a "
            "file"),
    TT_TEXT(
        "metadata", "FILE", load.metadata, NULL,
        "read the models' inputs from FILE, JSON as `GET /v2/models/NAME` answers, for a server "
        "that answers inferences only"),
    TT_LIST("shape", "[MODEL/]INPUT:DIMS", load.shapes, MAX_REPEATS,
            "dimensions of an input without the rows, such as 3,224,224; may be repeated"),
    TT_LIST("input-file", "[MODEL=]FILE", load.input_files, MAX_REPEATS,
            "send the inference requests of this file, one JSON object per line, in turn; without "
            "it, values are drawn; may be repeated"),
    TT_SWITCH("binary", load.json_body, "send tensors as binary data; this is the default",
              .clears = true),
    TT_SWITCH("json-body", load.json_body, "send tensors as JSON"),
    TT_LIST("slo-ms", "[MODEL=]MS", load.slos, MAX_REPEATS,
            "deadline after the intended send time; also sent as the request's `timeout`; may be "
            "repeated"),
    TT_INTEGER("timeout-us", "US", load.timeout_us, 0, INT64_C(1000000000000), -1,
               "send this `timeout` instead; 0: none"),
    TT_INTEGER("priority", "N", load.priority, 0, INT32_MAX, 0, "the request's `priority`"),
    TT_HEADING("Connections and results"),
    TT_INTEGER("connections", "N", load.connections, 1, 100000, 256,
               "maximum number of connections"),
    TT_INTEGER("give-up-ms", "MS", load.give_up_ms, 1, 3600000, 10000,
               "a request without a response is given up after this time"),
    TT_SWITCH("json", load.json, "print the report as JSON"),
    TT_TEXT("csv", "FILE", load.csv, NULL, "write one line per request"),
    TT_TEXT("svg", "FILE", load.svg, NULL, "write a chart of the latencies"),
    TT_TEXT("html", "FILE", load.html, NULL, "write the report as a page"),
    TT_DECIMAL("fail-bad-rate", "X", load.fail_bad_rate, 0, 1, -1,
               "exit with 1 if the share of bad requests is larger"),
    TT_SWITCH("yes-remote", load.yes_remote,
              "load a server on another machine; have its owner's consent: this verb drives "
              "servers to their limits"),
};

/* What excludes or needs another flag, as a sentence; NULL: nothing. */
static const char *conflict(const struct tt_load_flags *self) {
    bool drawn = self->rate >= 0 || self->process >= 0;
    if (!self->experiment && self->models.count == 0)
        return "no model is given: --model NAME or --load FILE is required";
    if (self->experiment && self->models.count)
        return "--model and --load exclude each other; --map names the served model for a model of "
               "the file";
    if (!self->experiment && self->maps.count)
        return "--map needs --load";
    if (self->experiment && (self->process >= 0 || self->rows))
        return "--process, --gamma-shape and --rows exclude --load: its file sets them";
    if (self->concurrency && (drawn || self->arrivals))
        return "--concurrency is a closed loop and excludes --rate, --process and --arrivals";
    if (self->arrivals && (drawn || self->duration_s >= 0))
        return "--arrivals sets the send times and excludes --rate, --process and --duration";
    if ((self->process == TT_PROCESS_GAMMA) != (self->gamma_shape_ppm > 0))
        return "--gamma-shape and --process gamma need each other";
    return NULL;
}

static int run(void *options) {
    const struct tt_load_flags *self = &((struct flags *)options)->load;
    const char *problem = conflict(self);
    return problem ? tt_flags_refuse(&tt_verb_load, "%s", problem) : tt_load_run(self);
}

const struct tt_verb tt_verb_load = {
    .name = "load",
    .summary = "load a server over HTTP and report goodput and latencies",
    .usage = "[URL] (--model NAME[:WEIGHT] ... | --load FILE) [OPTIONS]",
    .description =
        "Sends requests to a server that speaks KServe v2 over HTTP and reports goodput, bad rate, "
        "latencies and the reasons of failures. The load is an open loop: requests are sent at "
        "their intended times, whether earlier ones are answered or not. A latency counts from the "
        "intended time, so that a slow server cannot hide delays.",
    TT_VERB_RUNS(flag_rows, run)};
