/* threaded */
/* D4, E1: a server on an engine of streams: answers pass through the device's memory, stage by
 * stage, and a device that fails takes its own models with it only. */
#include "unit/serve/serving_bench.h"

#include "device/async_host.h"
#include "device/async_order.h"
#include "engine/streams/stream_engine.h"
#include "serve/domain.h"
#include "serve/scheduler.h"
#include "unit/breach.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STAGES = 3, EXECUTORS = 3 };

struct world {
    struct serving_bench bench; /* with an engine of its own, for other models */
    struct tt_async_device *device;
    struct tt_engine *engine;
    struct tt_served_model *model;
    struct client client;
    struct tt_observer observer;
    _Atomic int followers;
    int32_t next_executor;
    _Atomic int failed; /* models, as the controller was notified */
    char conflict[512];
};

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct world *world = TT_CONTAINER_OF(observer, struct world, observer);
    if (event->kind == TT_EVENT_RUN && event->task->after)
        atomic_fetch_add(&world->followers, 1);
}

static void on_failed(void *context, struct tt_served_model *model) {
    struct world *world = context;
    tt_assert(*model->failure != '\0');
    atomic_fetch_add(&world->failed, 1);
}

static void on_conflict(void *context, const char *text) {
    struct world *world = context;
    snprintf(world->conflict, sizeof(world->conflict), "%s", text);
}

static void open_device(struct world *self) {
    struct tt_async_order_options order = {
        .max_streams = 16, .on_conflict = on_conflict, .context = self};
    struct tt_async_host_options device = {
        .memory_bytes = 1 << 22, .max_streams = 16, .queue_depth = 1024};
    assert_int_equal(tt_async_order_new(&order, &device.take_order, NULL), TT_OK);
    assert_int_equal(tt_async_host_open(&device, &self->device, NULL), TT_OK);
}

static void add_model(struct world *self, const char *name) {
    static const struct tt_option options[] = {{"stretch", "off"}, {"ahead", "on"}};
    static const struct tt_serving_policy policy = {
        .name = "diversity", .options = options, .option_count = TT_COUNT(options)};
    struct tt_served_model_spec spec = {.name = name,
                                        .version = "1",
                                        .platform = "streams",
                                        .config_json = "{}",
                                        .slo_ns = TT_NEVER,
                                        .priority_count = 100,
                                        .default_priority = 50};
    struct tt_stream_program program = {
        .signature = &bench_fixed, .step_count = STAGES, .slot_count = 64, .state_bytes = 16};
    struct tt_engine_model *loaded;
    struct tt_profile *profile;
    struct tt_error why = {{0}};
    assert_int_equal(tt_served_model_new(&spec, &self->model), TT_OK);
    tt_serving_add(self->bench.serving, self->model);
    assert_int_equal(tt_stream_engine_load(self->engine, &program, &loaded, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(TT_US, TT_MS, 8, &profile, &why), TT_OK);
    assert_int_equal(tt_served_model_loaded(self->model, loaded, profile, NULL), TT_OK);
    enum tt_err err = tt_serving_place(self->bench.serving, self->model, &policy, self->engine,
                                       EXECUTORS, &self->next_executor, &why);
    if (err)
        fail_msg("%s", why.text);
}

static void world_open(struct world *self) {
    struct tt_error why;
    *self = (struct world){0};
    serving_bench_open(&self->bench);
    tt_serving_set_controller(self->bench.serving,
                              &(struct tt_model_controller){.failed = on_failed, .context = self});
    open_device(self);
    struct tt_stream_engine_options options = {
        .engine = {EXECUTORS, 2, tt_serving_done, self->bench.serving}, .device = self->device};
    assert_int_equal(tt_stream_engine_open(&options, &self->engine, &why), TT_OK);
    add_model(self, "streams");
    struct tt_domain *domain = tt_scheduler_first_domain(tt_serving_scheduler(self->bench.serving));
    self->observer.observe = observe;
    tt_mechanism_observe(&domain->mechanism, &self->observer);
}

static void world_start(struct world *self) {
    serving_bench_start(&self->bench);
    client_open(&self->client, self->bench.serving);
}

static void world_close(struct world *self) {
    client_close(&self->client);
    serving_bench_close(&self->bench);
    self->engine->ops->close(self->engine);
    assert_string_equal(self->conflict, "");
    tt_async_device_close(self->device);
}

static void answers_come_from_the_device(void **state) {
    (void)state;
    static struct world world;
    world_open(&world);
    world_start(&world);
    for (int i = 0; i < 400; i++) {
        client_send(&world.client, world.model, 1 + i % 3, (char)(1 + i % 99), 0);
        if (i % 16 == 0)
            client_wait(&world.client, 8);
    }
    client_wait(&world.client, 0);
    assert_int_equal(world.client.ok, 400);
    assert_true(atomic_load(&world.followers) > 0);
    assert_int_equal(tt_counter_get(&world.model->stats->accepted), bench_gone(world.model));
    world_close(&world);
}

static void a_failed_device_takes_its_models_only(void **state) {
    (void)state;
    static struct world world;
    static const int64_t latency_ns = TT_US;
    world_open(&world);
    struct tt_served_model_spec spec = {
        .name = "other", .priority_count = 100, .default_priority = 50};
    struct tt_serving_policy window = {.name = "window"};
    struct tt_served_model *other =
        serving_bench_add(&world.bench, &spec, &bench_fixed, &latency_ns, &window);
    world_start(&world);
    for (int i = 0; i < 100; i++)
        client_send(&world.client, world.model, 1, (char)(1 + i % 99), 0);
    tt_async_device_fail(world.device, "the bus was lost");
    for (int i = 0; i < 100; i++)
        client_send(&world.client, world.model, 1, (char)(1 + i % 99), 0);
    client_wait(&world.client, 0);
    assert_int_equal(world.client.ok + world.client.by_error[-TT_ERR_UNAVAILABLE], 200);
    assert_int_equal(world.client.wrong, 0);
    while (atomic_load(&world.failed) == 0)
        poll(NULL, 0, 1);
    client_send(&world.client, world.model, 1, 7, 0);
    client_wait(&world.client, 0);
    assert_non_null(strstr(world.client.why, "device host has failed: the bus was lost; load"));
    assert_int_equal(tt_counter_get(&world.model->stats->accepted), bench_gone(world.model));
    int32_t before = world.client.ok;
    for (int i = 0; i < 50; i++)
        client_send(&world.client, other, 1, 9, 0);
    client_wait(&world.client, 0);
    assert_int_equal(world.client.ok, before + 50);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_from_the_device),
        cmocka_unit_test(a_failed_device_takes_its_models_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
