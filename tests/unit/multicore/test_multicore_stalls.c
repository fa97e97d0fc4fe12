/* threaded */
/* slow */
/* S6: the faults of test_multicore_faults.c on real threads in real time: a thread that sleeps for
 * a second in the middle of its work, a burst of 100 times the load into rings that are too small,
 * all devices absent for a while. Every request is answered exactly once. No duration is asserted:
 * that is for virtual time. */
#include "unit/multicore/multicore_world.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SLO_MS = 40, MODELS = 3, EXECUTORS = 10, MOST = 60000 };
static const struct world_model models[MODELS] = {
    {TT_MS, 5 * TT_MS, SLO_MS *TT_MS, 0},
    {500 * TT_US, 4 * TT_MS, SLO_MS *TT_MS, 0},
    {2 * TT_MS, 6 * TT_MS, SLO_MS *TT_MS, 16},
};

struct trouble {
    int64_t stall_ns;
    bool model_stalls, rank_stalls;
    int32_t burst; /* requests at once, in the middle of the run */
    bool devices_leave;
    int32_t ring_capacity;
    int32_t model_threads;
};

/* Submits `count` requests that arrive now; tries again until there is room for all. */
static int32_t submit(struct world *world, struct tt_prng *prng, int32_t first, int32_t count) {
    int32_t refusals = 0;
    for (int32_t i = 0; i < count; refusals++) {
        struct tt_device_request requests[64];
        int64_t now = tt_clock_now();
        int32_t n = count - i < 64 ? count - i : 64;
        for (int32_t k = 0; k < n; k++)
            requests[k] = (struct tt_device_request){.arrived_at = now,
                                                     .deadline_at = now + SLO_MS * TT_MS,
                                                     .id = (uint64_t)(first + i + k),
                                                     .model = (uint16_t)tt_prng_below(prng, MODELS),
                                                     .rows = 1};
        int32_t done = tt_multicore_submit(world->multicore, 0, now, requests, n);
        i += done;
        if (done == n)
            refusals--;
        else
            world_sleep(50 * TT_US);
    }
    return refusals;
}

static void change_all(struct world *world, bool up) {
    for (int32_t e = 0; e < EXECUTORS; e++)
        while (!tt_multicore_change(world->multicore, e, up))
            world_sleep(100 * TT_US);
}

/* About 3000 requests per second for 400 ms, with the fault among them. */
static void endure(const struct trouble *trouble) {
    enum { TICKS = 400 };
    struct world *world = malloc(sizeof(*world));
    struct tt_prng prng;
    struct tt_error why;
    int32_t done = 0, refusals = 0;
    uint64_t seed = test_seed((uint64_t)tt_clock_now());
    struct world_setup setup = {.models = models,
                                .model_count = MODELS,
                                .executors = EXECUTORS,
                                .model_threads = trouble->model_threads,
                                .policy = "deferred",
                                .requests = MOST,
                                .ring_capacity = trouble->ring_capacity,
                                .rest_ns = 100 * TT_US};
    assert_non_null(world);
    tt_prng_init(&prng, seed, 0);
    world_open(world, &setup);
    world->stall_ns = trouble->stall_ns;
    world->model_stalls_at = trouble->model_stalls ? 20 : 0;
    world->rank_stalls_at = trouble->rank_stalls ? 20 : 0;
    assert_int_equal(tt_multicore_start(world->multicore, &why), TT_OK);
    for (int32_t tick = 0; tick < TICKS; tick++) {
        int32_t count = (int32_t)tt_prng_below(&prng, 7);
        if (tick == TICKS / 2)
            count += trouble->burst;
        if (trouble->devices_leave && (tick == TICKS / 2 || tick == TICKS * 3 / 4))
            change_all(world, tick != TICKS / 2);
        assert_true(done + count <= MOST);
        refusals += submit(world, &prng, done, count);
        done += count;
        world_sleep(TT_MS);
    }
    for (int32_t waits = 0; world_answered(world) < done; waits++) {
        assert_true(waits < 60000); /* a minute, at least */
        world_sleep(TT_MS);
    }
    tt_multicore_stop(world->multicore);
    tt_multicore_check(world->multicore);
    for (int32_t i = 0; i < done; i++)
        assert_int_equal(world->outcomes[i].answers, 1);
    print_message("%d requests, %d times no room\n", done, refusals);
    if (trouble->burst > 0 && trouble->ring_capacity > 0)
        assert_true(refusals > 0);
    world_close(world);
    free(world);
}

static void test_model_thread_sleeps(void **state) {
    (void)state;
    for (int32_t threads = 0; threads <= 1; threads++)
        endure(&(struct trouble){.model_stalls = true,
                                 .stall_ns = TT_S,
                                 .model_threads = threads,
                                 .ring_capacity = 256});
}
static void test_rank_thread_sleeps(void **state) {
    (void)state;
    for (int32_t threads = 1; threads <= 1; threads++)
        endure(&(struct trouble){.rank_stalls = true, .stall_ns = TT_S, .model_threads = threads});
}
static void test_burst_into_small_rings(void **state) {
    (void)state;
    for (int32_t threads = 0; threads <= 2; threads++)
        endure(&(struct trouble){.burst = 30000, .model_threads = threads, .ring_capacity = 16});
}
static void test_devices_leave(void **state) {
    (void)state;
    for (int32_t threads = 0; threads <= 2; threads++)
        endure(&(struct trouble){.devices_leave = true, .model_threads = threads});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_thread_sleeps),
        cmocka_unit_test(test_rank_thread_sleeps),
        cmocka_unit_test(test_burst_into_small_rings),
        cmocka_unit_test(test_devices_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
