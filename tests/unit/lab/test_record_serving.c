/* threaded */
/* slow */
/* A real server under load, recorded, replays to the same decisions: emulated devices, several
 * models under several policies (one of which aborts what runs), two client threads, deadlines,
 * cancellations, shapes that collide; also with the deferred ones scheduled on threads that are
 * held up at random. */
#include "base/clock.h"
#include "base/prng.h"
#include "base/threads/perturb.h"
#include "lab/replay/replay.h"
#include "record/recorder.h"
#include "unit/seed.h"
#include "unit/serve/serving_bench.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MODELS = 7, THREADS = 2 };

static struct serving_bench bench;
static char path[64];

struct load {
    struct client client;
    struct tt_served_model *models[MODELS];
    struct tt_prng prng;
    int64_t until_at, submitted;
};

static void *load_main(void *context) {
    struct load *self = context;
    struct client *client = &self->client;
    while (tt_clock_now() < self->until_at) {
        int32_t burst = 1 + (int32_t)tt_prng_below(&self->prng, 30);
        for (int32_t i = 0; i < burst; i++) {
            struct tt_served_model *model = self->models[tt_prng_below(&self->prng, MODELS)];
            int32_t rows = 1 + (int32_t)tt_prng_below(&self->prng, 4);
            struct tt_inference_shape fixed[] = {{0, {2, {rows, 4}}}, {1, {2, {rows, 2}}}};
            int32_t wide = 1 + (int32_t)tt_prng_below(&self->prng, 3);
            struct tt_inference_shape varying = {0, {3, {rows, wide, 4 - wide}}};
            bool varies = model->signature->input_count == 1;
            char fill = (char)(1 + tt_prng_below(&self->prng, 100));
            struct tt_inference *inference;
            struct tt_error why;
            tt_assert(client_begin(client, model, varies ? &varying : fixed, varies ? 1 : 2, fill,
                                   &inference, &why) == TT_OK);
            int64_t timeouts[] = {0, TT_S, 3 * TT_MS, 300 * TT_US, 1};
            client_submit(client, inference, fill, timeouts[tt_prng_below(&self->prng, 5)]);
            self->submitted++;
            if (tt_prng_below(&self->prng, 8) == 0)
                tt_inference_cancel(inference);
        }
        client_wait(client, (int32_t)tt_prng_below(&self->prng, 60));
    }
    return NULL;
}

static void add_models(struct load loads[THREADS]) {
    static const int64_t latencies[MODELS] = {200 * TT_US, 20 * TT_US,  50 * TT_US, 100 * TT_US,
                                              300 * TT_US, 100 * TT_US, TT_MS};
    static const struct tt_option like[] = {{"same_length", "on"}, {"drop", "deadline"}};
    static const struct tt_option drops[] = {{"drop", "deadline"}};
    static const struct tt_serving_policy policies[MODELS] = {
        {.name = "deferred"}, {"serial", drops, 1}, {.name = "deferred"}, {"window", like, 2},
        {.name = "shepherd"}, {.name = "deferred"}, {.name = "shepherd"}};
    static const char *const names[MODELS] = {"a", "b", "c", "d", "e", "f", "g"};
    for (int32_t i = 0; i < MODELS; i++) {
        struct tt_served_model_spec spec = {
            .name = names[i], .priority_count = 100, .default_priority = 50, .slo_ns = 10 * TT_MS};
        const struct tt_signature *signature = i == 3 ? &bench_varying : &bench_fixed;
        loads[0].models[i] = loads[1].models[i] =
            serving_bench_add(&bench, &spec, signature, &latencies[i], &policies[i]);
    }
}

static void serve(struct load loads[THREADS], uint64_t seed, struct tt_recorder *recorder,
                  int32_t scheduler_threads) {
    serving_bench_open(&bench);
    tt_serving_use_threads(bench.serving, scheduler_threads);
    tt_serving_record(bench.serving, recorder);
    add_models(loads);
    serving_bench_start(&bench);
    pthread_t threads[THREADS];
    int64_t until_at = tt_clock_now() + (scheduler_threads ? TT_S / 3 : TT_S);
    for (int32_t i = 0; i < THREADS; i++) {
        tt_prng_init(&loads[i].prng, seed + (uint64_t)i, 0);
        loads[i].until_at = until_at;
        client_open(&loads[i].client, bench.serving);
        assert_int_equal(pthread_create(&threads[i], NULL, load_main, &loads[i]), 0);
    }
    for (int32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        client_close(&loads[i].client); /* with requests in flight */
        assert_int_equal(loads[i].client.wrong, 0);
    }
}

/* What the server counted of a model; it goes with the server, the recording is whole after it. */
struct counted {
    const char *name;
    int64_t accepted, succeeded, cancelled, batches, dropped[TT_DROP_WITHDRAWN + 1];
};

static void count(const struct load *load, struct counted counted[MODELS]) {
    static const char *const names[MODELS] = {"a", "b", "c", "d", "e", "f", "g"};
    for (int32_t i = 0; i < MODELS; i++) {
        const struct tt_model_stats *stats = load->models[i]->stats;
        counted[i] = (struct counted){.name = names[i],
                                      .accepted = tt_counter_get(&stats->accepted),
                                      .succeeded = tt_counter_get(&stats->succeeded),
                                      .cancelled = tt_counter_get(&stats->cancelled),
                                      .batches = tt_counter_get(&stats->batches)};
        for (int32_t r = TT_DROP_DEADLINE; r <= TT_DROP_WITHDRAWN; r++)
            counted[i].dropped[r] = tt_counter_get(&stats->dropped[r]);
    }
}

/* The recorded figures of a domain are the server's own. */
static void compare(const struct tt_replay *replay, const struct counted counted[MODELS],
                    int64_t *requests) {
    for (int32_t m = 0; m < replay->model_count; m++) {
        const struct counted *known = NULL;
        for (int32_t i = 0; i < MODELS; i++)
            if (strcmp(counted[i].name, replay->models[m]->name) == 0)
                known = &counted[i];
        assert_non_null(known);
        const struct tt_measure_model *model = &replay->measure.models[m];
        assert_int_equal(model->arrived, known->accepted);
        assert_int_equal(model->ok + model->late, known->succeeded);
        assert_int_equal(model->cancelled, known->cancelled);
        for (int32_t r = TT_DROP_DEADLINE; r <= TT_DROP_WITHDRAWN; r++)
            assert_int_equal(model->dropped[r], known->dropped[r]);
        assert_int_equal(model->batch_rows.count - model->aborted, known->batches);
        *requests += model->arrived;
    }
}

static void served_replays(uint64_t seed, int32_t scheduler_threads) {
    print_message("seed %llu\n", (unsigned long long)seed);
    struct tt_recorder_options options = {.path = path, .program = "test", .ring_bytes = 64 << 20};
    struct tt_recorder *recorder;
    struct tt_error why;
    assert_int_equal(tt_recorder_open(&options, &recorder, &why), TT_OK);
    struct load loads[THREADS] = {0};
    struct counted counted[MODELS];
    serve(loads, seed, recorder, scheduler_threads);
    count(&loads[0], counted);
    serving_bench_close(&bench);
    assert_int_equal(tt_recorder_close(recorder, &why), TT_OK);
    struct tt_recording recording;
    assert_int_equal(tt_recording_open(path, &recording, &why), TT_OK);
    assert_true(recording.complete);
    assert_int_equal(recording.domain_count, 4);
    int32_t parties = scheduler_threads > 1 ? scheduler_threads + 1 : 3 * scheduler_threads;
    assert_int_equal(recording.stream_count, 4 + parties);
    int64_t requests = 0, decisions = 0, turns = 0;
    for (int32_t domain = 0; domain < recording.domain_count; domain++) {
        struct tt_replay replay;
        enum tt_err err = tt_replay_run(&recording, domain, true, NULL, &replay, &why);
        if (err)
            print_message("%s\n", why.text);
        assert_int_equal(err, TT_OK);
        if (replay.differs)
            print_message("%s\n", replay.difference.text);
        assert_false(replay.differs);
        assert_int_equal(replay.lost, 0);
        compare(&replay, counted, &requests);
        decisions += replay.decisions;
        turns += replay.turns;
        tt_replay_fini(&replay);
    }
    assert_int_equal(requests, loads[0].submitted + loads[1].submitted);
    assert_true(decisions > 100);
    assert_int_equal(turns > 100, scheduler_threads > 0);
    print_message("%lld requests, %lld decisions, %lld turns, %zu bytes\n", (long long)requests,
                  (long long)decisions, (long long)turns, recording.size_bytes);
    tt_recording_close(&recording);
    unlink(path);
}

static void a_server_under_load_replays(void **state) {
    (void)state;
    served_replays(test_seed((uint64_t)tt_clock_now()), 0);
}

static void one_with_scheduler_threads_replays(void **state) {
    (void)state;
    for (int32_t threads = 1; threads <= 4; threads++)
        served_replays(test_seed((uint64_t)tt_clock_now()), threads);
}

static void one_whose_threads_are_held_up_replays(void **state) {
    (void)state;
    uint64_t seed = test_seed((uint64_t)tt_clock_now());
    tt_perturb_set(20);
    for (int32_t threads = 1; threads <= 4; threads++)
        served_replays(seed, threads);
    tt_perturb_set(0);
}

int main(void) {
    snprintf(path, sizeof(path), "/tmp/tutti-test-record-%d", (int)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_server_under_load_replays),
                                       cmocka_unit_test(one_with_scheduler_threads_replays),
                                       cmocka_unit_test(one_whose_threads_are_held_up_replays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
