/* threaded */
#include "engine/emulated/emulated.h"
#include "unit/engine/engine_bench.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>

#include <cmocka.h>

static struct bench bench;
static struct tt_engine *engine;

static int set_up(void **state) {
    (void)state;
    bench_init(&bench);
    struct tt_engine_options options = {2, BENCH_DEPTH, bench_done, &bench};
    struct tt_error why;
    return tt_emulated_engine_open(&options, &engine, &why);
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    bench_fini(&bench);
    return 0;
}

/* What the profile was asked, and what it says. */
struct profile {
    int64_t per_step_ns, per_row_ns;
    int32_t rows, length, calls;
    int64_t slow_step_ns; /* of step 2 */
};

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    struct profile *self = context;
    self->rows = rows;
    self->length = length;
    self->calls++;
    int64_t total = 0;
    for (int32_t step = first_step; step <= last_step; step++)
        total += step == 2 ? self->slow_step_ns : self->per_step_ns + rows * self->per_row_ns;
    return total;
}

static struct tt_engine_model *load_as(tt_engine_latency_fn *latency_ns, void *context,
                                       int32_t steps) {
    static const struct tt_signature signature = {
        .batched = true,
        .max_batch = 8,
        .input_count = 1,
        .output_count = 3,
        .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, -1}}}},
        .outputs = {{"same", TT_DTYPE_INT32, {2, {-1, -1}}},
                    {"zeros", TT_DTYPE_FP32, {3, {-1, -1, 4}}},
                    {"names", TT_DTYPE_BYTES, {2, {-1, 2}}}},
    };
    struct tt_engine_emulation options = {&signature, steps, latency_ns, context};
    struct tt_engine_model *model = NULL;
    struct tt_error why;
    assert_int_equal(tt_emulated_engine_load(engine, &options, &model, &why), TT_OK);
    assert_int_equal(engine->ops->step_count(model), steps);
    assert_memory_equal(engine->ops->signature(model), &signature, sizeof(signature));
    return model;
}

static struct tt_engine_model *load(struct profile *profile, int32_t steps) {
    return load_as(latency, profile, steps);
}

static const int32_t numbers[] = {7, 8, 9, 10, 11, 12};

static void test_outputs_and_time(void **state) {
    (void)state;
    struct profile profile = {.per_step_ns = TT_MS, .per_row_ns = TT_MS / 2};
    struct tt_engine_model *model = load(&profile, 2);
    struct tt_tensor_view inputs[] = {{numbers, 8, {2, {1, 2}}}, {numbers + 2, 16, {2, {2, 2}}}};
    struct tt_engine_member members[] = {{.rows = 1, .inputs = &inputs[0]},
                                         {.rows = 2, .inputs = &inputs[1]}};
    struct tt_engine_task task = {.model = model, .member_count = 2, .members = members};
    bench_run(&bench, &task);
    assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
    assert_int_equal(task.head.last_step_done, 1);
    assert_int_equal(task.gathered_bytes, 0);
    assert_int_equal(profile.rows, 3);
    assert_int_equal(profile.length, 2);
    /* Never early; how late depends on the machine. */
    assert_true(task.head.ended_at - task.head.started_at >= 2 * (TT_MS + 3 * TT_MS / 2));
    struct tt_tensor_view view;
    engine->ops->output(members[1].result, 0, members[1].first_row, 2, &view);
    assert_int_equal(view.size_bytes, 16);
    assert_memory_equal(view.bytes, numbers + 2, 16);
    engine->ops->output(members[1].result, 1, members[1].first_row, 2, &view);
    assert_int_equal(view.size_bytes, 2 * 2 * 4 * sizeof(float));
    assert_int_equal(view.shape.dims[1], 2);
    for (size_t i = 0; i < view.size_bytes; i++)
        assert_int_equal(((const char *)view.bytes)[i], 0);
    engine->ops->output(members[0].result, 2, 0, 1, &view);
    assert_int_equal(view.size_bytes, 8); /* two empty strings */
    engine->ops->result_release(members[0].result);
    engine->ops->output(members[1].result, 0, members[1].first_row, 2, &view);
    assert_memory_equal(view.bytes, numbers + 2, 16); /* lives as long as any member */
    engine->ops->result_release(members[1].result);
    engine->ops->unload(model);
}

static void test_padding_and_misfits(void **state) {
    (void)state;
    struct profile profile = {.per_step_ns = 1};
    struct tt_engine_model *model = load(&profile, 1);
    struct tt_tensor_view inputs[] = {{numbers, 8, {2, {1, 2}}}, {numbers + 2, 3, {2, {1, 1}}}};
    struct tt_error why;
    struct tt_engine_member members[] = {{.rows = 1, .inputs = &inputs[0]},
                                         {.rows = 1, .inputs = &inputs[1], .why = &why}};
    struct tt_engine_task task = {
        .model = model, .member_count = 2, .members = members, .head.length = 4};
    bench_run(&bench, &task);
    assert_int_equal(profile.length, 4);
    assert_int_equal(members[1].err, TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "3 bytes"));
    assert_int_equal(members[0].err, TT_OK);
    assert_int_equal(task.gathered_bytes, 16);
    struct tt_tensor_view view;
    engine->ops->output(members[0].result, 0, 0, 1, &view);
    static const int32_t padded[] = {7, 8, 0, 0};
    assert_int_equal(view.size_bytes, sizeof(padded));
    assert_memory_equal(view.bytes, padded, sizeof(padded));
    engine->ops->result_release(members[0].result);
    engine->ops->unload(model);
}

static struct tt_engine_task one_member(struct tt_engine_model *model,
                                        struct tt_engine_member *member, int32_t last_step) {
    static const struct tt_tensor_view input = {numbers, 8, {2, {1, 2}}};
    *member = (struct tt_engine_member){.rows = 1, .inputs = &input};
    return (struct tt_engine_task){
        .model = model, .member_count = 1, .members = member, .head.last_step = last_step};
}

/* How late the kernel may end the waits of the thread that asked last for a latency. */
struct slack {
    int calls, last_ns;
};

static int64_t latency_and_slack(void *context, int32_t rows, int32_t length, int32_t first_step,
                                 int32_t last_step) {
    (void)rows, (void)length, (void)first_step, (void)last_step;
    struct slack *self = context;
    self->calls++;
    self->last_ns = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    return TT_MS;
}

/* An executor's own thread waits exactly, else batches of 1 us would take 50 us longer; a thread
 * that runs a task for it keeps its own setting. */
static void test_waits_are_exact(void **state) {
    (void)state;
    struct slack slack = {0};
    struct tt_engine_model *model = load_as(latency_and_slack, &slack, 2);
    struct tt_engine_member member;
    struct tt_engine_task task = one_member(model, &member, 1);
    bench_run(&bench, &task);
    assert_int_equal(slack.calls, 2);
    assert_int_equal(slack.last_ns, 1); /* in step 2: it waited in step 1 */
    engine->ops->result_release(member.result);
    int own_ns = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    assert_true(own_ns > 1);
    task = one_member(model, &member, 1);
    engine->ops->run_here(engine, &task);
    assert_ptr_equal(bench_wait(&bench), &task);
    assert_int_equal(slack.calls, 4);
    assert_int_equal(slack.last_ns, own_ns);
    assert_true(task.head.ended_at - task.head.started_at >= 2 * TT_MS);
    engine->ops->result_release(member.result);
    engine->ops->unload(model);
}

/* Step 2 would take for ever: only the abort ends it, and it does not touch what is queued behind.
 */
static void test_abort_in_the_middle(void **state) {
    (void)state;
    struct profile profile = {.per_step_ns = 1, .slow_step_ns = TT_NEVER};
    struct tt_engine_model *model = load(&profile, 4);
    struct tt_engine_member members[3];
    struct tt_engine_task tasks[3] = {one_member(model, &members[0], 3),
                                      one_member(model, &members[1], 3),
                                      one_member(model, &members[2], 1)};
    for (int i = 0; i < 3; i++)
        tt_engine_submit(engine, &tasks[i]);
    tt_engine_abort(engine, &tasks[1]); /* in the queue */
    tt_engine_abort(engine, &tasks[0]);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(bench_wait(&bench), &tasks[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tasks[i].head.outcome, TT_OUTCOME_ABORTED);
        assert_true(tasks[i].head.last_step_done < 2);
        assert_int_equal(members[i].err, TT_ERR_CANCELLED);
        assert_null(members[i].result);
    }
    assert_int_equal(tasks[1].head.last_step_done, -1);
    assert_int_equal(tasks[2].head.outcome, TT_OUTCOME_DONE);
    assert_int_equal(tasks[2].head.last_step_done, 1);
    assert_null(members[2].result); /* the last step is still to come */
    /* The rest of it, from where it stood. */
    profile.slow_step_ns = 1;
    tasks[2].head.first_step = 2;
    tasks[2].head.last_step = 3;
    tt_engine_submit(engine, &tasks[2]);
    assert_ptr_equal(bench_wait(&bench), &tasks[2]);
    assert_int_equal(tasks[2].head.last_step_done, 3);
    assert_non_null(members[2].result);
    engine->ops->result_release(members[2].result);
    engine->ops->unload(model);
}

/* Asked in the queue, it still makes one step of progress. */
static void test_yield(void **state) {
    (void)state;
    struct profile profile = {.per_step_ns = 1, .slow_step_ns = TT_NEVER};
    struct tt_engine_model *model = load(&profile, 4);
    struct tt_engine_member members[2];
    struct tt_engine_task tasks[2] = {one_member(model, &members[0], 2),
                                      one_member(model, &members[1], 3)};
    tasks[0].head.first_step = 2; /* holds the executor until it is aborted */
    tt_engine_submit(engine, &tasks[0]);
    tt_engine_submit(engine, &tasks[1]);
    tt_engine_yield(engine, &tasks[1]);
    tt_engine_abort(engine, &tasks[0]);
    assert_ptr_equal(bench_wait(&bench), &tasks[0]);
    assert_ptr_equal(bench_wait(&bench), &tasks[1]);
    assert_int_equal(tasks[0].head.outcome, TT_OUTCOME_ABORTED);
    assert_int_equal(tasks[1].head.outcome, TT_OUTCOME_PREEMPTED);
    assert_int_equal(tasks[1].head.last_step_done, 0);
    assert_int_equal(members[1].err, TT_OK);
    assert_null(members[1].result);
    /* A yield in the last step finds nothing to leave undone. */
    tasks[1].head.first_step = 3;
    tt_engine_submit(engine, &tasks[1]);
    tt_engine_yield(engine, &tasks[1]);
    assert_ptr_equal(bench_wait(&bench), &tasks[1]);
    assert_int_equal(tasks[1].head.outcome, TT_OUTCOME_DONE);
    engine->ops->result_release(members[1].result);
    engine->ops->unload(model);
}

/* ---- S11 ---- */

enum { MANY = 2000 };

/* Completions of many executors: each has its own, as its thread is the only one to push there. */
struct crowd {
    struct tt_eventcount eventcount;
    struct tt_ring rings[MANY];
};

static void crowd_done(void *context, struct tt_device_task *task) {
    struct crowd *crowd = context;
    assert_true(tt_ring_push(&crowd->rings[task->executor], tt_engine_task_of(task)));
    tt_eventcount_notify(&crowd->eventcount);
}

/* Every task alike: nothing that many threads could disagree about. */
static int64_t steady(void *context, int32_t rows, int32_t length, int32_t first_step,
                      int32_t last_step) {
    (void)context, (void)rows, (void)length, (void)first_step, (void)last_step;
    return 20 * TT_MS;
}

/* S11: two thousand devices, all at work at once, in one process. */
static void test_thousands_of_devices_fit(void **state) {
    (void)state;
    static struct crowd crowd;
    static struct tt_engine_task tasks[MANY];
    static struct tt_engine_member members[MANY];
    struct tt_engine_options options = {MANY, 1, crowd_done, &crowd};
    struct tt_error why;
    struct tt_tensor_view input = {numbers, 8, {2, {1, 2}}};
    tt_eventcount_init(&crowd.eventcount);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(tt_ring_init(&crowd.rings[i], 2), 0);
    struct tt_engine *pair = engine;
    if (tt_emulated_engine_open(&options, &engine, &why))
        fail_msg("%s", why.text);
    struct tt_engine_model *model = load_as(steady, NULL, 1);
    for (int i = 0; i < MANY; i++) {
        members[i] = (struct tt_engine_member){.rows = 1, .inputs = &input};
        tasks[i] = (struct tt_engine_task){
            .model = model, .head.executor = i, .member_count = 1, .members = &members[i]};
        tt_engine_submit(engine, &tasks[i]);
    }
    for (int ended = 0; ended < MANY;) {
        int before = ended;
        for (int i = 0; i < MANY; i++)
            ended += tt_ring_pop(&crowd.rings[i]) != NULL;
        if (ended == before)
            tt_eventcount_wait(&crowd.eventcount, TT_NEVER);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(tasks[i].head.outcome, TT_OUTCOME_DONE);
        assert_true(tasks[i].head.ended_at - tasks[i].head.started_at >= 20 * TT_MS);
        engine->ops->result_release(members[i].result);
        tt_ring_fini(&crowd.rings[i]);
    }
    engine->ops->unload(model);
    engine->ops->close(engine);
    engine = pair;
}

/* Opens an engine of one executor in place of the pair; returns the pair. */
static struct tt_engine *open_other(struct tt_engine_options options) {
    struct tt_engine *pair = engine;
    struct tt_error why;
    options.executor_count = 1;
    options.queue_depth = BENCH_DEPTH;
    options.done = bench_done;
    options.done_context = &bench;
    assert_int_equal(tt_emulated_engine_open(&options, &engine, &why), TT_OK);
    return pair;
}

static void close_other(struct tt_engine *pair) {
    engine->ops->close(engine);
    engine = pair;
}

/* S4: two messages travel at once. Aborted on the way, a task has not begun. */
static void test_messages_travel(void **state) {
    (void)state;
    assert_false(engine->is_remote);
    struct tt_engine_device device = {.executors = 1, .delay = {100 * TT_MS, 5 * TT_MS}};
    struct tt_engine *pair =
        open_other((struct tt_engine_options){.devices = &device, .device_count = 1});
    assert_true(engine->is_remote);
    struct profile profile = {.per_step_ns = 1};
    struct tt_engine_model *model = load(&profile, 1);
    struct tt_engine_member members[3];
    struct tt_engine_task tasks[3] = {one_member(model, &members[0], 0),
                                      one_member(model, &members[1], 0),
                                      one_member(model, &members[2], 0)};
    int64_t now = tt_clock_now();
    for (int i = 0; i < 3; i++) {
        tasks[i].head.rows = 1;
        tasks[i].head.submitted_at = i < 2 ? now : now + 3600 * TT_S;
        tt_engine_submit(engine, &tasks[i]);
    }
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(bench_wait(&bench), &tasks[i]);
        assert_int_equal(tasks[i].head.outcome, TT_OUTCOME_DONE);
        assert_int_equal(tasks[i].head.received_at, now + 105 * TT_MS);
        assert_true(tasks[i].head.ended_at > tasks[i].head.received_at);
        engine->ops->result_release(members[i].result);
    }
    tt_engine_abort(engine, &tasks[2]);
    assert_ptr_equal(bench_wait(&bench), &tasks[2]);
    assert_int_equal(tasks[2].head.outcome, TT_OUTCOME_ABORTED);
    assert_int_equal(tasks[2].head.received_at, 0);
    assert_int_equal(profile.calls, 2);
    engine->ops->unload(model);
    close_other(pair);
}

/* Devices that stop for 200 ms, and take three times as long from then on. */
static void test_devices_of_another_speed(void **state) {
    (void)state;
    static const struct tt_perturbation spans[] = {{0, 200 * TT_MS, 0},
                                                   {200 * TT_MS, INT64_MAX / 4, 333}};
    int64_t before_at = tt_clock_now();
    struct tt_engine *pair = open_other(
        (struct tt_engine_options){.perturbations = spans, .perturbation_count = TT_COUNT(spans)});
    struct profile profile = {.per_step_ns = 10 * TT_MS};
    struct tt_engine_model *model = load(&profile, 1);
    for (int i = 0; i < 2; i++) {
        struct tt_engine_member member;
        struct tt_engine_task task = one_member(model, &member, 0);
        bench_run(&bench, &task);
        assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
        assert_true(task.head.ended_at >= before_at + (200 + 30 * (i + 1)) * TT_MS);
        assert_true(task.head.ended_at - task.head.started_at >= 30 * TT_MS);
        engine->ops->result_release(member.result);
    }
    engine->ops->unload(model);
    close_other(pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs_and_time),
        cmocka_unit_test(test_padding_and_misfits),
        cmocka_unit_test(test_waits_are_exact),
        cmocka_unit_test(test_abort_in_the_middle),
        cmocka_unit_test(test_yield),
        cmocka_unit_test(test_thousands_of_devices_fit),
        cmocka_unit_test(test_messages_travel),
        cmocka_unit_test(test_devices_of_another_speed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
