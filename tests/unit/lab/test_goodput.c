/* The search for the goodput: where it begins changes nothing but the number of runs, and runs that
 * are cut short are those that could not have been good. */
#include "base/prng.h"
#include "lab/closed_form/bound.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/goodput.h"
#include "lab/run/scenario_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <string.h>

#include <cmocka.h>

#include "unit/seed.h"

struct bench {
    struct tt_experiment experiment;
    struct tt_scenario scenario;
};

/* Table 2 of Symphony, so and so many requests long. */
static void set_up(struct bench *bench, int64_t requests) {
    struct tt_error why = {""};
    const char *path = "experiments/symphony/table2-resnet50.pbtxt";
    assert_int_equal(tt_experiment_open(&bench->experiment, path, &why), TT_OK);
    bench->experiment.message->requests = requests;
    bench->experiment.message->warm_up_s = 0;
    bench->experiment.message->duration_s = 1000;
    assert_int_equal(tt_experiment_build(&bench->experiment, &bench->scenario, &why), TT_OK);
}

static void tear_down(struct bench *bench) {
    tt_scenario_fini(&bench->scenario);
    tt_experiment_close(&bench->experiment);
}

static struct tt_goodput search(const struct tt_scenario *scenario, bool from_bound) {
    struct tt_error why = {""};
    struct tt_goodput found;
    const struct tt_goodput_options options = {
        .bad_rate = 0.01, .precision = 0.005, .from_bound = from_bound};
    assert_int_equal(tt_goodput_search(scenario, &options, NULL, &found, &why), TT_OK);
    assert_true(found.rate > 0 && found.rate < found.bad_rate_rate);
    assert_true((double)(found.bad_rate_rate - found.rate) <= 0.005 * (double)found.bad_rate_rate);
    assert_true(found.worst_bad_rate <= 0.01);
    return found;
}

static void the_start_of_the_search_does_not_matter(void **state) {
    (void)state;
    struct bench bench;
    set_up(&bench, 20000);
    struct tt_goodput bound = search(&bench.scenario, true);
    bench.scenario.rate = 300 * TT_RATE_ONE;
    struct tt_goodput low = search(&bench.scenario, false);
    bench.scenario.rate = 300000 * TT_RATE_ONE;
    struct tt_goodput high = search(&bench.scenario, false);
    /* Near the limit bad rates are not quite monotone: three times the precision. */
    assert_true(llabs(bound.rate - low.rate) <= low.rate * 15 / 1000);
    assert_true(llabs(high.rate - low.rate) <= low.rate * 15 / 1000);
    assert_true(bound.runs < low.runs);
    /* Executors that share a device: no bound to begin at, so the load's rate is taken. */
    bench.scenario.devices[0].executors = 2;
    assert_true(tt_bound_of(&bench.scenario).staggered_per_s == 0);
    bench.scenario.rate = 5000 * TT_RATE_ONE;
    (void)search(&bench.scenario, true);
    tear_down(&bench);
}

/* The rate of a run and what it was like: whole, and cut at 1 % of its requests. */
static void compare(struct bench *bench, int64_t rate_per_s, bool is_cut) {
    struct tt_error why = {""};
    struct tt_scenario_result whole, cut;
    const struct tt_scenario_outputs outputs = {.bad_limit = bench->scenario.request_limit / 100};
    bench->scenario.rate = rate_per_s * TT_RATE_ONE;
    assert_int_equal(tt_scenario_run(&bench->scenario, false, NULL, NULL, &whole, &why), TT_OK);
    assert_int_equal(tt_scenario_run(&bench->scenario, false, &outputs, NULL, &cut, &why), TT_OK);
    int64_t bad = tt_measure_bad(&whole.measure.models[0]);
    assert_false(whole.cut);
    assert_int_equal(whole.measure.models[0].arrived, bench->scenario.request_limit);
    assert_int_equal(cut.cut, is_cut);
    assert_int_equal(is_cut, bad > outputs.bad_limit);
    if (is_cut) {
        assert_true(tt_measure_bad(&cut.measure.models[0]) > outputs.bad_limit);
        assert_true(cut.events < whole.events);
    } else {
        assert_int_equal(tt_measure_bad(&cut.measure.models[0]), bad);
        assert_int_equal(cut.events, whole.events);
    }
    tt_measure_fini(&whole.measure);
    tt_measure_fini(&cut.measure);
}

static void only_bad_runs_are_cut_short(void **state) {
    (void)state;
    struct bench bench;
    set_up(&bench, 20000);
    compare(&bench, 3000, false);
    compare(&bench, 6500, true);
    compare(&bench, 20000, true);
    tear_down(&bench);
}

/* ---- bad_share: runs are cut that cannot be good, and no others ---- */

enum { DRAWN = 60 };

static int32_t below(struct tt_prng *prng, int32_t limit) {
    return (int32_t)tt_prng_below(prng, (uint64_t)limit);
}

/* Some models of unlike weights, a warm-up or none, and an end by time, by number or both. */
static void draw(struct tt_prng *prng, struct bench *bench) {
    static const char *const processes[] = {"POISSON", "GAMMA shape: 0.2", "GAMMA shape: 1.5"};
    static const char *const policies[] = {"symphony", "eager", "deferred", "nexus", "clockwork"};
    char text[2048], path[] = "/tmp/test_goodput_XXXXXX";
    int32_t length = 0, ends = below(prng, 3);
    if (ends != 0)
        length += snprintf(text, sizeof(text), "requests: %d\n", 200 + below(prng, 4000));
    length += snprintf(text + length, sizeof(text) - (size_t)length,
                       "seed: %d duration_s: %d warm_up_s: %g device { count: %d }\n"
                       "load { rate: 300 process: %s } policy { name: \"%s\" }\n",
                       1 + below(prng, 1000), ends == 1 ? 1000 : 1 + below(prng, 3),
                       below(prng, 2) ? 0.2 : 0.0, 1 + below(prng, 4), processes[below(prng, 3)],
                       policies[below(prng, 5)]);
    for (int32_t m = 1 + below(prng, 4); m > 0; m--)
        length += snprintf(text + length, sizeof(text) - (size_t)length,
                           "model { name: \"m%d\" slo_ms: %d weight: %d "
                           "profile { linear { alpha_ms: 1 beta_ms: %d } } }\n",
                           m, 15 + below(prng, 40), 1 + below(prng, 5), 1 + below(prng, 6));
    struct tt_error why = {""};
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, (size_t)length) == length);
    close(fd);
    if (tt_experiment_open(&bench->experiment, path, &why) ||
        tt_experiment_build(&bench->experiment, &bench->scenario, &why))
        fail_msg("%s\n%s", why.text, text);
    unlink(path);
}

/* Runs of the whole scenario, never cut. */
static enum tt_err run_whole(void *context, int64_t rate, struct tt_goodput_run *out_run,
                             struct tt_error *why) {
    struct tt_scenario scenario = *(const struct tt_scenario *)context;
    struct tt_scenario_result result;
    scenario.rate = rate;
    enum tt_err err = tt_scenario_run(&scenario, false, NULL, NULL, &result, why);
    if (err)
        return err;
    *out_run = (struct tt_goodput_run){.good = true, .requests_per_model = INT64_MAX};
    struct tt_measure_model total;
    tt_measure_total(&result.measure, &total);
    for (int32_t m = 0; m < result.measure.model_count; m++) {
        const struct tt_measure_model *model = &result.measure.models[m];
        double bad = tt_measure_bad_rate(model);
        out_run->worst_bad_rate = bad > out_run->worst_bad_rate ? bad : out_run->worst_bad_rate;
        if (model->arrived > 0 && model->arrived < out_run->requests_per_model)
            out_run->requests_per_model = model->arrived;
    }
    out_run->good = total.arrived > 0 && out_run->worst_bad_rate <= 0.01;
    out_run->total_bad_rate = tt_measure_bad_rate(&total);
    out_run->requests = total.arrived;
    out_run->median_batch = (double)tt_histogram_quantile(&total.batch_rows, 1, 2);
    tt_measure_model_fini(&total);
    tt_measure_fini(&result.measure);
    return TT_OK;
}

static void cuts_and_kept_gaps_change_no_search(void **state) {
    (void)state;
    struct tt_prng prng;
    struct tt_error why = {""};
    tt_prng_init(&prng, test_seed(20), 0);
    const struct tt_goodput_options options = {.bad_rate = 0.01, .precision = 0.02};
    for (int32_t i = 0; i < DRAWN; i++) {
        struct bench bench;
        struct tt_goodput found, expected;
        draw(&prng, &bench);
        const struct tt_goodput_probe probe = {.context = &bench.scenario, .run = run_whole};
        assert_int_equal(tt_goodput_search(&bench.scenario, &options, NULL, &found, &why), TT_OK);
        assert_int_equal(tt_goodput_search_by(&bench.scenario, &options, &probe, &expected, &why),
                         TT_OK);
        assert_int_equal(found.rate, expected.rate);
        assert_int_equal(found.bad_rate_rate, expected.bad_rate_rate);
        assert_int_equal(found.runs, expected.runs);
        assert_int_equal(found.requests, expected.requests);
        assert_int_equal(found.requests_per_model, expected.requests_per_model);
        assert_true(found.worst_bad_rate == expected.worst_bad_rate);
        assert_true(found.total_bad_rate == expected.total_bad_rate);
        assert_true(found.median_batch == expected.median_batch);
        tear_down(&bench);
    }
}

/* A run with an end in time, too, whose number of requests is counted ahead. */
static void a_run_with_an_end_in_time_is_cut(void **state) {
    (void)state;
    struct bench bench;
    struct tt_error why = {""};
    struct tt_scenario_result whole, cut;
    set_up(&bench, 0);
    bench.scenario.duration_ns = 4 * TT_S;
    bench.scenario.warm_up_ns = TT_S / 2;
    bench.scenario.rate = 20000 * TT_RATE_ONE;
    const struct tt_scenario_outputs outputs = {.bad_share = 0.01};
    assert_int_equal(tt_scenario_run(&bench.scenario, false, NULL, NULL, &whole, &why), TT_OK);
    assert_int_equal(tt_scenario_run(&bench.scenario, false, &outputs, NULL, &cut, &why), TT_OK);
    assert_true(cut.cut && !whole.cut && cut.events < whole.events / 4);
    double all = (double)whole.measure.models[0].arrived;
    assert_true((double)tt_measure_bad(&cut.measure.models[0]) / all > 0.01);
    tt_measure_fini(&whole.measure);
    tt_measure_fini(&cut.measure);
    bench.scenario.rate = 3000 * TT_RATE_ONE;
    assert_int_equal(tt_scenario_run(&bench.scenario, false, &outputs, NULL, &cut, &why), TT_OK);
    assert_false(cut.cut);
    tt_measure_fini(&cut.measure);
    tear_down(&bench);
}

/* A probe that knows its limit. */
struct known {
    int64_t limit;
    int64_t too_few_below; /* bad rates below have too few requests */
    int32_t runs;
    int32_t ends_at;      /* this run, counted from 1, ends the search; 0: none */
    bool is_interruption; /* and not an error */
};

static enum tt_err try_known(void *context, int64_t rate, struct tt_goodput_run *out_run,
                             struct tt_error *why) {
    struct known *self = context;
    self->runs++;
    bool ends = self->runs == self->ends_at;
    if (ends && !self->is_interruption)
        return tt_fail(TT_ERR_IO, why, "it broke");
    *out_run = (struct tt_goodput_run){.good = !ends && rate <= self->limit,
                                       .interrupted = ends,
                                       .too_few = rate > self->limit && rate < self->too_few_below,
                                       .worst_bad_rate = 0.002,
                                       .total_bad_rate = 0.001,
                                       .requests = 100,
                                       .requests_per_model = 50,
                                       .median_batch = 4};
    return TT_OK;
}

static void any_probe_is_searched(void **state) {
    (void)state;
    struct bench bench;
    struct tt_error why = {""};
    struct tt_goodput found = {.rate = -1};
    set_up(&bench, 20000);
    const struct tt_goodput_options options = {.bad_rate = 0.01, .precision = 0.01};
    struct known known = {.limit = 4321 * TT_RATE_ONE};
    const struct tt_goodput_probe probe = {.context = &known, .run = try_known};
    assert_int_equal(tt_goodput_search_by(&bench.scenario, &options, &probe, &found, &why), TT_OK);
    assert_true(found.rate <= known.limit && found.bad_rate_rate > known.limit);
    assert_true((double)(found.bad_rate_rate - found.rate) <= 0.01 * (double)found.bad_rate_rate);
    assert_int_equal(found.runs, known.runs);
    assert_int_equal(found.requests_per_model, 50);
    assert_true(found.worst_bad_rate == 0.002 && found.median_batch == 4);
    known = (struct known){.limit = known.limit, .ends_at = 3};
    assert_int_equal(tt_goodput_search_by(&bench.scenario, &options, &probe, &found, &why),
                     TT_ERR_IO);
    assert_string_equal(why.text, "it broke");
    known = (struct known){.limit = known.limit, .ends_at = 3, .is_interruption = true};
    assert_int_equal(tt_goodput_search_by(&bench.scenario, &options, &probe, &found, &why), TT_OK);
    assert_true(found.interrupted);
    assert_int_equal(known.runs, 3);
    /* No rate is good: 5000, 2500, 1250 and 625 are tried, and no less. */
    known = (struct known){.limit = 0, .too_few_below = 1000 * TT_RATE_ONE};
    assert_int_equal(tt_goodput_search_by(&bench.scenario, &options, &probe, &found, &why), TT_OK);
    assert_int_equal(found.rate, 0);
    assert_int_equal(known.runs, 4);
    tear_down(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_of_the_search_does_not_matter),
        cmocka_unit_test(only_bad_runs_are_cut_short),
        cmocka_unit_test(cuts_and_kept_gaps_change_no_search),
        cmocka_unit_test(a_run_with_an_end_in_time_is_cut),
        cmocka_unit_test(any_probe_is_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
