/* S6: what the multicore scheduler decides in virtual time is what the simulator decides with the
 * same policy: the same batches on the same executors at the same instants, the same drops. */
#include "unit/multicore/multicore_world.h"

#include "lab/bench/scheduler_load.h"
#include "sim/simulation.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct expected {
    const struct tt_device_request *requests;
    int32_t count, next;
    struct world_batch *batches;
    int32_t batch_count;
    struct world_outcome *outcomes;
};

static bool next_arrival(void *context, struct tt_sim_arrival *out) {
    struct expected *self = context;
    if (self->next == self->count)
        return false;
    const struct tt_device_request *r = &self->requests[self->next++];
    *out = (struct tt_sim_arrival){.at = r->arrived_at,
                                   .deadline_at = r->deadline_at,
                                   .cancel_at = TT_NEVER,
                                   .model = r->model,
                                   .rows = r->rows,
                                   .length = r->length,
                                   .exit_step = -1};
    return true;
}

static void step_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                         const int64_t *numbers) {
    struct expected *self = context;
    (void)step;
    struct world_batch *batch = &self->batches[self->batch_count++];
    *batch = (struct world_batch){.start_at = now,
                                  .executor = task->executor,
                                  .model = task->model,
                                  .count = task->count,
                                  .first_id = (uint64_t)numbers[0]};
    for (int32_t i = 0; i < task->count; i++)
        batch->id_sum += (uint64_t)numbers[i];
}

static void sim_ended(void *context, const struct tt_sim_ending *ending) {
    struct expected *self = context;
    self->outcomes[ending->number] = (struct world_outcome){
        .answers = 1, .ended_at = ending->ended_at, .reason = ending->reason};
}

static enum tt_err create_policy(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why) {
    struct tt_policy_setup setup = {.domain = mechanism};
    return tt_policy_create(mechanism, context, &setup, why);
}

static void simulate(struct expected *self, const struct world *world, const char *policy,
                     int32_t executors) {
    struct tt_sim_model *models = calloc((size_t)world->model_count, sizeof(*models));
    struct tt_sim_device *devices = calloc((size_t)executors, sizeof(*devices));
    for (int32_t m = 0; m < world->model_count; m++)
        models[m].step_model = &world->models[m];
    for (int32_t d = 0; d < executors; d++)
        devices[d].executors = 1;
    struct tt_sim_options options = {
        .models = models,
        .model_count = world->model_count,
        .devices = devices,
        .device_count = executors,
        .depth = 2,
        .source = {.context = self, .next = next_arrival},
        .observer = {.context = self, .ended = sim_ended, .step_started = step_started},
        .create_policy = create_policy,
        .create_context = (void *)(uintptr_t)policy};
    struct tt_simulation *simulation;
    struct tt_error why;
    assert_int_equal(tt_simulation_new(&options, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1000000)) {
    }
    tt_simulation_free(simulation);
    free(models);
    free(devices);
}

static int by_start(const void *a, const void *b) {
    const struct world_batch *x = a, *y = b;
    if (x->start_at != y->start_at)
        return x->start_at < y->start_at ? -1 : 1;
    return (x->executor > y->executor) - (x->executor < y->executor);
}

static void compare(const struct expected *expected, struct world *world) {
    qsort(expected->batches, (size_t)expected->batch_count, sizeof(struct world_batch), by_start);
    qsort(world->batches, (size_t)world->batch_count, sizeof(struct world_batch), by_start);
    for (int32_t i = 0; i < expected->batch_count && i < world->batch_count; i++) {
        const struct world_batch *x = &expected->batches[i], *y = &world->batches[i];
        if (x->start_at != y->start_at || x->executor != y->executor || x->model != y->model ||
            x->count != y->count || x->first_id != y->first_id || x->id_sum != y->id_sum)
            fail_msg("batch %d: the simulator starts %d of model %d from R%lld on executor %d at "
                     "%lld; here it is %d of model %d from R%lld on %d at %lld",
                     i, x->count, x->model, (long long)x->first_id, x->executor,
                     (long long)x->start_at, y->count, y->model, (long long)y->first_id,
                     y->executor, (long long)y->start_at);
    }
    assert_int_equal(expected->batch_count, world->batch_count);
    for (int32_t i = 0; i < expected->count; i++) {
        assert_int_equal(expected->outcomes[i].answers, 1);
        assert_int_equal(world->outcomes[i].answers, 1);
        if (expected->outcomes[i].ended_at != world->outcomes[i].ended_at ||
            expected->outcomes[i].reason != world->outcomes[i].reason)
            fail_msg("R%d ends at %lld (%s) in the simulator, at %lld (%s) here", i,
                     (long long)expected->outcomes[i].ended_at,
                     tt_drop_reason_name(expected->outcomes[i].reason),
                     (long long)world->outcomes[i].ended_at,
                     tt_drop_reason_name(world->outcomes[i].reason));
    }
}

/* The second quarter of the requests comes `burst` times as fast. */
static void compress(struct tt_device_request *requests, int32_t count, int32_t burst) {
    int64_t from_at = requests[count / 4].arrived_at, to_at = requests[count / 2].arrived_at;
    for (int32_t i = count / 4; i < count; i++) {
        int64_t inside_ns = tt_instant_min(requests[i].arrived_at, to_at) - from_at;
        requests[i].arrived_at -= inside_ns - inside_ns / burst;
    }
}

/* `count` requests of random models at `rate` in all; every seventh has three rows. */
static void draw(struct tt_device_request *requests, int32_t count, const struct world_setup *setup,
                 int64_t rate, int32_t burst, uint64_t seed) {
    struct tt_scheduler_load load;
    struct tt_scheduler_load_options options = {
        .model_count = setup->model_count, .rate_per_s = rate, .start_at = 1000, .seed = seed};
    assert_int_equal(tt_scheduler_load_init(&load, &options), TT_OK);
    assert_int_equal(tt_scheduler_load_take(&load, TT_NEVER, requests, count), count);
    if (burst > 1)
        compress(requests, count, burst);
    for (int32_t i = 0; i < count; i++) {
        requests[i].deadline_at = requests[i].arrived_at + setup->models[requests[i].model].slo_ns;
        requests[i].rows = i % 7 == 0 ? 3 : 1;
    }
    tt_scheduler_load_fini(&load);
}

static void agree_on_burst(const struct world_setup *given, int64_t rate, int32_t count,
                           int32_t burst, uint64_t seed) {
    struct world_setup setup = *given;
    struct world world;
    struct tt_device_request *requests = calloc((size_t)count, sizeof(*requests));
    struct expected expected = {
        .requests = requests,
        .count = count,
        .batches = calloc((size_t)count, sizeof(*expected.batches)),
        .outcomes = calloc((size_t)count, sizeof(*expected.outcomes)),
    };
    setup.requests = count;
    draw(requests, count, &setup, rate, burst, seed);
    world_open(&world, &setup);
    world_run(&world, requests, count, 0, TT_NEVER - 1);
    simulate(&expected, &world, setup.policy, setup.executors);
    compare(&expected, &world);
    world_close(&world);
    free(requests);
    free(expected.batches);
    free(expected.outcomes);
}

static void agree(const struct world_setup *setup, int64_t rate, int32_t count, uint64_t seed) {
    agree_on_burst(setup, rate, count, 1, seed);
}

static const struct world_model zoo[] = {
    {1053 * TT_US, 5072 * TT_US, 25 * TT_MS, 0},  {5090 * TT_US, 18368 * TT_US, 70 * TT_MS, 0},
    {400 * TT_US, 2 * TT_MS, 30 * TT_MS, 16},     {1061 * TT_US, 10312 * TT_US, 30 * TT_MS, 0},
    {1082 * TT_US, 5204 * TT_US, 100 * TT_MS, 0}, {100 * TT_US, 5 * TT_MS, 50 * TT_MS, 64},
    {2 * TT_MS, 3 * TT_MS, 40 * TT_MS, 0},
};
static const char *const policies[] = {"adaptive", "deferred", "symphony", "eager", "timeout"};

/* One thread: always, with several models, below and above what the devices can do. */
static void test_one_thread(void **state) {
    (void)state;
    for (size_t p = 0; p < TT_COUNT(policies); p++)
        for (uint64_t seed = test_seed(1), end = seed + 3; seed < end; seed++) {
            struct world_setup setup = {.models = zoo,
                                        .model_count = (int32_t)TT_COUNT(zoo),
                                        .executors = 12,
                                        .policy = policies[p]};
            print_message("%s, seed %d\n", policies[p], (int)seed);
            agree(&setup, 2000, 8000, seed);
            agree(&setup, 6000, 8000, seed + 10);
            agree(&setup, 14000, 8000, seed + 20);
            agree_on_burst(&setup, 3000, 12000, 50, seed + 30);
        }
}

/* The two workloads that `tutti bench scheduler` measures. */
static void test_presets(void **state) {
    enum { MODELS = 20, REQUESTS = 200000 };
    static const struct {
        struct world_model model;
        int64_t rate;
    } presets[] = {{{100 * TT_US, 5 * TT_MS, 50 * TT_MS, 1024}, 4000000},
                   {{1082 * TT_US, 5204 * TT_US, 100 * TT_MS, 1024}, 785464}};
    (void)state;
    for (size_t p = 0; p < TT_COUNT(presets); p++) {
        struct world_model models[MODELS];
        for (int32_t m = 0; m < MODELS; m++)
            models[m] = presets[p].model;
        struct world_setup setup = {
            .models = models, .model_count = MODELS, .executors = 1000, .policy = "deferred"};
        agree(&setup, presets[p].rate, REQUESTS, 1);
    }
}

/* A model thread and a rank thread, stepped: with one model, where no other model's candidate can
 * get an executor out of turn. */
static void test_two_threads_one_model(void **state) {
    (void)state;
    for (size_t p = 0; p < TT_COUNT(policies); p++)
        for (int64_t rate = 2000; rate <= 8000; rate += 3000) {
            struct world_setup setup = {.models = zoo,
                                        .model_count = 1,
                                        .executors = 8,
                                        .model_threads = 1,
                                        .policy = policies[p]};
            print_message("%s, %lld r/s\n", policies[p], (long long)rate);
            agree(&setup, rate, 8000, 7);
        }
}

/* Several model threads: not always the same batches, but nothing lost and as good, within 2 %. */
static void test_several_threads(void **state) {
    (void)state;
    enum { COUNT = 30000 };
    int32_t in_time[2];
    for (int32_t many = 0; many < 2; many++) {
        struct tt_device_request *requests = calloc(COUNT, sizeof(*requests));
        struct world_setup setup = {.models = zoo,
                                    .model_count = (int32_t)TT_COUNT(zoo),
                                    .executors = 12,
                                    .model_threads = many ? 3 : 0,
                                    .policy = "deferred",
                                    .requests = COUNT};
        struct world world;
        draw(requests, COUNT, &setup, 5000, 1, 3);
        world_open(&world, &setup);
        world_run(&world, requests, COUNT, 0, TT_NEVER - 1);
        in_time[many] = world_account(&world, requests, COUNT);
        world_close(&world);
        free(requests);
    }
    print_message("in time: one thread %d, three model threads %d\n", in_time[0], in_time[1]);
    assert_true(in_time[1] > in_time[0] - COUNT / 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_two_threads_one_model),
        cmocka_unit_test(test_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
