/* threaded */
/* slow */
/* D4, E1: faults of a device under an engine on streams. A fault is injected at every call in turn:
 * each task comes back once, nothing that comes back as done is wrong, and after a restart all is
 * as before. On the host device, on the emulated one in virtual time, and on the CUDA device over
 * the stand-in for the driver. */
#include "unit/engine/stream_bench.h"

#include "base/clock.h"
#include "base/instant.h"
#include "device/async_cuda.h"
#include "device/cuda_driver.h"
#include "standin/cuda_standin.h"

#include <dlfcn.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CHAINS = 2, REQUESTS = 3, TASKS = CHAINS * STREAM_STEPS, LIMIT_S = 60 };
enum kind { HOST, EMULATED, CUDA };

static const char *const standin_path = TUTTI_BUILD_DIR "/tests/standin/cuda_standin.so";
static const struct cuda_standin *standin;
static struct tt_cuda_driver driver;
static int32_t answers; /* that left before their batch */

/* Where a fault is due: operation number `left` fails. */
struct fault {
    int32_t left; /* < 0: it has happened, or is not wanted */
    enum tt_err err;
};

struct case_ {
    struct stream_bench bench; /* first */
    enum kind kind;
    enum tt_stream_transfer transfer;
    struct fault moving, computing;
    struct stream_request requests[CHAINS][REQUESTS];
    struct stream_batch batches[CHAINS][STREAM_STEPS];
    int32_t returned, done;
};
_Static_assert(offsetof(struct case_, bench) == 0, "contexts are benches");

static enum tt_err meet(struct fault *fault) {
    int32_t left = __atomic_fetch_sub(&fault->left, 1, __ATOMIC_RELAXED);
    return left == 0 ? fault->err : TT_OK;
}

static enum tt_err moving(void *context, enum tt_async_op_kind kind, size_t bytes) {
    (void)kind;
    (void)bytes;
    return meet(&((struct case_ *)context)->moving);
}

static enum tt_err computing(struct stream_bench *bench, int32_t step, int32_t rows) {
    (void)step;
    (void)rows;
    return meet(&((struct case_ *)(void *)bench)->computing);
}

/* ---- the CUDA form of the model: a call on the native stream ---- */

struct launch {
    struct stream_bench *bench;
    int32_t step, rows;
    uint64_t in, out;
};

static struct launch launches[1 << 12];
static size_t launch_count;

static void run_launch(void *context) {
    const struct launch *launch = context;
    const void *in = (const void *)(uintptr_t)launch->in;
    void *out = (void *)(uintptr_t)launch->out;
    enum tt_err err = stream_compute(launch->bench, launch->step, launch->rows, &in, &out, NULL);
    tt_assert(err == TT_OK);
}

static enum tt_err enqueue(void *context, int32_t executor, void *native_stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why) {
    struct stream_bench *bench = context;
    (void)executor;
    if (bench->row_limit > 0 && rows > bench->row_limit)
        return TT_ERR_NO_MEMORY;
    struct launch *launch = &launches[launch_count++ % TT_COUNT(launches)];
    *launch = (struct launch){bench, step, rows, in[0], out[0]};
    return driver.cuLaunchHostFunc(native_stream, run_launch, launch)
               ? tt_fail(TT_ERR_INTERNAL, why, "the step was not launched")
               : TT_OK;
}

/* ---- a case ---- */

static void open_device(struct case_ *self, enum kind kind, enum tt_stream_transfer transfer) {
    *self = (struct case_){.bench = {.step_ns = TT_MS, .limited_step = -1, .computing = computing},
                           .kind = kind,
                           .transfer = transfer,
                           .moving = {.left = -1},
                           .computing = {.left = -1}};
    struct tt_error why = {""};
    struct tt_async_order *order = stream_order(&self->bench);
    const struct tt_async_host_options host = {.memory_bytes = 1 << 18,
                                               .max_streams = 16,
                                               .queue_depth = 1024,
                                               .take_order = order,
                                               .moving = moving,
                                               .moving_context = self};
    const struct tt_async_emulated_options emulated = {.memory_bytes = 1 << 18,
                                                       .max_streams = 16,
                                                       .queue_depth = 1024,
                                                       .in = {.fixed_ns = TT_US},
                                                       .take_order = order};
    const struct tt_async_cuda_options cuda = {
        .driver_path = standin_path, .max_streams = 16, .take_order = order};
    enum tt_err err = TT_OK;
    switch (kind) {
    case HOST: err = tt_async_host_open(&host, &self->bench.device, &why); break;
    case EMULATED: err = tt_async_emulated_open(&emulated, &self->bench.device, &why); break;
    case CUDA:
        standin->reset(1, 1 << 18);
        self->bench.enqueue = enqueue;
        err = tt_async_cuda_open(&cuda, &self->bench.device, &why);
        break;
    }
    assert_string_equal(why.text, "");
    assert_int_equal(err, TT_OK);
}

static void open_case(struct case_ *self, enum kind kind, enum tt_stream_transfer transfer) {
    open_device(self, kind, transfer);
    stream_bench_open(&self->bench, transfer);
}

static void close_device(struct case_ *self) {
    assert_string_equal(self->bench.conflict, "");
    assert_int_equal(self->bench.torn, 0);
    tt_async_device_close(self->bench.device);
}

/* E7: an answer that leaves before its batch is right, whatever becomes of that. */
static void on_answered(struct tt_engine_task *task, struct tt_engine_member *member) {
    const struct stream_batch *batch = TT_CONTAINER_OF(task, struct stream_batch, task);
    const struct stream_request *request = batch->requests[member - batch->members];
    struct tt_tensor_view view;
    tt_assert(member->err == TT_OK && member->first_row == 0);
    task->model->engine->ops->output(member->result, 0, 0, member->rows, &view);
    for (int32_t row = 0; row < member->rows; row++)
        tt_assert(((const uint32_t *)view.bytes)[row] == stream_expected(request->values[row]));
    __atomic_fetch_add(&answers, 1, __ATOMIC_RELAXED);
}

static void submit_chain(struct case_ *self, int32_t chain) {
    for (int32_t step = 0; step < STREAM_STEPS; step++) {
        struct stream_batch *batch = &self->batches[chain][step];
        stream_batch_init(batch, &self->bench, step, step, step);
        for (int32_t i = 0; step == 0 && i < REQUESTS; i++) {
            stream_request_init(&self->requests[chain][i], 1 + i % 2, (uint32_t)(chain * 50 + i));
            stream_batch_add(batch, &self->requests[chain][i]);
        }
        if (step > 0)
            stream_batch_follow(batch, &self->batches[chain][step - 1]);
        batch->task.head.outcome = TT_OUTCOME_LOST; /* until it comes back */
        batch->task.answered = on_answered;
        tt_engine_submit(self->bench.engine, &batch->task);
    }
}

static void take_back(struct case_ *self) {
    for (int e = 0; e < STREAM_EXECUTORS; e++) {
        struct tt_engine_task *task;
        while ((task = tt_ring_pop(&self->bench.returned[e])) != NULL) {
            self->returned++;
            assert_int_not_equal(task->head.outcome, TT_OUTCOME_LOST);
            self->done += task->head.outcome == TT_OUTCOME_DONE;
        }
    }
}

static bool has_failed(struct case_ *self, struct tt_error *why) {
    return self->bench.engine->ops->has_failed(self->bench.engine, why);
}

/* Waits for `count` tasks in all, as a server does: a failed device returns its tasks. */
static void await(struct case_ *self, int32_t count) {
    struct tt_error why;
    int64_t until_at = tt_clock_now() + LIMIT_S * TT_S;
    for (take_back(self); self->returned < count; take_back(self)) {
        assert_true(tt_clock_now() < until_at);
        if (has_failed(self, &why))
            (void)self->bench.engine->ops->return_failed(self->bench.engine);
        else if (self->kind == EMULATED)
            tt_async_emulated_advance(self->bench.device,
                                      tt_async_emulated_next_at(self->bench.device));
        else
            sched_yield();
    }
    assert_int_equal(self->returned, count);
}

/* What came back: done and right, or failed with a reason. True: all of it is done. */
static bool check(struct case_ *self) {
    bool all = true;
    for (int32_t c = 0; c < CHAINS; c++) {
        bool goes_on = true;
        for (int32_t s = 0; s < STREAM_STEPS; s++) {
            struct stream_batch *batch = &self->batches[c][s];
            bool is_done = batch->task.head.outcome == TT_OUTCOME_DONE;
            assert_true(goes_on || !is_done); /* nothing goes on from a task that failed */
            goes_on = is_done;
            for (int32_t i = 0; !is_done && i < batch->task.member_count; i++)
                assert_int_not_equal(batch->members[i].err, TT_OK);
            for (int32_t i = 0; !is_done && i < batch->task.member_count; i++)
                if (batch->members[i].result) /* it was answered before */
                    self->bench.engine->ops->result_release(batch->members[i].result);
        }
        struct stream_batch *last = &self->batches[c][STREAM_STEPS - 1];
        if (goes_on)
            assert_true(stream_batch_is_right(last, &self->bench));
        for (int32_t i = 0; i < last->task.member_count; i++)
            self->bench.engine->ops->state_release(last->members[i].state);
        all &= goes_on;
    }
    return all;
}

/* `before`: called before each chain; NULL. True: all tasks are done. */
static bool play(struct case_ *self, void (*before)(void *context, int32_t chain), void *context) {
    self->returned = self->done = 0;
    for (int32_t c = 0; c < CHAINS; c++) {
        if (before)
            before(context, c);
        submit_chain(self, c);
    }
    await(self, TASKS);
    return check(self);
}

/* Closes the engine; the device restarts, if it has failed, and another engine works on it. */
static void go_on(struct case_ *self) {
    struct tt_error why = {""};
    stream_bench_close(&self->bench);
    if (tt_async_device_probe(self->bench.device, &why) != TT_OK) {
        assert_string_not_equal(why.text, "");
        assert_int_equal(tt_async_device_restart(self->bench.device, &why), TT_OK);
    }
    stream_bench_open(&self->bench, self->transfer);
    assert_true(play(self, NULL, NULL));
    stream_bench_close(&self->bench);
    close_device(self);
}

/* ---- on the host, and in virtual time ---- */

/* Fails operation after operation, until there are no more. */
static void fail_each(enum kind kind, enum tt_stream_transfer transfer, bool is_copy,
                      int32_t at_least) {
    bool happened = true;
    int32_t n = 0;
    for (; happened; n++) {
        static struct case_ self;
        open_case(&self, kind, transfer);
        struct fault *fault = is_copy ? &self.moving : &self.computing;
        *fault = (struct fault){.left = n, .err = TT_ERR_INTERNAL};
        bool all = play(&self, NULL, NULL);
        happened = __atomic_load_n(&fault->left, __ATOMIC_RELAXED) < 0;
        assert_true(all || happened);
        if (happened && !is_copy)
            assert_false(all);
        __atomic_store_n(&fault->left, -1, __ATOMIC_RELAXED);
        go_on(&self);
    }
    assert_true(n > at_least);
}

static void every_copy_fails_in_turn(void **state) {
    (void)state;
    fail_each(HOST, TT_STREAM_EACH, true, 2 * CHAINS * REQUESTS);
    fail_each(HOST, TT_STREAM_WHOLE, true, 2 * CHAINS);
}

static void every_kernel_fails_in_turn(void **state) {
    (void)state;
    fail_each(HOST, TT_STREAM_EACH, false, TASKS);
    fail_each(EMULATED, TT_STREAM_EACH, false, TASKS);
    fail_each(EMULATED, TT_STREAM_WHOLE, false, TASKS);
}

/* The device is gone at every instant at which something ends. */
static void an_emulated_device_vanishes_at_each_instant(void **state) {
    (void)state;
    bool is_over = false;
    int32_t n = 0;
    for (; !is_over; n++) {
        static struct case_ self;
        open_case(&self, EMULATED, TT_STREAM_EACH);
        self.returned = 0;
        for (int32_t c = 0; c < CHAINS; c++)
            submit_chain(&self, c);
        int64_t next_at = 0;
        for (int32_t k = 0; k < n && next_at != TT_NEVER; k++) {
            next_at = tt_async_emulated_next_at(self.bench.device);
            if (next_at != TT_NEVER)
                tt_async_emulated_advance(self.bench.device, next_at);
        }
        is_over = next_at == TT_NEVER;
        tt_async_device_fail(self.bench.device, "it is gone");
        await(&self, TASKS);
        bool all = check(&self);
        assert_true(n > 0 ? all || !is_over : !all);
        go_on(&self);
    }
    assert_true(n > TASKS);
}

/* ---- over the stand-in ---- */

static bool is_sticky(int result) { return result == TT_CUDA_ILLEGAL_ADDRESS; }

/* Opening, loading, all tasks and closing, with one call of the driver that fails. False: there was
 * no such call. */
static bool fail_call(const char *function, int skip, int result,
                      enum tt_stream_transfer transfer) {
    static struct case_ self;
    static struct tt_engine_member kept[STREAM_SLOTS];
    struct tt_error why = {""};
    open_device(&self, CUDA, transfer);
    standin->fail_call(function, skip, result);
    if (stream_bench_try(&self.bench, transfer, &why) == TT_OK) {
        stream_scatter(&self.bench, kept);
        (void)play(&self, NULL, NULL);
        stream_gather_again(kept);
        stream_bench_close(&self.bench);
    } else {
        assert_string_not_equal(why.text, "");
    }
    bool happened = standin->all_happened();
    if (!happened) {
        standin->reset(1, 1 << 18);
    } else if (is_sticky(result) && strcmp(function, "cuLaunchHostFunc") != 0) {
        /* the model's own call, too, which the device does not see */
        assert_int_equal(tt_async_device_probe(self.bench.device, &why), TT_ERR_UNAVAILABLE);
        assert_non_null(strstr(why.text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    }
    if (tt_async_device_status(self.bench.device, &why) != TT_OK)
        assert_int_equal(tt_async_device_restart(self.bench.device, &why), TT_OK);
    stream_bench_open(&self.bench, transfer);
    assert_true(play(&self, NULL, NULL));
    stream_bench_close(&self.bench);
    close_device(&self);
    return happened;
}

static void every_call_of_the_driver_fails_in_turn(void **state) {
    (void)state;
    static const char *const functions[] = {
        "cuMemAlloc_v2",        "cuMemHostAlloc",    "cuStreamCreate",       "cuEventCreate",
        "cuEventRecord",        "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2", "cuLaunchHostFunc"};
    static const int results[] = {TT_CUDA_OUT_OF_MEMORY, 1, TT_CUDA_ILLEGAL_ADDRESS};
    for (size_t f = 0; f < TT_COUNT(functions); f++)
        for (size_t r = 0; r < TT_COUNT(results); r++) {
            int skip = 0;
            while (fail_call(functions[f], skip, results[r], TT_STREAM_EACH))
                skip++;
            assert_true(skip > 2);
        }
    for (int skip = 0; fail_call("cuCtxSetCurrent", skip, 1, TT_STREAM_WHOLE); skip++)
        continue;
}

static void break_operation(void *context, int32_t chain) {
    if (chain == *(const int32_t *)context)
        standin->fail_operation(TT_CUDA_ILLEGAL_ADDRESS);
}

static void vanish(void *context, int32_t chain) {
    if (chain == *(const int32_t *)context)
        standin->vanish(TT_CUDA_NO_DEVICE);
}

/* Nothing is submitted after it: only has_failed finds it. */
static void a_gpu_that_is_gone_returns_its_tasks(void **state) {
    (void)state;
    for (int32_t chain = 0; chain < CHAINS; chain++) {
        static struct case_ self;
        open_case(&self, CUDA, TT_STREAM_EACH);
        assert_false(play(&self, break_operation, &chain));
        go_on(&self);
        open_case(&self, CUDA, TT_STREAM_EACH);
        assert_false(play(&self, vanish, &chain));
        standin->vanish(0);
        go_on(&self);
    }
    static struct case_ self;
    struct tt_error why;
    open_case(&self, CUDA, TT_STREAM_EACH);
    assert_true(play(&self, NULL, NULL));
    assert_false(has_failed(&self, &why));
    standin->vanish(TT_CUDA_NO_DEVICE);
    assert_true(has_failed(&self, &why));
    assert_non_null(strstr(why.text, "CUDA_ERROR_NO_DEVICE"));
    standin->vanish(0);
    go_on(&self);
}

/* A copy that is refused takes no other task with it. */
static void a_refused_task_fails_alone(void **state) {
    (void)state;
    static struct case_ self;
    struct tt_error why;
    open_case(&self, CUDA, TT_STREAM_EACH);
    standin->fail_call("cuMemcpyHtoDAsync_v2", REQUESTS + 1, 1); /* the second chain's second */
    assert_false(play(&self, NULL, NULL));
    assert_false(has_failed(&self, &why));
    for (int32_t c = 0; c < CHAINS; c++)
        for (int32_t s = 0; s < STREAM_STEPS; s++)
            assert_int_equal(self.batches[c][s].task.head.outcome, c != 1   ? TT_OUTCOME_DONE
                                                                   : s == 0 ? TT_OUTCOME_FAILED
                                                                            : TT_OUTCOME_ABORTED);
    assert_non_null(strstr(self.requests[1][0].why.text, "CUDA_ERROR_INVALID_VALUE"));
    assert_int_equal(self.batches[1][1].members[0].err, TT_ERR_CANCELLED);
    go_on(&self);
}

/* ---- memory ---- */

/* One row does not fit with two others: the batch is split. A request of two rows does not fit at
 * all: it is refused, and the others have their answers. */
static void batches_without_memory_are_split(enum kind kind, int32_t step) {
    static struct case_ self;
    open_case(&self, kind, TT_STREAM_EACH);
    self.bench.row_limit = 2;
    self.bench.limited_step = step;
    assert_true(play(&self, NULL, NULL));
    self.bench.row_limit = 1;
    self.returned = self.done = 0;
    for (int32_t c = 0; c < CHAINS; c++)
        submit_chain(&self, c);
    await(&self, TASKS);
    assert_int_equal(self.done, TASKS);
    for (int32_t c = 0; c < CHAINS; c++) {
        struct stream_batch *last = &self.batches[c][STREAM_STEPS - 1];
        for (int32_t i = 0; i < REQUESTS; i++) {
            struct tt_engine_member *member = &last->members[i];
            const struct stream_request *request = &self.requests[c][i];
            struct tt_tensor_view view;
            char text[64];
            snprintf(text, sizeof(text), "has no memory for 2 rows in step %d; it has 262144 bytes",
                     step < 0 ? 0 : step);
            if (request->rows == 2) {
                assert_int_equal(member->err, TT_ERR_NO_MEMORY);
                assert_non_null(strstr(request->why.text, text));
                assert_null(member->result);
                self.bench.engine->ops->state_release(member->state);
                continue;
            }
            assert_int_equal(member->err, TT_OK);
            self.bench.engine->ops->output(member->result, 0, member->first_row, 1, &view);
            assert_int_equal(*(const uint32_t *)view.bytes, stream_expected(request->values[0]));
            self.bench.engine->ops->result_release(member->result);
        }
    }
    self.bench.row_limit = 0;
    go_on(&self);
}

static void batches_without_memory(void **state) {
    (void)state;
    for (int32_t step = -1; step < STREAM_STEPS; step++) {
        batches_without_memory_are_split(HOST, step);
        batches_without_memory_are_split(EMULATED, step);
    }
    batches_without_memory_are_split(CUDA, -1);
}

/* ---- streams that hang ---- */

static sem_t entered, gate;

static enum tt_err hang(struct stream_bench *bench, int32_t step, int32_t rows) {
    (void)bench;
    (void)step;
    (void)rows;
    sem_post(&entered);
    while (sem_wait(&gate) != 0)
        continue;
    return TT_OK;
}

static void run_chain_of(struct case_ *self, int64_t max_run_ns) {
    submit_chain(self, 0);
    for (int32_t s = 0; s < STREAM_STEPS; s++)
        self->batches[0][s].task.max_run_ns = max_run_ns;
}

/* A C function does not return: its run is lost, the device fails with a reason that names it, and
 * what waits behind comes back at once. */
static void a_kernel_that_hangs_is_lost(void **state) {
    (void)state;
    static struct case_ self;
    struct tt_engine_running running, other;
    struct tt_error why;
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    open_case(&self, HOST, TT_STREAM_EACH);
    const struct tt_engine_ops *ops = self.bench.engine->ops;
    self.bench.computing = hang;
    run_chain_of(&self, 0);
    while (sem_wait(&entered) != 0)
        continue;
    assert_true(ops->watch->running(self.bench.engine, 0, &running));
    assert_ptr_equal(running.task, &self.batches[0][0].task);
    assert_false(ops->watch->running(self.bench.engine, 1, &other)); /* it waits for that one */
    assert_int_equal(ops->watch->prepare(self.bench.engine, 0, &why), TT_OK);
    ops->watch->cut(self.bench.engine, &running);
    running.max_run_ns = 200 * TT_MS;
    tt_async_device_fail(self.bench.device, "another stream");
    assert_false(ops->return_failed(self.bench.engine)); /* the kernel reads what it would free */
    assert_true(ops->watch->replace(self.bench.engine, &running));
    assert_false(ops->watch->replace(self.bench.engine, &running));
    assert_true(ops->return_failed(self.bench.engine));
    await(&self, 2);
    assert_int_equal(self.batches[0][0].task.head.outcome, TT_OUTCOME_LOST);
    sem_post(&gate);
    struct tt_engine_task *lost;
    while (!(lost = tt_ring_pop(&self.bench.returned[0])))
        sched_yield();
    assert_ptr_equal(lost, &self.batches[0][0].task);
    assert_int_equal(lost->head.outcome, TT_OUTCOME_LOST);
    for (int32_t i = 0; i < REQUESTS; i++)
        ops->state_release(self.batches[0][1].members[i].state);
    self.bench.computing = NULL;
    go_on(&self);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

/* Work on the device does not end: the reason says which stream, what it ran, and how long. */
static void work_that_hangs_makes_the_device_fail(void **state) {
    (void)state;
    static struct case_ self;
    struct tt_engine_running running;
    struct tt_error why;
    open_case(&self, EMULATED, TT_STREAM_EACH);
    const struct tt_engine_ops *ops = self.bench.engine->ops;
    self.bench.step_ns = TT_NEVER / 4;
    run_chain_of(&self, 0);
    tt_async_emulated_advance(self.bench.device, TT_S);
    assert_true(ops->watch->running(self.bench.engine, 0, &running));
    ops->watch->cut(self.bench.engine, &running);
    running.max_run_ns = 200 * TT_MS;
    assert_false(has_failed(&self, &why));
    assert_false(ops->watch->replace(self.bench.engine, &running));
    assert_true(has_failed(&self, &why));
    assert_string_equal(why.text,
                        "device emulated has failed: the stream of executor 0 hangs: steps 0 to 0 "
                        "of a batch of 4 rows ran longer than 200 ms, the model's maximum "
                        "(max_run_ms)");
    await(&self, STREAM_STEPS);
    assert_true(self.batches[0][0].task.was_cut);
    assert_false(self.batches[0][1].task.was_cut);
    for (int32_t s = 0; s < STREAM_STEPS; s++)
        assert_int_equal(self.batches[0][s].task.head.outcome, TT_OUTCOME_FAILED);
    for (int32_t i = 0; i < REQUESTS; i++)
        ops->state_release(self.batches[0][STREAM_STEPS - 1].members[i].state);
    assert_false(ops->watch->running(self.bench.engine, 0, &running));
    self.bench.step_ns = TT_MS;
    go_on(&self);
}

static int check_answers(void **state) {
    (void)state;
    return answers > 100 ? 0 : -1;
}

static int find_standin(void **state) {
    (void)state;
    struct tt_error why;
    void *library = dlopen(standin_path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    standin = dlsym(library, "cuda_standin");
    assert_non_null(standin);
    return tt_cuda_driver_load(standin_path, &driver, &why);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_copy_fails_in_turn),
        cmocka_unit_test(every_kernel_fails_in_turn),
        cmocka_unit_test(an_emulated_device_vanishes_at_each_instant),
        cmocka_unit_test(every_call_of_the_driver_fails_in_turn),
        cmocka_unit_test(a_gpu_that_is_gone_returns_its_tasks),
        cmocka_unit_test(a_refused_task_fails_alone),
        cmocka_unit_test(batches_without_memory),
        cmocka_unit_test(a_kernel_that_hangs_is_lost),
        cmocka_unit_test(work_that_hangs_makes_the_device_fail),
    };
    return cmocka_run_group_tests(tests, find_standin, check_answers);
}
