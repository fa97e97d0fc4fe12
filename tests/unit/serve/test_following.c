/* threaded */
/* D4: a server hands over the next stage of a batch while a stage runs. Requests are answered once
 * whatever happens to the first of the two tasks. */
#include "unit/serve/serving_bench.h"

#include "serve/domain.h"
#include "serve/scheduler.h"
#include "serve/watchdog.h"
#include "unit/breach.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "unit/serve/stuck_models.h"

enum { LIMIT_MS = 40, STAGES = 3 };

/* What the domain's tasks did. Written in turns, read when nothing runs or the scheduler is held.
 */
struct seen {
    struct tt_observer observer;
    int32_t runs, followers, chained; /* chained: ended with a follower */
};

struct world {
    struct tt_serving *serving;
    struct tt_engine *engine;
    int32_t next_executor;
    struct client client;
    struct seen seen;
};

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct seen *seen = TT_CONTAINER_OF(observer, struct seen, observer);
    if (event->kind == TT_EVENT_RUN) {
        seen->runs++;
        seen->followers += event->task->after != NULL;
    }
    if (event->kind == TT_EVENT_FINISHED && event->task->follower) {
        tt_assert(event->task->follower->after == event->task);
        seen->chained++;
    }
}

static void world_open(struct world *self, int32_t executors) {
    struct tt_error why;
    *self = (struct world){0};
    assert_int_equal(tt_serving_open(&self->serving, &why), TT_OK);
    struct tt_engine_options options = {executors, 2, tt_serving_done, self->serving};
    self->engine = stuck_open(&options);
}

static struct tt_served_model *add(struct world *self, const char *name, int32_t executors,
                                   int64_t max_run_ms, struct stuck_model **out_stuck) {
    static const struct tt_option options[] = {{"stretch", "off"}, {"ahead", "on"}};
    static const struct tt_serving_policy policy = {
        .name = "diversity", .options = options, .option_count = TT_COUNT(options)};
    struct tt_served_model *model = stuck_model_new(self->serving, name, max_run_ms);
    const struct stuck_place place = {.serving = self->serving,
                                      .engine = self->engine,
                                      .policy = &policy,
                                      .executors = executors,
                                      .steps = STAGES,
                                      .next_executor = &self->next_executor};
    *out_stuck = stuck_model_place(model, &place);
    return model;
}

static void start(struct world *self) {
    struct tt_error why;
    struct tt_domain *domain = tt_scheduler_first_domain(tt_serving_scheduler(self->serving));
    self->seen.observer.observe = observe;
    tt_mechanism_observe(&domain->mechanism, &self->seen.observer);
    assert_int_equal(tt_serving_start(self->serving, &why), TT_OK);
    client_open(&self->client, self->serving);
}

static void check(struct world *self) {
    struct tt_scheduler *scheduler = tt_serving_scheduler(self->serving);
    tt_scheduler_hold(scheduler);
    tt_domain_check(tt_scheduler_first_domain(scheduler));
    tt_scheduler_resume(scheduler);
}

static void world_close(struct world *self) {
    check(self);
    client_close(&self->client);
    tt_serving_close(self->serving);
    self->engine->ops->close(self->engine);
}

static void requests_go_through(int32_t executors) {
    struct world world;
    struct stuck_model *stuck;
    world_open(&world, executors);
    struct tt_served_model *model = add(&world, "m", executors, 0, &stuck);
    start(&world);
    for (int i = 0; i < 400; i++) {
        client_send(&world.client, model, 1 + i % 3, (char)(1 + i % 99), 0);
        if (i % 16 == 0)
            client_wait(&world.client, 8);
        if (i % 100 == 0)
            check(&world);
    }
    client_wait(&world.client, 0);
    assert_int_equal(world.client.ok, 400);
    assert_true(world.seen.followers > 0);
    assert_int_equal(world.seen.chained, world.seen.followers);
    assert_int_equal(tt_counter_get(&model->stats->accepted), bench_gone(model));
    world_close(&world);
}

static void answers_are_right(void **state) {
    (void)state;
    requests_go_through(1); /* all stages behind each other */
    requests_go_through(2);
    requests_go_through(STAGES);
}

static void cancelled_in_the_middle(void **state) {
    (void)state;
    struct world world;
    struct stuck_model *stuck;
    world_open(&world, 2);
    struct tt_served_model *model = add(&world, "m", 2, 0, &stuck);
    start(&world);
    for (int i = 0; i < 100; i++) {
        struct tt_inference *one = client_send(&world.client, model, 1, 5, 0);
        client_send(&world.client, model, 1, 6, 0);
        tt_inference_cancel(one);
        client_wait(&world.client, 0);
    }
    assert_int_equal(world.client.ok + world.client.by_error[-TT_ERR_CANCELLED], 200);
    assert_true(world.client.ok >= 100);
    world_close(&world);
}

/* The first task is stopped by the watchdog. The one that follows it comes back without running,
 * and the answer says why the first one ended. */
static void a_run_that_is_cut(void **state) {
    (void)state;
    struct world world;
    struct stuck_model *bad, *good;
    world_open(&world, 2);
    struct tt_served_model *bad_model = add(&world, "bad", 2, LIMIT_MS, &bad);
    struct tt_served_model *good_model = add(&world, "good", 2, 0, &good);
    start(&world);
    atomic_store(&bad->mode, STUCK_OBEYS);
    client_send(&world.client, bad_model, 1, 1, 0);
    client_wait(&world.client, 0);
    assert_int_equal(world.client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_non_null(strstr(world.client.why, "ran longer than 40 ms"));
    assert_int_equal(atomic_load(&bad->runs), 1);
    for (int i = 0; i < 20; i++)
        client_send(&world.client, good_model, 1, (char)(1 + i), 0);
    client_wait(&world.client, 0);
    assert_int_equal(world.client.ok, 20);
    assert_int_equal(tt_counter_get(&bad_model->stats->accepted), bench_gone(bad_model));
    world_close(&world);
}

static void a_run_that_does_not_return(void **state) {
    (void)state;
    for (int32_t executors = 1; executors <= 2; executors++) {
        struct world world;
        struct stuck_model *bad, *good;
        world_open(&world, executors);
        struct tt_served_model *bad_model = add(&world, "bad", executors, LIMIT_MS, &bad);
        struct tt_served_model *good_model = add(&world, "good", executors, 0, &good);
        start(&world);
        atomic_store(&bad->mode, STUCK_DEAF);
        client_send(&world.client, bad_model, 1, 1, 0);
        client_wait(&world.client, 0);
        assert_int_equal(world.client.by_error[-TT_ERR_TIMEOUT], 1);
        assert_non_null(strstr(world.client.why, "ran longer than 40 ms"));
        for (int i = 0; i < 20; i++)
            client_send(&world.client, good_model, 1, (char)(1 + i), 0);
        client_wait(&world.client, 0);
        assert_int_equal(world.client.ok, 20);
        assert_int_equal(tt_serving_lost_runs(world.serving), 1);
        check(&world);
        atomic_store(&bad->is_let_go, true);
        while (tt_serving_lost_runs(world.serving) != 0)
            stuck_pause();
        assert_int_equal(atomic_load(&bad->runs), 1);
        assert_int_equal(tt_counter_get(&bad_model->stats->accepted), bench_gone(bad_model));
        world_close(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_right),
        cmocka_unit_test(cancelled_in_the_middle),
        cmocka_unit_test(a_run_that_is_cut),
        cmocka_unit_test(a_run_that_does_not_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
