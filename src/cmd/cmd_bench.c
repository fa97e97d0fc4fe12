/* tutti bench scheduler: measures how fast the scheduler is on this machine. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/instant.h"
#include "lab/bench/scheduler_bench.h"
#include "multicore/multicore.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEARCH_STEPS = 7 };

struct flags {
    struct tt_scheduler_bench bench;
    struct tt_flag_pairs options;
    double rate_share; /* of the devices' capacity; 0: not given */
    int32_t part;
    bool search, json;
};

/* ---- flags ---- */

static bool take_rate(void *options, char *text) {
    struct flags *self = options;
    size_t length = strlen(text);
    self->search = strcmp(text, "max") == 0;
    self->rate_share = 0;
    if (self->search)
        return true;
    if (length > 1 && text[length - 1] == '%') {
        char number[32];
        snprintf(number, sizeof(number), "%.*s", (int)length - 1, text);
        bool taken =
            length <= sizeof(number) && tt_flags_decimal(number, 0.001, 1000, &self->rate_share);
        self->rate_share /= 100;
        return taken;
    }
    return tt_flags_integer(text, 1, 1000000000, &self->bench.rate_per_s);
}

static bool take_profile(void *options, char *text) {
    struct tt_scheduler_bench *bench = &((struct flags *)options)->bench;
    double alpha_ms, beta_ms;
    char extra;
    if (sscanf(text, "%lf,%lf%c", &alpha_ms, &beta_ms, &extra) != 2)
        return false;
    if (!(alpha_ms >= 0 && alpha_ms <= 1e6 && beta_ms >= 0 && beta_ms <= 1e6 &&
          alpha_ms + beta_ms >= 1e-3))
        return false;
    bench->alpha_ns = llround(alpha_ms * 1e6);
    bench->beta_ns = llround(beta_ms * 1e6);
    return true;
}

static bool take_preset(void *options, char *text) {
    struct tt_scheduler_bench *bench = &((struct flags *)options)->bench;
    bool light = strcmp(text, "light") == 0;
    if (!light && strcmp(text, "symphony") != 0)
        return false;
    char rate[] = "4000000", share[] = "90%";
    bench->models = 20;
    bench->devices = 1000;
    bench->alpha_ns = light ? 100 * TT_US : 1082 * TT_US;
    bench->beta_ns = light ? 5 * TT_MS : 5204 * TT_US;
    bench->slo_ns = light ? 50 * TT_MS : 100 * TT_MS;
    return take_rate(options, light ? rate : share);
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_CHOICE, "PART", part, true, "scheduler is the only part",
               .choices = "scheduler", .default_value = -1),
    TT_HEADING("Workload"),
    TT_CALL("preset", "light|symphony", take_preset, "light or symphony", NULL,
            "20 models and 1000 devices; light: l(b) = 0.1 b + 5 ms, SLO 50 ms, 4000000 requests "
            "per second; symphony: l(b) = 1.082 b + 5.204 ms, SLO 100 ms, 90 % of the devices' "
            "capacity; later flags win (default light)",
            .choices = "light|symphony"),
    TT_INTEGER("models", "N", bench.models, 1, TT_MULTICORE_MAX_MODELS, 20, "number of models"),
    TT_INTEGER("devices", "N", bench.devices, 1, 1000000, 1000, "number of emulated devices"),
    TT_CALL("rate", "R|P%|max", take_rate,
            "requests per second from 1 to 1000000000, a percentage such as 90%, or max", "4000000",
            "requests per second; or a share of the devices' capacity; or max: search the highest "
            "rate that holds",
            .choices = "max"),
    TT_CHOICE("popularity", bench.zipf, "equal|zipf", 0,
              "shares of the models; zipf has exponent 0.9"),
    TT_CALL("profile", "A,B", take_profile, "A,B in milliseconds, such as 0.1,5", "0.1,5",
            "l(b) = A b + B milliseconds"),
    TT_INTEGER("max-batch", "N", bench.max_batch, 1, TT_PROFILE_MAX_BATCH, 1024,
               "maximum batch size"),
    TT_DECIMAL("slo-ms", "MS", bench.slo_ns, 0.01, 3600000, 50, "deadline after arrival",
               .scale = TT_MS),
    TT_INTEGER("seed", "N", bench.seed, 0, INT64_MAX, 1, "seed of the arrivals"),
    TT_HEADING("Scheduler"),
    TT_INTEGER("model-threads", "N", bench.model_threads, 0, TT_MULTICORE_MAX_THREADS, 1,
               "threads that own models, besides one that ranks; 0: one thread for all"),
    TT_TEXT("policy", "NAME", bench.policy, "deferred",
            "adaptive, deferred, eager, symphony or timeout",
            .choices = "adaptive|deferred|eager|symphony|timeout"),
    TT_PAIRS("option", "KEY=VALUE", options, TT_MAX_OPTIONS,
             "an option of the policy; may be repeated"),
    TT_INTEGER("margin-us", "US", bench.margin_ns, 0, 1000000, -1,
               "deadlines are earlier by this for the scheduler (default 1000; with --clock "
               "virtual 0)",
               .scale = TT_US),
    TT_INTEGER("rest-us", "US", bench.rest_ns, 0, 1000000, -1,
               "pause of the threads between turns (default: a 250th of the SLO)", .scale = TT_US),
    TT_INTEGER("spin-us", "US", bench.spin_ns, 0, 1000000, -1,
               "how early threads wake before a due instant (default 0; one thread for all: 20)",
               .scale = TT_US),
    TT_HEADING("Measurement"),
    TT_DECIMAL("seconds", "SECONDS", bench.duration_ns, 1e-9, 3600, 2, "measured time",
               .scale = TT_S),
    TT_DECIMAL("warm-up", "SECONDS", bench.warm_up_ns, 0, 3600, 1, "time before the measurement",
               .scale = TT_S),
    TT_CHOICE("clock", bench.virtual_time, "real|virtual", 0,
              "virtual: one thread, as fast as it can, always punctual"),
    TT_SWITCH("json", json, "print the result as JSON"),
};

/* Defaults that depend on other flags. -1: go on; else the exit code. */
static int complete_flags(struct flags *self) {
    struct tt_scheduler_bench *bench = &self->bench;
    bench->options = self->options.pairs;
    bench->option_count = self->options.count;
    if (bench->virtual_time)
        bench->model_threads = 0;
    if (bench->margin_ns < 0)
        bench->margin_ns = bench->virtual_time ? 0 : TT_MS;
    if (bench->rest_ns < 0)
        bench->rest_ns = bench->slo_ns / 250;
    if (bench->spin_ns < 0)
        bench->spin_ns = bench->model_threads == 0 ? 20 * TT_US : 0;
    if (bench->slo_ns <= bench->margin_ns)
        return tt_flags_refuse(&tt_verb_bench, "--slo-ms must be longer than --margin-us");
    return -1;
}

/* ---- reporting ---- */

static bool holds(const struct tt_scheduler_bench_result *result) {
    return result->lost == 0 && tt_scheduler_bench_bad_rate(result) <= 0.01;
}

static double per_request(int64_t ns, const struct tt_scheduler_bench_result *result) {
    return result->offered ? (double)ns / (double)result->offered : 0;
}

static double per_second(int64_t count, const struct tt_scheduler_bench *bench) {
    return (double)count / ((double)bench->duration_ns / 1e9);
}

static json_t *quantiles_json(const struct tt_histogram *histogram) {
    return json_pack("{s:I,s:I,s:I,s:I,s:I}", "mean", (json_int_t)tt_histogram_mean(histogram),
                     "p50", (json_int_t)tt_histogram_quantile(histogram, 50, 100), "p99",
                     (json_int_t)tt_histogram_quantile(histogram, 99, 100), "p999",
                     (json_int_t)tt_histogram_quantile(histogram, 999, 1000), "max",
                     (json_int_t)(histogram->count ? histogram->maximum : 0));
}

static void print_json(const struct tt_scheduler_bench *bench,
                       const struct tt_scheduler_bench_result *r) {
    json_t *dropped = json_object();
    for (int32_t reason = TT_DROP_NONE + 1; reason <= TT_DROP_WITHDRAWN; reason++)
        json_object_set_new(dropped, tt_drop_reason_name((enum tt_drop_reason)reason),
                            json_integer(r->dropped[reason]));
    double good = per_second(r->in_time, bench);
    json_t *root = json_pack(
        "{s:s,s:i,s:i,s:i,s:s,s:s,s:f,s:f,s:f,s:f,s:b,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:o,s:I,s:I}",
        "bench", "scheduler", "models", bench->models, "devices", bench->devices, "model_threads",
        bench->model_threads, "policy", bench->policy, "clock",
        bench->virtual_time ? "virtual" : "real", "offered_per_second",
        per_second(r->offered, bench), "good_per_second", good, "useful_per_second",
        holds(r) ? good : 0.0, "bad_rate", tt_scheduler_bench_bad_rate(r), "holds", holds(r),
        "capacity_per_second", r->capacity_per_s, "device_share", r->device_share,
        "cpu_ns_per_request", per_request(r->model_cpu_ns + r->rank_cpu_ns, r),
        "model_thread_cpu_ns_per_request", per_request(r->model_cpu_ns, r),
        "rank_thread_cpu_ns_per_request", per_request(r->rank_cpu_ns, r), "offered",
        (json_int_t)r->offered, "in_time", (json_int_t)r->in_time, "late", (json_int_t)r->late,
        "dropped", dropped, "lost", (json_int_t)r->lost, "ring_full", (json_int_t)r->ring_full);
    json_t *more =
        json_pack("{s:f,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o}", "generator_cpu_ns_per_request",
                  per_request(r->generator_cpu_ns, r), "lateness_p99_ns",
                  (json_int_t)tt_histogram_quantile(&r->late_ns, 99, 100), "model_turns",
                  (json_int_t)r->model_turns, "rank_turns", (json_int_t)r->rank_turns, "grants",
                  (json_int_t)r->grants, "grants_refused", (json_int_t)r->refused, "lateness_ns",
                  quantiles_json(&r->late_ns), "batch_rows", quantiles_json(&r->batch_rows),
                  "queued", quantiles_json(&r->queued), "intake_ns", quantiles_json(&r->intake_ns),
                  "generator_lag_ns", quantiles_json(&r->generator_lag_ns));
    json_object_update(root, more);
    json_decref(more);
    json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    putchar('\n');
    json_decref(root);
}

static void print_quantiles(const char *name, const struct tt_histogram *h, double unit) {
    printf("  %-34s mean %.1f  p50 %.1f  p99 %.1f  max %.1f\n", name,
           (double)tt_histogram_mean(h) / unit, (double)tt_histogram_quantile(h, 50, 100) / unit,
           (double)tt_histogram_quantile(h, 99, 100) / unit,
           (double)(h->count ? h->maximum : 0) / unit);
}

static void print_table(const struct tt_scheduler_bench *bench,
                        const struct tt_scheduler_bench_result *r) {
    printf("scheduler: %d models, %d devices, l(b) = %g b + %g ms, SLO %g ms, %s, ", bench->models,
           bench->devices, (double)bench->alpha_ns / 1e6, (double)bench->beta_ns / 1e6,
           (double)bench->slo_ns / 1e6, bench->policy);
    if (bench->virtual_time)
        printf("virtual time\n");
    else if (bench->model_threads == 0)
        printf("one thread\n");
    else
        printf("%d model thread%s + 1 rank thread\n", bench->model_threads,
               bench->model_threads > 1 ? "s" : "");
    printf("  offered          %12.0f r/s   (the devices carry %.0f if evenly loaded)\n",
           per_second(r->offered, bench), r->capacity_per_s);
    printf("  in time          %12.0f r/s   bad %.3f %%: late %lld, dropped %lld + %lld early + "
           "%lld queue full, lost %lld\n",
           per_second(r->in_time, bench), 100 * tt_scheduler_bench_bad_rate(r), (long long)r->late,
           (long long)r->dropped[TT_DROP_DEADLINE], (long long)r->dropped[TT_DROP_EARLY],
           (long long)r->dropped[TT_DROP_QUEUE_FULL], (long long)r->lost);
    printf(
        "  CPU per request  %12.1f ns    model threads %.1f, rank thread %.1f (generator: %.1f)\n",
        per_request(r->model_cpu_ns + r->rank_cpu_ns, r), per_request(r->model_cpu_ns, r),
        per_request(r->rank_cpu_ns, r), per_request(r->generator_cpu_ns, r));
    print_quantiles("lateness of dispatch, us", &r->late_ns, 1e3);
    print_quantiles("arrival until seen, us", &r->intake_ns, 1e3);
    print_quantiles("generator behind, us", &r->generator_lag_ns, 1e3);
    print_quantiles("batch, rows", &r->batch_rows, 1);
    print_quantiles("queued, requests", &r->queued, 1);
    printf("  devices busy %.1f %%; turns %lld + %lld, grants %lld (%lld for nothing), ring full "
           "%lld\n",
           100 * r->device_share, (long long)r->model_turns, (long long)r->rank_turns,
           (long long)r->grants, (long long)r->refused, (long long)r->ring_full);
}

/* ---- running ---- */

/* Doubles the rate until one does not hold, then bisects by ratio. Keeps the best run's result. */
static enum tt_err search(struct tt_scheduler_bench *bench, double capacity,
                          struct tt_scheduler_bench_result *out_best, struct tt_error *why) {
    double low = 0, high = capacity, rate = capacity / 16;
    struct tt_scheduler_bench_result best = {0};
    for (int32_t i = 0; i < SEARCH_STEPS && !tt_interrupted; i++) {
        struct tt_scheduler_bench_result result;
        bench->rate_per_s = llround(rate < 1 ? 1 : rate);
        enum tt_err err = tt_scheduler_bench_run(bench, &tt_interrupted, &result, why);
        if (err) {
            tt_scheduler_bench_result_fini(&best);
            return err;
        }
        fprintf(stderr, "tutti bench: %.0f r/s: bad %.3f %%\n", rate,
                100 * tt_scheduler_bench_bad_rate(&result));
        bool held = holds(&result) && !result.interrupted;
        if (held)
            low = rate;
        else
            high = rate;
        if (held || best.offered == 0) {
            tt_scheduler_bench_result_fini(&best);
            best = result;
        } else {
            tt_scheduler_bench_result_fini(&result);
        }
        rate = low == 0 ? rate / 4 : low * 2 < high ? low * 2 : sqrt(low * high);
    }
    *out_best = best;
    return TT_OK;
}

static int judge(const struct flags *self, const struct tt_scheduler_bench_result *r) {
    if (tt_interrupted)
        return EXIT_INTERRUPTED;
    if (r->lost != 0) {
        fprintf(stderr, "tutti bench: %lld requests got no response\n", (long long)r->lost);
        return 1;
    }
    if (holds(r))
        return 0;
    double offered = per_second(r->offered, &self->bench);
    if (!self->search && offered > r->capacity_per_s) {
        fprintf(stderr, "tutti bench: %.0f r/s exceed the capacity of the devices, %.0f r/s\n",
                offered, r->capacity_per_s);
        return 0;
    }
    fprintf(stderr, "tutti bench: %.2f %% missed their deadlines; at most 1 %% may\n",
            100 * tt_scheduler_bench_bad_rate(r));
    return 1;
}

static int bench_scheduler(struct flags *self) {
    struct tt_error why;
    struct tt_scheduler_bench_result result;
    double capacity;
    enum tt_err err = tt_scheduler_bench_capacity(&self->bench, &capacity, &why);
    if (!err && self->rate_share > 0)
        self->bench.rate_per_s = llround(capacity * self->rate_share);
    if (!err && self->bench.rate_per_s < 1)
        self->bench.rate_per_s = 1;
    if (!err)
        err = self->search ? search(&self->bench, capacity, &result, &why)
                           : tt_scheduler_bench_run(&self->bench, &tt_interrupted, &result, &why);
    if (err) {
        fprintf(stderr, "tutti bench: %s\n", why.text);
        return err == TT_ERR_NO_MEMORY || err == TT_ERR_IO ? 1 : 2;
    }
    if (self->json)
        print_json(&self->bench, &result);
    else
        print_table(&self->bench, &result);
    int code = judge(self, &result);
    tt_scheduler_bench_result_fini(&result);
    return code;
}

static int run(void *options) {
    int code = complete_flags(options);
    if (code >= 0)
        return code;
    signal(SIGINT, tt_on_interrupt);
    signal(SIGTERM, tt_on_interrupt);
    return bench_scheduler(options);
}

const struct tt_verb tt_verb_bench = {
    .name = "bench",
    .summary = "measure how fast the scheduler is on this machine",
    .usage = "scheduler [OPTIONS]",
    .description =
        "Runs the scheduler alone, in this process, under an open-loop Poisson load on emulated "
        "devices. Exits with 1 if a request is lost, or if more than 1 % of the requests miss "
        "their "
        "deadlines at a rate within the devices' capacity.",
    TT_VERB_RUNS(flag_rows, run)};
