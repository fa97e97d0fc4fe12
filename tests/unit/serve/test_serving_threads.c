/* threaded */
/* slow */
/* S6: a server whose domains are scheduled on threads of their own answers as it does without: each
 * request once, with its own bytes, or with the error that says why not. */
#include "unit/serve/serving_bench.h"

#include "base/clock.h"
#include "base/prng.h"
#include "base/threads/perturb.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <pthread.h>

enum { MODELS = 4 };

static struct serving_bench bench;
static const struct tt_serving_policy deferred = {.name = "deferred"};
static const struct tt_serving_policy symphony = {.name = "symphony"};
static const struct tt_serving_policy window = {.name = "window"};
static const struct tt_served_model_spec plain = {
    .name = "plain", .priority_count = 100, .default_priority = 50};

static void open_with(int32_t threads) {
    serving_bench_open(&bench);
    tt_serving_use_threads(bench.serving, threads);
}

static void test_batches(void **state) {
    (void)state;
    static const int64_t latency = TT_MS;
    for (int32_t threads = 1; threads <= 3; threads++) {
        struct client client;
        open_with(threads);
        struct tt_served_model *model =
            serving_bench_add(&bench, &plain, &bench_fixed, &latency, &deferred);
        serving_bench_start(&bench);
        client_open(&client, bench.serving);
        for (int32_t i = 0; i < 400; i++)
            client_send(&client, model, 1 + i % 3, 7, 0);
        client_wait(&client, 0);
        assert_int_equal(client.ok, 400);
        assert_int_equal(tt_counter_get(&model->stats->succeeded), 400);
        assert_true(tt_counter_get(&model->stats->batches) < 400);
        assert_int_equal(tt_counter_get(&model->stats->rows), 133 * 6 + 1);
        client_close(&client);
        serving_bench_close(&bench);
    }
}

static void test_cancel(void **state) {
    (void)state;
    static const int64_t latency = 30 * TT_MS;
    for (int32_t threads = 1; threads <= 2; threads++) {
        struct client client;
        open_with(threads);
        struct tt_served_model *model =
            serving_bench_add(&bench, &plain, &bench_fixed, &latency, &deferred);
        serving_bench_start(&bench);
        client_open(&client, bench.serving);
        client.keeps = true;
        enum { COUNT = 8 * BENCH_EXECUTORS + 3 };
        struct tt_inference *inferences[COUNT];
        for (int32_t i = 0; i < COUNT; i++)
            inferences[i] = client_send(&client, model, 8, 1, 0); /* each a batch of its own */
        tt_inference_cancel(inferences[COUNT - 1]); /* behind many: it leaves its queue */
        tt_inference_cancel(inferences[COUNT - 1]);
        client_wait(&client, COUNT - 1);
        assert_int_equal(client.by_error[-TT_ERR_CANCELLED], 1);
        tt_inference_cancel(inferences[0]); /* with an executor by now, or done */
        client_wait(&client, 0);
        assert_int_equal(client.ok + client.by_error[-TT_ERR_CANCELLED], COUNT);
        assert_true(client.by_error[-TT_ERR_CANCELLED] <= 2);
        for (int32_t i = 0; i < COUNT; i++)
            tt_inference_release(inferences[i]);
        assert_int_equal(bench_gone(model), COUNT);
        assert_true(tt_counter_get(&model->stats->rows) <= 8 * (COUNT - 1));
        client_close(&client);
        serving_bench_close(&bench);
    }
}

static void test_deadline(void **state) {
    (void)state;
    static const int64_t latency = TT_US;
    struct client client;
    open_with(2);
    struct tt_served_model *model =
        serving_bench_add(&bench, &plain, &bench_fixed, &latency, &deferred);
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
    serving_bench_close(&bench);
}

struct stress {
    struct client client;
    struct tt_served_model *models[MODELS];
    uint64_t seed;
    int64_t until_at;
    int32_t submitted;
};

/* Requests of the fixed shape, or of one of several shapes that cannot be computed together: a
 * request that lands in a batch of another shape runs again. */
static struct tt_inference *stress_begin(struct stress *self, struct tt_prng *prng, int32_t model,
                                         char fill) {
    bool varies = model == MODELS - 1;
    int64_t rows = 1 + (int64_t)tt_prng_below(prng, 4);
    int64_t size = 1 + (int64_t)tt_prng_below(prng, 3);
    struct tt_inference_shape fixed[] = {{0, {2, {rows, 4}}}, {1, {2, {rows, 2}}}};
    struct tt_inference_shape any[] = {{0, {3, {rows, size, 2}}}};
    struct tt_inference *inference;
    struct tt_error why;
    enum tt_err err = client_begin(&self->client, self->models[model], varies ? any : fixed,
                                   varies ? 1 : 2, fill, &inference, &why);
    tt_assert(err == TT_OK);
    return inference;
}

static void *stress_main(void *context) {
    struct stress *self = context;
    struct tt_prng prng;
    tt_prng_init(&prng, self->seed, 0);
    while (tt_clock_now() < self->until_at) {
        int32_t burst = 1 + (int32_t)tt_prng_below(&prng, 40);
        for (int32_t i = 0; i < burst; i++) {
            char fill = (char)(1 + tt_prng_below(&prng, 100));
            struct tt_inference *inference =
                stress_begin(self, &prng, (int32_t)tt_prng_below(&prng, MODELS), fill);
            int64_t timeouts[] = {0, TT_S, TT_MS, 100 * TT_US, 1};
            client_submit(&self->client, inference, fill, timeouts[tt_prng_below(&prng, 5)]);
            self->submitted++;
            if (tt_prng_below(&prng, 8) == 0)
                tt_inference_cancel(inference);
        }
        client_wait(&self->client, (int32_t)tt_prng_below(&prng, 60));
    }
    return NULL;
}

static void stress_with(int32_t threads, uint64_t seed) {
    static const int64_t latencies[MODELS] = {200 * TT_US, 20 * TT_US, 50 * TT_US, 100 * TT_US};
    static const struct tt_serving_policy *const policies[MODELS] = {&deferred, &symphony, &window,
                                                                     &deferred};
    static const char *const names[MODELS] = {"a", "b", "c", "d"};
    struct stress stress[2] = {{.seed = seed}, {.seed = seed + 1}};
    open_with(threads);
    for (int32_t i = 0; i < MODELS; i++) {
        struct tt_served_model_spec spec = plain;
        spec.name = names[i];
        spec.slo_ns = 10 * TT_MS;
        stress[0].models[i] = stress[1].models[i] =
            serving_bench_add(&bench, &spec, i == MODELS - 1 ? &bench_varying : &bench_fixed,
                              &latencies[i], policies[i]);
    }
    serving_bench_start(&bench);
    pthread_t clients[2];
    int64_t until_at = tt_clock_now() + 300 * TT_MS;
    for (int32_t i = 0; i < 2; i++) {
        stress[i].until_at = until_at;
        client_open(&stress[i].client, bench.serving);
        assert_int_equal(pthread_create(&clients[i], NULL, stress_main, &stress[i]), 0);
    }
    int64_t submitted = 0, gone = 0, ok = 0;
    for (int32_t i = 0; i < 2; i++) {
        pthread_join(clients[i], NULL);
        client_close(&stress[i].client); /* with requests in flight */
        const struct client *c = &stress[i].client;
        assert_int_equal(c->waiting, 0);
        assert_int_equal(c->wrong, 0);
        assert_int_equal(c->ok + c->errors, stress[i].submitted);
        assert_int_equal(c->by_error[-TT_ERR_CANCELLED] + c->by_error[-TT_ERR_TIMEOUT], c->errors);
        submitted += stress[i].submitted;
        ok += c->ok;
    }
    for (int32_t i = 0; i < MODELS; i++)
        gone += bench_gone(stress[0].models[i]);
    print_message("%d threads: %lld requests, %lld answered with results\n", threads,
                  (long long)submitted, (long long)ok);
    assert_int_equal(gone, submitted);
    assert_true(ok > 0);
    serving_bench_close(&bench);
}

static void test_stress(void **state) {
    (void)state;
    uint64_t seed = test_seed((uint64_t)tt_clock_now());
    for (int32_t threads = 1; threads <= 4; threads++) {
        tt_perturb_set(threads % 2 ? 50 : 0);
        stress_with(threads, seed);
    }
    tt_perturb_set(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_stress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
