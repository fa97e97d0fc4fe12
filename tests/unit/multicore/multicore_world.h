/* A world in virtual time for the multicore scheduler: emulated devices, a client that stores what
 * became of each request, and no threads. The test calls the turns, so it can stall one half, let
 * the clock jump, or remove devices. Test-only: it allocates freely and aborts on misuse. */
#ifndef TT_TEST_MULTICORE_WORLD_H
#define TT_TEST_MULTICORE_WORLD_H

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "multicore/emulated_fleet.h"
#include "multicore/multicore.h"
#include "policy/deferred/deferred.h"

#include <stdlib.h>
#include <string.h>

struct world_model {
    int64_t alpha_ns, beta_ns, slo_ns;
    int32_t max_batch; /* 0: 512 */
};

struct world_setup {
    const struct world_model *models;
    int32_t model_count, executors, model_threads;
    const char *policy;
    int32_t requests;                     /* total number that will be submitted */
    int32_t ring_capacity, request_limit; /* 0: plenty */
    int64_t rest_ns;
};

struct world_outcome {
    int32_t answers;  /* reports received; 1 in the end */
    int64_t ended_at; /* of its batch on the device's clock, or of its drop */
    enum tt_drop_reason reason;
};

/* A batch that a device began. */
struct world_batch {
    int64_t start_at;
    int32_t executor, model, count;
    uint64_t first_id;
    uint64_t id_sum;
};

struct world {
    struct tt_profile **profiles;
    struct tt_step_model *models;
    struct tt_step *steps;
    int32_t model_count;
    struct tt_emulated_fleet fleet;
    struct tt_device_set below; /* the fleet's own functions */
    struct tt_multicore *multicore;
    struct world_outcome *outcomes; /* [id] */
    int32_t request_count;
    struct world_batch *batches;
    int32_t batch_count, batch_capacity;
    int32_t running; /* a batch on another device must not matter: each device runs one */
    /* On threads: the thread that handles this batch (from 1; 0: none) sleeps for this time. Of the
     * model threads the first. */
    int32_t model_stalls_at, rank_stalls_at;
    int32_t model_batches;
    int64_t stall_ns;
    struct tt_counter answered[TT_MULTICORE_MAX_THREADS];
};

static inline void world_sleep(int64_t span_ns) {
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    tt_eventcount_sleep(&eventcount, tt_clock_now() + span_ns);
}

static inline void world_ended(void *context, int32_t thread, int64_t now,
                               const struct tt_multicore_batch *batch) {
    struct world *self = context;
    tt_assert(batch->head.ended_at <= now);
    if (thread == 0 && ++self->model_batches == self->model_stalls_at)
        world_sleep(self->stall_ns);
    tt_counter_add(&self->answered[thread], batch->head.count);
    for (int32_t i = 0; i < batch->head.count; i++) {
        tt_assert(batch->requests[i].id < (uint64_t)self->request_count);
        struct world_outcome *outcome = &self->outcomes[batch->requests[i].id];
        outcome->answers++;
        outcome->ended_at = batch->head.ended_at;
    }
}

static inline void world_dropped(void *context, int32_t thread, int64_t now,
                                 const struct tt_device_request *request,
                                 enum tt_drop_reason reason) {
    struct world *self = context;
    tt_counter_add(&self->answered[thread], 1);
    tt_assert(request->id < (uint64_t)self->request_count);
    tt_assert(reason != TT_DROP_NONE);
    struct world_outcome *outcome = &self->outcomes[request->id];
    outcome->answers++;
    outcome->ended_at = now;
    outcome->reason = reason;
}

static inline void world_submit(void *context, struct tt_device_task *task) {
    struct world *self = context;
    const struct tt_multicore_batch *batch = tt_multicore_batch_of(task);
    if (self->batch_count == self->batch_capacity) {
        self->batch_capacity = self->batch_capacity ? 2 * self->batch_capacity : 1024;
        self->batches =
            realloc(self->batches, sizeof(*self->batches) * (size_t)self->batch_capacity);
        tt_assert(self->batches != NULL);
    }
    self->below.ops.submit(self->below.self, task);
    struct world_batch *log = &self->batches[self->batch_count++];
    *log = (struct world_batch){.start_at = batch->head.started_at,
                                .executor = batch->head.executor,
                                .model = batch->head.model,
                                .count = batch->head.count,
                                .first_id = batch->requests[0].id};
    for (int32_t i = 0; i < batch->head.count; i++)
        log->id_sum += batch->requests[i].id;
    if (self->batch_count == self->rank_stalls_at)
        world_sleep(self->stall_ns);
}
static inline struct tt_device_task *world_device_ended(void *context, int64_t now) {
    struct world *self = context;
    return self->below.ops.ended(self->below.self, now);
}
static inline int64_t world_device_next_at(void *context) {
    struct world *self = context;
    return self->below.ops.next_at(self->below.self);
}
static inline void world_lose(void *context, int64_t now, int32_t executor) {
    struct world *self = context;
    self->below.ops.lose(self->below.self, now, executor);
}

static inline void world_make_models(struct world *self, const struct world_setup *setup) {
    size_t models = (size_t)setup->model_count;
    self->model_count = setup->model_count;
    self->profiles = calloc(models, sizeof(struct tt_profile *));
    self->models = calloc(models, sizeof(*self->models));
    self->steps = calloc(models, sizeof(*self->steps));
    tt_assert(self->profiles && self->models && self->steps);
    for (int32_t m = 0; m < setup->model_count; m++) {
        const struct world_model *model = &setup->models[m];
        int32_t max_batch = model->max_batch ? model->max_batch : 512;
        tt_assert(tt_profile_new_linear(model->alpha_ns, model->beta_ns, max_batch,
                                        &self->profiles[m], NULL) == TT_OK);
        self->steps[m] = (struct tt_step){.name = "whole", .profile = self->profiles[m]};
        self->models[m] = (struct tt_step_model){.name = "model",
                                                 .step_count = 1,
                                                 .steps = &self->steps[m],
                                                 .whole = self->profiles[m],
                                                 .slo_ns = model->slo_ns,
                                                 .max_batch = max_batch};
    }
}

static inline void world_open(struct world *self, const struct world_setup *setup) {
    *self = (struct world){.request_count = setup->requests};
    world_make_models(self, setup);
    self->outcomes = calloc((size_t)setup->requests, sizeof(*self->outcomes));
    tt_assert(self->outcomes != NULL);
    tt_assert(tt_emulated_fleet_init(&self->fleet, setup->executors, self->models) == TT_OK);
    self->below = tt_emulated_fleet_devices(&self->fleet);
    struct tt_deferred_options policy;
    struct tt_error why;
    enum tt_err err =
        tt_deferred_options_parse(tt_policy_find(setup->policy), NULL, 0, &policy, &why);
    tt_assert(err == TT_OK);
    struct tt_multicore_options options = {
        .model_threads = setup->model_threads,
        .model_count = setup->model_count,
        .executor_count = setup->executors,
        .port_count = 1,
        .ring_capacity = setup->ring_capacity ? setup->ring_capacity : 1 << 16,
        .request_limit = setup->request_limit ? setup->request_limit : 1 << 20,
        .policy = &policy,
        .models = self->models,
        .devices = {.self = self,
                    .ops = {.submit = world_submit,
                            .ended = world_device_ended,
                            .next_at = world_device_next_at,
                            .lose = world_lose}},
        .client = {.context = self, .ended = world_ended, .dropped = world_dropped},
        .rest_ns = setup->rest_ns};
    tt_assert(tt_multicore_new(&options, &self->multicore, &why) == TT_OK);
    for (int32_t i = 0; i < setup->executors; i++)
        while (!tt_multicore_change(self->multicore, i, true))
            tt_multicore_step(self->multicore, 0);
}

static inline int64_t world_answered(const struct world *self) {
    int64_t sum = 0;
    for (int32_t t = 0; t < self->multicore->thread_count; t++)
        sum += tt_counter_get(&self->answered[t]);
    return sum;
}

static inline void world_close(struct world *self) {
    tt_multicore_free(self->multicore);
    tt_emulated_fleet_fini(&self->fleet);
    for (int32_t m = 0; m < self->model_count; m++)
        tt_profile_free(self->profiles[m]);
    free(self->profiles);
    free(self->models);
    free(self->steps);
    free(self->outcomes);
    free(self->batches);
}

/* Submits `requests` (ascending instants, ids are indices) at their instants, runs everything due
 * until `until_at`, and checks the state now and then. */
static inline void world_run(struct world *self, const struct tt_device_request *requests,
                             int32_t count, int64_t from_at, int64_t until_at) {
    int32_t done = 0;
    int64_t now = from_at;
    for (int64_t next_at = from_at, turns = 0;; turns++) {
        int64_t request_at = done < count ? requests[done].arrived_at : TT_NEVER;
        now = tt_instant_max(now, tt_instant_min(next_at, request_at));
        if (now > until_at || now == TT_NEVER)
            break;
        int32_t end = done;
        while (end < count && requests[end].arrived_at <= now)
            end++;
        done += tt_multicore_submit(self->multicore, 0, now, requests + done, end - done);
        next_at = tt_multicore_step(self->multicore, now);
        if (turns % 64 == 0)
            tt_multicore_check(self->multicore);
    }
    tt_multicore_check(self->multicore);
}

/* Asserts that every request was answered exactly once; returns how many were in time. */
static inline int32_t world_account(const struct world *self,
                                    const struct tt_device_request *requests, int32_t count) {
    int32_t in_time = 0;
    for (int32_t i = 0; i < count; i++) {
        tt_assert(self->outcomes[i].answers == 1);
        in_time += self->outcomes[i].reason == TT_DROP_NONE &&
                   self->outcomes[i].ended_at <= requests[i].deadline_at;
    }
    return in_time;
}

#endif
