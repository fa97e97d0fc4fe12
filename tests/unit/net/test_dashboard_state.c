/* threaded */
/* The live page's JSON, of a server with emulated devices. */
#include "net/dashboard/dashboard_state.h"

#include "serve/scheduler.h"
#include "unit/serve/serving_bench.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static struct serving_bench bench;
static struct client client;
static const struct tt_serving_policy serial = {.name = "serial"};
static const struct tt_option deadline_option = {"drop", "deadline"};
static const struct tt_serving_policy serial_drop = {"serial", &deadline_option, 1};
static const struct tt_served_model_spec plain = {
    .name = "a \"name\"", .priority_count = 100, .default_priority = 50};

static int set_up(void **state) {
    (void)state;
    serving_bench_open(&bench);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    client_close(&client);
    serving_bench_close(&bench);
    return 0;
}

static json_t *ask(const char *query) {
    const struct tt_dashboard_source source = {
        .serving = bench.serving, .port = client.port, .server_version = "v", .is_admin = true};
    struct tt_text text;
    struct tt_error why = {{0}};
    tt_text_init(&text);
    enum tt_err err = tt_dashboard_state(&source, query, &text, &why);
    if (err)
        fail_msg("%s", why.text);
    json_error_t error;
    json_t *json = json_loads(tt_text_string(&text), JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("%s: %s", error.text, tt_text_string(&text));
    tt_text_fini(&text);
    return json;
}

/* As a page asks that has had `before`; frees it. */
static json_t *ask_again(json_t *before) {
    char query[512];
    snprintf(query, sizeof(query), "generation=%lld&after=%s",
             (long long)json_integer_value(json_object_get(before, "generation")),
             json_string_value(json_object_get(before, "cursor")));
    json_decref(before);
    return ask(query);
}

static int64_t number_at(const json_t *list, size_t i) {
    return json_integer_value(json_array_get(list, i));
}

static int64_t rows_of(const json_t *batches) {
    int64_t rows = 0;
    for (size_t i = 0; i < json_array_size(batches); i++)
        rows += number_at(json_array_get(batches, i), 3);
    return rows;
}

/* Records settle for 2 ms before they are shown: asks until so many rows were shown, and not once
 * more than there are. Returns the last answer. */
static json_t *ask_until(json_t *before, int64_t rows, int64_t *out_shown) {
    for (*out_shown = 0;;) {
        before = ask_again(before);
        *out_shown += rows_of(json_object_get(before, "batches"));
        assert_true(*out_shown <= rows);
        if (*out_shown == rows)
            return before;
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    }
}

static void test_each_batch_is_shown_once(void **state) {
    (void)state;
    static const int64_t latency = 50 * TT_US;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &serial);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    json_t *answer = ask("");
    assert_int_equal(json_array_size(json_object_get(answer, "batches")), 0);
    for (int32_t round = 0; round < 5; round++) {
        for (int32_t i = 0; i < 100; i++)
            client_send(&client, model, 1 + i % 3, 1, 0);
        client_wait(&client, 0);
        int64_t shown;
        answer = ask_until(answer, 199, &shown);
        const json_t *counted = json_array_get(json_object_get(answer, "models"), 0);
        assert_int_equal(json_integer_value(json_object_get(counted, "rows")), 199 * (round + 1));
        assert_int_equal(json_integer_value(json_object_get(counted, "on_time")),
                         100 * (round + 1));
        assert_int_equal(json_integer_value(json_object_get(answer, "lost")), 0);
        assert_int_equal(json_integer_value(json_object_get(answer, "left_out")), 0);
    }
    answer = ask_again(answer);
    assert_int_equal(json_array_size(json_object_get(answer, "batches")), 0);
    assert_int_equal(json_array_size(json_object_get(answer, "recent")), 0);
    json_decref(answer);
}

static void test_setup_comes_once(void **state) {
    (void)state;
    static const int64_t latency = 50 * TT_US;
    struct tt_served_model_spec spec = plain;
    spec.slo_ns = 60 * TT_MS;
    serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial_drop);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    json_t *answer = ask("");
    const json_t *setup = json_object_get(answer, "setup");
    const json_t *model = json_array_get(json_object_get(setup, "models"), 0);
    assert_string_equal(json_string_value(json_object_get(setup, "server_version")), "v");
    assert_true(json_is_true(json_object_get(setup, "admin")));
    assert_string_equal(json_string_value(json_object_get(model, "name")), "a \"name\"");
    assert_string_equal(json_string_value(json_object_get(model, "policy")), "serial");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(model, "options"), "drop")), "deadline");
    assert_int_equal(json_integer_value(json_object_get(model, "slo_us")), 60000);
    assert_int_equal(json_integer_value(json_object_get(model, "executors")), BENCH_EXECUTORS);
    const json_t *profile = json_object_get(model, "profile");
    const json_t *rows = json_object_get(profile, "rows");
    const json_t *us =
        json_object_get(json_array_get(json_object_get(profile, "by_length"), 0), "us");
    assert_int_equal(json_array_size(rows), 8); /* the largest batch */
    assert_int_equal(json_array_size(us), 8);
    /* The profile of the bench: 1 ns a row and the latency. */
    assert_float_equal(json_real_value(json_array_get(us, 7)), 50.009, 1e-9);
    assert_int_equal(json_array_size(json_object_get(
                         json_array_get(json_object_get(answer, "domains"), 0), "busy_us")),
                     BENCH_EXECUTORS);
    answer = ask_again(answer);
    assert_null(json_object_get(answer, "setup"));
    json_decref(answer);
}

/* Requests with a deadline long past: a batch that ended so is late, and the model's least slack is
 * below 0; drops have their reason. */
static void test_slack_and_reasons(void **state) {
    (void)state;
    static const int64_t latency = 20 * TT_MS;
    struct tt_served_model_spec spec = plain;
    struct tt_served_model *late =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial);
    spec.name = "dropped";
    struct tt_served_model *dropped =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial_drop);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    json_t *answer = ask("");
    client_send(&client, late, 2, 1, 1); /* a deadline of 1 ns */
    client_send(&client, late, 3, 1, 3600 * TT_S);
    client_send(&client, dropped, 1, 1, 1);
    client_wait(&client, 0);
    int64_t shown = 0, least = INT64_MAX, late_batches = 0;
    while (shown < 5) {
        answer = ask_again(answer);
        const json_t *batches = json_object_get(answer, "batches");
        shown += rows_of(batches);
        for (size_t i = 0; i < json_array_size(batches); i++) {
            const json_t *batch = json_array_get(batches, i);
            assert_true(json_is_integer(json_array_get(batch, 6)));
            late_batches += number_at(batch, 6) < 0;
            assert_true(number_at(batch, 5) >= 20000);
        }
        const json_t *recent = json_array_get(json_object_get(answer, "recent"), 0);
        if (recent && json_is_integer(json_array_get(recent, 6)) && number_at(recent, 6) < least)
            least = number_at(recent, 6);
    }
    assert_int_equal(late_batches, 1);
    assert_true(least <= -19000);
    const json_t *second = json_array_get(json_object_get(answer, "models"), 1);
    assert_string_equal(json_string_value(json_object_get(second, "name")), "dropped");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(second, "dropped"), "deadline")), 1);
    json_decref(answer);
}

/* However much ran: the latest batches only, and what was left out or overwritten is counted. */
static void test_bounded(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &serial);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    json_t *answer = ask("");
    for (int32_t i = 0; i < 20000; i++) { /* 40000 records or nearly so, of 32768 */
        client_send(&client, model, 8, 1, 0);
        client_wait(&client, 32);
    }
    client_wait(&client, 0);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    answer = ask_again(answer);
    assert_int_equal(json_array_size(json_object_get(answer, "batches")), TT_DASHBOARD_BATCHES);
    assert_true(json_integer_value(json_object_get(answer, "left_out")) > 0);
    assert_true(json_integer_value(json_object_get(answer, "lost")) > 0);
    json_decref(answer);
}

static void test_queries(void **state) {
    (void)state;
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    static const struct {
        const char *query;
        bool good;
    } cases[] = {
        {"", true},
        {"generation=0&after=", true},
        {"after=0", true},
        {"after=ffffffffffffffff", true}, /* beyond the end: as none */
        {"after=1.2.3.4", true},          /* more rings than there are */
        {"generation=", false},
        {"generation=1x", false},
        {"after=.", false},
        {"after=1..2", false},
        {"after=G", false},
        {"after=fffffffffffffffff", false},
        {"before=1", false},
    };
    const struct tt_dashboard_source source = {
        .serving = bench.serving, .port = client.port, .server_version = "v"};
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_text text;
        struct tt_error why;
        tt_text_init(&text);
        enum tt_err err = tt_dashboard_state(&source, cases[i].query, &text, &why);
        if (err != (cases[i].good ? TT_OK : TT_ERR_INVALID))
            fail_msg("%s: %d", cases[i].query, err);
        tt_text_fini(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_batch_is_shown_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_setup_comes_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slack_and_reasons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queries, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
