/* A mechanism under a scripted policy, for tests: `decide` runs the script of the moment, and
 * `finish` reports the end of an executor's oldest task. All functions are inline; there is no .c
 * file. */
#ifndef TT_TESTS_MECHANISM_WORLD_H
#define TT_TESTS_MECHANISM_WORLD_H

#include "core/mechanism.h"

#include "base/instant.h"
#include "core/policy_ops.h"
#include "unit/breach.h"

#include <stdlib.h>

enum { MODELS = 2, EXECUTORS = 2, DEPTH = 2, LIMIT = 6, STEPS = 4, MAX_BATCH = 4, LOG = 64 };

struct ending {
    int64_t at;
    intptr_t user;
    enum tt_ending ending;
    enum tt_drop_reason reason;
};
struct change {
    int32_t which;
    enum tt_change change;
};
struct world;

/* Lists the events that it receives, and answers as the test says. */
struct tt_policy {
    struct world *world;
    struct tt_list queue;
    void (*script)(struct world *world, int64_t now); /* the next decision; NULL: none */
    int arrived, finished, cancelled, decided, ready, checked;
    struct change models[LOG], executors[LOG];
    int model_changes, executor_changes;
    int leaving; /* requests that left with the last finished task */
    int64_t next_at;
};

struct world {
    struct tt_mechanism mechanism;
    struct tt_policy policy;
    struct tt_profile *whole, *step;
    struct tt_step steps[STEPS];
    struct tt_step_model models[MODELS];
    struct ending endings[LOG];
    int ending_count;
    struct tt_task *started[LOG];
    int start_count, yields, aborts;
    int32_t stopped; /* the executor of the last yield or abort */
};

/* ---- the policy ---- */

static inline void policy_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    assert_int_equal(request->state, TT_REQUEST_QUEUED);
    assert_int_equal(request->arrived_at, now);
    tt_list_push_back(&self->queue, &request->link);
    self->arrived++;
}
static inline void policy_finished(struct tt_policy *self, int64_t now,
                                   const struct tt_task *task) {
    (void)now;
    self->finished++;
    self->leaving = 0;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_request *request = task->items[i].request;
        assert_ptr_equal(request->task, task->follower);
        if (request->state == TT_REQUEST_QUEUED)
            tt_list_push_back(&self->queue, &request->link);
        else
            self->leaving += request->state == TT_REQUEST_LEAVING;
    }
}
static inline void policy_cancelled(struct tt_policy *self, int64_t now,
                                    struct tt_request *request) {
    (void)now;
    tt_list_remove(&request->link);
    self->cancelled++;
}
static inline void policy_decide(struct tt_policy *self, int64_t now,
                                 struct tt_mechanism *actions) {
    assert_ptr_equal(actions, &self->world->mechanism);
    self->decided++;
    if (self->script)
        self->script(self->world, now);
}
static inline int64_t policy_next_at(const struct tt_policy *self) { return self->next_at; }
static inline void policy_ready(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    (void)request;
    self->ready++;
}
static inline void policy_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                        enum tt_change change) {
    (void)now;
    self->models[self->model_changes++] = (struct change){model, change};
}
static inline void policy_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                           enum tt_change change) {
    (void)now;
    self->executors[self->executor_changes++] = (struct change){executor, change};
}
static inline void policy_check(const struct tt_policy *self) { self->world->policy.checked++; }

static const struct tt_policy_traits scripted_traits = {.waits_for_inputs = true,
                                                        .default_depth = 1};
static const struct tt_policy_ops scripted_ops = {
    .arrived = policy_arrived,
    .finished = policy_finished,
    .cancelled = policy_cancelled,
    .decide = policy_decide,
    .next_at = policy_next_at,
    .ready = policy_ready,
    .model_changed = policy_model_changed,
    .executor_changed = policy_executor_changed,
    .check = policy_check,
};

/* ---- the carrier ---- */

static inline void on_start(void *context, int64_t now, struct tt_task *task) {
    struct world *world = context;
    assert_int_equal(task->dispatched_at, now);
    assert_int_equal(task->state, TT_TASK_QUEUED);
    world->started[world->start_count++] = task;
}
static inline void on_yield(void *context, int64_t now, int32_t executor) {
    struct world *world = context;
    (void)now;
    world->yields++;
    world->stopped = executor;
}
static inline void on_abort(void *context, int64_t now, int32_t executor) {
    struct world *world = context;
    (void)now;
    world->aborts++;
    world->stopped = executor;
}
static inline void on_ended(void *context, int64_t now, struct tt_request *request,
                            enum tt_ending ending, enum tt_drop_reason reason) {
    struct world *world = context;
    world->endings[world->ending_count++] =
        (struct ending){now, (intptr_t)request->user, ending, reason};
}

static inline void open_world_with(struct world *world, struct tt_mechanism_options options) {
    *world = (struct world){.stopped = -1};
    tt_list_init(&world->policy.queue);
    world->policy.world = world;
    world->policy.next_at = TT_NEVER;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(4, 8, MAX_BATCH, &world->whole, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(1, 2, MAX_BATCH, &world->step, &why), TT_OK);
    for (int s = 0; s < STEPS; s++)
        world->steps[s] = (struct tt_step){.name = "step", .profile = world->step};
    options.model_capacity = MODELS;
    options.executor_capacity = EXECUTORS;
    options.max_batch = MAX_BATCH;
    options.depth = DEPTH;
    options.request_limit = LIMIT;
    options.request_reserve = 1;
    struct tt_carrier carrier = {world, on_start, on_yield, on_abort, on_ended};
    assert_int_equal(tt_mechanism_init(&world->mechanism, &options, &carrier, &why), TT_OK);
    tt_mechanism_attach(&world->mechanism, &scripted_ops, &scripted_traits, &world->policy);
    for (int m = 0; m < MODELS; m++) {
        world->models[m] = (struct tt_step_model){.name = "model",
                                                  .step_count = STEPS,
                                                  .steps = world->steps,
                                                  .whole = world->whole,
                                                  .slo_ns = 1000,
                                                  .max_batch = MAX_BATCH};
        tt_mechanism_add_model(&world->mechanism, 0, m, &world->models[m]);
    }
    for (int e = 0; e < EXECUTORS; e++)
        tt_mechanism_add_executor(&world->mechanism, 0, e, 10 + e);
}

static inline void open_world(struct world *world) {
    open_world_with(world, (struct tt_mechanism_options){0});
}

static inline void close_world(struct world *world) {
    world->policy.script = NULL;
    tt_mechanism_check(&world->mechanism);
    assert_true(world->policy.checked > 0);
    tt_mechanism_fini(&world->mechanism);
    tt_profile_free(world->whole);
    tt_profile_free(world->step);
}

static inline struct tt_request *arrive(struct world *world, int64_t now, int32_t model,
                                        int32_t rows, intptr_t user) {
    struct tt_arrival arrival = {.model = model,
                                 .rows = rows,
                                 .length = 3,
                                 .priority = 2,
                                 .deadline_at = now + 1000,
                                 .user = (void *)user};
    struct tt_request *request = NULL;
    assert_int_equal(tt_mechanism_arrived(&world->mechanism, now, &arrival, &request), TT_OK);
    return request;
}

static inline void decide(struct world *world, int64_t now,
                          void (*script)(struct world *, int64_t)) {
    world->policy.script = script;
    tt_mechanism_decide(&world->mechanism, now);
    tt_mechanism_check(&world->mechanism);
}

static inline void finish(struct world *world, int64_t now, int32_t executor,
                          enum tt_outcome outcome, int32_t last_step_done) {
    struct tt_task *task = tt_mechanism_oldest(&world->mechanism, executor);
    task->outcome = outcome;
    task->last_step_done = last_step_done;
    tt_mechanism_finished(&world->mechanism, now, task);
    tt_mechanism_check(&world->mechanism);
}

/* Runs all waiting requests in one task, from the first one's step to `last_step`. */
static inline void run_on(struct world *world, int32_t executor, int32_t last_step,
                          int64_t start_at) {
    struct tt_policy *policy = &world->policy;
    struct tt_request *head =
        TT_CONTAINER_OF(tt_list_first(&policy->queue), struct tt_request, link);
    tt_mechanism_run_begin(&world->mechanism, executor, head->model, head->step, last_step);
    struct tt_list_node *node;
    while ((node = tt_list_first(&policy->queue))) {
        tt_list_remove(node);
        tt_mechanism_run_add(&world->mechanism, TT_CONTAINER_OF(node, struct tt_request, link));
    }
    tt_mechanism_run_commit(&world->mechanism, start_at);
}
static inline void run_all_steps(struct world *world, int64_t now) {
    run_on(world, 0, STEPS - 1, now);
}
static inline void run_two_steps(struct world *world, int64_t now) {
    struct tt_list_node *first = tt_list_first(&world->policy.queue);
    run_on(world, 0, TT_CONTAINER_OF(first, struct tt_request, link)->step + 1, now);
}
static inline void run_on_both(struct world *world, int64_t now) {
    struct tt_request *last =
        TT_CONTAINER_OF(tt_list_last(&world->policy.queue), struct tt_request, link);
    tt_list_remove(&last->link);
    run_on(world, 1, STEPS - 1, now + 50);
    tt_list_push_back(&world->policy.queue, &last->link);
    run_on(world, 0, STEPS - 1, now - 5);
}
static inline void drop_first(struct world *world, int64_t now) {
    (void)now;
    struct tt_list_node *node = tt_list_first(&world->policy.queue);
    tt_list_remove(node);
    tt_mechanism_drop(&world->mechanism, TT_CONTAINER_OF(node, struct tt_request, link),
                      TT_DROP_EARLY);
}
static inline void yield_0(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_yield(&world->mechanism, 0);
}
static inline void abort_0(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_abort(&world->mechanism, 0);
}

static inline void expect_ending(const struct world *world, int index, int64_t at, intptr_t user,
                                 enum tt_ending ending) {
    assert_true(index < world->ending_count);
    assert_int_equal(world->endings[index].at, at);
    assert_int_equal(world->endings[index].user, user);
    assert_int_equal(world->endings[index].ending, ending);
}

#endif
