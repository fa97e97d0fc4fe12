/* threaded */
/* Requests to ensembles: every step is a request to its model, no byte is copied between steps, and
 * each request ends once, whatever becomes of its steps. */
#include "unit/serve/serving_bench.h"

#include "serve/domain.h"
#include "serve/ensemble.h"
#include "serve/ensemble_run.h"
#include "serve/scheduler.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "unit/serve/stuck_models.h"

enum { PARTS = 3, LIMIT_MS = 40 };

struct world {
    struct tt_serving *serving;
    struct tt_engine *engine;
    int32_t next_executor;
    struct tt_served_model *parts[PARTS], *chain, *diamond, *nested, *loose;
    struct tt_served_model *ruled, *hasty; /* hasty: a step of ruled, which drops what is late */
    struct stuck_model *stuck[PARTS], *stuck_ruled;
};

static struct tt_served_model *add_ensemble(struct world *self, const char *name,
                                            const struct tt_signature *seen, int32_t step_count,
                                            const struct tt_ensemble_step_spec *steps,
                                            const struct tt_ensemble_source *outputs) {
    struct tt_served_model *model = stuck_model_new(self->serving, name, 0);
    struct tt_ensemble *ensemble;
    const struct tt_ensemble_spec spec = {step_count, steps, 2, outputs};
    assert_int_equal(tt_ensemble_new(&spec, &ensemble), TT_OK);
    tt_ensemble_attach(model, seen, ensemble);
    assert_true(tt_served_model_ready(model));
    return model;
}

/* chain: 0, then 1, then 2, whose m is the ensemble's. diamond: 0 and 1, then 2 reads both. nested:
 * the diamond, then 0. loose: its shapes are free, so the first step may not fit. */
static void add_ensembles(struct world *self) {
    static const struct tt_ensemble_source whole[] = {{-1, 0}, {-1, 1}}, first[] = {{0, 0}, {0, 1}},
                                           last[] = {{1, 0}, {-1, 1}}, both[] = {{0, 0}, {1, 1}},
                                           from_2[] = {{2, 0}, {0, 1}}, from_1[] = {{1, 0}, {0, 1}};
    struct tt_served_model **parts = self->parts;
    const struct tt_ensemble_step_spec chain[] = {
        {parts[0], 1, whole}, {parts[1], 2, first}, {parts[2], 3, last}};
    const struct tt_ensemble_step_spec diamond[] = {
        {parts[0], 1, whole}, {parts[1], 2, whole}, {parts[2], 3, both}};
    self->chain = add_ensemble(self, "chain", &stuck_tensors, 3, chain, from_2);
    self->diamond = add_ensemble(self, "diamond", &stuck_tensors, 3, diamond, from_2);
    const struct tt_ensemble_step_spec nested[] = {{self->diamond, 1, whole}, {parts[0], 2, first}};
    self->nested = add_ensemble(self, "nested", &stuck_tensors, 2, nested, from_1);
    struct tt_signature *loose = malloc(sizeof(*loose));
    assert_non_null(loose);
    *loose = stuck_tensors;
    loose->inputs[0].shape.dims[1] = -1;
    self->loose = add_ensemble(self, "loose", loose, 3, chain, from_2);
    free(loose);
}

static void add_ruled(struct world *self, const struct stuck_place *place) {
    static const struct tt_ensemble_source whole[] = {{-1, 0}, {-1, 1}}, first[] = {{0, 0}, {0, 1}};
    static const struct tt_queue_rule rule = {.max_count = 0};
    const struct tt_served_model_spec spec = {.name = "ruled",
                                              .version = "1",
                                              .platform = "stuck",
                                              .config_json = "{}",
                                              .slo_ns = TT_NEVER,
                                              .honours_timeout = true,
                                              .rules = &rule};
    assert_int_equal(tt_served_model_new(&spec, &self->ruled), TT_OK);
    tt_serving_add(self->serving, self->ruled);
    self->stuck_ruled = stuck_model_place(self->ruled, place);
    const struct tt_ensemble_step_spec step = {self->ruled, 1, whole};
    self->hasty = add_ensemble(self, "hasty", &stuck_tensors, 1, &step, first);
}

static void world_open(struct world *self, const char *policy, int64_t requests) {
    struct tt_error why;
    *self = (struct world){0};
    const struct tt_serving_policy kind = {.name = policy};
    assert_int_equal(tt_serving_open(&self->serving, &why), TT_OK);
    struct tt_limits limits;
    tt_limits_default(&limits);
    if (requests > 0)
        limits.requests = requests;
    tt_serving_set_limits(self->serving, &limits);
    const struct tt_engine_options options = {1, tt_domain_depth(policy, 0), tt_serving_done,
                                              self->serving};
    self->engine = stuck_open(&options);
    const struct stuck_place place = {.serving = self->serving,
                                      .engine = self->engine,
                                      .policy = &kind,
                                      .executors = 1,
                                      .next_executor = &self->next_executor};
    static const char *const names[PARTS] = {"part 0", "part 1", "part 2"};
    for (int32_t p = 0; p < PARTS; p++) {
        self->parts[p] = stuck_model_new(self->serving, names[p], LIMIT_MS);
        self->stuck[p] = stuck_model_place(self->parts[p], &place);
    }
    add_ensembles(self);
    add_ruled(self, &place);
    assert_int_equal(tt_serving_start(self->serving, &why), TT_OK);
}

static void world_close(struct world *self) {
    struct tt_scheduler *scheduler = tt_serving_scheduler(self->serving);
    tt_scheduler_hold(scheduler);
    for (struct tt_domain *d = tt_scheduler_first_domain(scheduler); d; d = d->next)
        tt_domain_check(d);
    tt_scheduler_resume(scheduler);
    tt_serving_close(self->serving);
    self->engine->ops->close(self->engine);
}

static int64_t value(const struct tt_counter *counter) { return tt_counter_get(counter); }

/* All that came is accounted for. */
static void expect_conserved(const struct world *self) {
    const struct tt_served_model *const models[] = {self->parts[0], self->parts[1], self->parts[2],
                                                    self->chain,    self->diamond,  self->nested,
                                                    self->loose,    self->ruled,    self->hasty};
    for (size_t i = 0; i < TT_COUNT(models); i++)
        assert_int_equal(value(&models[i]->stats->accepted), bench_gone(models[i]));
}

static void await_inside(struct stuck_model *model) {
    while (atomic_load(&model->inside) < 1)
        stuck_pause();
}

/* ---- answers ---- */

static void answer(const char *policy) {
    enum { EACH = 30 };
    struct world world;
    struct client client;
    world_open(&world, policy, 0);
    client_open(&client, world.serving);
    struct tt_served_model *const models[] = {world.chain, world.diamond, world.nested,
                                              world.parts[1]};
    for (int i = 0; i < EACH; i++)
        for (size_t m = 0; m < TT_COUNT(models); m++)
            client_send(&client, models[m], 1 + i % 3, (char)(1 + i), 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, EACH * (int)TT_COUNT(models));
    assert_int_equal(value(&world.chain->stats->succeeded), EACH);
    assert_int_equal(value(&world.diamond->stats->succeeded), 2 * EACH); /* as a step, too */
    assert_int_equal(value(&world.parts[0]->stats->succeeded), 4 * EACH);
    assert_int_equal(value(&world.parts[1]->stats->succeeded), 4 * EACH);
    assert_int_equal(value(&world.parts[2]->stats->succeeded), 3 * EACH);
    assert_true(value(&world.chain->stats->request_ns) > 0);
    int64_t waits = 0;
    for (int32_t b = 0; b < TT_DURATION_BUCKETS; b++)
        waits += value(&world.chain->stats->queueing.counts[b]);
    assert_int_equal(waits, EACH);
    assert_int_equal(value(&world.chain->stats->queueing.sum_ns),
                     value(&world.chain->stats->queue_ns));
    assert_int_equal(value(&world.chain->stats->rows), EACH * 2);
    expect_conserved(&world);
    client_close(&client);
    world_close(&world);
}

/* `elastic` keeps inputs in rings, to which those of steps are copied. */
static void test_answers_under_each_policy(void **state) {
    (void)state;
    static const char *const policies[] = {"window", "deferred", "serial", "lazy", "elastic"};
    for (size_t i = 0; i < TT_COUNT(policies); i++)
        answer(policies[i]);
}

/* Where each request runs alone, nothing is gathered either. */
static void test_no_copies(void **state) {
    (void)state;
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    for (int i = 0; i < 20; i++)
        client_send(&client, world.chain, 2, (char)(1 + i), 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 20);
    for (int32_t p = 0; p < PARTS; p++)
        assert_int_equal(value(&world.parts[p]->stats->gathered_bytes), 0);
    client_close(&client);
    world_close(&world);
}

/* A step reads what the step before wrote, where it wrote it; and is let go once nothing reads it.
 */
static void test_outputs_in_place(void **state) {
    (void)state;
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    client.keeps = true;
    struct tt_inference *whole = client_send(&client, world.chain, 2, 7, 0);
    client_wait(&client, 0);
    const struct tt_ensemble_run *run = whole->run;
    tt_ensemble_run_check(run);
    assert_int_equal(run->ended, 7);
    assert_int_equal(run->released, 2); /* z of step 1 and y of step 3 are shown */
    assert_int_equal(run->returned, 2);
    assert_ptr_equal(run->places[0].inference->inputs[0].bytes, whole->inputs[0].bytes);
    struct tt_tensor_view view;
    tt_inference_output(whole, 1, &view);
    assert_int_equal(view.size_bytes, 2 * 2 * sizeof(int32_t));
    tt_inference_release(whole);
    client_close(&client);
    world_close(&world);
}

/* Each step's account is there until the whole is released, whatever became of its inference. */
static void test_accounts_of_steps(void **state) {
    (void)state;
    struct world world;
    struct client client;
    struct tt_inference_step step;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    client.keeps = true;
    struct tt_inference *whole = client_send(&client, world.chain, 2, 7, 60 * TT_S);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    int64_t before_at = whole->submitted_at;
    for (int32_t i = 0; i < 3; i++) {
        const struct tt_ensemble_step *planned = &world.chain->ensemble->steps[i];
        assert_true(tt_inference_step(whole, i, &step));
        assert_string_equal(step.model, planned->model->name);
        assert_int_equal(step.number, planned->number);
        assert_int_equal(step.batch_rows, 2);
        assert_true(step.submitted_at >= before_at);
        assert_true(step.started_at > 0);
        assert_true(step.ended_at >= step.submitted_at);
        assert_true(step.deadline_at <= whole->deadline_at);
        assert_false(step.is_failed);
        before_at = step.submitted_at;
    }
    assert_false(tt_inference_step(whole, 3, &step));
    tt_inference_release(whole);
    struct tt_inference *alone = client_send(&client, world.parts[0], 1, 1, 0);
    client_wait(&client, 0);
    assert_false(tt_inference_step(alone, 0, &step));
    tt_inference_release(alone);
    client_close(&client);
    world_close(&world);
}

static void test_deadlines(void **state) {
    (void)state;
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    client.keeps = true;
    struct tt_inference *whole = client_send(&client, world.chain, 1, 7, 3600 * TT_S);
    const struct tt_inference *first = whole->run->places[0].inference;
    int64_t patience_ns = first->deadline_at - whole->submitted_at;
    assert_int_equal(patience_ns, tt_ensemble_patience(&world.chain->ensemble->steps[0],
                                                       whole->submitted_at, whole->deadline_at));
    assert_true(patience_ns > 1200 * TT_S && patience_ns < 1800 * TT_S);
    assert_int_equal(first->priority, 7);
    client_wait(&client, 0);
    const struct tt_inference *last = whole->run->places[2].inference;
    assert_true(last->deadline_at <= whole->deadline_at);
    assert_true(last->deadline_at > first->deadline_at);
    struct tt_inference_account account;
    tt_inference_account(whole, &account);
    assert_int_equal(account.deadline_at, whole->deadline_at);
    tt_inference_release(whole);
    client_close(&client);
    world_close(&world);
}

/* ---- ends before the last step ---- */

/* A client that leaves while a step runs: the steps after it never run. */
static void test_cancel(void **state) {
    (void)state;
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    atomic_store(&world.stuck[1]->mode, STUCK_DEAF);
    struct tt_inference *whole = client_send(&client, world.nested, 1, 1, 0);
    await_inside(world.stuck[1]);
    tt_inference_cancel(whole);
    tt_inference_cancel(whole);
    atomic_store(&world.stuck[1]->is_let_go, true);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_CANCELLED], 1);
    assert_int_equal(atomic_load(&world.stuck[2]->runs), 0);
    assert_int_equal(value(&world.nested->stats->cancelled), 1);
    client_close(&client);
    expect_conserved(&world);
    world_close(&world);
}

/* A request that is dropped in a step counts as dropped for the same reason. */
static void test_a_step_is_dropped(void **state) {
    (void)state;
    enum { AHEAD = 5000 }; /* they take 5 s, as the profile says */
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    atomic_store(&world.stuck_ruled->mode, STUCK_DEAF);
    client_send(&client, world.ruled, 1, 1, 0);
    await_inside(world.stuck_ruled);
    for (int i = 0; i < AHEAD; i++)
        client_send(&client, world.ruled, 8, 1, 0);
    client_send(&client, world.hasty, 1, 1, 3 * TT_S);
    client_send(&client, world.hasty, 1, 1, 1);
    client_wait(&client, AHEAD + 1);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 2);
    const struct tt_counter *dropped = world.hasty->stats->dropped;
    assert_int_equal(value(&dropped[TT_DROP_EARLY]), 1);
    assert_int_equal(value(&dropped[TT_DROP_DEADLINE]), 1);
    assert_int_equal(value(&world.ruled->stats->dropped[TT_DROP_EARLY]), 1);
    atomic_store(&world.stuck_ruled->mode, 0);
    atomic_store(&world.stuck_ruled->is_let_go, true);
    client_wait(&client, 0);
    client_close(&client);
    expect_conserved(&world);
    world_close(&world);
}

/* A step that fails ends the request with its reason; the step beside it is cancelled. */
static void test_a_step_fails(void **state) {
    (void)state;
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    atomic_store(&world.stuck[1]->mode, STUCK_OBEYS);
    client_send(&client, world.diamond, 1, 1, 0);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_non_null(strstr(client.why, "step 2 (model 'part 1'): "));
    assert_int_equal(value(&world.diamond->stats->failed), 1); /* as at the step's model */
    assert_int_equal(value(&world.parts[1]->stats->failed), 1);
    client_send(&client, world.nested, 1, 1, 0); /* the model refuses all since */
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], 1);
    assert_non_null(strstr(client.why, "step 1 (model 'diamond'): step 2 (model 'part 1'): "));
    assert_int_equal(atomic_load(&world.stuck[2]->runs), 0);
    client_close(&client);
    expect_conserved(&world);
    world_close(&world);
}

/* A run that does not return: the request is answered, and its memory is kept until it does. */
static void lose(bool is_nested) {
    struct world world;
    struct client client;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    atomic_store(&world.stuck[1]->mode, STUCK_DEAF);
    client.keeps = true;
    struct tt_inference *whole =
        client_send(&client, is_nested ? world.nested : world.chain, 1, 1, 0);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    tt_inference_release(whole);
    assert_true(whole->is_lost);
    if (is_nested)
        assert_int_equal(whole->run->returned,
                         2); /* step 2 never began; a step of step 1 is lost */
    else
        assert_int_equal(whole->run->returned, 4); /* step 2 is lost, and reads step 1 */
    client.keeps = false;
    client_send(&client, world.parts[0], 1, 1, 0); /* all else goes on */
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    atomic_store(&world.stuck[1]->is_let_go, true);
    while (tt_serving_lost_runs(world.serving) > 0)
        stuck_pause();
    client_close(&client); /* blocks until it was given back */
    expect_conserved(&world);
    world_close(&world);
}

static void test_a_step_is_lost(void **state) {
    (void)state;
    lose(false);
    lose(true);
}

/* ---- before the first step ---- */

static void test_before_submit(void **state) {
    (void)state;
    const struct tt_inference_shape good[] = {{0, {2, {1, 4}}}, {1, {2, {1, 2}}}},
                                    wide[] = {{0, {2, {1, 5}}}, {1, {2, {1, 2}}}};
    struct world world;
    struct client client;
    struct tt_error why;
    struct tt_inference *inference;
    world_open(&world, "serial", 2);
    client_open(&client, world.serving);
    assert_int_equal(client_begin(&client, world.nested, good, 2, 1, &inference, &why), TT_OK);
    tt_inference_release(inference); /* the body turned out bad */
    assert_int_equal(client_begin(&client, world.loose, wide, 2, 1, &inference, &why),
                     TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "step 1 (model 'part 0'): unexpected shape for input 'x'"));
    /* Two steps of a diamond may be in flight at once, so it takes two of the limit. */
    assert_int_equal(client_begin(&client, world.diamond, good, 2, 1, &inference, &why), TT_OK);
    struct tt_inference *other;
    assert_int_equal(client_begin(&client, world.parts[0], good, 2, 1, &other, &why), TT_ERR_BUSY);
    client_submit(&client, inference, 1, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    for (char i = 1; i <= 5; i++) { /* nothing was lost of the limit */
        client_send(&client, world.diamond, 1, i, 0);
        client_wait(&client, 0);
    }
    assert_int_equal(client.ok, 6);
    expect_conserved(&world);
    client_close(&client);
    world_close(&world);
}

/* S10: an ensemble is held while one of its parts is, also an ensemble of ensembles. */
static void test_a_part_is_held(void **state) {
    (void)state;
    struct world world;
    struct client client;
    struct tt_served_model *found;
    struct tt_error why;
    world_open(&world, "serial", 0);
    client_open(&client, world.serving);
    const char *version = tt_served_model_version(world.parts[1]);
    assert_int_equal(tt_serving_find(client.port, "nested", "", &found, &why), TT_OK);
    assert_true(tt_serving_hold_model(client.port, "part 1", version, true));
    static const char *const ensembles[] = {"nested", "diamond", "chain"};
    for (size_t i = 0; i < TT_COUNT(ensembles); i++)
        assert_int_equal(tt_serving_find(client.port, ensembles[i], "", &found, &why),
                         TT_ERR_UNAVAILABLE);
    assert_int_equal(tt_serving_find(client.port, "part 0", "", &found, &why), TT_OK);
    assert_true(tt_serving_hold_model(client.port, "part 1", version, false));
    assert_int_equal(tt_serving_find(client.port, "nested", "", &found, &why), TT_OK);
    client_close(&client);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_part_is_held),
        cmocka_unit_test(test_answers_under_each_policy),
        cmocka_unit_test(test_no_copies),
        cmocka_unit_test(test_outputs_in_place),
        cmocka_unit_test(test_accounts_of_steps),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_a_step_is_dropped),
        cmocka_unit_test(test_a_step_fails),
        cmocka_unit_test(test_a_step_is_lost),
        cmocka_unit_test(test_before_submit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
