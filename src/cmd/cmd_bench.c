/* tutti bench: how fast parts of the server are on this machine. So far: the scheduler. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/instant.h"
#include "cmd/arguments.h"
#include "lab/bench/scheduler_bench.h"
#include "multicore/multicore.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: tutti bench scheduler [OPTIONS]\n"
    "\n"
    "The scheduler alone under an open-loop Poisson load on emulated devices, in this process.\n"
    "Exits 1 when a request is lost, or when more than 1 % miss their deadlines at a rate that\n"
    "the devices could carry.\n"
    "\n"
    "  --preset light|symphony  the flags of a workload: l(b) = 0.1 b + 5 ms, SLO 50 ms, 4 M\n"
    "                       requests a second; or 1.082 b + 5.204 ms, SLO 100 ms, 90 % of what "
    "the\n"
    "                       devices carry. Both: 20 models, 1000 devices. Later flags win\n"
    "  --models M           (20)\n"
    "  --devices G          emulated devices (1000)\n"
    "  --model-threads N    threads that own models, beside one that ranks; 0: one thread for all "
    "(1)\n"
    "  --rate R|P%|max      requests a second; a share of what the devices carry; or search the\n"
    "                       highest rate that holds (4000000)\n"
    "  --popularity equal|zipf  (equal); Zipf's exponent is 0.9\n"
    "  --profile A,B        l(b) = A b + B milliseconds (0.1,5)\n"
    "  --max-batch N        (1024)\n"
    "  --slo-ms S           (50)\n"
    "  --policy NAME        deferred, eager, symphony, timeout (deferred)\n"
    "  --option KEY=VALUE   of the policy; may be repeated\n"
    "  --seconds S          measured (2)\n"
    "  --warm-up S          before that (1)\n"
    "  --margin-us U        deadlines are so much earlier for the scheduler (1000; virtual: 0)\n"
    "  --rest-us U          how long threads rest between turns (a 250th of the SLO)\n"
    "  --spin-us U          how early threads are awake before an instant that matters (0; one\n"
    "                       thread for all: 20)\n"
    "  --clock real|virtual virtual: one thread, as fast as it can, always punctual (real)\n"
    "  --seed N             (1)\n"
    "  --json               the result for programs\n"
    "  --help               this text\n";

enum { MAX_OPTIONS = TT_MAX_OPTIONS, SEARCH_STEPS = 7 };

struct flags {
    struct tt_scheduler_bench bench;
    struct tt_option options[MAX_OPTIONS];
    double rate_share; /* of the devices' capacity; 0: not asked */
    bool search, json, margin_given, rest_given, spin_given;
};

/* ---- flags ---- */

static bool parse_seconds(const char *text, int64_t *out_ns) {
    double seconds;
    if (!tt_arguments_decimal(text, 0, 3600, &seconds))
        return false;
    *out_ns = (int64_t)(seconds * 1e9);
    return true;
}

static bool parse_us(const char *text, int64_t *out_ns) {
    int64_t us;
    if (!tt_arguments_number(text, 0, 1000000, &us))
        return false;
    *out_ns = us * TT_US;
    return true;
}

static bool parse_rate(struct flags *flags, const char *text) {
    size_t length = strlen(text);
    flags->search = strcmp(text, "max") == 0;
    flags->rate_share = 0;
    if (flags->search)
        return true;
    if (length > 1 && text[length - 1] == '%') {
        char number[32];
        if (length > sizeof(number))
            return false;
        memcpy(number, text, length - 1);
        number[length - 1] = 0;
        if (!tt_arguments_decimal(number, 0.001, 1000, &flags->rate_share))
            return false;
        flags->rate_share /= 100;
        return true;
    }
    return tt_arguments_number(text, 1, 1000000000, &flags->bench.rate_per_s);
}

static bool parse_profile(struct tt_scheduler_bench *bench, const char *text) {
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

static bool parse_preset(struct flags *flags, const char *name) {
    struct tt_scheduler_bench *bench = &flags->bench;
    bool light = strcmp(name, "light") == 0;
    if (!light && strcmp(name, "symphony") != 0)
        return false;
    bench->models = 20;
    bench->devices = 1000;
    bench->alpha_ns = light ? 100 * TT_US : 1082 * TT_US;
    bench->beta_ns = light ? 5 * TT_MS : 5204 * TT_US;
    bench->slo_ns = light ? 50 * TT_MS : 100 * TT_MS;
    return parse_rate(flags, light ? "4000000" : "90%");
}

static bool parse_option(struct flags *flags, char *text) {
    char *equals = strchr(text, '=');
    if (!equals || flags->bench.option_count == MAX_OPTIONS)
        return false;
    *equals = 0;
    flags->options[flags->bench.option_count++] =
        (struct tt_option){.key = text, .value = equals + 1};
    return true;
}

enum {
    PRESET,
    MODELS,
    DEVICES,
    MODEL_THREADS,
    RATE,
    POPULARITY,
    PROFILE,
    MAX_BATCH,
    SLO_MS,
    POLICY,
    OPTION,
    SECONDS,
    WARM_UP,
    MARGIN_US,
    REST_US,
    SPIN_US,
    CLOCK,
    SEED,
    JSON,
    HELP,
};
static const struct option long_options[] = {
    [PRESET] = {"preset", required_argument, NULL, PRESET},
    [MODELS] = {"models", required_argument, NULL, MODELS},
    [DEVICES] = {"devices", required_argument, NULL, DEVICES},
    [MODEL_THREADS] = {"model-threads", required_argument, NULL, MODEL_THREADS},
    [RATE] = {"rate", required_argument, NULL, RATE},
    [POPULARITY] = {"popularity", required_argument, NULL, POPULARITY},
    [PROFILE] = {"profile", required_argument, NULL, PROFILE},
    [MAX_BATCH] = {"max-batch", required_argument, NULL, MAX_BATCH},
    [SLO_MS] = {"slo-ms", required_argument, NULL, SLO_MS},
    [POLICY] = {"policy", required_argument, NULL, POLICY},
    [OPTION] = {"option", required_argument, NULL, OPTION},
    [SECONDS] = {"seconds", required_argument, NULL, SECONDS},
    [WARM_UP] = {"warm-up", required_argument, NULL, WARM_UP},
    [MARGIN_US] = {"margin-us", required_argument, NULL, MARGIN_US},
    [REST_US] = {"rest-us", required_argument, NULL, REST_US},
    [SPIN_US] = {"spin-us", required_argument, NULL, SPIN_US},
    [CLOCK] = {"clock", required_argument, NULL, CLOCK},
    [SEED] = {"seed", required_argument, NULL, SEED},
    [JSON] = {"json", no_argument, NULL, JSON},
    [HELP] = {"help", no_argument, NULL, HELP},
    {0},
};

static bool one_of(const char *text, const char *no, const char *yes, bool *out) {
    *out = strcmp(text, yes) == 0;
    return *out || strcmp(text, no) == 0;
}

static bool number32(const char *text, int64_t low, int64_t high, int32_t *out) {
    int64_t value;
    if (!tt_arguments_number(text, low, high, &value))
        return false;
    *out = (int32_t)value;
    return true;
}

static bool take_flag(struct flags *flags, int flag, char *text) {
    struct tt_scheduler_bench *bench = &flags->bench;
    int64_t number;
    double slo_ms;
    switch (flag) {
    case PRESET: return parse_preset(flags, text);
    case MODELS: return number32(text, 1, TT_MULTICORE_MAX_MODELS, &bench->models);
    case DEVICES: return number32(text, 1, 1000000, &bench->devices);
    case MODEL_THREADS: return number32(text, 0, TT_MULTICORE_MAX_THREADS, &bench->model_threads);
    case RATE: return parse_rate(flags, text);
    case POPULARITY: return one_of(text, "equal", "zipf", &bench->zipf);
    case PROFILE: return parse_profile(bench, text);
    case MAX_BATCH: return number32(text, 1, TT_PROFILE_MAX_BATCH, &bench->max_batch);
    case SLO_MS:
        if (!tt_arguments_decimal(text, 0.01, 3600000, &slo_ms))
            return false;
        bench->slo_ns = llround(slo_ms * 1e6);
        return true;
    case POLICY: bench->policy = text; return true;
    case OPTION: return parse_option(flags, text);
    case SECONDS: return parse_seconds(text, &bench->duration_ns) && bench->duration_ns > 0;
    case WARM_UP: return parse_seconds(text, &bench->warm_up_ns);
    case MARGIN_US: flags->margin_given = true; return parse_us(text, &bench->margin_ns);
    case REST_US: flags->rest_given = true; return parse_us(text, &bench->rest_ns);
    case SPIN_US: flags->spin_given = true; return parse_us(text, &bench->spin_ns);
    case CLOCK: return one_of(text, "real", "virtual", &bench->virtual_time);
    case SEED:
        if (!tt_arguments_number(text, 0, INT64_MAX, &number))
            return false;
        bench->seed = (uint64_t)number;
        return true;
    case JSON: flags->json = true; return true;
    }
    return false;
}

/* -1: go on; else the exit code. */
static int parse_flags(int argc, char **argv, struct flags *flags) {
    *flags = (struct flags){.bench = {.model_threads = 1,
                                      .max_batch = 1024,
                                      .warm_up_ns = TT_S,
                                      .duration_ns = 2 * TT_S,
                                      .margin_ns = TT_MS,
                                      .seed = 1,
                                      .policy = "deferred"}};
    parse_preset(flags, "light");
    opterr = 0;
    optind = 1;
    int flag;
    while ((flag = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        if (flag == HELP) {
            fputs(help, stdout);
            return 0;
        }
        if (flag == '?' || flag == ':')
            return tt_arguments_refuse("bench",
                                       "unknown flag, or one without its value:", argv[optind - 1]);
        if (!take_flag(flags, flag, optarg)) {
            char what[128];
            snprintf(what, sizeof(what), "--%s cannot be", long_options[flag].name);
            return tt_arguments_refuse("bench", what, optarg);
        }
    }
    if (optind < argc)
        return tt_arguments_refuse("bench", "one thing at a time, not also", argv[optind]);
    flags->bench.options = flags->options;
    if (flags->bench.virtual_time) {
        flags->bench.model_threads = 0;
        if (!flags->margin_given)
            flags->bench.margin_ns = 0;
    }
    if (!flags->rest_given)
        flags->bench.rest_ns = flags->bench.slo_ns / 250;
    if (flags->bench.model_threads == 0 && !flags->spin_given)
        flags->bench.spin_ns = 20 * TT_US;
    if (flags->bench.slo_ns <= flags->bench.margin_ns)
        return tt_arguments_refuse("bench", "--slo-ms must be longer than the margin", NULL);
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

/* Doubling up to the first rate that does not hold, then halving the ratio in between. Keeps the
 * best run's result. */
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

static int judge(const struct flags *flags, const struct tt_scheduler_bench_result *r) {
    if (tt_interrupted)
        return 130;
    if (r->lost != 0) {
        fprintf(stderr, "tutti bench: %lld requests were never answered\n", (long long)r->lost);
        return 1;
    }
    if (holds(r))
        return 0;
    double offered = per_second(r->offered, &flags->bench);
    if (!flags->search && offered > r->capacity_per_s) {
        fprintf(stderr, "tutti bench: %.0f r/s are more than the devices can carry (%.0f)\n",
                offered, r->capacity_per_s);
        return 0;
    }
    fprintf(stderr, "tutti bench: %.2f %% missed their deadlines; at most 1 %% may\n",
            100 * tt_scheduler_bench_bad_rate(r));
    return 1;
}

static int bench_scheduler(struct flags *flags) {
    struct tt_error why;
    struct tt_scheduler_bench_result result;
    double capacity;
    enum tt_err err = tt_scheduler_bench_capacity(&flags->bench, &capacity, &why);
    if (!err && flags->rate_share > 0)
        flags->bench.rate_per_s = llround(capacity * flags->rate_share);
    if (!err && flags->bench.rate_per_s < 1)
        flags->bench.rate_per_s = 1;
    if (!err)
        err = flags->search ? search(&flags->bench, capacity, &result, &why)
                            : tt_scheduler_bench_run(&flags->bench, &tt_interrupted, &result, &why);
    if (err) {
        fprintf(stderr, "tutti bench: %s\n", why.text);
        return err == TT_ERR_NO_MEMORY || err == TT_ERR_IO ? 1 : 2;
    }
    if (flags->json)
        print_json(&flags->bench, &result);
    else
        print_table(&flags->bench, &result);
    int code = judge(flags, &result);
    tt_scheduler_bench_result_fini(&result);
    return code;
}

int tt_cmd_bench(int argc, char **argv) {
    struct flags flags;
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "scheduler") != 0)
        return tt_arguments_refuse("bench", "what can be measured is: scheduler; not",
                                   argc < 2 ? "nothing" : argv[1]);
    int code = parse_flags(argc - 1, argv + 1, &flags);
    if (code >= 0)
        return code;
    signal(SIGINT, tt_on_interrupt);
    signal(SIGTERM, tt_on_interrupt);
    return bench_scheduler(&flags);
}
