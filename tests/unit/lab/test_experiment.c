/* Experiments as files: the shipped ones, golden schedules, the CSV contract, and what is said
 * about wrong ones. */
#include "lab/experiment/experiment.h"
#include "lab/experiment/goodput.h"
#include "lab/run/scenario_run.h"

#include "base/instant.h"
#include "base/text.h"
#include "profile/worker_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OUT(name) TUTTI_BUILD_DIR "/test_experiment_" name

static struct tt_scenario_result run_file(const char *path, const char *policy, const char *seed) {
    struct tt_error why = {0};
    struct tt_experiment experiment;
    if (tt_experiment_open(&experiment, path, &why) != TT_OK)
        fail_msg("%s", why.text);
    if (policy)
        assert_int_equal(tt_experiment_set(&experiment, "policy", policy, &why), TT_OK);
    if (seed)
        assert_int_equal(tt_experiment_set(&experiment, "seed", seed, &why), TT_OK);
    struct tt_scenario scenario;
    if (tt_experiment_build(&experiment, &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    struct tt_scenario_outputs outputs = {.tasks_path = OUT("tasks.csv"),
                                          .outcomes_path = OUT("outcomes.csv")};
    struct tt_scenario_result result;
    if (tt_scenario_run(&scenario, true, &outputs, NULL, &result, &why) != TT_OK)
        fail_msg("%s", why.text);
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
    return result;
}

static struct tt_text read_all(const char *path) {
    struct tt_text text;
    assert_int_equal(tt_text_read_file(path, 1 << 28, &text, NULL), TT_OK);
    return text;
}

static void assert_begins(const char *path, const char *start) {
    struct tt_text text = read_all(path);
    if (strncmp(tt_text_string(&text), start, strlen(start)) != 0)
        fail_msg("%s begins with\n%.600s", path, tt_text_string(&text));
    tt_text_fini(&text);
}

/* S2, section 3.3: batches of four, one every 3 ms. */
static void the_stagger_is_golden(void **state) {
    (void)state;
    struct tt_scenario_result result =
        run_file("experiments/symphony/worked-example-3.3.pbtxt", NULL, NULL);
    tt_measure_fini(&result.measure);
    assert_begins(OUT("tasks.csv"), "start_ns,end_ns,executor,model,step,requests\n"
                                    "2250000,11250000,0,M,0,0 1 2 3\n"
                                    "5250000,14250000,1,M,0,4 5 6 7\n"
                                    "8250000,17250000,2,M,0,8 9 10 11\n"
                                    "11250000,20250000,0,M,0,12 13 14 15\n"
                                    "14250000,23250000,1,M,0,16 17 18 19\n");
    assert_begins(OUT("outcomes.csv"), "request,model,arrived_ns,deadline_ns,finished_ns,outcome\n"
                                       "0,M,0,12000000,11250000,ok\n"
                                       "1,M,750000,12750000,11250000,ok\n");
}

static void the_stagger_comes_back(void **state) {
    (void)state;
    struct tt_scenario_result result =
        run_file("experiments/symphony/worked-example-3.3-missing.pbtxt", NULL, NULL);
    assert_int_equal(result.measure.models[0].ok, 57);
    tt_measure_fini(&result.measure);
    assert_begins(OUT("tasks.csv"), "start_ns,end_ns,executor,model,step,requests\n"
                                    "2250000,11250000,0,M,0,0 1 2 3\n"
                                    "5250000,14250000,1,M,0,4 5 6 7\n"
                                    "8250000,17250000,2,M,0,8 9 10 11\n"
                                    "13500000,22500000,0,M,0,12 13 14 15\n"
                                    "16500000,25500000,1,M,0,16 17 18 19\n");
}

/* Section 3.3: eager from R16 on drops R35, R37, R38 first (R16 is request 0 here). */
static void eager_decays(void **state) {
    (void)state;
    struct tt_scenario_result result =
        run_file("experiments/symphony/worked-example-3.3-eager.pbtxt", NULL, NULL);
    tt_measure_fini(&result.measure);
    struct tt_text text = read_all(OUT("outcomes.csv"));
    int64_t dropped[3], count = 0;
    for (const char *line = strchr(tt_text_string(&text), '\n'); line && line[1] && count < 3;
         line = strchr(line + 1, '\n')) {
        const char *end = strchr(line + 1, '\n');
        if (end && strncmp(end - 7, "dropped", 7) == 0)
            dropped[count++] = strtoll(line + 1, NULL, 10) + 16;
    }
    tt_text_fini(&text);
    assert_int_equal(count, 3);
    assert_int_equal(dropped[0], 35);
    assert_int_equal(dropped[1], 37);
    assert_int_equal(dropped[2], 38);
}

static const char busy[] =
    "device { count: 3 } duration_s: 2 abort_ms: 1 jitter: 0.1 depth: 2\n"
    "network { control_us: 50 data_us_per_row: 5 }\n"
    "model { name: 'A' slo_ms: 30 profile { linear { alpha_ms: 1 beta_ms: 5 } } }\n"
    "model { name: 'B' copies: 2 slo_ms: 60 max_batch: 32\n"
    "  step { name: 'x' profile { linear { alpha_ms: 1 beta_ms: 5 } } }\n"
    "  step { name: 'y' profile { linear { alpha_ms: 1 beta_ms: 5 } } } }\n"
    "load { rate: 1500 process: GAMMA shape: 0.3 popularity { zipf: 0.9 } }\n";

static void write_file(const char *path, const char *bytes) {
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, bytes);
    assert_int_equal(tt_text_write_file(path, &text, NULL), TT_OK);
    tt_text_fini(&text);
}

/* For every policy: the same seed gives the same bytes, another one others; every request ends
 * once; tasks are in start order and never overlap on an executor. */
static void every_policy_repeats_and_conserves(void **state) {
    (void)state;
    write_file(OUT("busy.pbtxt"), busy);
    for (int32_t p = 0; p < tt_policy_count(); p++) {
        const char *name = tt_policy_at(p)->name;
        struct tt_text tasks[3], outcomes;
        const char *const seeds[] = {"7", "7", "8"};
        int64_t arrived = 0;
        for (int i = 0; i < 3; i++) {
            struct tt_scenario_result result = run_file(OUT("busy.pbtxt"), name, seeds[i]);
            tasks[i] = read_all(OUT("tasks.csv"));
            arrived = 0;
            for (int32_t m = 0; m < result.measure.model_count; m++)
                arrived += result.measure.models[m].arrived;
            tt_measure_fini(&result.measure);
        }
        assert_true(arrived > 2000);
        assert_string_equal(tt_text_string(&tasks[0]), tt_text_string(&tasks[1]));
        assert_string_not_equal(tt_text_string(&tasks[0]), tt_text_string(&tasks[2]));
        outcomes = read_all(OUT("outcomes.csv"));
        int64_t number = 0;
        for (char *line = strchr(outcomes.bytes, '\n') + 1; *line; line = strchr(line, '\n') + 1)
            assert_int_equal(strtoll(line, NULL, 10), number++);
        assert_int_equal(number, arrived);
        int64_t last_start = 0, free_at[3] = {0};
        for (char *line = strchr(tasks[2].bytes, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
            char *field;
            int64_t start = strtoll(line, &field, 10), end = strtoll(field + 1, &field, 10);
            int64_t executor = strtoll(field + 1, NULL, 10);
            assert_true(start >= last_start && end >= start);
            assert_true(start >= free_at[executor]);
            last_start = start;
            free_at[executor] = end;
        }
        tt_text_fini(&outcomes);
        for (int i = 0; i < 3; i++)
            tt_text_fini(&tasks[i]);
    }
}

#define SLOW_DEVICES                                                                               \
    "device { count: 2 } duration_s: 10 perturb { from_s: 1 until_s: 2 speed: 0 }\n"               \
    "perturb { from_s: 3 speed: 0.4 } policy { name: 'symphony' }\n"                               \
    "model { name: 'A' slo_ms: 60 profile { linear { alpha_ms: 1 beta_ms: 5 } } }\n"               \
    "load { rate: 300 process: POISSON }\n"

static int64_t in_time(const char *path, const char *learn) {
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    struct tt_scenario_result result;
    struct tt_error why;
    assert_int_equal(tt_experiment_open(&experiment, path, &why), TT_OK);
    assert_int_equal(tt_experiment_set(&experiment, "learn", "maybe", &why), TT_ERR_INVALID);
    assert_int_equal(tt_experiment_set(&experiment, "learn", learn, &why), TT_OK);
    if (tt_experiment_build(&experiment, &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    struct tt_scenario_outputs outputs = {.tasks_path = NULL};
    assert_int_equal(tt_scenario_run(&scenario, true, &outputs, NULL, &result, &why), TT_OK);
    int64_t ok = result.measure.models[0].ok;
    tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
    return ok;
}

/* A policy that defers to the last instant loses most requests where devices are slower than
 * their profiles say. */
static void slow_devices_are_learnt(void **state) {
    (void)state;
    write_file(OUT("slow.pbtxt"), SLOW_DEVICES);
    write_file(OUT("slow-learn.pbtxt"), SLOW_DEVICES "learn: true\n");
    int64_t learnt = in_time(OUT("slow.pbtxt"), "true");
    int64_t without = in_time(OUT("slow.pbtxt"), "false");
    print_message("%lld without, %lld learnt\n", (long long)without, (long long)learnt);
    assert_true(10 * without < 6 * learnt);
    struct tt_scenario_result result = run_file(OUT("slow-learn.pbtxt"), NULL, NULL);
    assert_int_equal(result.measure.models[0].ok, learnt);
    tt_measure_fini(&result.measure);
}

static void assert_refused(const char *file, const char *expected) {
    write_file(OUT("bad.pbtxt"), file);
    struct tt_error why = {0};
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, OUT("bad.pbtxt"), &why);
    if (!err) {
        struct tt_scenario scenario;
        err = tt_experiment_build(&experiment, &scenario, &why);
        if (!err) {
            struct tt_scenario_result result;
            err = tt_scenario_run(&scenario, false, NULL, NULL, &result, &why);
            if (!err)
                fail_msg("accepted: %s", file);
            tt_scenario_fini(&scenario);
        }
        tt_experiment_close(&experiment);
    }
    assert_true(err == TT_ERR_INVALID || err == TT_ERR_UNSUPPORTED);
    if (!strstr(why.text, expected) || strchr(why.text, '\n'))
        fail_msg("said: %s\nexpected: %s", why.text, expected);
}

#define DEVICE "device { count: 2 }\n"
#define MODEL "model { name: 'M' slo_ms: 25 profile { linear { alpha_ms: 1 beta_ms: 5 } } }\n"
#define LOAD "load { rate: 100 }\n"

#define PROFILE "profile { linear { beta_ms: 1 } }"

static void settings_of_models_are_checked(void **state) {
    (void)state;
    assert_refused(DEVICE "model { name: 'M' delay_ms: -1 " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M': delay_ms is -1");
    assert_refused(DEVICE "model { name: 'M' target: -1 " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M': target and dec_timesteps");
    assert_refused(DEVICE "model { name: 'M' dec_timesteps: 2000000 " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M': target and dec_timesteps");
    assert_refused(DEVICE "model { name: 'M' min_batch: [1, 2] " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M' has 1 steps, but 2 values of min_batch");
    assert_refused(DEVICE "model { name: 'M' min_batch: 600 " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M': min_batch is 600; it must be 1 .. 512");
    assert_refused(DEVICE "model { name: 'M' executor: [0, 2] " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M': executor 2; they must ascend within 0 .. 1");
    assert_refused(DEVICE "model { name: 'M' executor: [1, 1] " PROFILE " }\n" LOAD,
                   "bad.pbtxt:2: model 'M': executor 1; they must ascend");
    assert_refused(DEVICE "model { name: 'M' executor: 0 " PROFILE " }\n"
                          "model { name: 'N' " PROFILE " }\n" LOAD,
                   "1 of 2 models say which executor serves them; all must, or none");
    assert_refused(DEVICE "model { name: 'M' copies: 4 executor: [0, 1] " PROFILE " }\n" LOAD,
                   "the models name 8 executors in all; at most 6 are possible");
}

static void nonsense_is_told_with_its_line(void **state) {
    (void)state;
    assert_refused(DEVICE MODEL "lod { rate: 1 }", "bad.pbtxt:3");
    assert_refused(DEVICE MODEL LOAD "policy { name: 'nope' }", "bad.pbtxt:4: no policy is called");
    assert_refused(DEVICE MODEL "load { rate: -1 }", "bad.pbtxt:3: rate is -1");
    assert_refused(DEVICE "model { name: 'M' }\n" LOAD, "bad.pbtxt:2: model 'M' has no profile");
    /* L3: how far a recurrent block goes must be known, and how long each of its steps takes. */
    assert_refused(DEVICE "model { name: 'M' step { name: 'e' kind: ENCODER "
                          "profile { linear { beta_ms: 1 } } } }\n" LOAD,
                   "bad.pbtxt:2: model 'M' has encoder steps: say how long its inputs are");
    assert_refused(DEVICE "model { name: 'M' length: 4 step { name: 'e' kind: ENCODER "
                          "profile { linear { beta_ms: 1 } } } step { name: 'd' kind: DECODER "
                          "profile { linear { beta_ms: 1 } } } }\n" LOAD,
                   "bad.pbtxt:2: model 'M' has decoder steps: say how long its outputs are");
    assert_refused(DEVICE "model { name: 'M' step { name: 'a' profile { linear { beta_ms: 1 } } } "
                          "step { name: 'b' } }\n" LOAD,
                   "step 'b' of model 'M' has no profile");
    assert_refused(DEVICE
                   "model { name: 'M' max_batch: 0 profile { linear { alpha_ms: 1 } } }\n" LOAD,
                   "bad.pbtxt:2: max_batch is 0");
    assert_refused(DEVICE MODEL LOAD "perturb { from_s: 2 until_s: 1 }",
                   "bad.pbtxt:4: until_s is 1");
    assert_refused(DEVICE MODEL LOAD
                   "perturb { until_s: 2 speed: 1 } perturb { from_s: 1 speed: 1 }",
                   "bad.pbtxt:4: from_s is 1");
    assert_refused(DEVICE MODEL LOAD "perturb { from_s: 2 }", "bad.pbtxt:4: speed is 0");
    assert_refused(DEVICE MODEL LOAD "perturb { from_s: 2 until_s: 3 speed: 0.5 jump: true }",
                   "bad.pbtxt:4: a jump of the clock has from_s and until_s, no speed");
    assert_refused(DEVICE MODEL LOAD "perturb { from_s: 2 speed: -1 }", "bad.pbtxt:4: speed is -1");
    assert_refused(DEVICE MODEL LOAD "perturb { until_s: 2 speed: 0 at_start: true }",
                   "bad.pbtxt:4: speed is 0");
    assert_refused(DEVICE MODEL LOAD "noise { spread: 1.5 }", "bad.pbtxt:4: spread is 1.5; it must "
                                                              "be 0 .. 1");
    assert_refused(DEVICE MODEL LOAD "noise { outliers: -0.1 }", "bad.pbtxt:4: outliers is -0.1");
    assert_refused(DEVICE MODEL LOAD "noise { outlier_factor: 1001 }",
                   "bad.pbtxt:4: outlier_factor is 1001; it must be 1 .. 1000");
    assert_refused(MODEL LOAD, "no device");
    assert_refused("device { count: 0 }\n" MODEL LOAD, "bad.pbtxt:1: count is 0");
    assert_refused(DEVICE LOAD, "no model");
    assert_refused(DEVICE MODEL, "no load");
    assert_refused(DEVICE MODEL MODEL LOAD, "two models are called 'M'");
    assert_refused(DEVICE MODEL LOAD "world: REAL", "bad.pbtxt:4: the real world needs models; add "
                                                    "repository");
    assert_refused(DEVICE MODEL LOAD "world: REAL repository: \"x\"",
                   "model 'M' has a profile of its own; in the real world");
    assert_refused(DEVICE MODEL LOAD "world: EMULATED network { control_us: 5 }",
                   "network delays are simulated only");
    assert_refused("device { busy_until_ms: 1 }\n" MODEL LOAD "world: EMULATED",
                   "busy_until_ms is simulated only");
    assert_refused("device { count: 4097 }\n" MODEL LOAD "world: EMULATED",
                   "4097 executors; in the emulated world each is a thread");
    assert_refused(
        "device { count: 1 }\nmodel { name: \"m\" length: 4 rows: 2 slo_ms: 100 step { name: \"e\" "
        "kind: ENCODER profile { linear { beta_ms: 1 } } } }\n" LOAD "world: EMULATED",
        "requests to cells have one row in the emulated world");
    assert_refused(
        "device { count: 1 }\nmodel { name: \"m\" length: 4 tree: RANDOM slo_ms: 100 step { name: "
        "\"e\" profile { linear { beta_ms: 1 } } } step { name: \"f\" profile { linear { beta_ms: "
        "1 "
        "} } } }\n" LOAD "world: EMULATED policy { name: \"serial\" }",
        "are trees: only policies that work by cells");
    assert_refused(DEVICE "model { name: \"m\" slots: 2 length: 4 step { name: \"e\" kind: ENCODER "
                          "profile { linear { beta_ms: 1 } } } }\n" LOAD,
                   "bad.pbtxt:2: model 'm': slots is 2");
    assert_refused(DEVICE MODEL LOAD "policy { name: \"cellular\" } world: REAL repository: \"x\"",
                   "policy cellular works by cells, and model 'M' has none");
    assert_refused(DEVICE MODEL LOAD "duration_s: -1", "bad.pbtxt:4: duration_s");
    assert_refused(DEVICE MODEL LOAD "warm_up_s: 30", "bad.pbtxt:4: warm_up_s");
    assert_refused(DEVICE MODEL "load { rate: 1 process: GAMMA }", "bad.pbtxt:3: shape is 0");
    assert_refused(DEVICE MODEL LOAD "policy { name: 'eager' option { key: 'x' value: '1' } }",
                   "bad.pbtxt:4: policy eager");
    write_file(OUT("bad.csv"), "");
    const char *with_file = DEVICE MODEL "load { file: 'test_experiment_bad.csv' }";
    assert_refused(with_file, "bad.csv:1: the file is empty");
    write_file(OUT("bad.csv"), "at_ns,model\n");
    assert_refused(with_file, "bad.csv:2: no arrivals");
    write_file(OUT("bad.csv"), "model,at_ns\nM,5\nM,4\n");
    assert_refused(with_file, "bad.csv:3: at_ns 4 comes after 5");
    write_file(OUT("bad.csv"), "model,at_ns,rows\nM,5,0\n");
    assert_refused(with_file, "bad.csv:2: rows is '0'");
    write_file(OUT("bad.csv"), "model,at_ns,exit_step,exit_to\nM,5,0,1\n");
    assert_refused(with_file, "bad.csv:2: exit_to is '1', but model 'M' has too few steps (1)");
    write_file(OUT("bad.csv"), "model,at_ns,exit_step,exit_to\nM,5,,1\n");
    assert_refused(with_file, "bad.csv:2: exit_to is '1', but model 'M' has too few steps (1)");
    write_file(OUT("bad.csv"), "model,at_ns,exit_step,exit_to\nS,5,0,1\n");
    assert_refused(
        DEVICE "model { name: \"S\" step { profile { linear { beta_ms: 1 } } } step { "
               "profile { linear { beta_ms: 1 } } } }\nload { file: 'test_experiment_bad.csv' }",
        "bad.csv:2: exit_to is '1', but model 'S' has too few steps (2)");
    write_file(OUT("bad.csv"), "model,at_ns,exit_step,exit_to\nS,5,1,2\n");
    assert_refused(
        DEVICE "model { name: \"S\" step { profile { linear { beta_ms: 1 } } } step { "
               "profile { linear { beta_ms: 1 } } } step { profile { linear { beta_ms: 1 "
               "} } } }\nload { file: 'test_experiment_bad.csv' }",
        "bad.csv:2: exit_to is 2 and exit_step 1; a request skips steps if exit_to is at least");
    write_file(OUT("bad.csv"), "model,at_ns\nM,5,7\n");
    assert_refused(with_file, "bad.csv:2: 3 fields");
}

/* Table 2: the search ends where it says; the level itself is tested by `reproduce`. */
static void the_search_brackets_the_goodput(void **state) {
    (void)state;
    struct tt_error why = {0};
    struct tt_experiment experiment;
    assert_int_equal(
        tt_experiment_open(&experiment, "experiments/symphony/table2-resnet50.pbtxt", &why), TT_OK);
    experiment.message->duration_s = 4;
    struct tt_scenario scenario;
    assert_int_equal(tt_experiment_build(&experiment, &scenario, &why), TT_OK);
    struct tt_goodput goodput;
    const struct tt_goodput_options options = {.bad_rate = 0.01, .precision = 0.02};
    assert_int_equal(tt_goodput_search(&scenario, &options, NULL, &goodput, &why), TT_OK);
    assert_true(goodput.rate < goodput.bad_rate_rate);
    assert_true((double)(goodput.bad_rate_rate - goodput.rate) <=
                0.02 * (double)goodput.bad_rate_rate);
    assert_true(goodput.worst_bad_rate <= 0.01);
    assert_in_range(goodput.rate / TT_RATE_ONE, 4500,
                    5839); /* no coordination .. staggered bound */
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
}

/* ---- workers from an offline search ---- */

/* The option begins with the text. */
static void demand_option(const struct tt_scenario *scenario, const char *key, const char *value) {
    for (int32_t i = 0; i < scenario->option_count; i++) {
        struct tt_option option = tt_scenario_option(scenario, i);
        if (strcmp(option.key, key) == 0) {
            if (strncmp(option.value, value, strlen(value)) != 0)
                fail_msg("%s", option.value);
            return;
        }
    }
    fail_msg("no option %s", key);
}

/* Batches of 1 and 2 take half the device, for 2 and 3 ms. So two workers of 2 take 3 ms, less than
 * any other choice for 4 rows. The QoS condition counts on the whole device only: they have 6 ms of
 * work. With a promise of 5.5 ms, 2 beside 1 and 1 are the best: the two take 2 ms alone, and the
 * third has 3 ms of work. They end at 3, 3 and 4 ms; one worker of 4 ends at 5, four of 1 at 4. */
static enum tt_err find_workers(const char *slo_ms, const char *workers, const char *extra,
                                struct tt_scenario *out_scenario, struct tt_error *why) {
    static const char *const text = "seed: 1 duration_s: 1 device { pool_slots: 64 }\n"
                                    "model { name: \"m\" slo_ms: 100 max_batch: 32 profile {\n"
                                    "  point { batch: 1 latency_ns: 2000000 demand: 0.5 }\n"
                                    "  point { batch: 2 latency_ns: 3000000 demand: 0.5 }\n"
                                    "  point { batch: 4 latency_ns: 5000000 demand: 1 }\n"
                                    "  point { batch: 32 latency_ns: 33000000 demand: 1 } } }\n"
                                    "load { rate: 100 } policy { name: \"elastic\" %s }\n";
    struct tt_text file;
    struct tt_experiment experiment;
    tt_text_init(&file);
    tt_text_printf(&file, text, extra);
    assert_int_equal(tt_text_write_file(OUT("workers.exp"), &file, why), TT_OK);
    tt_text_fini(&file);
    if (tt_experiment_open(&experiment, OUT("workers.exp"), why) != TT_OK)
        fail_msg("%s", why->text);
    assert_int_equal(tt_experiment_set(&experiment, "workers", workers, why), TT_OK);
    if (slo_ms)
        assert_int_equal(tt_experiment_set(&experiment, "slo_ms", slo_ms, why), TT_OK);
    enum tt_err err = tt_experiment_build(&experiment, out_scenario, why);
    tt_experiment_close(&experiment);
    return err;
}

static void demand_refusal(const char *workers, const char *extra, const char *expected) {
    struct tt_scenario scenario;
    struct tt_error why = {0};
    assert_int_equal(find_workers(NULL, workers, extra, &scenario, &why), TT_ERR_INVALID);
    if (!strstr(why.text, expected))
        fail_msg("%s", why.text);
}

static void a_search_finds_the_workers(void **state) {
    (void)state;
    struct tt_scenario scenario;
    struct tt_error why = {0};
    if (find_workers(NULL, "SEARCH", "", &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    demand_option(&scenario, "configurations", "2,2;");
    demand_option(&scenario, "variant", "enhanced");
    assert_true(scenario.devices[0].executors >= 4); /* and a worker of each size of 8, 16, 32 */
    assert_true(scenario.found_workers);
    tt_scenario_fini(&scenario);
    if (find_workers("5.5", "SEARCH", "", &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    demand_option(&scenario, "configurations", "2,1,1;");
    tt_scenario_fini(&scenario);
    demand_refusal("SEARCH", "option { key: \"configurations\" value: \"4\" }",
                   "workers and option configurations both say which workers count");
    demand_refusal("SEARCH", "option { key: \"workers\" value: \"1,1\" }",
                   "no load of 4 rows or more has a choice of workers");
    demand_refusal("none.pbtxt", "", "workers is SEARCH, or a file that tutti profile --workers");
}

static void measured_workers_are_taken(void **state) {
    (void)state;
    static const struct tt_worker_mix mixes[] = {
        {.counts = {4}, .runs = 1, .mean_ns = 3 * TT_MS, .last_ns = 9 * TT_MS},
        {.counts = {0, 2}, .runs = 1, .mean_ns = 4 * TT_MS, .last_ns = 5 * TT_MS}};
    const struct tt_worker_file_origin origin = {
        .source = "a test", .device = "no device", .date = "2026-01-01", .model_sha256 = ""};
    struct tt_text text;
    struct tt_scenario scenario;
    struct tt_error why = {0};
    tt_text_init(&text);
    tt_worker_file_print(&origin, mixes, 2, &text);
    assert_int_equal(tt_text_write_file(OUT("workers.pbtxt"), &text, &why), TT_OK);
    tt_text_fini(&text);
    if (find_workers(NULL, OUT("workers.pbtxt"), "", &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    demand_option(&scenario, "configurations", "1,1,1,1");
    assert_int_equal(scenario.devices[0].executors, 5); /* and one of 2 rows */
    tt_scenario_fini(&scenario);
    if (find_workers("8", OUT("workers.pbtxt"), "", &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    demand_option(&scenario, "configurations", "2,2");
    tt_scenario_fini(&scenario);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stagger_is_golden),
        cmocka_unit_test(the_stagger_comes_back),
        cmocka_unit_test(eager_decays),
        cmocka_unit_test(every_policy_repeats_and_conserves),
        cmocka_unit_test(slow_devices_are_learnt),
        cmocka_unit_test(nonsense_is_told_with_its_line),
        cmocka_unit_test(settings_of_models_are_checked),
        cmocka_unit_test(the_search_brackets_the_goodput),
        cmocka_unit_test(a_search_finds_the_workers),
        cmocka_unit_test(measured_workers_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
