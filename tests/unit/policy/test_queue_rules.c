/* Queue rules under every policy. The mechanism decides which requests may wait, and how long, so
 * the same cases end alike under every policy. A first request keeps the one executor busy; later
 * requests wait behind it. */
#include "base/instant.h"
#include "policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_REQUESTS = 64, BATCH = 8 };
#define TAKES_NS TT_MS /* for a batch of any size */

struct world {
    struct tt_mechanism mechanism;
    struct tt_profile *profile;
    int64_t tail_ns[BATCH + 1];
    struct tt_step step;
    struct tt_step_model model;
    struct tt_queue_rule rules[3];
    int64_t now;
    struct tt_task *running[4];
    int running_count;
    int64_t ended_at[MAX_REQUESTS]; /* by user */
    enum tt_ending ending[MAX_REQUESTS];
    enum tt_drop_reason reason[MAX_REQUESTS];
    int ended_count, started_count;
    intptr_t started[MAX_REQUESTS]; /* users, in order */
    bool only_first_two;            /* what becomes of others is not noted */
};

static void on_start(void *context, int64_t now, struct tt_task *task) {
    (void)now;
    struct world *world = context;
    world->running[world->running_count++] = task;
    for (int32_t i = 0; i < task->count && !world->only_first_two; i++)
        world->started[world->started_count++] = (intptr_t)task->items[i].request->user;
}
static void on_stop(void *context, int64_t now, int32_t executor) {
    (void)context;
    (void)now;
    (void)executor;
}
static void on_gone(void *context, struct tt_request *request) {
    (void)context;
    tt_cell_graph_free(request->graph);
}

static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    struct world *world = context;
    intptr_t user = (intptr_t)request->user;
    if (world->only_first_two && user > 1)
        return;
    assert_int_equal(world->ended_at[user], -1);
    world->ended_at[user] = now;
    world->ending[user] = ending;
    world->reason[user] = reason;
    world->ended_count++;
}

/* With this tail of a run's time. */
static void open_world_with(struct world *world, const char *policy, int64_t tail_ns) {
    struct tt_error why = {{0}};
    *world = (struct world){0};
    for (int i = 0; i < MAX_REQUESTS; i++)
        world->ended_at[i] = -1;
    struct tt_carrier carrier = {world, on_start, on_stop, on_stop, on_ended, on_gone};
    struct tt_mechanism_options options = {.model_capacity = 1,
                                           .executor_capacity = 1,
                                           .max_batch = BATCH,
                                           .depth = 2,
                                           .request_limit = 4 * TT_REQUEST_CHUNK,
                                           .has_rules = true};
    assert_int_equal(tt_mechanism_init(&world->mechanism, &options, &carrier, &why), TT_OK);
    struct tt_policy_setup setup = {.domain = &world->mechanism};
    if (tt_policy_create(&world->mechanism, policy, &setup, &why))
        fail_msg("%s: %s", policy, why.text);
    assert_int_equal(tt_profile_new_linear(0, TAKES_NS, BATCH, &world->profile, &why), TT_OK);
    for (int b = 1; b <= BATCH; b++)
        world->tail_ns[b] = tail_ns;
    world->profile->tail_ns = world->tail_ns;
    world->step = (struct tt_step){"whole", world->profile, TT_STEP_STATIC};
    world->model = (struct tt_step_model){.name = "m",
                                          .step_count = 1,
                                          .steps = &world->step,
                                          .whole = world->profile,
                                          .slo_ns = 20 * TT_MS,
                                          .max_batch = BATCH,
                                          .rule_count = 3,
                                          .rules = world->rules};
    tt_mechanism_add_executor(&world->mechanism, 0, 0, 0);
    tt_mechanism_add_model(&world->mechanism, 0, 0, &world->model);
}

static void open_world(struct world *world, const char *policy) {
    open_world_with(world, policy, TAKES_NS);
}

static void close_world(struct world *world) {
    tt_policy_destroy(&world->mechanism);
    tt_mechanism_fini(&world->mechanism);
    tt_profile_free(world->profile);
}

static void arrive(struct world *world, intptr_t user, int64_t patience_ns, int32_t priority) {
    struct tt_arrival arrival = {.model = 0,
                                 .rows = 1,
                                 .priority = priority,
                                 .deadline_at = tt_instant_add(world->now, patience_ns),
                                 .user = (void *)user};
    struct tt_request *request = NULL;
    const struct tt_cell_spec whole = {.repeat = 1};
    bool refuses = tt_mechanism_refuses(&world->mechanism, world->now, &arrival);
    if (world->mechanism.ops->released)
        assert_int_equal(tt_cell_graph_new(&whole, 1, 1, &arrival.graph, NULL), TT_OK);
    assert_int_equal(tt_mechanism_arrived(&world->mechanism, world->now, &arrival, &request),
                     TT_OK);
    assert_true((request != NULL) == (world->ended_at[user] < 0));
    assert_true(refuses == !request); /* it is known before */
    if (request)
        tt_mechanism_ready(&world->mechanism, world->now, request);
}

static void decide(struct world *world) {
    tt_mechanism_decide(&world->mechanism, world->now);
    tt_mechanism_check(&world->mechanism);
}

/* Ends the oldest task. */
static void finish(struct world *world) {
    struct tt_task *task = world->running[0];
    memmove(world->running, world->running + 1, sizeof(world->running) - sizeof(*world->running));
    world->running_count--;
    task->outcome = TT_OUTCOME_DONE;
    task->last_step_done = 0;
    tt_mechanism_finished(&world->mechanism, world->now, task);
}

/* Advances to `until`, and decides whenever a timer is due. */
static void pass(struct world *world, int64_t until) {
    int64_t next_at;
    while ((next_at = tt_mechanism_next_at(&world->mechanism)) <= until) {
        world->now = next_at > world->now ? next_at : world->now;
        decide(world);
    }
    world->now = until;
    decide(world);
}

/* Runs a first request, so that all others wait. */
static void occupy(struct world *world) {
    arrive(world, 0, 20 * TT_MS, 0);
    pass(world, 19 * TT_MS - 1); /* policies that defer have started it by then */
    if (world->running_count == 0)
        pass(world, 19 * TT_MS);
    assert_int_equal(world->running_count, 1);
}

typedef void story_fn(struct world *world, const char *policy);

static void every_policy(story_fn *story) {
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const char *name = tt_policy_at(i)->name;
        struct world world;
        print_message("%s\n", name);
        open_world(&world, name);
        story(&world, name);
        close_world(&world);
    }
}

/* At most max_count requests wait. The next one is rejected at once, and there is room again when
 * some start. */
static void full_queue(struct world *world, const char *policy) {
    (void)policy;
    world->rules[0].max_count = 2;
    occupy(world);
    arrive(world, 1, TT_NEVER, 0);
    arrive(world, 2, TT_NEVER, 0);
    int ended = world->ended_count;
    arrive(world, 3, TT_NEVER, 0);
    assert_int_equal(world->ended_count, ended + 1);
    assert_int_equal(world->ended_at[3], world->now);
    assert_int_equal(world->ending[3], TT_ENDING_DROPPED);
    assert_int_equal(world->reason[3], TT_DROP_QUEUE_FULL);
    arrive(world, 4, TT_NEVER, 1); /* another level has a queue of its own */
    assert_int_equal(world->ended_at[4], -1);
    decide(world);
    while (world->ended_count < 5) {
        if (world->running_count == 0)
            pass(world, world->now + TT_MS);
        if (world->running_count)
            finish(world);
        decide(world);
    }
    for (int user = 0; user < 5; user++)
        assert_int_equal(world->ending[user], user == 3 ? TT_ENDING_DROPPED : TT_ENDING_DONE);
    arrive(world, 5, TT_NEVER, 0);
    assert_int_equal(world->ended_at[5], -1);
}

static void test_full_queue(void **state) {
    (void)state;
    every_policy(full_queue);
}

/* A hopeless request expires at the instant at which it becomes hopeless, at any position of the
 * queue. */
static void expiry(struct world *world, const char *policy) {
    (void)policy;
    occupy(world);
    int64_t begin = world->now;
    arrive(world, 1, TT_NEVER, 0);
    arrive(world, 2, 3 * TT_MS, 0); /* behind one that has time left */
    arrive(world, 3, TAKES_NS - 1, 0);
    assert_int_equal(world->ended_at[3], begin); /* hopeless on arrival */
    assert_int_equal(world->reason[3], TT_DROP_DEADLINE);
    decide(world);
    pass(world, begin + 10 * TT_MS);
    assert_int_equal(world->ending[2], TT_ENDING_DROPPED);
    assert_int_equal(world->reason[2], TT_DROP_DEADLINE);
    assert_true(world->ended_at[2] > begin);
    assert_true(world->ended_at[2] <= begin + 3 * TT_MS - TAKES_NS + 1);
    assert_int_equal(world->ended_at[1], -1);
    for (int i = 0; i < world->started_count; i++)
        assert_int_not_equal(world->started[i], 2);
}

static void test_expiry(void **state) {
    (void)state;
    every_policy(expiry);
}

/* The time left lies between the centre and the tail of a run. A request that waits alone runs.
 * Only `nexus` drops it: by its plan. */
static void test_between_centre_and_tail(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const char *policy = tt_policy_at(i)->name;
        struct world world;
        print_message("%s\n", policy);
        open_world_with(&world, policy, 2 * TAKES_NS);
        arrive(&world, 0, TAKES_NS + TAKES_NS / 2, 0);
        assert_int_equal(world.ended_at[0], -1);
        decide(&world);
        bool runs = strcmp(policy, "nexus") != 0;
        assert_int_equal(world.running_count, runs);
        assert_int_equal(world.reason[0], runs ? TT_DROP_NONE : TT_DROP_DEADLINE);
        arrive(&world, 1, TAKES_NS - 1, 0); /* hopeless for all */
        assert_int_equal(world.reason[1], TT_DROP_DEADLINE);
        if (runs)
            finish(&world);
        assert_int_equal(world.ended_at[0], 0);
        close_world(&world);
    }
}

/* The same where another request waits, which gains by the drop: those run it whose minimum size
 * follows from the load. */
static void test_between_centre_and_tail_of_two(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i);
        struct world world;
        print_message("%s\n", kind->name);
        open_world_with(&world, kind->name, 2 * TAKES_NS);
        arrive(&world, 0, 8 * TAKES_NS, 0);
        arrive(&world, 1, TAKES_NS + TAKES_NS / 2, 0);
        assert_int_equal(world.ended_at[1], kind->traits.drops_early ? -1 : 0);
        assert_int_equal(world.ended_at[0], -1);
        decide(&world);
        bool runs = strcmp(kind->name, "adaptive") == 0 || strcmp(kind->name, "deferred") == 0;
        assert_int_equal(world.reason[1], runs ? TT_DROP_NONE : TT_DROP_DEADLINE);
        close_world(&world);
    }
}

/* With delay_late no request is dropped: a late one goes last, and is computed. */
static void delay(struct world *world, const char *policy) {
    (void)policy;
    world->rules[0].delay_late = true;
    occupy(world);
    int64_t begin = world->now;
    arrive(world, 1, 3 * TT_MS, 0);
    arrive(world, 2, TAKES_NS / 2, 0); /* late on arrival */
    arrive(world, 3, TT_NEVER, 0);
    decide(world);
    pass(world, begin + 10 * TT_MS);
    for (int user = 1; user <= 3; user++)
        assert_int_equal(world->ended_at[user], -1);
    arrive(world, 4, TT_NEVER, 0); /* arrives later than these, and goes before them */
    decide(world);
    for (int turns = 0; world->ended_count < 5; turns++) {
        assert_true(turns < 100);
        if (world->running_count)
            finish(world);
        decide(world);
        if (world->running_count == 0)
            pass(world, world->now + 50 * TT_MS);
    }
    int at[5] = {0};
    for (int i = 0; i < world->started_count; i++)
        at[world->started[i]] = i;
    for (int user = 0; user < 5; user++)
        assert_int_equal(world->ending[user], TT_ENDING_DONE);
    assert_true(at[3] < at[1]);
    assert_true(at[4] < at[1]);
    assert_true(at[3] < at[2]);
    assert_true(at[4] < at[2]);
}

static void test_delay(void **state) {
    (void)state;
    every_policy(delay);
}

/* More requests arrive than can be served, so that one in time always waits. Returns the number of
 * tasks until request 1, which is late, begins; -1: it starves. */
static int tasks_until_late_one(struct world *world) {
    enum { TASKS = 40 };
    int tasks = 0;
    world->only_first_two = true;
    occupy(world);
    arrive(world, 1, TAKES_NS / 2, 0); /* late on arrival */
    for (; tasks < TASKS && world->ended_at[1] < 0; tasks++) {
        for (int i = 0; i < 2 * BATCH; i++) /* twice as many as fit */
            arrive(world, 2, 6 * TT_MS, 0);
        for (int turn = 0; world->running_count == 0; turn++) {
            assert_true(turn < 100);
            pass(world, world->now + TT_MS / 4);
        }
        pass(world, world->now + TAKES_NS);
        finish(world);
        decide(world);
    }
    return tasks < TASKS ? tasks : -1;
}

/* With late_every the oldest late request has a turn after so many rows of others. */
static void turns(struct world *world, const char *policy) {
    (void)policy;
    world->rules[0].delay_late = true;
    world->rules[0].late_every = TT_QUEUE_LATE_EVERY;
    assert_true(tasks_until_late_one(world) >= 0);
}

static void test_turns(void **state) {
    (void)state;
    every_policy(turns);
}

/* The same load without turns: so the load above starves late requests. */
static void test_no_turns(void **state) {
    (void)state;
    static const char *const names[] = {"clockwork", "deferred", "lazy", "serial", "window"};
    for (size_t i = 0; i < TT_COUNT(names); i++) {
        struct world world;
        open_world(&world, names[i]);
        world.rules[0].delay_late = true;
        assert_int_equal(tasks_until_late_one(&world), -1);
        close_world(&world);
    }
}

/* A request is rejected on arrival if it cannot be in time behind all waiting requests. A batch of
 * eight takes as long as one request, so 24 can be served in 3 ms at best. */
static void backlog(struct world *world, const char *policy) {
    int32_t fit = strcmp(policy, "serial") == 0 ? 4 : 25;
    bool fifo = strcmp(policy, "serial") == 0 || strcmp(policy, "window") == 0;
    occupy(world);
    int64_t begin = world->now;
    for (int user = 1; user <= fit; user++) {
        arrive(world, user, 4 * TT_MS, 0);
        assert_int_equal(world->ended_at[user], -1);
    }
    arrive(world, 30, 4 * TT_MS, 0);
    assert_int_equal(world->ended_at[30], begin);
    assert_int_equal(world->reason[30], TT_DROP_EARLY);
    arrive(world, 31, 5 * TT_MS, 0); /* it has enough time */
    assert_int_equal(world->ended_at[31], -1);
    arrive(world, 32, 4 * TT_MS, 0); /* it may overtake others if deadlines set the order */
    assert_int_equal(world->ended_at[32], fifo ? begin : -1);
    arrive(world, 33, 4 * TT_MS, 1); /* another queue */
    assert_int_equal(world->ended_at[33], -1);
    decide(world);
}

static void test_backlog(void **state) {
    (void)state;
    every_policy(backlog);
}

/* If the rule keeps late requests, or if there is no rule, the policy decides. */
static void test_compute_late(void **state) {
    (void)state;
    for (int none = 0; none < 2; none++) {
        struct world world;
        open_world(&world, "window");
        world.rules[0].compute_late = true;
        if (none)
            world.model.rules = NULL;
        arrive(&world, 0, TT_NEVER, 0);
        decide(&world);
        arrive(&world, 1, TAKES_NS / 2, 0);
        pass(&world, 10 * TT_MS);
        assert_int_equal(world.ended_count, 0);
        finish(&world);
        decide(&world);
        finish(&world);
        assert_int_equal(world.ending[1], TT_ENDING_DONE);
        close_world(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_between_centre_and_tail),
        cmocka_unit_test(test_between_centre_and_tail_of_two),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_compute_late),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_no_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
