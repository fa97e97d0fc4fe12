/* The load's pure half, in virtual time. */
#include "lab/load/load.h"

#include "base/instant.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct tt_scenario_model two_models[2];

static struct tt_scenario scenario_of(int64_t rate, int64_t duration_ns) {
    two_models[0] = (struct tt_scenario_model){
        .name = "one", .weight = 1, .rows = 1, .step_model.slo_ns = 10 * TT_MS};
    two_models[1] = (struct tt_scenario_model){
        .name = "two", .weight = 3, .rows = 4, .step_model.slo_ns = TT_NEVER};
    return (struct tt_scenario){.models = two_models,
                                .model_count = 2,
                                .process = TT_PROCESS_POISSON,
                                .rate = rate * TT_RATE_ONE,
                                .duration_ns = duration_ns,
                                .seed = 5};
}

static void start(struct tt_load *load, const struct tt_scenario *scenario, int32_t concurrency) {
    struct tt_error why;
    if (tt_load_init(load, scenario, concurrency, &why) != TT_OK)
        fail_msg("%s", why.text);
}

static enum tt_load_outcome end(struct tt_load *load, const struct tt_load_request *request,
                                int64_t now, enum tt_load_end how, const char *reason) {
    struct tt_load_result result = {.end = how,
                                    .sent_at = request->at,
                                    .status = how == TT_LOAD_REJECTED ? 503 : 0,
                                    .reason = reason};
    return tt_load_ended(load, request, now, &result);
}

/* Requests are taken at their instants, never before. */
static void test_open_loop(void **state) {
    (void)state;
    struct tt_scenario scenario = scenario_of(1000, TT_S);
    struct tt_arrival_source source;
    struct tt_error why;
    struct tt_load load;
    assert_int_equal(tt_arrival_source_open(&source, &scenario, &why), TT_OK);
    start(&load, &scenario, 0);
    struct tt_sim_arrival arrival;
    int64_t count = 0;
    while (tt_arrival_source_next(&source, &arrival)) {
        struct tt_load_request request;
        assert_int_equal(tt_load_next_at(&load, 0), arrival.at);
        assert_false(tt_load_take(&load, arrival.at - 1, &request));
        assert_true(tt_load_take(&load, arrival.at, &request));
        assert_int_equal(request.number, count++);
        assert_int_equal(request.at, arrival.at);
        assert_int_equal(request.model, arrival.model);
        assert_int_equal(request.rows, request.model ? 4 : 1);
        assert_int_equal(request.deadline_at, arrival.deadline_at);
        assert_false(tt_load_done(&load, arrival.at));
        end(&load, &request, arrival.at + 1, TT_LOAD_ANSWERED, NULL);
    }
    assert_true(count > 800);
    assert_int_equal(tt_load_next_at(&load, TT_S), TT_NEVER);
    assert_true(tt_load_done(&load, 0));
    assert_int_equal(load.models[0].arrived + load.models[1].arrived, count);
    assert_int_equal(tt_load_window_ns(&load), TT_S);
    tt_load_fini(&load);
    tt_arrival_source_close(&source);
}

/* At the deadline is in time; a late answer counts from the intended instant. */
static void test_outcomes(void **state) {
    (void)state;
    struct tt_scenario scenario = scenario_of(1000, TT_S);
    struct tt_load load;
    struct tt_load_request request;
    start(&load, &scenario, 0);
    do
        assert_true(tt_load_take(&load, TT_S, &request));
    while (request.model != 0);
    assert_int_equal(end(&load, &request, request.deadline_at, TT_LOAD_ANSWERED, NULL),
                     TT_LOAD_OUTCOME_OK);
    do
        assert_true(tt_load_take(&load, TT_S, &request));
    while (request.model != 0);
    assert_int_equal(end(&load, &request, request.deadline_at + 1, TT_LOAD_ANSWERED, NULL),
                     TT_LOAD_OUTCOME_LATE);
    assert_int_equal(load.models[0].latency_ns.maximum, 10 * TT_MS + 1);
    static const enum tt_load_end ends[] = {TT_LOAD_REJECTED,  TT_LOAD_FAILED,
                                            TT_LOAD_TIMED_OUT, TT_LOAD_BROKEN,
                                            TT_LOAD_CANCELLED, TT_LOAD_UNFINISHED};
    static const enum tt_load_outcome outcomes[] = {
        TT_LOAD_OUTCOME_REJECTED, TT_LOAD_OUTCOME_FAILED,    TT_LOAD_OUTCOME_TIMED_OUT,
        TT_LOAD_OUTCOME_BROKEN,   TT_LOAD_OUTCOME_CANCELLED, TT_LOAD_OUTCOME_UNFINISHED};
    for (size_t i = 0; i < TT_COUNT(ends); i++) {
        do
            assert_true(tt_load_take(&load, TT_S, &request));
        while (request.model != 0);
        assert_int_equal(end(&load, &request, request.at, ends[i], "x"), outcomes[i]);
        assert_int_equal(load.models[0].outcomes[outcomes[i]], 1);
    }
    assert_int_equal(tt_load_bad(&load.models[0]), 5);
    assert_true(tt_load_bad_rate(&load.models[0]) == 5.0 / 6);
    assert_int_equal(load.models[0].latency_ns.count, 2);
    tt_load_fini(&load);
}

static void test_reasons_are_classes(void **state) {
    (void)state;
    struct tt_scenario scenario = scenario_of(1000, TT_S);
    struct tt_load load;
    struct tt_load_request request;
    char text[300];
    start(&load, &scenario, 0);
    static const char *const texts[] = {"late by 17 us", "late by 4 us", "late by 4.25 us",
                                        "mlp_2, fp32: 7"};
    for (size_t i = 0; i < TT_COUNT(texts); i++) {
        assert_true(tt_load_take(&load, TT_S, &request));
        end(&load, &request, request.at, TT_LOAD_REJECTED, texts[i]);
    }
    assert_int_equal(load.reason_count, 3);
    assert_string_equal(load.reasons[0].text, "HTTP 503: late by # us");
    assert_string_equal(load.reasons[0].example, "late by 17 us");
    assert_int_equal(load.reasons[0].count, 2);
    assert_string_equal(load.reasons[1].example, "late by 4.25 us");
    assert_string_equal(load.reasons[1].text, "HTTP 503: late by #.# us");
    assert_string_equal(load.reasons[2].text, "HTTP 503: mlp_2, fp32: #");
    for (int i = 0; i < 2 * TT_LOAD_MAX_REASONS; i++) { /* more kinds than there is room for */
        assert_true(tt_load_take(&load, TT_S, &request));
        memset(text, 'a' + i % 26, sizeof(text));
        text[1 + i / 2] = '\0';
        end(&load, &request, request.at, TT_LOAD_BROKEN, text);
    }
    assert_int_equal(load.reason_count, TT_LOAD_MAX_REASONS);
    assert_string_equal(load.reasons[TT_LOAD_MAX_REASONS - 1].text, "others");
    int64_t sum = 0;
    for (int32_t i = 0; i < load.reason_count; i++)
        sum += load.reasons[i].count;
    assert_int_equal(sum, 4 + 2 * TT_LOAD_MAX_REASONS);
    memset(text, 'z', sizeof(text)); /* one that is too long is cut */
    text[sizeof(text) - 1] = '\0';
    assert_true(tt_load_take(&load, TT_S, &request));
    end(&load, &request, request.at, TT_LOAD_REJECTED, text);
    tt_load_fini(&load);
}

/* What comes in the warm-up is sent and awaited, and not counted. */
static void test_warm_up(void **state) {
    (void)state;
    struct tt_scenario scenario = scenario_of(1000, TT_S);
    scenario.warm_up_ns = TT_S / 2;
    struct tt_load load;
    struct tt_load_request request;
    int64_t counted = 0;
    start(&load, &scenario, 0);
    while (tt_load_take(&load, TT_S, &request)) {
        end(&load, &request, request.at, TT_LOAD_ANSWERED, NULL);
        counted += request.at >= TT_S / 2;
    }
    struct tt_load_model total;
    tt_load_total(&load, &total);
    assert_int_equal(total.arrived, counted);
    assert_int_equal(total.outcomes[TT_LOAD_OUTCOME_OK], counted);
    assert_int_equal(tt_load_window_ns(&load), TT_S / 2);
    assert_true(load.taken > counted);
    tt_load_model_fini(&total);
    tt_load_fini(&load);
}

/* Random ends: never more than `concurrency` at once, and every request is accounted for. */
static void test_closed_loop(void **state) {
    (void)state;
    uint64_t seed = test_seed((uint64_t)time(NULL));
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    struct tt_scenario scenario = scenario_of(1, TT_S);
    scenario.request_limit = 500;
    struct tt_load load;
    struct tt_load_request open[7];
    int32_t count = 0;
    int64_t now = 0;
    start(&load, &scenario, 7);
    while (!tt_load_done(&load, now)) {
        struct tt_load_request request;
        if (tt_prng_below(&prng, 2) && tt_load_take(&load, now, &request)) {
            assert_true(count < 7);
            assert_int_equal(request.at, now);
            assert_int_equal(request.deadline_at, request.model ? TT_NEVER : now + 10 * TT_MS);
            open[count++] = request;
        } else if (count) {
            int32_t i = (int32_t)tt_prng_below(&prng, (uint64_t)count);
            end(&load, &open[i], now, (enum tt_load_end)tt_prng_below(&prng, TT_LOAD_UNFINISHED),
                "r");
            open[i] = open[--count];
        }
        now += (int64_t)tt_prng_below(&prng, 100);
    }
    assert_int_equal(load.taken, 500);
    struct tt_load_model total;
    tt_load_total(&load, &total);
    int64_t sum = 0;
    for (int i = 0; i < TT_LOAD_OUTCOMES; i++)
        sum += total.outcomes[i];
    assert_int_equal(sum, 500);
    assert_true(load.models[1].arrived > load.models[0].arrived);
    tt_load_model_fini(&total);
    tt_load_fini(&load);
}

static void test_stopping(void **state) {
    (void)state;
    struct tt_scenario scenario = scenario_of(1000, TT_S);
    for (int32_t concurrency = 0; concurrency < 2; concurrency++) {
        struct tt_load load;
        struct tt_load_request request;
        start(&load, &scenario, concurrency);
        assert_true(tt_load_take(&load, TT_MS * 20, &request));
        tt_load_stop(&load, TT_MS * 20);
        struct tt_load_request another;
        assert_false(tt_load_take(&load, TT_MS * 20, &another));
        assert_false(tt_load_done(&load, TT_MS * 20));
        end(&load, &request, TT_MS * 30, TT_LOAD_UNFINISHED, NULL);
        assert_true(tt_load_done(&load, TT_MS * 30));
        assert_int_equal(tt_load_window_ns(&load), TT_MS * 30);
        tt_load_fini(&load);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_loop),           cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_reasons_are_classes), cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_closed_loop),         cmocka_unit_test(test_stopping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
