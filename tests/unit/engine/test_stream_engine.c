/* threaded */
/* D4, E1, E7: an engine on streams: that what it computes passes through device memory in the right
 * order, when things happen in virtual time, and what a failed device leaves. */
#include "unit/engine/stream_bench.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tt_engine_task *take(struct stream_bench *bench) {
    for (int e = 0; e < STREAM_EXECUTORS; e++) {
        struct tt_engine_task *task = tt_ring_pop(&bench->returned[e]);
        if (task)
            return task;
    }
    return NULL;
}

static struct tt_engine_task *await(struct stream_bench *bench) {
    struct tt_engine_task *task;
    while (!(task = take(bench)))
        sched_yield();
    return task;
}

static void open_on_host(struct stream_bench *bench, enum tt_stream_transfer transfer) {
    *bench = (struct stream_bench){.step_ns = 1};
    struct tt_async_host_options options = {.memory_bytes = 1 << 22,
                                            .max_streams = 16,
                                            .queue_depth = 1024,
                                            .take_order = stream_order(bench)};
    assert_int_equal(tt_async_host_open(&options, &bench->device, NULL), TT_OK);
    stream_bench_open(bench, transfer);
}

static void close_host(struct stream_bench *bench) {
    stream_bench_close(bench);
    assert_string_equal(bench->conflict, "");
    assert_int_equal(bench->torn, 0);
    tt_async_device_close(bench->device);
}

/* ---- on threads ---- */

enum { WORLD = 24 };

/* Requests go through the model in random tasks: any consecutive steps, batches that differ from
 * step to step, tasks that take up the members of others which still run. */
struct world {
    struct stream_bench bench;
    struct tt_prng prng;
    struct stream_request requests[WORLD];
    int32_t step[WORLD]; /* the next one; -1: in a task */
    struct stream_batch batches[STREAM_EXECUTORS * STREAM_DEPTH];
    bool used[STREAM_EXECUTORS * STREAM_DEPTH], taken_up[STREAM_EXECUTORS * STREAM_DEPTH];
    int32_t depth[STREAM_EXECUTORS];
    int32_t under_way, done, followed;
};

static int32_t below(struct world *self, int32_t limit) {
    return (int32_t)tt_prng_below(&self->prng, (uint64_t)limit);
}

static struct stream_batch *free_batch(struct world *self) {
    for (size_t i = 0; i < TT_COUNT(self->batches); i++)
        if (!self->used[i]) {
            self->used[i] = true;
            return &self->batches[i];
        }
    return NULL;
}

static void submit(struct world *self, struct stream_batch *batch) {
    self->depth[batch->task.head.executor]++;
    self->under_way++;
    self->taken_up[batch - self->batches] = false;
    tt_engine_submit(self->bench.engine, &batch->task);
}

/* The requests of a batch that came back go on, or are done. Those of a batch that was taken up are
 * the follower's, which may have come back before. */
static void settle(struct world *self, struct tt_engine_task *task) {
    struct stream_batch *batch = TT_CONTAINER_OF(task, struct stream_batch, task);
    assert_int_equal(task->head.outcome, TT_OUTCOME_DONE);
    self->depth[task->head.executor]--;
    self->under_way--;
    self->used[batch - self->batches] = false;
    if (self->taken_up[batch - self->batches])
        return;
    bool is_last = task->head.last_step == STREAM_STEPS - 1;
    if (is_last)
        assert_true(stream_batch_is_right(batch, &self->bench));
    for (int32_t i = 0; i < task->member_count; i++) {
        struct stream_request *request = batch->requests[i];
        int32_t number = (int32_t)(request - self->requests);
        if (is_last) {
            assert_null(batch->members[i].state);
            self->done++;
            stream_request_init(request, 1 + below(self, 3), (uint32_t)below(self, 1 << 30));
            self->step[number] = 0;
        } else {
            assert_int_equal(self->step[number], -1);
            request->state = batch->members[i].state;
            self->step[number] = task->head.last_step + 1;
        }
    }
}

static int32_t executor_with_room(struct world *self) {
    int32_t executor = below(self, STREAM_EXECUTORS);
    return self->depth[executor] < STREAM_DEPTH ? executor : -1;
}

/* A task of requests that wait for one step. */
static struct stream_batch *begin(struct world *self) {
    int32_t executor = executor_with_room(self), step = below(self, STREAM_STEPS);
    struct stream_batch *batch = executor < 0 ? NULL : free_batch(self);
    if (!batch)
        return NULL;
    stream_batch_init(batch, &self->bench, executor, step, step + below(self, STREAM_STEPS - step));
    int32_t rows = 0, most = 1 + below(self, STREAM_BATCH);
    for (int32_t i = 0; i < WORLD; i++)
        if (self->step[i] == step && rows + self->requests[i].rows <= most) {
            rows += self->requests[i].rows;
            self->step[i] = -1;
            stream_batch_add(batch, &self->requests[i]);
        }
    if (batch->task.member_count == 0) {
        self->used[batch - self->batches] = false;
        return NULL;
    }
    submit(self, batch);
    return batch;
}

/* A task that takes up the requests of one under way; NULL: there is no room. */
static struct stream_batch *follow(struct world *self, struct stream_batch *before) {
    int32_t executor = executor_with_room(self), step = before->task.head.last_step + 1;
    struct stream_batch *batch = executor < 0 || step == STREAM_STEPS ? NULL : free_batch(self);
    if (!batch)
        return NULL;
    stream_batch_init(batch, &self->bench, executor, step, step + below(self, STREAM_STEPS - step));
    stream_batch_follow(batch, before);
    self->followed++;
    submit(self, batch);
    return batch;
}

static void run_world(enum tt_stream_transfer transfer, uint64_t seed) {
    static struct world world;
    world = (struct world){0};
    tt_prng_init(&world.prng, seed, (uint64_t)transfer);
    open_on_host(&world.bench, transfer);
    for (int32_t i = 0; i < WORLD; i++)
        stream_request_init(&world.requests[i], 1 + below(&world, 3), (uint32_t)i * 1000);
    while (world.done < 400) {
        struct stream_batch *batch = begin(&world), *next = NULL;
        for (struct stream_batch *last = batch; last && below(&world, 4); last = next) {
            next = follow(&world, last);
            world.taken_up[last - world.batches] = next != NULL;
        }
        if (!batch && world.under_way > 0) /* full, or nothing waits for that step */
            settle(&world, await(&world.bench));
        for (struct tt_engine_task *task; (task = take(&world.bench));)
            settle(&world, task);
    }
    while (world.under_way > 0)
        settle(&world, await(&world.bench));
    for (int32_t i = 0; i < WORLD; i++)
        if (world.step[i] > 0)
            world.bench.engine->ops->state_release(world.requests[i].state);
    assert_true(world.followed > 50);
    close_host(&world.bench);
}

static void answers_pass_through_the_device(void **state) {
    (void)state;
    uint64_t seed = test_seed(11);
    run_world(TT_STREAM_EACH, seed);
    run_world(TT_STREAM_WHOLE, seed);
}

static void a_member_at_fault_is_left_out(void **state) {
    (void)state;
    struct stream_bench bench;
    struct stream_request requests[2];
    struct stream_batch first, second;
    open_on_host(&bench, TT_STREAM_EACH);
    stream_request_init(&requests[0], 1, 5);
    stream_request_init(&requests[1], 2, 6);
    requests[0].input.size_bytes = 3;
    stream_batch_init(&first, &bench, 0, 0, 0);
    stream_batch_add(&first, &requests[0]);
    stream_batch_add(&first, &requests[1]);
    stream_batch_init(&second, &bench, 1, 1, 2);
    stream_batch_follow(&second, &first);
    tt_engine_submit(bench.engine, &first.task);
    tt_engine_submit(bench.engine, &second.task);
    await(&bench);
    await(&bench);
    assert_int_equal(second.members[0].err, TT_ERR_INVALID);
    assert_non_null(strstr(requests[0].why.text, "3 bytes"));
    assert_null(second.members[0].result);
    assert_int_equal(second.members[1].err, TT_OK);
    struct tt_tensor_view view;
    bench.engine->ops->output(second.members[1].result, 0, second.members[1].first_row, 2, &view);
    assert_int_equal(((const uint32_t *)view.bytes)[1], stream_expected(6 + 17));
    bench.engine->ops->result_release(second.members[1].result);
    close_host(&bench);
}

/* ---- failures ---- */

/* The device fails with a task under way, and another one comes before that is noticed. */
static void tasks_of_a_failed_device_keep_their_order(void **state) {
    (void)state;
    struct stream_bench bench;
    struct stream_request requests[2];
    struct stream_batch first, second;
    open_on_host(&bench, TT_STREAM_EACH);
    __atomic_store_n(&bench.breaks, true, __ATOMIC_RELAXED);
    stream_request_init(&requests[0], 1, 5);
    stream_request_init(&requests[1], 1, 6);
    stream_batch_init(&first, &bench, 0, 0, 2);
    stream_batch_add(&first, &requests[0]);
    stream_batch_init(&second, &bench, 0, 0, 2);
    stream_batch_add(&second, &requests[1]);
    tt_engine_submit(bench.engine, &first.task);
    struct tt_error why;
    while (!bench.engine->ops->has_failed(bench.engine, &why))
        sched_yield();
    tt_engine_submit(bench.engine, &second.task);
    assert_true(bench.engine->ops->return_failed(bench.engine));
    assert_ptr_equal(await(&bench), &first.task);
    assert_ptr_equal(await(&bench), &second.task);
    assert_int_equal(first.task.head.outcome, TT_OUTCOME_FAILED);
    assert_int_equal(second.task.head.outcome, TT_OUTCOME_FAILED);
    stream_bench_close(&bench);
    tt_async_device_close(bench.device);
}

/* A kernel fails: what runs and what follows comes back as failed with the reason, and so does all
 * that is submitted later, until the device has restarted. */
static void a_failed_device(void **state) {
    (void)state;
    struct stream_bench bench;
    struct stream_request request, other;
    struct stream_batch first, second, later;
    open_on_host(&bench, TT_STREAM_EACH);
    __atomic_store_n(&bench.breaks, true, __ATOMIC_RELAXED);
    stream_request_init(&request, 2, 5);
    stream_batch_init(&first, &bench, 0, 0, 0);
    stream_batch_add(&first, &request);
    stream_batch_init(&second, &bench, 1, 1, 2);
    stream_batch_follow(&second, &first);
    tt_engine_submit(bench.engine, &first.task);
    tt_engine_submit(bench.engine, &second.task);
    struct tt_error why;
    while (!bench.engine->ops->has_failed(bench.engine, &why))
        sched_yield();
    assert_true(bench.engine->ops->return_failed(bench.engine));
    assert_true(bench.engine->ops->return_failed(bench.engine));
    for (int i = 0; i < 2; i++)
        assert_int_equal(await(&bench)->head.outcome, TT_OUTCOME_FAILED);
    assert_int_equal(second.members[0].err, TT_ERR_UNAVAILABLE);
    assert_string_equal(request.why.text, why.text);
    stream_request_init(&other, 1, 5);
    stream_batch_init(&later, &bench, 2, 0, 2);
    stream_batch_add(&later, &other);
    tt_engine_submit(bench.engine, &later.task);
    assert_ptr_equal(await(&bench), &later.task);
    assert_int_equal(later.task.head.outcome, TT_OUTCOME_FAILED);
    assert_int_equal(later.members[0].err, TT_ERR_UNAVAILABLE);
    bench.engine->ops->state_release(second.members[0].state);
    stream_bench_close(&bench);
    assert_int_equal(tt_async_device_restart(bench.device, &why), TT_OK);
    bench.breaks = false;
    stream_bench_open(&bench, TT_STREAM_WHOLE);
    stream_batch_init(&later, &bench, 2, 0, 2);
    stream_batch_add(&later, &other);
    tt_engine_submit(bench.engine, &later.task);
    assert_ptr_equal(await(&bench), &later.task);
    assert_true(stream_batch_is_right(&later, &bench));
    close_host(&bench);
}

/* A model that the device has no memory for is refused, and leaves nothing there. */
static void no_memory_on_the_device(void **state) {
    (void)state;
    struct stream_bench bench;
    struct tt_engine_model *more[64] = {NULL};
    struct tt_error why;
    int32_t count = 0;
    open_on_host(&bench, TT_STREAM_EACH);
    assert_int_equal(stream_load(&bench, 1 << 24, &more[0], &why), TT_ERR_NO_MEMORY);
    for (; count < 64 && stream_load(&bench, 1 << 15, &more[count], &why) == TT_OK; count++)
        continue;
    assert_in_range(count, 1, 63);
    bench.engine->ops->unload(more[--count]);
    assert_int_equal(stream_load(&bench, 1 << 15, &more[count++], &why), TT_OK);
    assert_int_equal(stream_load(&bench, STREAM_BATCH - 1, &more[count], &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "needs at least 8"));
    while (count > 0)
        bench.engine->ops->unload(more[--count]);
    close_host(&bench);
}

/* ---- in virtual time ---- */

enum { FIXED = 100 * TT_US };

static void open_emulated(struct stream_bench *bench, enum tt_stream_transfer transfer,
                          int64_t copy_ns) {
    *bench = (struct stream_bench){.step_ns = TT_MS};
    struct tt_async_emulated_options options = {.memory_bytes = 1 << 22,
                                                .max_streams = 16,
                                                .queue_depth = 1024,
                                                .in = {.fixed_ns = copy_ns},
                                                .take_order = stream_order(bench)};
    assert_int_equal(tt_async_emulated_open(&options, &bench->device, NULL), TT_OK);
    stream_bench_open(bench, transfer);
}

/* Three stages on three executors, all submitted at once: every stage begins when the one before it
 * has ended, and batches follow each other without a gap. */
static void stages_follow_each_other_on_the_device(void **state) {
    (void)state;
    enum { BATCHES = 4 };
    struct stream_bench bench;
    struct stream_request requests[BATCHES];
    struct stream_batch batches[BATCHES][STREAM_STEPS];
    open_emulated(&bench, TT_STREAM_EACH, 0);
    /* Executors have whole devices' worth of work: stages of several batches share the device. */
    for (int b = 0; b < BATCHES; b++) {
        stream_request_init(&requests[b], 2, (uint32_t)b);
        for (int s = 0; s < STREAM_STEPS; s++) {
            stream_batch_init(&batches[b][s], &bench, s, s, s);
            if (s == 0)
                stream_batch_add(&batches[b][s], &requests[b]);
            else
                stream_batch_follow(&batches[b][s], &batches[b][s - 1]);
            tt_engine_submit(bench.engine, &batches[b][s].task);
        }
    }
    tt_async_emulated_advance(bench.device, TT_S);
    for (int i = 0; i < BATCHES * STREAM_STEPS; i++)
        assert_non_null(take(&bench));
    for (int b = 0; b < BATCHES; b++)
        for (int s = 0; s < STREAM_STEPS; s++) {
            const struct tt_device_task *head = &batches[b][s].task.head;
            int64_t fed_at = s > 0 ? batches[b][s - 1].task.head.ended_at : 0;
            int64_t free_at = b > 0 ? batches[b - 1][s].task.head.ended_at : 0;
            assert_int_equal(head->started_at, tt_instant_max(fed_at, free_at));
        }
    for (int b = 0; b < BATCHES; b++)
        assert_true(stream_batch_is_right(&batches[b][STREAM_STEPS - 1], &bench));
    close_host(&bench);
}

/* Batches of 8 requests on one executor; returns when the last one has ended. */
static int64_t run_batches(enum tt_stream_transfer transfer, int32_t count, int64_t copy_ns) {
    struct stream_bench bench;
    static struct stream_request requests[64][STREAM_BATCH];
    static struct stream_batch batches[64];
    open_emulated(&bench, transfer, copy_ns);
    int64_t ended_at = 0;
    for (int32_t b = 0, under_way = 0; b < count; b++) {
        stream_batch_init(&batches[b], &bench, 0, 0, STREAM_STEPS - 1);
        for (int i = 0; i < STREAM_BATCH; i++) {
            stream_request_init(&requests[b][i], 1, (uint32_t)(b * 100 + i));
            stream_batch_add(&batches[b], &requests[b][i]);
        }
        tt_engine_submit(bench.engine, &batches[b].task);
        under_way++;
        while (under_way > (b + 1 < count ? STREAM_DEPTH - 1 : 0)) {
            struct tt_engine_task *task;
            while (!(task = take(&bench)))
                tt_async_emulated_advance(bench.device, tt_async_emulated_next_at(bench.device));
            assert_true(
                stream_batch_is_right(TT_CONTAINER_OF(task, struct stream_batch, task), &bench));
            ended_at = task->head.ended_at;
            under_way--;
        }
    }
    close_host(&bench);
    return ended_at;
}

/* E6, E7: with 0.1 ms per input, 8 inputs and 3 ms of computation a batch takes 3.1 ms in the
 * baseline (one copy of the batch) and 3.8 ms if its inputs are copied one by one before it; copies
 * beside the computation cost nothing once the first batch is in. */
static void copies_overlap_with_computation(void **state) {
    (void)state;
    int64_t compute_ns = STREAM_STEPS * TT_MS, copies_ns = STREAM_BATCH * FIXED;
    assert_int_equal(run_batches(TT_STREAM_EACH, 20, FIXED), copies_ns + 20 * compute_ns);
    assert_int_equal(run_batches(TT_STREAM_WHOLE, 20, FIXED), 20 * (FIXED + compute_ns));
    assert_int_equal(run_batches(TT_STREAM_WHOLE, 20, copies_ns), 20 * (copies_ns + compute_ns));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_pass_through_the_device),
        cmocka_unit_test(a_member_at_fault_is_left_out),
        cmocka_unit_test(tasks_of_a_failed_device_keep_their_order),
        cmocka_unit_test(a_failed_device),
        cmocka_unit_test(no_memory_on_the_device),
        cmocka_unit_test(stages_follow_each_other_on_the_device),
        cmocka_unit_test(copies_overlap_with_computation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
