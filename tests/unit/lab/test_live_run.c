/* slow */
/* S11, L1: the same scenario in virtual time and on emulated devices: the same requests arrive,
 * each ends exactly once, and steps run one after the other on their executor. Nothing here asserts
 * how long anything takes. */
/* threaded */
#include "base/instant.h"
#include "base/text.h"
#include "lab/experiment/experiment.h"
#include "lab/run/scenario_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILE_NAME TUTTI_BUILD_DIR "/test_live_run.pbtxt"

enum { MOST = 4000, EXECUTORS = 4 };

struct heard {
    int32_t requests, twice, steps, aborted, disorder, misfits;
    int32_t endings[TT_ENDING_CANCELLED + 1];
    int32_t running[EXECUTORS]; /* steps that have begun and not ended */
    int64_t ended_at[EXECUTORS];
    int32_t largest_batch;
    struct tt_sim_ending *ends; /* by number */
    bool *has;
};

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct heard *heard = context;
    assert_true(ending->number >= 0 && ending->number < MOST);
    heard->twice += heard->has[ending->number];
    heard->has[ending->number] = true;
    heard->ends[ending->number] = *ending;
    heard->endings[ending->ending]++;
    heard->requests++;
    if (ending->ending == TT_ENDING_DONE)
        heard->disorder +=
            ending->started_at < ending->arrived_at || ending->ended_at < ending->started_at;
}

static void on_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                       const int64_t *numbers) {
    struct heard *heard = context;
    heard->disorder += heard->running[task->executor]++ != 0;
    heard->disorder += now < heard->ended_at[task->executor];
    heard->misfits += step < task->first_step || step > task->last_step;
    for (int32_t i = 0; i < task->count; i++) {
        heard->misfits += numbers[i] < 0 || numbers[i] >= MOST;
        heard->disorder += now < task->items[i].request->arrived_at;
    }
    heard->largest_batch = task->rows > heard->largest_batch ? task->rows : heard->largest_batch;
}

static void on_step_ended(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct heard *heard = context;
    heard->disorder += --heard->running[task->executor] != 0;
    heard->ended_at[task->executor] = now;
    heard->steps++;
    heard->aborted += step < 0;
}

static void heard_fini(struct heard *heard) {
    free(heard->ends);
    free(heard->has);
}

/* Runs the text in a world; the measure is thrown away when it has been compared with what was
 * heard. */
static struct heard run(const char *text, const char *world, const volatile sig_atomic_t *stop,
                        struct tt_scenario_result *result) {
    struct tt_error why = {0};
    struct tt_text file;
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    struct heard heard = {.ends = calloc(MOST, sizeof(struct tt_sim_ending)),
                          .has = calloc(MOST, sizeof(bool))};
    tt_text_init(&file);
    tt_text_puts(&file, text);
    assert_int_equal(tt_text_write_file(FILE_NAME, &file, &why), TT_OK);
    tt_text_fini(&file);
    enum tt_err err = tt_experiment_open(&experiment, FILE_NAME, &why);
    if (!err)
        err = tt_experiment_set(&experiment, "world", world, &why);
    if (!err)
        err = tt_experiment_build(&experiment, &scenario, &why);
    struct tt_scenario_outputs outputs = {.also = {.context = &heard,
                                                   .ended = on_ended,
                                                   .step_started = on_started,
                                                   .step_ended = on_step_ended}};
    if (!err)
        err = tt_scenario_run(&scenario, true, &outputs, stop, result, &why);
    if (err)
        fail_msg("%s", why.text);
    struct tt_measure_model total;
    tt_measure_total(&result->measure, &total);
    assert_int_equal(total.arrived, heard.requests);
    assert_int_equal(total.ok + total.late, heard.endings[TT_ENDING_DONE]);
    assert_int_equal(total.aborted, heard.aborted);
    tt_measure_model_fini(&total);
    tt_measure_fini(&result->measure);
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
    assert_int_equal(heard.twice, 0);
    assert_int_equal(heard.disorder, 0);
    assert_int_equal(heard.misfits, 0);
    return heard;
}

/* Both worlds: the same arrivals, all of them ended. */
static void compare(const char *text, struct heard *out_emulated) {
    struct tt_scenario_result result;
    struct heard simulated = run(text, "simulated", NULL, &result);
    assert_false(result.live.is_live);
    *out_emulated = run(text, "emulated", NULL, &result);
    assert_true(result.live.is_live);
    assert_true(result.live.machine[0] && result.live.date[0] && result.live.cores > 0);
    assert_int_equal(result.live.lag_ns.count, out_emulated->requests);
    assert_int_equal(simulated.requests, out_emulated->requests);
    assert_true(simulated.requests > 0);
    for (int32_t i = 0; i < simulated.requests; i++) {
        const struct tt_sim_ending *a = &simulated.ends[i], *b = &out_emulated->ends[i];
        assert_true(simulated.has[i] && out_emulated->has[i]);
        assert_int_equal(a->arrived_at, b->arrived_at);
        assert_int_equal(a->deadline_at, b->deadline_at);
        assert_int_equal(a->model, b->model);
    }
    heard_fini(&simulated);
}

#define WHOLE(slo)                                                                                 \
    "model { name: 'a' slo_ms: " slo                                                               \
    " max_batch: 8 profile { linear { alpha_ms: 0.2 beta_ms: 1 } "                                 \
    "} }\nmodel { name: 'b' slo_ms: " slo                                                          \
    " max_batch: 4 profile { linear { alpha_ms: 0.5 beta_ms: 2 } } }\n"
#define LOAD(rate) "seed: 3 duration_s: 0.3 load { rate: " rate " }\n"

static void test_every_policy_ends_every_request(void **state) {
    (void)state;
    static const char *const policies[] = {"serial",    "window", "deferred", "symphony",
                                           "clockwork", "nexus",  "shepherd"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        char text[1024];
        snprintf(text, sizeof(text), "%spolicy { name: '%s' }\n",
                 "device { count: 2 }\n" WHOLE("2000") LOAD("400"), policies[i]);
        struct heard heard;
        compare(text, &heard);
        /* Far from any deadline: whatever else runs on this machine, no request is dropped. Except
         * with symphony, which starts at the last possible instant: a timer that is a little late
         * costs a request. */
        bool at_last = strcmp(policies[i], "symphony") == 0;
        if (!at_last && heard.endings[TT_ENDING_DONE] != heard.requests)
            fail_msg("%s: %d of %d were computed", policies[i], heard.endings[TT_ENDING_DONE],
                     heard.requests);
        heard_fini(&heard);
    }
}

static void test_overload_drops_and_batches(void **state) {
    (void)state;
    struct heard heard;
    compare("device { count: 1 }\n" WHOLE("30") LOAD("4000") "policy { name: 'deferred' }\n",
            &heard);
    assert_true(heard.largest_batch > 1);
    assert_true(heard.endings[TT_ENDING_DROPPED] > 0);
    heard_fini(&heard);
}

#define STEPS                                                                                      \
    "model { name: 's' slo_ms: 1000 max_batch: 8\n"                                                \
    "  step { name: 'x' profile { linear { alpha_ms: 0.1 beta_ms: 2 } } }\n"                       \
    "  step { name: 'y' profile { linear { alpha_ms: 0.1 beta_ms: 2 } } }\n"                       \
    "  step { name: 'z' profile { linear { alpha_ms: 0.1 beta_ms: 2 } } } }\n"

/* Preemption at steps, catching up, merging; and stages on executors of their own. */
static void test_steps(void **state) {
    (void)state;
    static const char *const policies[] = {"lazy", "diversity"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        char text[1024];
        snprintf(text, sizeof(text), "%spolicy { name: '%s' }\n",
                 "device { executors: 3 }\n" STEPS LOAD("200"), policies[i]);
        struct heard heard;
        compare(text, &heard);
        assert_int_equal(heard.endings[TT_ENDING_DONE], heard.requests);
        assert_true(heard.steps > 0);
        heard_fini(&heard);
    }
}

#define LENGTHS                                                                                    \
    "  lengths { file: '" TUTTI_SOURCE_DIR "/data/wmt15-lengths.csv' input: 'wmt15' "              \
    "output: 'wmt15' } "
#define CELL(name, kind)                                                                           \
    "  step { name: '" name "' kind: " kind                                                        \
    " profile { linear { alpha_ms: 0.002 beta_ms: 0.1 } } }\n"
#define CHAIN                                                                                      \
    "model { name: 'chain' slo_ms: 5000 max_batch: 16\n" LENGTHS CELL("cell", "ENCODER") "}\n"
#define SEQ2SEQ                                                                                    \
    "model { name: 'seq2seq' slo_ms: 5000 max_batch: 16\n" LENGTHS CELL("encode", "ENCODER")       \
        CELL("decode", "DECODER") "cell_task_us: 20 cell_gather_us_per_row: 2 }\n"

/* L6, C7: models of cells, by cells and by whole sequences: every request is answered, and they
 * share batches. */
static void test_cells(void **state) {
    (void)state;
    static const char *const policies[] = {"cellular", "merged", "lazy", "padded", "serial"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        char text[4096];
        snprintf(text, sizeof(text), "%spolicy { name: '%s' }\n",
                 "device { }\n" CHAIN SEQ2SEQ LOAD("500"), policies[i]);
        struct heard heard;
        compare(text, &heard);
        if (heard.endings[TT_ENDING_DONE] != heard.requests)
            fail_msg("%s: %d of %d were computed", policies[i], heard.endings[TT_ENDING_DONE],
                     heard.requests);
        if ((heard.largest_batch > 1) == (strcmp(policies[i], "serial") == 0))
            fail_msg("%s: batches of up to %d", policies[i], heard.largest_batch);
        heard_fini(&heard);
    }
}

/* The lengths that the experiment says are those that the device runs: in batches of one, however
 * late they start, three requests are as many cells as in virtual time. */
static void test_as_many_cells_as_simulated(void **state) {
    (void)state;
    static const char *const policies[] = {"cellular", "lazy", "serial"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        char text[2048];
        snprintf(text, sizeof(text),
                 "device { }\nmodel { name: 's' max_batch: 1 length: 7 output_length: 5\n%s%s}\n"
                 "seed: 1 duration_s: 10 requests: 3 load { rate: 20 process: UNIFORM }\n"
                 "policy { name: '%s' }\n",
                 CELL("encode", "ENCODER"), CELL("decode", "DECODER"), policies[i]);
        struct tt_scenario_result result;
        struct heard simulated = run(text, "simulated", NULL, &result);
        struct heard emulated = run(text, "emulated", NULL, &result);
        assert_int_equal(simulated.endings[TT_ENDING_DONE], 3);
        assert_int_equal(emulated.endings[TT_ENDING_DONE], 3);
        assert_int_equal(simulated.steps - emulated.steps, 0);
        heard_fini(&simulated);
        heard_fini(&emulated);
    }
}

/* L2: devices that take far longer than their profile says, as a machine that is busy does: once an
 * assertion of the slack predictor did not allow for it. */
static void test_lazy_on_a_slow_device(void **state) {
    (void)state;
    struct tt_scenario_result result;
    struct heard heard =
        run("device { count: 1 }\njitter: 0.9\nmodel { name: 's' slo_ms: 20 max_batch: 8\n"
            "  step { name: 'x' profile { linear { alpha_ms: 1 beta_ms: 0.2 } } }\n"
            "  step { name: 'y' profile { linear { alpha_ms: 1 beta_ms: 0.2 } } } }\n"
            "seed: 3 duration_s: 10 load { rate: 300 }\npolicy { name: 'lazy' }\n",
            "simulated", NULL, &result);
    assert_true(heard.steps > 0);
    heard_fini(&heard);
}

/* A window that never fills keeps its last requests: they are sent away, and the run ends. */
static void test_who_is_kept_for_ever_is_sent_away(void **state) {
    (void)state;
    struct heard heard;
    compare(
        "device { count: 1 }\nmodel { name: 'a' max_batch: 8 "
        "profile { linear { alpha_ms: 0.2 beta_ms: 1 } } }\nseed: 3 duration_s: 10 requests: 10 "
        "load { rate: 100 }\npolicy { name: 'window' option { key: 'static' value: 'on' } option { "
        "key: 'max_batch' value: '7' } }\n",
        &heard);
    assert_int_equal(heard.endings[TT_ENDING_DONE], 7);
    assert_int_equal(heard.endings[TT_ENDING_CANCELLED], 3);
    heard_fini(&heard);
}

static void test_stopped_at_once(void **state) {
    (void)state;
    volatile sig_atomic_t stop = 1;
    struct tt_scenario_result result;
    struct heard heard =
        run("device { count: 1 }\n" WHOLE("100") LOAD("400"), "emulated", &stop, &result);
    assert_true(result.interrupted);
    heard_fini(&heard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy_ends_every_request),
        cmocka_unit_test(test_overload_drops_and_batches),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_as_many_cells_as_simulated),
        cmocka_unit_test(test_lazy_on_a_slow_device),
        cmocka_unit_test(test_who_is_kept_for_ever_is_sent_away),
        cmocka_unit_test(test_stopped_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
