/* threaded */
/* What a configuration's queue policies and preserve_ordering mean to clients. */
#include "unit/serve/serving_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct serving_bench bench;
static struct client client;

static int set_up(void **state) {
    (void)state;
    serving_bench_open(&bench);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    serving_bench_close(&bench);
    return 0;
}

static const struct tt_serving_policy zero = {.name = "window"};
static const struct tt_serving_policy serial = {.name = "serial"};

/* Which timeout counts: the rule's; a shorter one of the request, if the rule allows it; else the
 * request's own; else the model's objective. */
static void test_timeout_rules(void **state) {
    (void)state;
    static const int64_t latency = 1;
    static const struct tt_queue_rule deaf = {.timeout_ns = 50 * TT_MS},
                                      hears = {.timeout_ns = 50 * TT_MS, .allow_override = true},
                                      only_hears = {.allow_override = true},
                                      counts = {.max_count = 9};
    static const struct {
        const struct tt_queue_rule *rule;
        bool honours;
        int64_t asked_ns, expected_ns;
    } cases[] = {{NULL, true, 0, 7 * TT_S},
                 {NULL, true, 9 * TT_MS, 9 * TT_MS},
                 {NULL, true, 9 * TT_S, 9 * TT_S},
                 {&deaf, false, 9 * TT_MS, 50 * TT_MS},
                 {&hears, false, 9 * TT_MS, 9 * TT_MS},
                 {&hears, false, 9 * TT_S, 50 * TT_MS},
                 {&only_hears, false, 9 * TT_S, 9 * TT_S},
                 {&counts, false, 9 * TT_MS, 7 * TT_S}};
    struct tt_served_model *models[TT_COUNT(cases)];
    char names[TT_COUNT(cases)][2];
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_served_model_spec spec = {
            .name = names[i], .slo_ns = 7 * TT_S, .honours_timeout = cases[i].honours};
        struct tt_queue_rule none = {0};
        spec.rules = cases[i].rule ? cases[i].rule : &none;
        names[i][0] = (char)('a' + i);
        names[i][1] = '\0';
        models[i] = serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    }
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client.keeps = true;
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_inference *inference = client_send(&client, models[i], 1, 0, cases[i].asked_ns);
        client_wait(&client, 0);
        assert_int_equal(inference->deadline_at - inference->submitted_at, cases[i].expected_ns);
        tt_inference_release(inference);
    }
    client_close(&client);
}

/* A queue of two behind a busy executor: the rest is refused at once, with the protocol's words. */
static void test_queue_limit(void **state) {
    (void)state;
    static const int64_t latency = 50 * TT_MS;
    static const struct tt_queue_rule rule = {.max_count = 2};
    struct tt_served_model_spec spec = {.name = "short", .rules = &rule};
    struct tt_served_model *model =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    enum { SENT = 30 };
    for (int32_t i = 0; i < SENT; i++)
        client_send(&client, model, 1, 0, 0);
    client_wait(&client, SENT - 10); /* refusals come while the first ones run */
    assert_int_equal(client.by_error[-TT_ERR_BUSY], client.errors);
    assert_non_null(strstr(client.why, "Exceeds maximum queue size"));
    client_wait(&client, 0);
    assert_int_equal(client.ok + client.by_error[-TT_ERR_BUSY], SENT);
    assert_in_range(client.ok, 2, SENT - 1);
    assert_int_equal(tt_counter_get(&model->stats->dropped[TT_DROP_QUEUE_FULL]),
                     client.by_error[-TT_ERR_BUSY]);
    assert_int_equal(bench_gone(model), SENT);
    client_close(&client);
}

/* `done` of a question; *context is what became of it. */
static void note_answer(void *context, struct tt_inference *inference, enum tt_err err,
                        const char *why) {
    enum tt_err *answer = context;
    *answer = err;
    if (err)
        snprintf(client.why, sizeof(client.why), "%s", why);
    client.waiting--;
    tt_inference_release(inference);
}

static enum tt_err ask(struct tt_served_model *model, int32_t rows, int64_t timeout_ns) {
    const struct tt_inference_options options = {.timeout_ns = timeout_ns};
    struct tt_inference *question;
    struct tt_error why;
    enum tt_err answer = TT_ERR_INTERNAL;
    int32_t others = client.waiting;
    assert_int_equal(tt_inference_ask(client.port, model, rows, &question, &why), TT_OK);
    client.waiting++;
    tt_inference_submit(question, &options, note_answer, &answer);
    client_wait(&client, others);
    return answer;
}

/* A question is refused as the request would be, and counts as it; else it leaves no trace. */
static void test_questions(void **state) {
    (void)state;
    static const int64_t latency = TT_MS;
    struct tt_queue_rule none = {0};
    struct tt_served_model_spec spec = {.name = "asked", .honours_timeout = true, .rules = &none};
    struct tt_served_model *model =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial);
    struct tt_served_model_spec other = {.name = "varies", .honours_timeout = true, .rules = &none};
    struct tt_served_model *varying =
        serving_bench_add(&bench, &other, &bench_varying, &latency, &serial);
    const struct tt_inference_options hasty = {.timeout_ns = TT_US}, patient = {.timeout_ns = TT_S};
    const struct tt_model_stats *stats = model->stats;
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    assert_false(tt_inference_may_ask(model)); /* nothing was refused */
    client_send(&client, model, 1, 0, TT_US);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_true(tt_inference_may_ask(model));
    assert_false(tt_inference_may_ask(varying));
    assert_true(tt_inference_should_ask(model, &hasty));
    assert_false(tt_inference_should_ask(model, &patient));

    char told[sizeof(client.why)];
    memcpy(told, client.why, sizeof(told));
    assert_int_equal(ask(model, 3, TT_US), TT_ERR_TIMEOUT);
    assert_memory_equal(client.why, told, strlen("Request timeout expired: request to model"));
    assert_non_null(strstr(client.why, "'asked' dropped (deadline)"));
    assert_int_equal(tt_counter_get(&stats->accepted), 2);
    assert_int_equal(tt_counter_get(&stats->dropped[TT_DROP_DEADLINE]), 2);
    assert_true(tt_inference_may_ask(model));

    assert_int_equal(ask(model, 1, 0), TT_OK); /* without a deadline */
    assert_int_equal(tt_counter_get(&stats->accepted), 2);
    assert_false(tt_inference_may_ask(model));
    client_send(&client, model, 1, 0, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    assert_int_equal(bench_gone(model), 3);
    client_close(&client);
}

static int32_t last_answer;

static void note_order(void *context, struct tt_inference *inference, enum tt_err err,
                       const char *why) {
    (void)why;
    int32_t *number = context;
    assert_true(err == TT_OK || err == TT_ERR_CANCELLED);
    if (err == TT_OK) {
        assert_true(*number > last_answer);
        last_answer = *number;
    }
    client.waiting--;
    tt_inference_release(inference);
}

/* Two executors of different speed finish out of order; the answers do not. */
static void test_preserve_ordering(void **state) {
    (void)state;
    static int64_t latency = 200 * TT_US;
    struct tt_served_model_spec spec = {.name = "ordered", .preserve_ordering = true};
    struct tt_served_model *model =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    enum { SENT = 300 };
    static int32_t numbers[SENT];
    last_answer = -1;
    for (int32_t i = 0; i < SENT; i++) {
        numbers[i] = i;
        struct tt_inference_shape shapes[] = {{0, {2, {1 + i % 8, 4}}}, {1, {2, {1 + i % 8, 2}}}};
        struct tt_inference *inference;
        struct tt_error why;
        assert_int_equal(client_begin(&client, model, shapes, 2, 0, &inference, &why), TT_OK);
        client.waiting++;
        tt_inference_submit(inference, &(struct tt_inference_options){0}, note_order, &numbers[i]);
        if (i % 7 == 3)
            tt_inference_cancel(inference); /* a cancelled request holds up no other */
    }
    client_wait(&client, 0);
    assert_true(last_answer >= 0);
    assert_int_equal(bench_gone(model), SENT);
    client_close(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_timeout_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_questions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queue_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_preserve_ordering, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
