/* threaded */
/* E1, E2: a server whose policy waits for inputs: they lie in one ring for all connections, batches
 * are ranges of it, a full ring holds back and loses none. */
#include "base/prng.h"
#include "serve/input_ring.h"
#include "unit/serve/serving_bench.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct serving_bench bench;
static const struct tt_option workers = {"workers", "1,4"};
static const struct tt_serving_policy elastic = {"elastic", &workers, 1};

static struct tt_served_model *open_with(int32_t slots, const int64_t *latency) {
    struct tt_served_model_spec spec = {
        .name = "plain", .priority_count = 100, .default_priority = 50, .input_slots = slots};
    serving_bench_open(&bench);
    struct tt_served_model *model =
        serving_bench_add(&bench, &spec, &bench_fixed, latency, &elastic);
    serving_bench_start(&bench);
    return model;
}

static int64_t used(const struct tt_served_model *model) {
    return tt_counter_get(&model->stats->input_slots_used);
}

static void two_connections_share_a_batch_without_a_copy(void **state) {
    (void)state;
    static const int64_t latency = 2 * TT_MS;
    struct tt_served_model *model = open_with(0, &latency);
    assert_int_equal(tt_counter_get(&model->stats->input_slots), 64);
    struct client clients[2];
    client_open(&clients[0], bench.serving);
    client_open(&clients[1], bench.serving);
    for (int32_t i = 0; i < 60; i++) /* fewer than there are slots: no request waits for one */
        client_send(&clients[i % 2], model, 1, (char)(1 + i), 0);
    client_wait(&clients[0], 0);
    client_wait(&clients[1], 0);
    assert_int_equal(clients[0].ok + clients[1].ok, 60);
    assert_int_equal(tt_counter_get(&model->stats->gathered_bytes), 0);
    assert_int_equal(tt_counter_get(&model->stats->held_back), 0);
    assert_true(tt_counter_get(&model->stats->batches) < 60);
    assert_int_equal(used(model), 0);
    client_close(&clients[0]);
    client_close(&clients[1]);
    serving_bench_close(&bench);
}

static void a_full_ring_holds_back_and_loses_none(void **state) {
    (void)state;
    static const int64_t latency = 200 * TT_US;
    static const int32_t sizes[] = {1, 3, 5, 16}; /* slots */
    for (size_t s = 0; s < TT_COUNT(sizes); s++) {
        struct tt_served_model *model = open_with(sizes[s], &latency);
        struct client client;
        client_open(&client, bench.serving);
        int32_t most = sizes[s] < 3 ? sizes[s] : 3;
        for (int32_t i = 0; i < 300; i++)
            client_send(&client, model, 1 + i % most, (char)(1 + i % 100), 0);
        client_wait(&client, 0);
        assert_int_equal(client.ok, 300);
        assert_true(tt_counter_get(&model->stats->held_back) > 0);
        assert_int_equal(tt_counter_get(&model->stats->gathered_bytes), 0);
        assert_int_equal(used(model), 0);
        client_close(&client);
        serving_bench_close(&bench);
    }
}

static void more_rows_than_slots_are_refused(void **state) {
    (void)state;
    static const int64_t latency = TT_US;
    struct tt_served_model *model = open_with(2, &latency);
    struct client client;
    client_open(&client, bench.serving);
    struct tt_inference_shape shapes[] = {{0, {2, {3, 4}}}, {1, {2, {3, 2}}}};
    struct tt_inference *inference = NULL;
    struct tt_error why = {{0}};
    assert_int_equal(client_begin(&client, model, shapes, 2, 1, &inference, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "has 3 rows, but model 'plain' has room for the inputs of 2"));
    client_send(&client, model, 2, 5, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    client_close(&client);
    serving_bench_close(&bench);
}

/* Begun and never submitted; submitted and cancelled while it waits for slots; late there. */
static void who_goes_before_its_turn_leaves_nothing(void **state) {
    (void)state;
    static const int64_t latency = 30 * TT_MS;
    struct tt_served_model *model = open_with(4, &latency);
    struct client client;
    client_open(&client, bench.serving);
    struct tt_inference_shape shapes[] = {{0, {2, {2, 4}}}, {1, {2, {2, 2}}}};
    struct tt_inference *never;
    struct tt_error why;
    assert_int_equal(client_begin(&client, model, shapes, 2, 1, &never, &why), TT_OK);
    client_send(&client, model, 2, 2, 0);
    client.keeps = true;
    struct tt_inference *cancelled = client_send(&client, model, 4, 3, 0);
    client.keeps = false;
    assert_int_equal(tt_counter_get(&model->stats->held_back), 1);
    tt_inference_cancel(cancelled);
    client.keeps = true;
    client_wait(&client, 1);
    client.keeps = false;
    assert_int_equal(client.by_error[-TT_ERR_CANCELLED], 1);
    tt_inference_release(cancelled);
    client_send(&client, model, 3, 4, 0); /* there is room only when both before it are gone */
    assert_int_equal(tt_counter_get(&model->stats->held_back), 2);
    tt_inference_release(never);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 2);
    assert_int_equal(used(model), 0);
    client_close(&client);
    serving_bench_close(&bench);
}

/* ---- many at once ---- */

enum { THREADS = 3, EACH = 3000 };

struct storm {
    struct tt_served_model *model;
    uint64_t seed;
    int32_t ok, wrong, cancelled, others, begun;
};

static void *run_storm(void *context) {
    struct storm *self = context;
    struct tt_prng prng;
    tt_prng_init(&prng, self->seed, 0);
    struct client client;
    client_open(&client, bench.serving);
    struct tt_inference *kept[4];
    for (int32_t i = 0; i < EACH; i++) {
        int32_t rows = 1 + (int32_t)tt_prng_below(&prng, 3);
        if (tt_prng_below(&prng, 20) == 0) {
            struct tt_inference_shape shapes[] = {{0, {2, {rows, 4}}}, {1, {2, {rows, 2}}}};
            struct tt_inference *never;
            struct tt_error why;
            tt_assert(client_begin(&client, self->model, shapes, 2, 1, &never, &why) == TT_OK);
            tt_inference_release(never);
        } else if (tt_prng_below(&prng, 10) == 0) {
            client_wait(&client, 0);
            client.keeps = true;
            for (int32_t k = 0; k < 4; k++)
                kept[k] = client_send(&client, self->model, rows, (char)(1 + k), 0);
            for (int32_t k = 0; k < 4; k += 2)
                tt_inference_cancel(kept[k]);
            client_wait(&client, 0);
            for (int32_t k = 0; k < 4; k++)
                tt_inference_release(kept[k]);
            client.keeps = false;
            self->begun += 4;
        } else {
            client_send(&client, self->model, rows, (char)(1 + i % 100), 0);
            self->begun++;
        }
        if (i % 16 == 0)
            client_wait(&client, 8);
    }
    client_wait(&client, 0);
    self->ok = client.ok;
    self->wrong = client.wrong;
    self->cancelled = client.by_error[-TT_ERR_CANCELLED];
    self->others = client.errors - self->cancelled;
    client_close(&client);
    return NULL;
}

static void a_storm_from_several_connections_leaks_no_slot(void **state) {
    (void)state;
    static const int64_t latency = 5 * TT_US;
    struct tt_served_model *model = open_with(11, &latency);
    struct storm storms[THREADS];
    pthread_t threads[THREADS];
    for (int32_t i = 0; i < THREADS; i++) {
        storms[i] = (struct storm){.model = model, .seed = 77 + (uint64_t)i};
        print_message("seed %d\n", 77 + i);
        assert_int_equal(pthread_create(&threads[i], NULL, run_storm, &storms[i]), 0);
    }
    for (int32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int32_t i = 0; i < THREADS; i++) {
        assert_int_equal(storms[i].ok + storms[i].cancelled, storms[i].begun);
        assert_int_equal(storms[i].wrong + storms[i].others, 0);
    }
    assert_true(tt_counter_get(&model->stats->held_back) > 0);
    assert_int_equal(used(model), 0);
    serving_bench_close(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_connections_share_a_batch_without_a_copy),
        cmocka_unit_test(a_full_ring_holds_back_and_loses_none),
        cmocka_unit_test(more_rows_than_slots_are_refused),
        cmocka_unit_test(who_goes_before_its_turn_leaves_nothing),
        cmocka_unit_test(a_storm_from_several_connections_leaks_no_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
