/* threaded */
#include "base/clock.h"
#include "base/prng.h"
#include "unit/seed.h"
#include "unit/serve/serving_bench.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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
static const struct tt_option deadline_option = {"drop", "deadline"};
static const struct tt_serving_policy serial_drop = {"serial", &deadline_option, 1};
static const struct tt_served_model_spec plain = {
    .name = "plain", .priority_count = 100, .default_priority = 50};

/* Many requests, no more than a moment apart: answers are the inputs, batches form, and since what
 * comes in order lies in order nothing is copied. */
static void test_batches_without_copies(void **state) {
    (void)state;
    static const int64_t latency = TT_MS;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    /* One urgency for all: urgent ones would overtake, and then not be adjacent. */
    for (int32_t i = 0; i < 400; i++)
        client_send(&client, model, 1 + i % 3, 7, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 400);
    assert_int_equal(tt_counter_get(&model->stats->succeeded), 400);
    assert_true(tt_counter_get(&model->stats->batches) < 400);
    assert_int_equal(tt_counter_get(&model->stats->rows), 133 * 6 + 1);
    assert_int_equal(tt_counter_get(&model->stats->gathered_bytes), 0);
    assert_true(tt_counter_get(&model->stats->compute_ns) >= 400 * TT_MS);
    client_close(&client);
}

static void test_other_policies(void **state) {
    (void)state;
    static const int64_t latency = 20 * TT_US;
    static const struct tt_serving_policy deferred = {.name = "deferred"};
    struct tt_served_model_spec spec = plain;
    struct tt_served_model *one = serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial);
    spec.name = "deferred";
    spec.slo_ns = 60 * TT_S;
    struct tt_served_model *two =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &deferred);
    spec.name = "another";
    struct tt_served_model *three =
        serving_bench_add(&bench, &spec, &bench_fixed, &latency, &serial);
    assert_ptr_equal(one->domain, three->domain);
    assert_ptr_not_equal(one->domain, two->domain);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    for (int32_t i = 0; i < 100; i++) {
        client_send(&client, one, 1 + i % 8, (char)(1 + i % 100), 0);
        client_send(&client, two, 1 + i % 8, (char)(1 + i % 100), 20 * TT_MS + TT_S);
    }
    client_wait(&client, 0);
    assert_int_equal(client.ok, 200);
    assert_int_equal(tt_counter_get(&one->stats->batches), 100);
    client_close(&client);
}

static void expect_refused(struct tt_served_model *model, int64_t x0, int64_t x1, int64_t m0,
                           const char *sentence) {
    struct tt_inference_shape shapes[] = {{1, {2, {m0, 2}}}, {0, {2, {x0, x1}}}};
    struct tt_inference *inference = NULL;
    struct tt_error why = {{0}};
    assert_int_equal(client_begin(&client, model, shapes, 2, 0, &inference, &why), TT_ERR_INVALID);
    assert_null(inference);
    if (!strstr(why.text, sentence))
        fail_msg("'%s' lacks '%s'", why.text, sentence);
}

static void test_bad_shapes(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    expect_refused(model, 1, 5, 1, "input 'x' for model 'plain': expected [-1,4], got [1,5]");
    expect_refused(model, 9, 4, 9, "batch-size must be 1 to 8 for 'plain'; input 'm'");
    expect_refused(model, 0, 4, 0, "batch-size must be 1 to 8");
    expect_refused(model, 3, 4, 2, "input 'm' has 2 rows, input 'x' has 3");
    client_send(&client, model, 2, 5, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    client_close(&client);
}

/* Cancelled in the queue, while it runs, when it is done, before and after its answer was seen. */
static void test_cancel(void **state) {
    (void)state;
    static const int64_t latency = 30 * TT_MS;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &serial);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client.keeps = true;
    enum { COUNT = BENCH_EXECUTORS * 2 + 3 };
    struct tt_inference *inferences[COUNT];
    for (int32_t i = 0; i < COUNT; i++)
        inferences[i] = client_send(&client, model, 1, 1, 0);
    tt_inference_cancel(inferences[COUNT - 1]); /* behind two full executors: still queued */
    tt_inference_cancel(inferences[COUNT - 1]); /* again says nothing new */
    client_wait(&client, COUNT - 1);
    assert_int_equal(client.by_error[-TT_ERR_CANCELLED], 1);
    assert_string_equal(client.why, "request cancelled");
    tt_inference_cancel(inferences[0]); /* with an executor by now */
    client_wait(&client, 0);
    assert_int_equal(client.ok + client.by_error[-TT_ERR_CANCELLED], COUNT);
    assert_true(client.by_error[-TT_ERR_CANCELLED] <= 2);
    tt_inference_cancel(inferences[1]); /* long done */
    for (int32_t i = 0; i < COUNT; i++)
        tt_inference_release(inferences[i]);
    assert_int_equal(bench_gone(model), COUNT);
    client_close(&client);
}

static void test_release_before_submit(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    struct tt_inference_shape shapes[] = {{0, {2, {8, 4}}}, {1, {2, {8, 2}}}};
    struct tt_error why;
    for (int32_t i = 0; i < 2000; i++) { /* more than the pool has slots */
        struct tt_inference *inference;
        assert_int_equal(client_begin(&client, model, shapes, 2, 1, &inference, &why), TT_OK);
        assert_true(inference->slot >= 0);
        tt_inference_release(inference);
    }
    client_close(&client);
    assert_int_equal(tt_counter_get(&model->stats->accepted), 0);
}

static void test_deadlines(void **state) {
    (void)state;
    static const int64_t latency = TT_US;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &serial_drop);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client_send(&client, model, 1, 3, 1);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_non_null(strstr(client.why, "model 'plain' dropped (deadline)"));
    client_send(&client, model, 1, 3, 60 * TT_S);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    assert_int_equal(tt_counter_get(&model->stats->dropped[TT_DROP_DEADLINE]), 1);
    client_close(&client);
}

static void test_limit_in_flight(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    struct tt_inference_shape shapes[] = {{0, {2, {1, 4}}}, {1, {2, {1, 2}}}};
    struct tt_inference **inferences =
        calloc(TT_PORT_IN_FLIGHT_LIMIT, sizeof(struct tt_inference *));
    assert_non_null(inferences);
    struct tt_error why;
    for (int32_t i = 0; i < TT_PORT_IN_FLIGHT_LIMIT; i++)
        assert_int_equal(client_begin(&client, model, shapes, 2, 9, &inferences[i], &why), TT_OK);
    struct tt_inference *more;
    assert_int_equal(client_begin(&client, model, shapes, 2, 9, &more, &why), TT_ERR_BUSY);
    assert_non_null(strstr(why.text, "16384 requests in flight"));
    /* Beyond the slots of the pool they lie apart, and are answered just as well. */
    for (int32_t i = 0; i < TT_PORT_IN_FLIGHT_LIMIT; i++)
        client_submit(&client, inferences[i], 9, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, TT_PORT_IN_FLIGHT_LIMIT);
    assert_int_equal(client_begin(&client, model, shapes, 2, 9, &more, &why), TT_OK);
    tt_inference_release(more);
    free(inferences);
    client_close(&client);
}

/* Ports share the limits: what one port has in flight, another one cannot have, and gets once it
 * has ended. */
static void test_limits_of_all_ports(void **state) {
    (void)state;
    static const int64_t latency = 1;
    enum { ROW_BYTES = 6 * 4 };
    struct tt_limits limits;
    tt_limits_default(&limits);
    limits.requests = 4;
    limits.queue_bytes = 5 * ROW_BYTES;
    tt_serving_set_limits(bench.serving, &limits);
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    serving_bench_start(&bench);
    struct client other;
    client_open(&client, bench.serving);
    client_open(&other, bench.serving);
    struct tt_inference_shape one[] = {{0, {2, {1, 4}}}, {1, {2, {1, 2}}}};
    struct tt_inference_shape two[] = {{0, {2, {2, 4}}}, {1, {2, {2, 2}}}};
    struct tt_inference *sent[4], *more;
    struct tt_error why;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(
                client_begin(i & 1 ? &client : &other, model, one, 2, 9, &sent[i], &why), TT_OK);
        assert_int_equal(client_begin(&client, model, one, 2, 9, &more, &why), TT_ERR_BUSY);
        assert_string_equal(why.text, "the server has 4 requests in flight, its limit");
        assert_int_equal(client_begin(&other, model, one, 2, 9, &more, &why), TT_ERR_BUSY);
        client_submit(&client, sent[1], 9, 0);
        client_wait(&client, 0);
        assert_int_equal(client_begin(&other, model, two, 2, 9, &more, &why), TT_OK);
        tt_inference_release(sent[0]);
        assert_int_equal(client_begin(&client, model, two, 2, 9, &sent[0], &why), TT_ERR_BUSY);
        assert_non_null(
            strstr(why.text, "take 96 bytes, and with this one more than the limit of 120"));
        tt_inference_release(more);
        tt_inference_release(sent[2]);
        tt_inference_release(sent[3]);
    }
    assert_int_equal(client.ok, 3);
    client_close(&client);
    client_close(&other);
}

static void test_hidden_outputs_and_priorities(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    static struct tt_signature told;
    told = bench_fixed;
    told.output_count = 1;
    told.outputs[0] = bench_fixed.outputs[1];
    struct tt_error why;
    assert_int_equal(tt_served_model_narrow(model, &told, &why), TT_OK);
    assert_int_equal(tt_served_model_signature(model)->output_count, 1);
    assert_string_equal(tt_served_model_signature(model)->outputs[0].name, "z");
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client.keeps = true;
    struct tt_inference *inference = client_send(&client, model, 2, 3, 0);
    client_wait(&client, 0);
    struct tt_tensor_view view;
    tt_inference_output(inference, 0, &view);
    assert_int_equal(view.size_bytes, 2 * sizeof(float)); /* z, not y */
    tt_inference_release(inference);
    client_close(&client);
    told.outputs[0].name[0] = 'q';
    assert_int_equal(tt_served_model_narrow(model, &told, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "the model has no output 'q'");
    told.inputs[0].shape.dims[1] = 7;
    assert_int_equal(tt_served_model_narrow(model, &told, &why), TT_ERR_INVALID);
    assert_string_equal(why.text,
                        "input 'x' has shape [-1,7] in the configuration, [-1,4] in the model");
    assert_int_equal(tt_served_model_priority(model, 0), 50);
    assert_int_equal(tt_served_model_priority(model, 3), 3);
    assert_int_equal(tt_served_model_priority(model, 101), 50);
}

struct shape_number {
    int32_t number, a, b;
};

static int by_number(const void *a, const void *b) {
    return ((const struct shape_number *)a)->number - ((const struct shape_number *)b)->number;
}

/* Two shapes whose numbers are by chance the same meet in a batch; neither fails. */
static void test_shapes_that_collide(void **state) {
    (void)state;
    static const int64_t latency = 1;
    static const struct tt_option options[] = {
        {"same_length", "on"}, {"max_delay", "10s"}, {"max_batch", "2"}};
    static const struct tt_serving_policy pairs = {"window", options, 3};
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_varying, &latency, &pairs);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    enum { SIDE = 400, COUNT = SIDE * SIDE };
    struct shape_number *numbers = calloc(COUNT, sizeof(*numbers));
    assert_non_null(numbers);
    struct tt_error why;
    struct tt_inference *inference;
    size_t none = 0;
    for (int32_t i = 0; i < COUNT; i++) {
        struct tt_inference_shape shape = {0, {3, {1, 1 + i / SIDE, 1001 + i % SIDE}}};
        assert_int_equal(tt_inference_begin(client.port, model, &shape, &none, 1, &inference, &why),
                         TT_OK);
        numbers[i] = (struct shape_number){inference->length, 1 + i / SIDE, 1001 + i % SIDE};
        tt_inference_release(inference);
    }
    qsort(numbers, COUNT, sizeof(*numbers), by_number);
    int32_t at = 1;
    while (at < COUNT && numbers[at].number != numbers[at - 1].number)
        at++;
    assert_true(at < COUNT);
    for (int32_t i = at - 1; i <= at; i++) {
        struct tt_inference_shape shape = {0, {3, {1, numbers[i].a, numbers[i].b}}};
        assert_int_equal(client_begin(&client, model, &shape, 1, 4, &inference, &why), TT_OK);
        client_submit(&client, inference, 4, 0);
    }
    /* The one that goes back to the queue waits for company again: itself twice fills a batch. */
    client_wait(&client, 1);
    struct tt_inference_shape shape = {0, {3, {1, numbers[at].a, numbers[at].b}}};
    assert_int_equal(client_begin(&client, model, &shape, 1, 4, &inference, &why), TT_OK);
    client_submit(&client, inference, 4, 0);
    client_wait(&client, 0);
    free(numbers);
    assert_int_equal(client.ok, 3);
    assert_true(tt_counter_get(&model->stats->batches) >= 2);
    client_close(&client);
}

struct shown {
    const char *version;
    char state[16], reason[200];
    bool has_model;
};

static void show(void *context, const char *name, const char *version, const char *state,
                 const char *reason, const struct tt_served_model *model) {
    struct shown *self = context;
    if (strcmp(name, "plain") != 0 || strcmp(version, self->version) != 0)
        return;
    snprintf(self->state, sizeof(self->state), "%s", state);
    snprintf(self->reason, sizeof(self->reason), "%s", reason);
    self->has_model = model != NULL;
}

/* S10: a model that is held is not ready for clients, and stays loaded: requests that were sent
 * before are answered, and it is ready again at once. */
static void test_a_model_is_held(void **state) {
    (void)state;
    static const int64_t latency = TT_MS;
    struct tt_served_model_spec spec = plain;
    struct tt_served_model *models[2], *found = NULL;
    struct tt_error why;
    for (int32_t i = 0; i < 2; i++) {
        spec.version = i ? "10" : "9";
        models[i] = serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    }
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client_send(&client, models[1], 1, 7, 0);
    assert_true(tt_serving_hold_model(client.port, "plain", "10", true));
    assert_false(tt_serving_hold_model(client.port, "plain", "10", true));
    assert_false(tt_serving_hold_model(client.port, "plain", "11", true));
    assert_int_equal(tt_serving_find(client.port, "plain", "", &found, &why), TT_OK);
    assert_ptr_equal(found, models[0]);
    assert_int_equal(tt_serving_find(client.port, "plain", "10", &found, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "no backend of the cluster takes its requests; start one"));
    struct shown shown = {.version = "10"};
    tt_serving_index(client.port, show, &shown);
    assert_string_equal(shown.state, "UNAVAILABLE");
    assert_non_null(strstr(shown.reason, "no backend"));
    assert_true(shown.has_model);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    assert_true(tt_serving_hold_model(client.port, "plain", "9", true));
    assert_int_equal(tt_serving_find(client.port, "plain", "", &found, &why), TT_ERR_UNAVAILABLE);
    assert_true(tt_serving_hold_model(client.port, "plain", "10", false));
    assert_int_equal(tt_serving_find(client.port, "plain", "", &found, &why), TT_OK);
    assert_ptr_equal(found, models[1]);
    tt_serving_index(client.port, show, &shown);
    assert_string_equal(shown.state, "READY");
    assert_string_equal(shown.reason, "");
    client_close(&client);
}

static void test_find_and_index(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model_spec spec = plain;
    spec.version = "9";
    serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    spec.version = "10";
    serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    spec.name = "odd \"\\ name";
    serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    struct tt_served_model *broken, *found = NULL;
    struct tt_served_model_spec none = {"broken", "1", "x", "{}", .slo_ns = TT_NEVER};
    assert_int_equal(tt_served_model_new(&none, &broken), TT_OK);
    tt_served_model_unavailable(broken, "it is a brick");
    tt_serving_add(bench.serving, broken);
    assert_false(tt_serving_ready(bench.serving));
    serving_bench_start(&bench);
    assert_true(tt_serving_ready(bench.serving));
    struct tt_error why;
    client_open(&client, bench.serving);
    assert_int_equal(tt_serving_find(client.port, "plain", "", &found, &why), TT_OK);
    assert_string_equal(tt_served_model_version(found), "10");
    assert_int_equal(tt_serving_find(client.port, "plain", "3", &found, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "'plain' version 3"));
    assert_int_equal(tt_serving_find(client.port, "brok", "", &found, &why), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_serving_find(client.port, "broken", "", &found, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "it is a brick"));
    assert_int_equal(tt_serving_find(client.port, "plain", "9", &found, &why), TT_OK);
    client_close(&client);
}

static void test_place_errors(void **state) {
    (void)state;
    static const int64_t latency = 1;
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &zero);
    static const struct tt_serving_policy unknown = {.name = "magic"};
    struct tt_error why;
    assert_int_equal(tt_serving_place(bench.serving, model, &unknown, bench.engine, 1,
                                      &bench.next_executor, &why),
                     TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "'magic'"));
    assert_non_null(strstr(why.text, "serial"));
    assert_int_equal(tt_serving_place(bench.serving, model, &serial, bench.engine, 7,
                                      &bench.next_executor, &why),
                     TT_ERR_BUSY);
    assert_int_equal(bench.next_executor, BENCH_EXECUTORS);
    serving_bench_start(&bench);
}

/* ---- stress ---- */

enum { STRESS_MODELS = 4 };

struct stress {
    uint64_t seed;
    struct tt_served_model *models[STRESS_MODELS]; /* the last varies */
    int64_t until_at;
    int64_t submitted;
    struct client client;
};

static struct tt_inference *stress_begin(struct stress *self, struct tt_prng *prng,
                                         struct tt_served_model *model, char fill) {
    int64_t rows = 1 + (int64_t)tt_prng_below(prng, 9); /* 9 is too many */
    struct tt_inference_shape shapes[2] = {{0, {2, {rows, 4}}}, {1, {2, {rows, 2}}}};
    bool varies = model == self->models[STRESS_MODELS - 1];
    if (varies)
        shapes[0].shape = (struct tt_shape){
            3, {rows, 1 + (int64_t)tt_prng_below(prng, 3), 1 + (int64_t)tt_prng_below(prng, 3)}};
    struct tt_inference *inference = NULL;
    struct tt_error why;
    enum tt_err err =
        client_begin(&self->client, model, shapes, varies ? 1 : 2, fill, &inference, &why);
    tt_assert(err == (rows <= 8 ? TT_OK : TT_ERR_INVALID));
    return inference;
}

static void *stress_main(void *context) {
    struct stress *self = context;
    struct tt_prng prng;
    tt_prng_init(&prng, self->seed, 0);
    struct client *client_ = &self->client;
    while (tt_clock_now() < self->until_at) {
        int32_t burst = 1 + (int32_t)tt_prng_below(&prng, 40);
        for (int32_t i = 0; i < burst; i++) {
            char fill = (char)(1 + tt_prng_below(&prng, 100));
            struct tt_inference *inference =
                stress_begin(self, &prng, self->models[tt_prng_below(&prng, STRESS_MODELS)], fill);
            if (!inference)
                continue;
            if (tt_prng_below(&prng, 10) == 0) {
                tt_inference_release(inference);
                continue;
            }
            int64_t timeouts[] = {0, TT_S, TT_MS, 100 * TT_US, 1};
            client_submit(client_, inference, fill, timeouts[tt_prng_below(&prng, 5)]);
            self->submitted++;
            if (tt_prng_below(&prng, 8) == 0)
                tt_inference_cancel(
                    inference); /* done comes from drain only, so it is still there */
        }
        client_wait(client_, (int32_t)tt_prng_below(&prng, 60));
    }
    return NULL;
}

static void test_stress(void **state) {
    (void)state;
    static const int64_t latencies[STRESS_MODELS] = {200 * TT_US, 20 * TT_US, 50 * TT_US,
                                                     100 * TT_US};
    static const struct tt_option like[] = {{"same_length", "on"}, {"drop", "deadline"}};
    static const struct tt_serving_policy policies[STRESS_MODELS] = {
        {.name = "window"},
        {"serial", &deadline_option, 1},
        {.name = "deferred"},
        {"window", like, 2}};
    static const char *const names[STRESS_MODELS] = {"a", "b", "c", "d"};
    uint64_t seed = test_seed((uint64_t)tt_clock_now());
    struct stress stress[2] = {{.seed = seed}, {.seed = seed + 1}};
    for (int32_t i = 0; i < STRESS_MODELS; i++) {
        struct tt_served_model_spec spec = plain;
        spec.name = names[i];
        spec.slo_ns = 10 * TT_MS;
        stress[0].models[i] = stress[1].models[i] =
            serving_bench_add(&bench, &spec, i == STRESS_MODELS - 1 ? &bench_varying : &bench_fixed,
                              &latencies[i], &policies[i]);
    }
    serving_bench_start(&bench);
    pthread_t threads[2];
    int64_t until_at = tt_clock_now() + TT_S;
    for (int32_t i = 0; i < 2; i++) {
        stress[i].until_at = until_at;
        client_open(&stress[i].client, bench.serving);
        assert_int_equal(pthread_create(&threads[i], NULL, stress_main, &stress[i]), 0);
    }
    int64_t submitted = 0, ok = 0, cancelled = 0, gone = 0, accepted = 0;
    for (int32_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        client_close(&stress[i].client); /* with requests in flight */
        struct client *c = &stress[i].client;
        assert_int_equal(c->waiting, 0);
        assert_int_equal(c->wrong, 0);
        assert_int_equal(c->ok + c->errors, stress[i].submitted);
        assert_int_equal(c->by_error[-TT_ERR_CANCELLED] + c->by_error[-TT_ERR_TIMEOUT], c->errors);
        submitted += stress[i].submitted;
        ok += c->ok;
        cancelled += c->by_error[-TT_ERR_CANCELLED];
    }
    int64_t succeeded = 0, left = 0;
    for (int32_t i = 0; i < STRESS_MODELS; i++) {
        const struct tt_model_stats *stats = stress[0].models[i]->stats;
        accepted += tt_counter_get(&stats->accepted);
        gone += bench_gone(stress[0].models[i]);
        succeeded += tt_counter_get(&stats->succeeded);
        left += tt_counter_get(&stats->cancelled);
    }
    assert_int_equal(accepted, submitted);
    assert_int_equal(gone, accepted);
    assert_int_equal(succeeded, ok);
    assert_int_equal(left, cancelled);
    assert_true(ok > 0);
}

/* E7: a static batch is filled up with blank rows, whose answers are discarded. */
static void test_padded_batches(void **state) {
    (void)state;
    static const int64_t latency = TT_US;
    static const struct tt_option options[] = {{"static", "padded"}, {"max_delay", "2ms"}};
    static const struct tt_serving_policy padded = {"window", options, 2};
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &padded);
    struct tt_served_model_spec spec = plain;
    spec.name = "varying";
    struct tt_served_model *varying =
        serving_bench_add(&bench, &spec, &bench_varying, &latency, &padded);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client_send(&client, model, 3, 7, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    assert_int_equal(tt_counter_get(&model->stats->rows), 3);
    assert_int_equal(tt_counter_get(&model->stats->gathered_bytes), 8 * (16 + 8));
    client_send(&client, model, 8, 9, 0); /* full: bound as it lies */
    client_wait(&client, 0);
    assert_int_equal(client.ok, 2);
    assert_int_equal(tt_counter_get(&model->stats->gathered_bytes), 8 * (16 + 8));
    struct tt_inference_shape shape = {0, {3, {2, 3, 4}}};
    struct tt_inference *inference;
    struct tt_error why;
    assert_int_equal(client_begin(&client, varying, &shape, 1, 5, &inference, &why), TT_OK);
    client_submit(&client, inference, 5,
                  0); /* what nothing is known of beforehand stays as it is */
    client_wait(&client, 0);
    assert_int_equal(client.ok, 3);
    client_close(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_batches_without_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_policies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_release_before_submit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deadlines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limit_in_flight, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits_of_all_ports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hidden_outputs_and_priorities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shapes_that_collide, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_model_is_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_find_and_index, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_place_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_padded_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stress, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
