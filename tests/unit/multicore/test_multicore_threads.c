/* threaded */
/* slow */
/* S6: the multicore scheduler on real threads that yield at random at every point of contact. In
 * any interleaving each request is answered exactly once. Rounds differ in threads, models,
 * devices, ring sizes, and how often threads yield. Devices are removed and added meanwhile.
 *
 * TUTTI_STRESS_REQUESTS sets the total number of requests (200000; tests/soak/multicore.sh runs
 * 10^8), TUTTI_SEED the seed. */
#include "base/clock.h"
#include "base/instant.h"
#include "base/prng.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "base/threads/perturb.h"
#include "multicore/emulated_fleet.h"
#include "multicore/multicore.h"
#include "policy/deferred/deferred.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_MODELS = 100, MAX_EXECUTORS = 200, ROUND = 50000, PORTS = 2 };

struct round {
    struct tt_prng prng;
    struct tt_profile *profile;
    struct tt_step step;
    struct tt_step_model models[MAX_MODELS];
    int32_t model_count, executors;
    struct tt_emulated_fleet fleet;
    struct tt_multicore *multicore;
    uint8_t *answers; /* [id]: number of answers */
    struct tt_counter answered[TT_MULTICORE_MAX_THREADS];
    int64_t slo_ns;
};

static int32_t draw(struct round *self, int32_t low, int32_t high) {
    return low + (int32_t)tt_prng_below(&self->prng, (uint64_t)(high - low + 1));
}

static void ended(void *context, int32_t thread, int64_t now,
                  const struct tt_multicore_batch *batch) {
    struct round *self = context;
    tt_assert(batch->head.ended_at <= now); /* cmocka works on the main thread only */
    tt_assert(batch->thread == thread);
    for (int32_t i = 0; i < batch->head.count; i++) {
        tt_assert(batch->requests[i].model == batch->head.model);
        self->answers[batch->requests[i].id]++;
    }
    tt_counter_add(&self->answered[thread], batch->head.count);
}

static void dropped(void *context, int32_t thread, int64_t now,
                    const struct tt_device_request *request, enum tt_drop_reason reason) {
    struct round *self = context;
    (void)now;
    tt_assert(reason != TT_DROP_NONE);
    self->answers[request->id]++;
    tt_counter_add(&self->answered[thread], 1);
}

static int64_t answered(const struct round *self) {
    int64_t sum = 0;
    for (int32_t t = 0; t < self->multicore->thread_count; t++)
        sum += tt_counter_get(&self->answered[t]);
    return sum;
}

static void open_round(struct round *self, uint64_t seed) {
    static const char *const policies[] = {"adaptive", "deferred", "symphony", "eager", "timeout"};
    *self = (struct round){0};
    tt_prng_init(&self->prng, seed, 0);
    self->model_count = draw(self, 1, draw(self, 1, MAX_MODELS));
    self->executors = draw(self, 1, draw(self, 1, MAX_EXECUTORS));
    self->slo_ns = draw(self, 1, 20) * TT_MS;
    int32_t max_batch = draw(self, 1, 200);
    assert_int_equal(tt_profile_new_linear(draw(self, 0, 20) * TT_US + 100,
                                           draw(self, 1, 2000) * TT_US, max_batch, &self->profile,
                                           NULL),
                     TT_OK);
    self->step = (struct tt_step){.name = "whole", .profile = self->profile};
    for (int32_t m = 0; m < self->model_count; m++)
        self->models[m] = (struct tt_step_model){.name = "m",
                                                 .step_count = 1,
                                                 .steps = &self->step,
                                                 .whole = self->profile,
                                                 .slo_ns = self->slo_ns,
                                                 .max_batch = max_batch};
    self->answers = calloc(ROUND, 1);
    assert_non_null(self->answers);
    assert_int_equal(tt_emulated_fleet_init(&self->fleet, self->executors, self->models), TT_OK);
    struct tt_deferred_options policy;
    struct tt_error why;
    assert_int_equal(tt_deferred_options_parse(
                         tt_policy_find(policies[draw(self, 0, (int32_t)TT_COUNT(policies) - 1)]),
                         NULL, 0, &policy, &why),
                     TT_OK);
    struct tt_multicore_options options = {
        .model_threads = draw(self, 0, 3),
        .model_count = self->model_count,
        .executor_count = self->executors,
        .port_count = PORTS,
        .ring_capacity = 1 << draw(self, 0, 12),
        .request_limit = draw(self, 10, 20000),
        .policy = &policy,
        .models = self->models,
        .devices = tt_emulated_fleet_devices(&self->fleet),
        .client = {.context = self, .ended = ended, .dropped = dropped},
        .rest_ns = draw(self, 0, 2) * 20 * TT_US,
        .spin_ns = draw(self, 0, 2) * 5 * TT_US};
    assert_int_equal(tt_multicore_new(&options, &self->multicore, &why), TT_OK);
    assert_int_equal(tt_multicore_start(self->multicore, &why), TT_OK);
}

static void change(struct round *self, int32_t executor, bool up) {
    while (!tt_multicore_change(self->multicore, executor, up)) {
        /* 1024 changes are on their way; the rank thread takes them in soon. */
        struct tt_eventcount eventcount;
        tt_eventcount_init(&eventcount);
        tt_eventcount_sleep(&eventcount, tt_clock_now() + 100 * TT_US);
    }
}

/* Submits one burst to a random port; tries again until there is room for all. */
static void submit(struct round *self, int32_t first, int32_t count) {
    struct tt_device_request burst[256];
    int32_t port = draw(self, 0, PORTS - 1), done = 0;
    int64_t now = tt_clock_now();
    for (int32_t i = 0; i < count; i++)
        burst[i] =
            (struct tt_device_request){.arrived_at = now,
                                       .deadline_at = now + self->slo_ns,
                                       .id = (uint64_t)(first + i),
                                       .model = (uint16_t)draw(self, 0, self->model_count - 1),
                                       .rows = 1};
    for (;;) {
        done += tt_multicore_submit(self->multicore, port, now, burst + done, count - done);
        if (done == count)
            break;
        struct tt_eventcount eventcount;
        tt_eventcount_init(&eventcount);
        tt_eventcount_sleep(&eventcount, tt_clock_now() + 20 * TT_US);
    }
}

static void run_round(uint64_t seed) {
    struct round *self = malloc(sizeof(*self));
    assert_non_null(self);
    open_round(self, seed);
    tt_perturb_set((uint32_t)draw(self, 0, 3) * 40);
    for (int32_t e = 0; e < self->executors; e++)
        change(self, e, true);
    for (int32_t done = 0; done < ROUND;) {
        int32_t count = draw(self, 1, 256);
        count = count < ROUND - done ? count : ROUND - done;
        submit(self, done, count);
        done += count;
        if (draw(self, 0, 20) == 0)
            change(self, draw(self, 0, self->executors - 1), draw(self, 0, 1));
    }
    for (int32_t e = 0; e < self->executors; e++)
        change(self, e, true);
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    for (int32_t waits = 0; answered(self) < ROUND; waits++) {
        if (waits == 60000) /* a minute, at least */
            fail_msg("seed %llu: %lld of %d answered", (unsigned long long)seed,
                     (long long)answered(self), ROUND);
        tt_eventcount_sleep(&eventcount, tt_clock_now() + TT_MS);
    }
    tt_multicore_stop(self->multicore);
    tt_perturb_set(0);
    tt_multicore_check(self->multicore);
    for (int32_t i = 0; i < ROUND; i++)
        if (self->answers[i] != 1)
            fail_msg("seed %llu: R%d was answered %d times", (unsigned long long)seed, i,
                     self->answers[i]);
    tt_multicore_free(self->multicore);
    tt_emulated_fleet_fini(&self->fleet);
    tt_profile_free(self->profile);
    free(self->answers);
    free(self);
}

static int64_t from_environment(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text ? atoll(text) : otherwise;
}

static void test_every_request_once(void **state) {
    (void)state;
    int64_t requests = from_environment("TUTTI_STRESS_REQUESTS", 200000);
    uint64_t seed = test_seed((uint64_t)tt_clock_now());
    for (int64_t done = 0; done < requests; done += ROUND, seed++) {
        run_round(seed);
        if (done / 5000000 != (done + ROUND) / 5000000)
            print_message("%lld requests\n", (long long)(done + ROUND));
    }
}

/* Without work the threads sleep: they use hardly any processor time. */
static void test_idle_costs_nothing(void **state) {
    (void)state;
    struct round *self = malloc(sizeof(*self));
    struct tt_eventcount eventcount;
    int64_t model_ns, rank_ns, model_before_ns, rank_before_ns;
    assert_non_null(self);
    open_round(self, 1);
    for (int32_t e = 0; e < self->executors; e++)
        change(self, e, true);
    submit(self, 0, 100);
    tt_eventcount_init(&eventcount);
    while (answered(self) < 100)
        tt_eventcount_sleep(&eventcount, tt_clock_now() + TT_MS);
    tt_eventcount_sleep(&eventcount,
                        tt_clock_now() + 50 * TT_MS); /* until pending work has settled */
    tt_multicore_cpu(self->multicore, &model_before_ns, &rank_before_ns);
    tt_eventcount_sleep(&eventcount, tt_clock_now() + 300 * TT_MS);
    tt_multicore_cpu(self->multicore, &model_ns, &rank_ns);
    int64_t used_ns = model_ns - model_before_ns + rank_ns - rank_before_ns;
    print_message("idle for 300 ms: %lld us of processor time\n", (long long)used_ns / 1000);
    assert_true(used_ns < 30 * TT_MS);
    tt_multicore_stop(self->multicore);
    tt_multicore_free(self->multicore);
    tt_emulated_fleet_fini(&self->fleet);
    tt_profile_free(self->profile);
    free(self->answers);
    free(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_costs_nothing),
        cmocka_unit_test(test_every_request_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
