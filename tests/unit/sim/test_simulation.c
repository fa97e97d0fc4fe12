/* Tiny worlds whose schedules are worked out by hand. Their policy runs any queued request on the
 * first executor with room, and yields or aborts at given instants. */
#include "sim/simulation.h"
#include "sim/step_work.h"

#include "base/instant.h"
#include "core/policy_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tt_policy {
    struct tt_list queue;
    int64_t yield_at, abort_at; /* TT_NEVER: done */
    struct tt_mechanism *mechanism;
};

static void arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_list_push_back(&self->queue, &request->link);
}
static void finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            tt_list_push_back(&self->queue, &task->items[i].request->link);
}
static void cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)self;
    (void)now;
    tt_list_remove(&request->link);
}
static void decide(struct tt_policy *self, int64_t now, struct tt_mechanism *m) {
    if (now >= self->yield_at) {
        self->yield_at = TT_NEVER;
        tt_mechanism_yield(m, 0);
    }
    if (now >= self->abort_at) {
        self->abort_at = TT_NEVER;
        tt_mechanism_abort(m, 0);
    }
    for (int32_t e = 0; e < m->executor_capacity && !tt_list_empty(&self->queue); e++) {
        if (!tt_mechanism_has_room(m, e))
            continue;
        struct tt_request *head =
            TT_CONTAINER_OF(tt_list_first(&self->queue), struct tt_request, link);
        int32_t step = head->step, last = m->models[0]->step_count - 1, rows = 0;
        tt_mechanism_run_begin(m, e, 0, step, last);
        for (struct tt_list_node *node = tt_list_first(&self->queue), *next; node; node = next) {
            next = tt_list_next(&self->queue, node);
            struct tt_request *request = TT_CONTAINER_OF(node, struct tt_request, link);
            if (request->step != step || rows + request->rows > m->models[0]->max_batch)
                continue;
            rows += request->rows;
            tt_list_remove(node);
            tt_mechanism_run_add(m, request);
        }
        tt_mechanism_run_commit(m, now);
    }
}
static int64_t next_at(const struct tt_policy *self) {
    return tt_instant_min(self->yield_at, self->abort_at);
}
static void executor_changed(struct tt_policy *self, int64_t now, int32_t e, enum tt_change c) {
    (void)self;
    (void)now;
    (void)e;
    (void)c;
}
static void check(const struct tt_policy *self) { (void)self; }
static void policy_free(struct tt_policy *self) { free(self); }

static const struct tt_policy_traits traits = {.default_depth = 1};
static const struct tt_policy_ops ops = {.arrived = arrived,
                                         .finished = finished,
                                         .cancelled = cancelled,
                                         .decide = decide,
                                         .next_at = next_at,
                                         .executor_changed = executor_changed,
                                         .check = check,
                                         .free = policy_free};

struct world {
    struct tt_step steps[3];
    struct tt_profile *profiles[3], *whole;
    struct tt_step_model model;
    struct tt_sim_arrival arrivals[16];
    int32_t count, position;
    int64_t yield_at, abort_at;
    char log[2048];
    size_t used;
};

static bool source_next(void *context, struct tt_sim_arrival *out) {
    struct world *w = context;
    if (w->position == w->count)
        return false;
    *out = w->arrivals[w->position++];
    return true;
}

TT_PRINTF(2, 3) static void put(struct world *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    w->used += (size_t)vsnprintf(w->log + w->used, sizeof(w->log) - w->used, format, args);
    va_end(args);
    assert_true(w->used < sizeof(w->log));
}
static void log_ended(void *context, const struct tt_sim_ending *e) {
    static const char *const names[] = {"done", "dropped", "failed", "cancelled"};
    put(context, "%lld:%s%lld ", (long long)e->ended_at, names[e->ending], (long long)e->number);
}
static void log_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                        const int64_t *numbers) {
    put(context, "%lld:e%ds%d(", (long long)now, task->executor, step);
    for (int32_t i = 0; i < task->count; i++)
        put(context, "%s%lld", i ? "," : "", (long long)numbers[i]);
    put(context, ") ");
}
static void log_stopped(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    if (step < 0)
        put(context, "%lld:e%dstopped ", (long long)now, task->executor);
}

static enum tt_err create(void *context, struct tt_mechanism *m, struct tt_error *why) {
    (void)why;
    struct world *w = context;
    struct tt_policy *policy = calloc(1, sizeof(*policy));
    assert_non_null(policy);
    tt_list_init(&policy->queue);
    policy->yield_at = w->yield_at;
    policy->abort_at = w->abort_at;
    tt_mechanism_attach(m, &ops, &traits, policy);
    return TT_OK;
}

/* `steps` steps of b + 9 ns each. */
static void world_init(struct world *w, int32_t steps) {
    *w = (struct world){.yield_at = TT_NEVER, .abort_at = TT_NEVER};
    for (int32_t s = 0; s < steps; s++) {
        assert_int_equal(tt_profile_new_linear(1, 9, 8, &w->profiles[s], NULL), TT_OK);
        w->steps[s] = (struct tt_step){.name = "s", .profile = w->profiles[s]};
    }
    assert_int_equal(tt_profile_new_linear(steps, 9 * steps, 8, &w->whole, NULL), TT_OK);
    w->model = (struct tt_step_model){.name = "m",
                                      .step_count = steps,
                                      .steps = w->steps,
                                      .whole = w->whole,
                                      .slo_ns = TT_NEVER,
                                      .max_batch = 8};
}
static void add(struct world *w, int64_t at) {
    w->arrivals[w->count++] = (struct tt_sim_arrival){
        .at = at, .deadline_at = TT_NEVER, .cancel_at = TT_NEVER, .rows = 1, .exit_step = -1};
}
static void run(struct world *w, struct tt_sim_options options) {
    struct tt_sim_model model = {.step_model = &w->model};
    struct tt_sim_device device = {.executors = 1};
    if (!options.models)
        options.models = &model;
    options.model_count = 1;
    if (!options.devices) {
        options.devices = &device;
        options.device_count = 1;
    }
    options.depth = options.depth ? options.depth : 1;
    options.check = true;
    options.source = (struct tt_sim_source){.context = w, .next = source_next};
    options.observer = (struct tt_sim_observer){w, log_ended, log_started, log_stopped};
    options.create_policy = create;
    options.create_context = w;
    struct tt_simulation *simulation;
    assert_int_equal(tt_simulation_new(&options, &simulation, NULL), TT_OK);
    while (tt_simulation_run(simulation, 1))
        ;
    int64_t gone = 0;
    for (int32_t i = 0; i <= TT_ENDING_CANCELLED; i++)
        gone += tt_simulation_mechanism(simulation)->ended[i];
    assert_int_equal(gone, tt_simulation_mechanism(simulation)->arrivals);
    tt_simulation_free(simulation);
    for (int32_t s = 0; s < w->model.step_count; s++)
        tt_profile_free(w->profiles[s]);
    tt_profile_free(w->whole);
}

static void a_burst_is_one_batch(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 1);
    add(&w, 5);
    add(&w, 5);
    add(&w, 6);
    add(&w, 16); /* at the instant of the completion: reported before the decision */
    run(&w, (struct tt_sim_options){0});
    assert_string_equal(w.log, "5:e0s0(0,1) 16:done0 16:done1 16:e0s0(2,3) 27:done2 27:done3 ");
}

static void messages_take_time_and_queue_ahead(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 1);
    add(&w, 0);
    add(&w, 8);
    run(&w, (struct tt_sim_options){.d_ctrl_ns = 4, .d_data_ns = 2, .depth = 2});
    /* S4: 4 + 2 ns in transfer; the second message travels while the first batch runs. */
    assert_string_equal(w.log, "6:e0s0(0) 16:done0 16:e0s0(1) 26:done1 ");
}

static void a_busy_device_appears_later(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 1);
    add(&w, 1);
    add(&w, 7);
    struct tt_sim_device devices[] = {{.executors = 1, .busy_until_at = 9},
                                      {.executors = 1, .busy_until_at = 4}};
    run(&w, (struct tt_sim_options){.devices = devices, .device_count = 2});
    assert_string_equal(w.log, "4:e1s0(0) 9:e0s0(1) 14:done0 19:done1 ");
}

static void yield_stops_at_the_boundary(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 3);
    w.yield_at = 12;
    add(&w, 0);
    add(&w, 11);
    run(&w, (struct tt_sim_options){0});
    /* Step 1 ends at 20. Request 1 was queued first, so it runs its three steps, then request 0 its
     * last. */
    assert_string_equal(w.log, "0:e0s0(0) 10:e0s1(0) 20:e0s0(1) 30:e0s1(1) 40:e0s2(1) 50:done1 "
                               "50:e0s2(0) 60:done0 ");
}

static void abort_stops_at_once_and_costs(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 1);
    w.abort_at = 4;
    add(&w, 0);
    run(&w, (struct tt_sim_options){.abort_ns = 3});
    assert_string_equal(w.log, "0:e0s0(0) 4:e0stopped 7:e0s0(0) 17:done0 ");
}

static void exits_and_cancellations(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 2);
    w.yield_at = 1;
    add(&w, 0);
    add(&w, 0);
    add(&w, 2);
    w.arrivals[0].exit_step = 0;  /* leaves at the boundary at 11 */
    w.arrivals[1].cancel_at = 3;  /* while running: discarded when its task ends */
    w.arrivals[2].cancel_at = 10; /* while queued: at once */
    run(&w, (struct tt_sim_options){0});
    assert_string_equal(w.log, "0:e0s0(0,1) 10:cancelled2 11:done0 11:cancelled1 ");
}

static void copies_stand_before_and_behind(void **state) {
    (void)state;
    struct world w;
    world_init(&w, 1);
    add(&w, 0);
    struct tt_sim_model model = {.step_model = &w.model, .input_bytes = 5, .output_bytes = 3};
    struct tt_sim_device device = {.executors = 1,
                                   .copy_in = {.fixed_ns = 2, .bytes_per_s = TT_S},
                                   .copy_out = {.fixed_ns = 1, .bytes_per_s = TT_S}};
    run(&w, (struct tt_sim_options){.models = &model, .devices = &device, .device_count = 1});
    assert_string_equal(w.log, "7:e0s0(0) 21:done0 "); /* 2 + 5, then 10, then 1 + 3 */
}

/* E7: rows without a request take as long as others. */
static void a_padded_task_is_computed_whole(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(1000, 5000, 8, &profile, &why), TT_OK);
    struct tt_task task = {.rows = 2};
    assert_int_equal(tt_step_work(profile, &task, 0, NULL), 7000);
    task.padded_rows = 8;
    assert_int_equal(tt_step_work(profile, &task, 0, NULL), 13000);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_one_batch),
        cmocka_unit_test(a_padded_task_is_computed_whole),
        cmocka_unit_test(messages_take_time_and_queue_ahead),
        cmocka_unit_test(a_busy_device_appears_later),
        cmocka_unit_test(yield_stops_at_the_boundary),
        cmocka_unit_test(abort_stops_at_once_and_costs),
        cmocka_unit_test(exits_and_cancellations),
        cmocka_unit_test(copies_stand_before_and_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
