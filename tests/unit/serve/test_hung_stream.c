/* threaded */
/* A stream of a device hangs: the watchdog gives the run up, the reason names the stream, all
 * models of that device refuse requests, and models elsewhere go on. */
#include "unit/serve/serving_bench.h"

#include "device/async_host.h"
#include "engine/streams/stream_engine.h"
#include "serve/domain.h"
#include "serve/scheduler.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "unit/serve/stuck_models.h"

enum { LIMIT_MS = 40 };

static sem_t entered, gate;

/* Copies both inputs; the context says whether it hangs first. */
static enum tt_err copy_or_hang(void *context, int32_t step, int32_t rows, const void *const *in,
                                void *const *out, struct tt_error *why) {
    (void)step;
    (void)why;
    if (*(const bool *)context) {
        sem_post(&entered);
        while (sem_wait(&gate) != 0)
            continue;
    }
    memcpy(out[0], in[0], (size_t)rows * 16);
    memcpy(out[1], in[1], (size_t)rows * 8);
    return TT_OK;
}

struct world {
    struct tt_serving *serving;
    struct tt_async_device *device;
    struct tt_engine *streams, *threads;
    struct tt_serving_policy policy;
    int32_t next_executor[2];
};

static void on_failed(void *context, struct tt_served_model *model) {
    (void)context;
    tt_assert(*model->failure != '\0');
}

static void world_open(struct world *self) {
    struct tt_error why = {""};
    *self = (struct world){.policy = {.name = "window"}};
    assert_int_equal(tt_serving_open(&self->serving, &why), TT_OK);
    tt_serving_set_controller(self->serving,
                              &(struct tt_model_controller){.failed = on_failed, .context = self});
    const struct tt_engine_options engine = {1, tt_domain_depth("window", 0), tt_serving_done,
                                             self->serving};
    self->threads = stuck_open(&engine);
    const struct tt_async_host_options host = {.memory_bytes = 1 << 20, .queue_depth = 1024};
    assert_int_equal(tt_async_host_open(&host, &self->device, &why), TT_OK);
    const struct tt_stream_engine_options streams = {.engine = engine, .device = self->device};
    assert_int_equal(tt_stream_engine_open(&streams, &self->streams, &why), TT_OK);
}

static struct tt_served_model *add_on_streams(struct world *self, const char *name,
                                              const bool *hangs) {
    struct tt_served_model *model = stuck_model_new(self->serving, name, LIMIT_MS);
    const struct tt_stream_program program = {.signature = &stuck_tensors,
                                              .step_count = 1,
                                              .context = (void *)(uintptr_t)hangs,
                                              .compute = copy_or_hang};
    struct tt_error why = {""};
    struct tt_engine_model *loaded;
    struct tt_profile *profile;
    assert_int_equal(tt_stream_engine_load(self->streams, &program, &loaded, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(TT_US, TT_MS, 8, &profile, &why), TT_OK);
    assert_int_equal(tt_served_model_loaded(model, loaded, profile, NULL), TT_OK);
    assert_int_equal(tt_serving_place(self->serving, model, &self->policy, self->streams, 1,
                                      &self->next_executor[0], &why),
                     TT_OK);
    return model;
}

static struct tt_served_model *add_on_threads(struct world *self, const char *name) {
    struct tt_served_model *model = stuck_model_new(self->serving, name, LIMIT_MS);
    const struct stuck_place place = {.serving = self->serving,
                                      .engine = self->threads,
                                      .policy = &self->policy,
                                      .executors = 1,
                                      .next_executor = &self->next_executor[1]};
    stuck_model_place(model, &place);
    return model;
}

static void check(struct world *self) {
    struct tt_scheduler *scheduler = tt_serving_scheduler(self->serving);
    tt_scheduler_hold(scheduler);
    for (struct tt_domain *d = tt_scheduler_first_domain(scheduler); d; d = d->next)
        tt_domain_check(d);
    tt_scheduler_resume(scheduler);
}

static void await_lost(struct world *self, int64_t count) {
    while (tt_serving_lost_runs(self->serving) != count)
        stuck_pause();
}

static void the_server_goes_on(void **state) {
    (void)state;
    struct world world;
    struct client client;
    struct tt_error why;
    bool hangs = true, answers = false;
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    world_open(&world);
    struct tt_served_model *bad = add_on_streams(&world, "bad", &hangs);
    struct tt_served_model *beside = add_on_streams(&world, "beside", &answers);
    struct tt_served_model *elsewhere = add_on_threads(&world, "elsewhere");
    assert_int_equal(tt_serving_start(world.serving, &why), TT_OK);
    client_open(&client, world.serving);
    client_send(&client, beside, 2, 3, 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 1);
    client_send(&client, bad, 4, 1, 0);
    while (sem_wait(&entered) != 0)
        continue;
    client_send(&client, beside, 1, 2, 0); /* waits behind it */
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_TIMEOUT], 1);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], 1);
    client_send(&client, beside, 1, 2, 0);
    client_wait(&client, 0);
    assert_int_equal(client.by_error[-TT_ERR_UNAVAILABLE], 2);
    assert_non_null(strstr(client.why, "device host has failed: the stream of executor 0 hangs: "
                                       "steps 0 to 0 of a batch of 4 rows ran longer than 40 ms"));
    for (int i = 0; i < 20; i++)
        client_send(&client, elsewhere, 1, (char)(1 + i), 0);
    client_wait(&client, 0);
    assert_int_equal(client.ok, 21);
    await_lost(&world, 1);
    check(&world);
    sem_post(&gate);
    await_lost(&world, 0);
    check(&world);
    client_close(&client);
    tt_serving_close(world.serving);
    world.streams->ops->close(world.streams);
    world.threads->ops->close(world.threads);
    assert_int_equal(tt_async_device_restart(world.device, &why), TT_OK); /* all is given back */
    tt_async_device_close(world.device);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_server_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
