/* threaded */
/* A batch that runs too long is stopped, or given up if it does not stop: its requests are answered
 * once, its model refuses others, and all other models go on, under every policy. */
#include "unit/serve/serving_bench.h"

#include "serve/domain.h"
#include "serve/scheduler.h"
#include "serve/watchdog.h"
#include "unit/breach.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "unit/serve/stuck_models.h"

enum { LIMIT_MS = 40 };

/* A server on the engine of stuck_engine.h, all of whose models share one domain. */
struct world {
    struct tt_serving *serving;
    struct tt_engine *engine;
    int32_t executors, next_executor;
    struct tt_serving_policy policy;
    _Atomic int failed; /* models, as the controller was notified */
};

static void on_failed(void *context, struct tt_served_model *model) {
    struct world *self = context;
    tt_assert(*model->failure != '\0');
    atomic_fetch_add(&self->failed, 1);
}

static void world_open(struct world *self, const char *policy, int32_t executors, int32_t threads) {
    struct tt_error why;
    *self = (struct world){.executors = executors, .policy = {.name = policy}};
    assert_int_equal(tt_serving_open(&self->serving, &why), TT_OK);
    tt_serving_use_threads(self->serving, threads);
    tt_serving_set_controller(self->serving,
                              &(struct tt_model_controller){.failed = on_failed, .context = self});
    struct tt_engine_options options = {executors, tt_domain_depth(policy, 0), tt_serving_done,
                                        self->serving};
    self->engine = stuck_open(&options);
}

static void world_close(struct world *self) {
    tt_serving_close(self->serving);
    self->engine->ops->close(self->engine);
}

static struct tt_served_model *add(struct world *self, const char *name, int64_t max_run_ms,
                                   struct stuck_model **out_stuck) {
    struct tt_served_model *model = stuck_model_new(self->serving, name, max_run_ms);
    const struct stuck_place place = {.serving = self->serving,
                                      .engine = self->engine,
                                      .policy = &self->policy,
                                      .executors = self->executors,
                                      .next_executor = &self->next_executor};
    *out_stuck = stuck_model_place(model, &place);
    return model;
}

static void check(struct world *self) {
    struct tt_scheduler *scheduler = tt_serving_scheduler(self->serving);
    tt_scheduler_hold(scheduler);
    for (struct tt_domain *d = tt_scheduler_first_domain(scheduler); d; d = d->next)
        tt_domain_check(d);
    tt_scheduler_resume(scheduler);
}

static void await_inside(struct stuck_model *model, int count) {
    while (atomic_load(&model->inside) < count)
        stuck_pause();
}

static void await_lost(struct world *self, int64_t count) {
    while (tt_serving_lost_runs(self->serving) != count)
        stuck_pause();
}

static int64_t value(const struct tt_counter *counter) { return tt_counter_get(counter); }

/* Policies without recurrent blocks or cells, and with both kinds of schedulers' threads. */
static const struct {
    const char *policy;
    int32_t threads;
} worlds[] = {{"window", 0},    {"deferred", 0}, {"symphony", 0}, {"eager", 0},   {"timeout", 0},
              {"serial", 0},    {"lazy", 0},     {"elastic", 0},  {"nexus", 0},   {"clockwork", 0},
              {"diversity", 0}, {"shepherd", 0}, {"deferred", 1}, {"deferred", 3}};

/* ---- a run that stops when it is asked ---- */

static void obey(const char *policy, int32_t threads) {
    struct world world;
    struct client client;
    struct stuck_model *bad, *good;
    world_open(&world, policy, 1, threads);
    struct tt_served_model *bad_model = add(&world, "bad", LIMIT_MS, &bad);
    struct tt_served_model *good_model = add(&world, "good", 0, &good);
    struct tt_error why;
    assert_int_equal(tt_serving_start(world.serving, &why), TT_OK);
    client_open(&client, world.serving);
    atomic_store(&bad->mode, STUCK_OBEYS);
    client_send(&client, bad_model, 8, 1, 0);
    await_inside(bad, 1);
    client_send(&client, bad_model, 8, 2, 0); /* waits; it never runs */
    for (int i = 0; i < 20; i++)
        client_send(&client, good_model, 1, (char)(1 + i), 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 20);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], 1);
    client_send(&client, bad_model, 1, 1, 0);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], 2);
    assert_non_null(strstr(client.why, "ran longer than 40 ms"));
    assert_int_equal(atomic_load(&bad->runs), 1);
    assert_int_equal(value(&bad_model->stats->runs_cut), 1);
    assert_int_equal(value(&bad_model->stats->runs_lost), 0);
    assert_int_equal(value(&bad_model->stats->accepted), bench_gone(bad_model));
    assert_int_equal(atomic_load(&world.failed), 1);
    assert_true(tt_serving_ready(world.serving));
    check(&world);
    client_close(&client);
    world_close(&world);
}

static void test_a_run_that_stops(void **state) {
    (void)state;
    for (size_t i = 0; i < TT_COUNT(worlds); i++)
        obey(worlds[i].policy, worlds[i].threads);
}

/* ---- a run that does not return ---- */

static void be_deaf(const char *policy, int32_t threads) {
    struct world world;
    struct client client;
    struct stuck_model *bad, *good;
    world_open(&world, policy, 1, threads);
    struct tt_served_model *bad_model = add(&world, "bad", LIMIT_MS, &bad);
    struct tt_served_model *good_model = add(&world, "good", 0, &good);
    struct tt_error why;
    assert_int_equal(tt_serving_start(world.serving, &why), TT_OK);
    client_open(&client, world.serving);
    atomic_store(&bad->mode, STUCK_DEAF);
    client_send(&client, bad_model, 8, 1, 0);
    await_inside(bad, 1);
    client_send(&client, bad_model, 8, 2, 0);
    for (int i = 0; i < 20; i++)
        client_send(&client, good_model, 1, (char)(1 + i), 0);
    client_wait(&client, 0); /* all are answered while the run still goes on */
    assert_int_equal(atomic_load(&bad->inside), 1);
    assert_int_equal(client.ok, 20);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], 1);
    assert_int_equal(tt_serving_lost_runs(world.serving), 1);
    assert_int_equal(value(&bad_model->stats->runs_lost), 1);
    assert_int_equal(value(&bad_model->stats->accepted), bench_gone(bad_model));
    assert_true(tt_serving_ready(world.serving));
    check(&world);
    atomic_store(&bad->is_let_go, true); /* it returns after all; no one is answered again */
    await_lost(&world, 0);
    client_send(&client, good_model, 8, 3, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 21);
    check(&world);
    client_close(&client); /* the inputs came back: nothing is left behind */
    world_close(&world);
}

static void test_a_run_that_does_not_return(void **state) {
    (void)state;
    be_deaf("window", 0);
    be_deaf("deferred", 0);
    be_deaf("elastic", 0); /* inputs in a ring */
    be_deaf("deferred", 3);
}

/* What is queued behind the run on its executor begins on the new one. */
static void test_what_is_queued_behind(void **state) {
    (void)state;
    struct world world;
    struct client client;
    struct stuck_model *bad, *good;
    world_open(&world, "window", 1, 0);
    world.policy.depth = 4;
    struct tt_served_model *bad_model = add(&world, "bad", LIMIT_MS, &bad);
    struct tt_served_model *good_model = add(&world, "good", 0, &good);
    struct tt_error why;
    assert_int_equal(tt_serving_start(world.serving, &why), TT_OK);
    client_open(&client, world.serving);
    atomic_store(&bad->mode, STUCK_DEAF);
    client.keeps = true;
    struct tt_inference *lost = client_send(&client, bad_model, 4, 1, 0);
    await_inside(bad, 1);
    struct tt_inference *later = client_send(&client, good_model, 8, 2, 0);
    client_wait(&client, 0);
    tt_inference_release(lost); /* its memory stays the engine's */
    tt_inference_release(later);
    client.keeps = false;
    for (int i = 0; i < 50; i++)
        client_send(&client, good_model, 8, 5, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 51);
    check(&world);
    atomic_store(&bad->is_let_go, true);
    await_lost(&world, 0);
    client_close(&client);
    world_close(&world);
}

/* ---- the limit ---- */

static void test_the_limit_of_lost_runs(void **state) {
    (void)state;
    enum { MODELS = TT_DOMAIN_SPARES + 1 };
    struct world world;
    struct client client;
    struct stuck_model *bad[MODELS], *good;
    struct tt_served_model *models[MODELS];
    world_open(&world, "window", MODELS + 1, 0);
    char names[MODELS][8];
    for (int i = 0; i < MODELS; i++) {
        snprintf(names[i], sizeof(names[i]), "bad%d", i);
        models[i] = add(&world, names[i], LIMIT_MS, &bad[i]);
        atomic_store(&bad[i]->mode, STUCK_DEAF);
    }
    struct tt_served_model *good_model = add(&world, "good", 0, &good);
    struct tt_error why;
    assert_int_equal(tt_serving_start(world.serving, &why), TT_OK);
    client_open(&client, world.serving);
    tt_serving_hurry_at(world.serving, 0); /* less patience, and no model is blamed */
    for (int i = 0; i < MODELS; i++)
        client_send(&client, models[i], 1, 1, 0);
    client_wait(&client, 1);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], TT_DOMAIN_SPARES);
    assert_int_equal(atomic_load(&world.failed), 0);
    while (tt_serving_ready(world.serving)) /* the last one keeps its executor */
        stuck_pause();
    check(&world);
    tt_serving_hurry_at(world.serving, TT_NEVER);
    client_send(&client, good_model, 1, 7, 0); /* the other executor works */
    client_wait(&client, 1);
    assert_int_equal(client.ok, 1);
    for (int i = 0; i < MODELS; i++)
        atomic_store(&bad[i]->is_let_go, true);
    client_wait(&client, 0);
    await_lost(&world, 0);
    while (!tt_serving_ready(world.serving))
        stuck_pause();
    check(&world);
    client_close(&client);
    world_close(&world);
}

/* ---- the check ---- */

static void break_a_place(void) {
    struct world world;
    struct stuck_model *stuck;
    world_open(&world, "window", 2, 0);
    add(&world, "one", 0, &stuck);
    check(&world);
    tt_scheduler_first_domain(tt_serving_scheduler(world.serving))->places[0] = 1;
    check(&world);
}

static void test_check_sees_a_place_twice(void **state) {
    (void)state;
    assert_breaks(break_a_place, "a place used twice", "users == 1");
}

/* ---- the default limit ---- */

static void test_default_limit(void **state) {
    (void)state;
    struct tt_profile *profile;
    struct tt_error why;
    struct tt_served_model model = {0};
    assert_int_equal(tt_served_model_run_limit(&model) / TT_S, 60);
    assert_int_equal(tt_profile_new_linear(TT_MS, TT_MS, 8, &profile, &why), TT_OK);
    model.profile = profile;
    assert_int_equal(tt_served_model_run_limit(&model) / TT_S, 10);
    tt_profile_free(profile);
    assert_int_equal(tt_profile_new_linear(20 * TT_MS, 140 * TT_MS, 8, &profile, &why), TT_OK);
    model.profile = profile;
    assert_int_equal(tt_served_model_run_limit(&model) / TT_S, 30);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_sees_a_place_twice),
        cmocka_unit_test(test_default_limit),
        cmocka_unit_test(test_a_run_that_stops),
        cmocka_unit_test(test_a_run_that_does_not_return),
        cmocka_unit_test(test_what_is_queued_behind),
        cmocka_unit_test(test_the_limit_of_lost_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
