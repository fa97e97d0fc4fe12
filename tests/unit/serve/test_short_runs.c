/* threaded */
#include "serve/short_runs.h"

#include "unit/serve/serving_bench.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct serving_bench bench;
static struct client client;

static int32_t added; /* models of the test so far */

static int set_up(void **state) {
    (void)state;
    added = 0;
    serving_bench_open(&bench);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    serving_bench_close(&bench);
    return 0;
}

static const struct tt_serving_policy serial = {.name = "serial"};
static const struct tt_serving_policy zero = {.name = "window"};
static const struct tt_serving_policy lazy = {.name = "lazy"};         /* yields */
static const struct tt_serving_policy shepherd = {.name = "shepherd"}; /* aborts */
static const struct tt_served_model_spec plain = {
    .name = "plain", .priority_count = 100, .default_priority = 50};

static void test_who_is_trusted(void **state) {
    (void)state;
    struct tt_short_runs runs = {0};
    for (int32_t i = 0; i < TT_SHORT_RUNS_TRUSTED; i++) {
        assert_false(tt_short_runs_expects(&runs, 3));
        tt_short_runs_note(&runs, 4, 50, 50);
    }
    assert_true(tt_short_runs_expects(&runs, 3));
    assert_true(tt_short_runs_expects(&runs, 4));
    assert_false(tt_short_runs_expects(&runs, 2));
    assert_false(tt_short_runs_expects(&runs, 5));
    for (int32_t i = 0; i < 1000; i++)
        tt_short_runs_note(&runs, 3, 1, 50);
    tt_short_runs_note(&runs, 3, 51, 50); /* a rare one is forgiven */
    assert_true(tt_short_runs_expects(&runs, 3));
    tt_short_runs_note(&runs, 3, 51, 50); /* two are not */
    assert_false(tt_short_runs_expects(&runs, 3));
    for (int32_t i = 0; i < 1000; i++) /* nor is one in ten */
        tt_short_runs_note(&runs, 3, i % 10 ? 1 : 51, 50);
    assert_false(tt_short_runs_expects(&runs, 3));
    for (int32_t i = 0; i < 10; i++)
        tt_short_runs_note(&runs, 1 << 30, 51, 50);
    assert_false(tt_short_runs_expects(&runs, 1 << 30));
}

/* ---- in the server ---- */

/* The thread that a model's last run was on, and how many there were on this one. */
struct witness {
    int64_t latency_ns;
    pthread_t owner;
    int32_t here, elsewhere;
};

static int64_t witnessed(void *context, int32_t rows, int32_t length, int32_t first_step,
                         int32_t last_step) {
    (void)rows, (void)length, (void)first_step, (void)last_step;
    struct witness *self = context;
    if (pthread_equal(pthread_self(), self->owner))
        __atomic_add_fetch(&self->here, 1, __ATOMIC_RELAXED);
    else
        __atomic_add_fetch(&self->elsewhere, 1, __ATOMIC_RELAXED);
    return self->latency_ns;
}

static struct tt_served_model *add(struct witness *witness,
                                   const struct tt_serving_policy *policy) {
    static const char *const versions[] = {"1", "2", "3"};
    struct tt_served_model_spec spec = plain;
    assert_true(added < (int32_t)TT_COUNT(versions));
    spec.version = versions[added++];
    spec.slo_ns = 60 * TT_S;
    struct tt_served_model *model =
        serving_bench_add(&bench, &spec, &bench_fixed, &witness->latency_ns, policy);
    struct tt_engine_emulation load = {&bench_fixed, 1, witnessed, witness};
    struct tt_engine_model *loaded;
    struct tt_error why;
    assert_int_equal(tt_emulated_engine_load(bench.engine, &load, &loaded, &why), TT_OK);
    bench.engine->ops->unload(model->engine_model);
    model->engine_model = loaded;
    return model;
}

static void trust(struct tt_served_model *model, int64_t took_ns) {
    for (int32_t i = 0; i < TT_SHORT_RUNS_SIZES; i++)
        for (int32_t k = 0; k < TT_SHORT_RUNS_MAX; k++)
            tt_short_runs_note(&model->short_runs, 1 << i, took_ns, 50 * TT_US);
}

/* A loop that holds back, as connections' do. */
static void open_loop(struct witness *witness) {
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    tt_port_hold_back(client.port);
    witness->owner = pthread_self();
}

/* Waits as such a loop does, until at most `left` are out. */
static void loop_until(int32_t left) {
    while (client.waiting > left) {
        tt_port_rest(client.port);
        if (client.waiting > left) {
            struct pollfd bell = {client.bell, POLLIN, 0};
            assert_int_equal(poll(&bell, 1, 60000), 1);
            uint64_t count;
            assert_int_equal(read(client.bell, &count, sizeof(count)), sizeof(count));
            tt_port_drain(client.port);
        }
        tt_port_flush(client.port);
    }
}

/* Nothing has to be waited for: when the flush is over, the answers have been given. */
static void test_runs_where_it_was_brought(void **state) {
    (void)state;
    struct witness witness = {0};
    struct tt_served_model *model = add(&witness, &zero);
    trust(model, witness.latency_ns < 50 * TT_US ? witness.latency_ns : 50 * TT_US);
    open_loop(&witness);
    for (int32_t i = 0; i < 8; i++)
        client_send(&client, model, 1, (char)(1 + i), 0);
    assert_int_equal(client.waiting, 8);
    tt_port_flush(client.port);
    assert_int_equal(client.waiting, 0);
    assert_int_equal(client.ok, 8);
    assert_int_equal(witness.elsewhere, 0);
    assert_int_equal(tt_counter_get(&model->stats->ran_here), witness.here);
    client_close(&client);
}

/* A model proves itself on the executors first. */
static void test_learns_who_is_short(void **state) {
    (void)state;
    struct witness witness = {0};
    struct tt_served_model *model = add(&witness, &serial);
    open_loop(&witness);
    while (witness.here == 0) {
        client_send(&client, model, 1, 5, 0);
        loop_until(0);
    }
    assert_true(__atomic_load_n(&witness.elsewhere, __ATOMIC_RELAXED) >= TT_SHORT_RUNS_TRUSTED);
    assert_int_equal(client.wrong + client.errors, 0);
    client_close(&client);
}

/* A run that turns out to be long is run here only until that is known. */
static void test_long_ones_leave(void **state) {
    (void)state;
    struct witness witness = {.latency_ns = TT_MS};
    struct tt_served_model *model = add(&witness, &serial);
    trust(model, witness.latency_ns < 50 * TT_US ? witness.latency_ns : 50 * TT_US);
    open_loop(&witness);
    for (int32_t i = 0; i < 10; i++) {
        client_send(&client, model, 1, 5, 0);
        loop_until(0);
    }
    assert_int_equal(witness.here, 2);
    assert_int_equal(client.ok, 10);
    client_close(&client);
}

/* However many are there, the loop gets its thread back: of runs that others could do meanwhile it
 * does one or two, of tiny ones more. */
static void test_budget(void **state) {
    (void)state;
    struct witness witness = {.latency_ns = 30 * TT_US};
    struct tt_served_model *model = add(&witness, &serial);
    trust(model, 30 * TT_US);
    open_loop(&witness);
    for (int32_t i = 0; i < 100; i++)
        client_send(&client, model, 1, 5, 0);
    tt_port_flush(client.port);
    assert_in_range(__atomic_load_n(&witness.here, __ATOMIC_RELAXED), 1, 2);
    loop_until(0);
    assert_int_equal(client.ok, 100);
    assert_true(witness.elsewhere > 0);
    client_close(&client);
    struct tt_short_runs runs = {0};
    for (int32_t i = 0; i < 40; i++)
        tt_short_runs_note(&runs, 1, 10 * TT_US, 50 * TT_US);
    assert_int_equal(tt_short_runs_budget(&runs, 1, 50 * TT_US), 200 * TT_US);
    for (int32_t i = 0; i < 40; i++)
        tt_short_runs_note(&runs, 1, 40 * TT_US, 50 * TT_US);
    assert_int_equal(tt_short_runs_budget(&runs, 1, 50 * TT_US), 50 * TT_US);
}

static void test_switched_off(void **state) {
    (void)state;
    struct witness witness = {0};
    struct tt_limits limits;
    tt_limits_default(&limits);
    limits.run_here_us = 0;
    tt_serving_set_limits(bench.serving, &limits);
    struct tt_served_model *model = add(&witness, &serial);
    trust(model, witness.latency_ns < 50 * TT_US ? witness.latency_ns : 50 * TT_US);
    open_loop(&witness);
    for (int32_t i = 0; i < 50; i++)
        client_send(&client, model, 1, 5, 0);
    loop_until(0);
    assert_int_equal(witness.here, 0);
    assert_int_equal(client.ok, 50);
    client_close(&client);
}

/* A client that goes away while its request, trusted, waits behind one that is not. */
static void test_cancelled_behind_a_long_one(void **state) {
    (void)state;
    struct witness slow = {.latency_ns = 20 * TT_MS}, quick = {0};
    struct tt_served_model *one = add(&slow, &serial), *other = add(&quick, &serial);
    trust(other, 0);
    open_loop(&quick);
    slow.owner = pthread_self();
    for (int32_t i = 0; i < BENCH_EXECUTORS; i++)
        client_send(&client, one, 1, 5, 0);
    tt_port_flush(client.port);
    struct tt_inference *inference = client_send(&client, other, 1, 6, 0);
    tt_port_flush(client.port); /* queued: all executors are busy */
    tt_inference_cancel(inference);
    loop_until(0);
    assert_int_equal(client.ok, BENCH_EXECUTORS);
    assert_int_equal(client.by_error[-TT_ERR_CANCELLED], 1);
    assert_int_equal(quick.here + quick.elsewhere, 0);
    client_close(&client);
}

/* ---- two loops, short and long models, cancellations ---- */

enum { LOOPS = 2, ROUNDS = 3000 };

struct loop {
    struct tt_served_model *models[3];
    struct client client;
    uint64_t seed;
    int64_t sent;
};

static void *loop_main(void *context) {
    struct loop *self = context;
    struct client *me = &self->client;
    uint64_t random = self->seed;
    for (int32_t round = 0; round < ROUNDS; round++) {
        struct tt_inference *last = NULL;
        for (int32_t i = 0; i < 1 + (int32_t)(random >> 33) % 8; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            /* One in some hundred goes to the model that takes a millisecond. */
            int32_t which = (random >> 40) % 256 == 0 ? 2 : (int32_t)(random >> 50) % 2;
            last = client_send(me, self->models[which], 1, (char)(1 + (random >> 35) % 100), 0);
            self->sent++;
        }
        if (last && (random >> 45) % 8 == 0)
            tt_inference_cancel(last);
        tt_port_rest(me->port);
        while (me->waiting > 40) {
            struct pollfd bell = {me->bell, POLLIN, 0};
            tt_assert(poll(&bell, 1, 60000) == 1);
            uint64_t count;
            ssize_t got = read(me->bell, &count, sizeof(count));
            tt_assert(got == sizeof(count));
            tt_port_drain(me->port);
            tt_port_flush(me->port);
            tt_port_rest(me->port);
        }
    }
    return NULL;
}

static void test_stress(void **state) {
    (void)state;
    struct witness witnesses[3] = {{0}, {.latency_ns = 20 * TT_US}, {.latency_ns = TT_MS}};
    static struct loop loops[LOOPS];
    struct tt_served_model *models[3];
    const struct tt_serving_policy *const policies[3] = {&zero, &lazy, &shepherd};
    for (int32_t m = 0; m < 3; m++) {
        models[m] = add(&witnesses[m], policies[m]);
        trust(models[m], m == 1 ? 20 * TT_US : 0);
    }
    serving_bench_start(&bench);
    pthread_t threads[LOOPS];
    for (int32_t i = 0; i < LOOPS; i++) {
        loops[i] =
            (struct loop){.models = {models[0], models[1], models[2]}, .seed = 7 + (uint64_t)i};
        client_open(&loops[i].client, bench.serving);
        tt_port_hold_back(loops[i].client.port);
        assert_int_equal(pthread_create(&threads[i], NULL, loop_main, &loops[i]), 0);
    }
    int64_t sent = 0, told = 0;
    for (int32_t i = 0; i < LOOPS; i++) {
        pthread_join(threads[i], NULL);
        client_close(&loops[i].client);
        sent += loops[i].sent;
        const struct client *c = &loops[i].client;
        told += c->ok + c->by_error[-TT_ERR_CANCELLED];
        assert_int_equal(c->wrong, 0);
        assert_int_equal(c->waiting, 0);
    }
    assert_int_equal(sent, told);
    int64_t gone = 0;
    for (int32_t m = 0; m < 3; m++)
        gone += bench_gone(models[m]);
    assert_int_equal(sent, gone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_trusted),
        cmocka_unit_test_setup_teardown(test_runs_where_it_was_brought, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_learns_who_is_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_ones_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_switched_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancelled_behind_a_long_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stress, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
