/* threaded */
/* C6: cells on the streams of a device: the host device, the emulated one in virtual time, and CUDA
 * over a stand-in for the driver. What happened is read from counts, from copies that the device
 * made, and from the order of its kernels; the order checker watches all of it. */
#include "base/clock.h"
#include "base/prng.h"
#include "base/threads/eventcount.h"
#include "base/threads/ring.h"
#include "device/async_cuda.h"
#include "device/async_emulated.h"
#include "device/async_host.h"
#include "device/async_order.h"
#include "device/cuda_driver.h"
#include "engine/cell_answer.h"
#include "engine/cell_set.h"
#include "engine/streams/stream_engine_state.h"
#include "standin/cuda_standin.h"
#include "unit/seed.h"

#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXECUTORS = 2, DEPTH = 6, BATCH = 8, SLOTS = 96, LENGTH = 16, MOST_TASKS = 2048 };
enum { STEP, CHUNK, JOIN, TYPES };
enum { WORDS = 3, CHUNKS = 6, FILL = 77 }; /* of a chunk; of a request */
enum { INITIAL = 5, BAD = 1 << 20, STEP_NS = 1000, ROW_NS = 10, LIMIT_S = 60 };

static const char *const driver_path = TUTTI_BUILD_DIR "/tests/standin/cuda_standin.so";

enum kind { HOST, EMULATED, CUDA, KINDS };

struct rig {
    enum kind kind;
    struct tt_async_device *device;
    struct tt_engine *engine;
    struct tt_engine_model *model;
    struct tt_ring returned[EXECUTORS];
    struct tt_cuda_driver driver;
    char conflict[512];
    uint32_t gate;                  /* 1: the next kernel waits until it is 0 */
    int32_t order[MOST_TASKS], ran; /* rows of the kernels, in their order; of the host device */
    uint64_t in_bytes, out_bytes;   /* copied between the host and the host device's memory */
    bool breaks;
};

/* ---- the cells ---- */

#define INT32_ROWS(name, count)                                                                    \
    {                                                                                              \
        name, TT_DTYPE_INT32, {                                                                    \
            2, { -1, count }                                                                       \
        }                                                                                          \
    }
#define INT32_TENSOR(name) INT32_ROWS(name, 1)

/* STEP: 3 s + w + 1, which it emits. JOIN: 5 l + 7 r + 1. CHUNK: STEP of each of its words, which
 * it emits. */
static struct tt_cell_type types[] = {
    [STEP] = {.name = "step",
              .signature = {.batched = true,
                            .input_count = 2,
                            .output_count = 1,
                            .inputs = {INT32_TENSOR("s"), INT32_TENSOR("w")},
                            .outputs = {INT32_TENSOR("s_out")}},
              .max_batch = BATCH,
              .elements = 1,
              .arity = 1,
              .state_count = 1,
              .states = {{.output = 0, .inputs = {0}, .initial = INITIAL}},
              .read_count = 1,
              .reads = {{.input = 1, .from = 0}},
              .emit = 0},
    [JOIN] = {.name = "join",
              .signature = {.batched = true,
                            .input_count = 2,
                            .output_count = 1,
                            .inputs = {INT32_TENSOR("l"), INT32_TENSOR("r")},
                            .outputs = {INT32_TENSOR("s_out")}},
              .max_batch = BATCH,
              .elements = 1,
              .arity = 2,
              .state_count = 1,
              .states = {{.output = 0, .inputs = {0, 1}, .initial = INITIAL}},
              .emit = -1},
    [CHUNK] = {.name = "chunk",
               .signature = {.batched = true,
                             .input_count = 2,
                             .output_count = 1,
                             .inputs = {INT32_TENSOR("s"), INT32_ROWS("w", WORDS)},
                             .outputs = {INT32_TENSOR("s_out")}},
               .max_batch = BATCH,
               .elements = WORDS,
               .arity = 1,
               .state_count = 1,
               .states = {{.output = 0, .inputs = {0}, .initial = INITIAL}},
               .read_count = 1,
               .reads = {{.input = 1, .from = 0, .fill = FILL}},
               .emit = 0},
};
static const struct tt_cells cells = {.signature = {.batched = true,
                                                    .max_batch = BATCH,
                                                    .input_count = 1,
                                                    .output_count = 1,
                                                    .inputs = {{"w", TT_DTYPE_INT32, {2, {1, -1}}}},
                                                    .outputs = {INT32_TENSOR("s")}},
                                      .type_count = TYPES,
                                      .types = types,
                                      .kind = TT_UNFOLD_PLUGIN,
                                      .max_length = LENGTH};

static uint32_t step_of(uint32_t s, uint32_t w) { return 3 * s + w + 1; }
static uint32_t join_of(uint32_t l, uint32_t r) { return 5 * l + 7 * r + 1; }
static uint32_t chunk_of(uint32_t s, const uint32_t *w) {
    for (int32_t k = 0; k < WORDS; k++)
        s = step_of(s, w[k]);
    return s;
}

static enum tt_err compute_rows(int32_t type, int32_t rows, const uint32_t *a, const uint32_t *b,
                                uint32_t *out) {
    for (int32_t i = 0; i < rows; i++) {
        if (type == STEP && b[i] == BAD)
            return TT_ERR_INVALID;
        out[i] = type == STEP   ? step_of(a[i], b[i])
                 : type == JOIN ? join_of(a[i], b[i])
                                : chunk_of(a[i], b + (ptrdiff_t)WORDS * i);
    }
    return TT_OK;
}

static enum tt_err compute(void *context, int32_t step, int32_t rows, const void *const *in,
                           void *const *out, struct tt_error *why) {
    struct rig *rig = context;
    while (__atomic_load_n(&rig->gate, __ATOMIC_ACQUIRE))
        sched_yield();
    if (__atomic_load_n(&rig->breaks, __ATOMIC_RELAXED))
        return TT_ERR_INTERNAL;
    int32_t at = __atomic_fetch_add(&rig->ran, 1, __ATOMIC_RELAXED);
    if (at < MOST_TASKS)
        rig->order[at] = rows;
    enum tt_err err = compute_rows(step, rows, in[0], in[1], out[0]);
    return err ? tt_fail(err, why, "a word is out of range") : TT_OK;
}

struct launched {
    int32_t type, rows;
    uint64_t in[2], out;
};

static void launched_run(void *context) {
    struct launched *self = context;
    const uint32_t *a = (const uint32_t *)(uintptr_t)self->in[0];
    const uint32_t *b = (const uint32_t *)(uintptr_t)self->in[1];
    (void)compute_rows(self->type, self->rows, a, b, (uint32_t *)(uintptr_t)self->out);
    free(self);
}

/* As a runtime does, it knows nothing of values when it enqueues. */
static enum tt_err enqueue(void *context, int32_t executor, void *native_stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why) {
    struct rig *rig = context;
    struct launched *self = malloc(sizeof(*self));
    tt_assert(self);
    (void)executor;
    *self = (struct launched){.type = step, .rows = rows, .in = {in[0], in[1]}, .out = out[0]};
    int result = rig->driver.cuLaunchHostFunc(native_stream, launched_run, self);
    return result ? tt_fail(TT_ERR_INTERNAL, why, "launch: %d", result) : TT_OK;
}

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)length;
    tt_assert(first_step == last_step);
    return STEP_NS + rows * ROW_NS;
}

/* ---- the rig ---- */

static void done(void *context, struct tt_device_task *task) {
    struct rig *rig = context;
    bool pushed = tt_ring_push(&rig->returned[task->executor], tt_engine_task_of(task));
    tt_assert(pushed);
}

static void on_conflict(void *context, const char *text) {
    struct rig *rig = context;
    snprintf(rig->conflict, sizeof(rig->conflict), "%s", text);
}

static enum tt_err moving(void *context, enum tt_async_op_kind kind, size_t bytes) {
    struct rig *rig = context;
    if (kind == TT_ASYNC_COPY_IN)
        __atomic_fetch_add(&rig->in_bytes, bytes, __ATOMIC_RELAXED);
    if (kind == TT_ASYNC_COPY_OUT)
        __atomic_fetch_add(&rig->out_bytes, bytes, __ATOMIC_RELAXED);
    return TT_OK;
}

static void open_device(struct rig *rig) {
    const struct tt_async_order_options options = {
        .max_streams = 16, .on_conflict = on_conflict, .context = rig};
    struct tt_async_order *order;
    struct tt_error why = {""};
    enum tt_err err = tt_async_order_new(&options, &order, &why);
    const struct tt_async_host_options host = {.memory_bytes = 1 << 20,
                                               .max_streams = 16,
                                               .queue_depth = 1024,
                                               .take_order = order,
                                               .moving = moving,
                                               .moving_context = rig};
    const struct tt_async_emulated_options emulated = {
        .memory_bytes = 1 << 20, .max_streams = 16, .queue_depth = 1024, .take_order = order};
    const struct tt_async_cuda_options cuda = {
        .driver_path = driver_path, .max_streams = 16, .take_order = order};
    if (!err && rig->kind == HOST)
        err = tt_async_host_open(&host, &rig->device, &why);
    else if (!err && rig->kind == EMULATED)
        err = tt_async_emulated_open(&emulated, &rig->device, &why);
    else if (!err)
        err = tt_async_cuda_open(&cuda, &rig->device, &why);
    if (err)
        fail_msg("%s", why.text);
}

static enum tt_err load(struct rig *rig, int32_t slots, struct tt_error *why) {
    const struct tt_stream_program program = {.signature = &cells.signature,
                                              .step_count = TYPES,
                                              .slot_count = slots,
                                              .cells = &cells,
                                              .context = rig,
                                              .latency_ns = latency,
                                              .compute = compute,
                                              .enqueue = enqueue};
    return tt_stream_engine_load(rig->engine, &program, &rig->model, why);
}

static void rig_open(struct rig *rig, enum kind kind) {
    *rig = (struct rig){.kind = kind};
    struct tt_error why = {""};
    if (kind == CUDA) {
        if (tt_cuda_driver_load(driver_path, &rig->driver, &why))
            fail_msg("%s", why.text);
        void *library = dlopen(driver_path, RTLD_NOW | RTLD_NOLOAD);
        const struct cuda_standin *standin = dlsym(library, "cuda_standin");
        standin->reset(1, 1 << 20);
        dlclose(library);
    }
    open_device(rig);
    const struct tt_stream_engine_options options = {.engine = {.executor_count = EXECUTORS,
                                                                .queue_depth = DEPTH,
                                                                .done = done,
                                                                .done_context = rig},
                                                     .device = rig->device};
    for (int e = 0; e < EXECUTORS; e++)
        assert_int_equal(tt_ring_init(&rig->returned[e], 64), TT_OK);
    if (tt_stream_engine_open(&options, &rig->engine, &why) || load(rig, SLOTS, &why))
        fail_msg("%s", why.text);
}

static void rig_close(struct rig *rig) {
    rig->engine->ops->unload(rig->model);
    rig->engine->ops->close(rig->engine);
    tt_async_device_close(rig->device);
    for (int e = 0; e < EXECUTORS; e++)
        tt_ring_fini(&rig->returned[e]);
    assert_string_equal(rig->conflict, "");
}

static struct tt_async_executors_counts counts(const struct rig *rig) {
    const struct tt_stream_engine *self =
        TT_CONTAINER_OF(rig->engine, struct tt_stream_engine, engine);
    return tt_async_executors_counts(self->set);
}

/* Waits for the next task of the executor. */
static struct tt_engine_task *await(struct rig *rig, int32_t executor) {
    struct tt_engine_task *task;
    int64_t until_at = tt_clock_now() + LIMIT_S * TT_S;
    while (!(task = tt_ring_pop(&rig->returned[executor]))) {
        assert_true(tt_clock_now() < until_at);
        if (rig->kind == EMULATED)
            tt_async_emulated_advance(rig->device, tt_async_device_now(rig->device) + STEP_NS);
        if (rig->engine->ops->has_failed(rig->engine, NULL))
            (void)rig->engine->ops->return_failed(rig->engine);
        sched_yield();
    }
    return task;
}

/* ---- batches ---- */

static uint32_t words[LENGTH];
static const struct tt_engine_elements inputs[] = {{words, sizeof(words)}};

/* Of the request's chunk with that number. */
static uint32_t chunk_at(uint32_t s, int32_t chunk) {
    uint32_t all[CHUNKS * WORDS];
    for (int32_t k = 0; k < CHUNKS * WORDS; k++)
        all[k] = k < LENGTH ? words[k] : FILL;
    return chunk_of(s, all + (ptrdiff_t)WORDS * chunk);
}

struct batch {
    struct tt_engine_task task; /* first */
    struct tt_engine_cell cells[BATCH];
    struct tt_error whys[BATCH];
    uint32_t expected[BATCH];
};

static void batch_init(struct batch *self, struct rig *rig, int32_t executor, int32_t type) {
    memset(self, 0, sizeof(*self));
    self->task = (struct tt_engine_task){.head.executor = executor,
                                         .head.first_step = type,
                                         .head.last_step = type,
                                         .model = rig->model,
                                         .kind = TT_ENGINE_CELLS,
                                         .cells = self->cells};
}

static struct tt_engine_cell *batch_add(struct batch *self, int32_t source, int32_t other,
                                        int32_t element, int32_t slot) {
    int32_t i = self->task.member_count++;
    self->cells[i] = (struct tt_engine_cell){.inputs = inputs,
                                             .why = &self->whys[i],
                                             .element = element,
                                             .slot = slot,
                                             .is_read = true,
                                             .is_answer = true,
                                             .sources = {source, other}};
    return &self->cells[i];
}

static uint32_t answer_of(struct rig *rig, int32_t slot) {
    struct tt_cell_answer answer = {0};
    struct tt_engine_result *result;
    struct tt_tensor_view view;
    uint32_t value;
    assert_int_equal(rig->engine->ops->cell_finish(&answer, rig->model, slot, &result), TT_OK);
    rig->engine->ops->output(result, 0, 0, 1, &view);
    memcpy(&value, view.bytes, sizeof(value));
    rig->engine->ops->result_release(result);
    return value;
}

static void assert_all(struct rig *rig, const struct batch *batch) {
    assert_int_equal(batch->task.head.outcome, TT_OUTCOME_DONE);
    for (int32_t i = 0; i < batch->task.member_count; i++) {
        const struct tt_engine_cell *cell = &batch->cells[i];
        assert_int_equal(cell->err, TT_OK);
        if (batch->task.head.first_step == JOIN)
            assert_int_equal(answer_of(rig, cell->slot), batch->expected[i]);
        else
            assert_int_equal((uint32_t)cell->emitted, batch->expected[i]);
    }
}

/* ---- tests ---- */

/* Chains of four requests, five cells each, as many tasks: all are queued before the first begins.
 * Each reads what the one before wrote, in place. */
static void tasks_follow_without_the_host(void **state) {
    (void)state;
    enum { TASKS = 5, ROWS = 4 };
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rig rig;
        static struct batch batches[TASKS];
        uint32_t values[ROWS] = {INITIAL, INITIAL, INITIAL, INITIAL};
        rig_open(&rig, kind);
        rig.in_bytes = rig.out_bytes = 0;
        rig.gate = kind == HOST;
        for (int32_t t = 0; t < TASKS; t++) {
            batch_init(&batches[t], &rig, 0, STEP);
            for (int32_t r = 0; r < ROWS; r++) {
                int32_t at = t * ROWS + r;
                batch_add(&batches[t], t > 0 ? at - ROWS : -1, 0, (t + r) % LENGTH, at);
                values[r] = step_of(values[r], words[(t + r) % LENGTH]);
                batches[t].expected[r] = values[r];
            }
            tt_engine_submit(rig.engine, &batches[t].task);
        }
        for (int32_t e = 0; kind == HOST && e < EXECUTORS; e++)
            assert_null(tt_ring_pop(&rig.returned[e])); /* none has returned: the first waits */
        __atomic_store_n(&rig.gate, 0, __ATOMIC_RELEASE);
        for (int32_t t = 0; t < TASKS; t++) {
            assert_ptr_equal(await(&rig, 0), &batches[t].task);
            assert_all(&rig, &batches[t]);
            assert_int_equal(batches[t].task.gathered_bytes, ROWS * 4); /* the words */
            assert_int_equal(batches[t].task.spared_bytes, ROWS * 4);
            /* The device's own times: no gap between two tasks. */
            if (kind == EMULATED && t > 0)
                assert_int_equal(batches[t].task.head.started_at,
                                 batches[t - 1].task.head.ended_at);
        }
        assert_int_equal(counts(&rig).tasks, TASKS);
        assert_int_equal(counts(&rig).waits, 0); /* one stream: its order is enough */
        assert_true(counts(&rig).records <= 2 * TASKS);
        if (kind == HOST) { /* words went in, what is emitted came out, states did neither */
            assert_int_equal(rig.in_bytes, TASKS * ROWS * 4);
            assert_int_equal(rig.out_bytes, TASKS * ROWS * 4);
        }
        rig_close(&rig);
    }
}

/* A task that reads what another stream writes is queued before that has run. */
static void another_stream_is_waited_for(void **state) {
    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rig rig;
        static struct batch first, second;
        rig_open(&rig, kind);
        rig.gate = kind == HOST;
        batch_init(&first, &rig, 0, STEP);
        batch_init(&second, &rig, 1, JOIN);
        for (int32_t r = 0; r < 3; r++) {
            batch_add(&first, -1, 0, r, r);
            first.expected[r] = step_of(INITIAL, words[r]);
        }
        batch_add(&second, 2, 0, 0, 10);
        batch_add(&second, -1, 1, 0, 11);
        second.expected[0] = join_of(first.expected[2], first.expected[0]);
        second.expected[1] = join_of(INITIAL, first.expected[1]);
        tt_engine_submit(rig.engine, &first.task);
        tt_engine_submit(rig.engine, &second.task);
        int64_t waits = counts(&rig).waits; /* none if the first has ended by then */
        assert_in_range(waits, kind == HOST ? 1 : 0, 1);
        __atomic_store_n(&rig.gate, 0, __ATOMIC_RELEASE);
        assert_ptr_equal(await(&rig, 0), &first.task);
        assert_ptr_equal(await(&rig, 1), &second.task);
        assert_all(&rig, &first);
        assert_all(&rig, &second);
        if (kind == HOST) {
            assert_int_equal(rig.ran, 2);
            assert_int_equal(rig.order[0], 3);
            assert_int_equal(rig.order[1], 2);
        }
        if (kind == EMULATED)
            assert_true(second.task.head.ended_at > first.task.head.ended_at);
        /* It is over, and known to be: nothing is waited for. */
        batch_init(&second, &rig, 1, STEP);
        batch_add(&second, 1, 0, 4, 12);
        second.expected[0] = step_of(first.expected[1], words[4]);
        tt_engine_submit(rig.engine, &second.task);
        assert_ptr_equal(await(&rig, 1), &second.task);
        assert_all(&rig, &second);
        assert_int_equal(counts(&rig).waits, waits);
        rig_close(&rig);
    }
}

static void run(struct rig *rig, struct batch *batch) {
    tt_engine_submit(rig->engine, &batch->task);
    assert_ptr_equal(await(rig, batch->task.head.executor), &batch->task);
    assert_all(rig, batch);
}

/* A chunk that the request does not fill is filled up; one that begins behind it fails. */
static void chunks_are_filled_up(void **state) {
    (void)state;
    _Static_assert(CHUNKS * WORDS == LENGTH + 2, "one word is in the last chunk");
    const int32_t chunks[] = {0, CHUNKS - 1, 2};
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rig rig;
        static struct batch batch;
        rig_open(&rig, kind);
        batch_init(&batch, &rig, 0, CHUNK);
        for (int32_t r = 0; r < (int32_t)TT_COUNT(chunks); r++) {
            batch_add(&batch, -1, 0, chunks[r], r);
            batch.expected[r] = chunk_at(INITIAL, chunks[r]);
        }
        run(&rig, &batch);
        assert_int_equal(batch.task.gathered_bytes, TT_COUNT(chunks) * WORDS * 4);
        batch_init(&batch, &rig, 0, CHUNK);
        batch_add(&batch, -1, 0, CHUNKS - 1, 0);
        batch_add(&batch, -1, 0, CHUNKS, 1);
        tt_engine_submit(rig.engine, &batch.task);
        assert_ptr_equal(await(&rig, 0), &batch.task);
        assert_int_equal(batch.cells[0].err, TT_OK);
        assert_int_equal((uint32_t)batch.cells[0].emitted, chunk_at(INITIAL, CHUNKS - 1));
        assert_int_equal(batch.cells[1].err, TT_ERR_INVALID);
        assert_non_null(strstr(batch.whys[1].text, "no element 6"));
        rig_close(&rig);
    }
}

/* Only cells that move are copied, once per direction, on the device. */
static void few_cells_move(void **state) {
    (void)state;
    enum { ROWS = 4, STATE = 4 };
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rig rig;
        static struct batch batch;
        uint32_t values[ROWS];
        rig_open(&rig, kind);
        batch_init(&batch, &rig, 0, STEP);
        for (int32_t r = 0; r < ROWS; r++) {
            batch_add(&batch, -1, 0, r, r);
            batch.expected[r] = values[r] = step_of(INITIAL, words[r]);
        }
        run(&rig, &batch);
        batch_init(&batch, &rig, 0, STEP); /* row 2 begins: it takes the place of one that left */
        for (int32_t r = 0; r < ROWS; r++) {
            struct tt_engine_cell *cell = batch_add(&batch, r == 2 ? -1 : r, 0, r, 8 + r);
            cell->moves_in = r == 2;
            cell->staging_slot = 2;
            batch.expected[r] = values[r] = step_of(r == 2 ? INITIAL : values[r], words[r]);
        }
        run(&rig, &batch);
        assert_int_equal(batch.task.gathered_bytes, ROWS * 4 + STATE);
        assert_int_equal(batch.task.spared_bytes, (ROWS - 1) * STATE);
        batch_init(&batch, &rig, 0, STEP); /* row 1 is about to leave: its state goes elsewhere */
        for (int32_t r = 0; r < ROWS; r++) {
            struct tt_engine_cell *cell = batch_add(&batch, 8 + r, 0, r, r == 1 ? 40 : 16 + r);
            cell->moves_out = r == 1;
            cell->exit = 17;
            batch.expected[r] = values[r] = step_of(values[r], words[r]);
        }
        run(&rig, &batch);
        assert_int_equal(batch.task.gathered_bytes, ROWS * 4 + STATE);
        batch_init(&batch, &rig, 0, JOIN); /* from anywhere: all are gathered */
        batch_add(&batch, 40, 16, 0, 50);
        batch_add(&batch, 18, 19, 0, 60);
        batch.expected[0] = join_of(values[1], values[0]);
        batch.expected[1] = join_of(values[2], values[3]);
        run(&rig, &batch);
        assert_int_equal(batch.task.gathered_bytes, 2 * 2 * STATE + 2 * STATE);
        rig_close(&rig);
    }
}

/* A word out of range fails its cell alone, and leaves a zero; so does an element that is not
 * there. The next cells of the others go on. */
static void offenders_fail_alone(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(7), 0);
    for (enum kind kind = HOST; kind <= EMULATED; kind++)
        for (int32_t round = 0; round < 40; round++) {
            struct rig rig;
            static struct batch batch, next;
            uint32_t offenders = (uint32_t)tt_prng_below(&prng, 1 << BATCH);
            int32_t lost = (int32_t)tt_prng_below(&prng, BATCH);
            rig_open(&rig, kind);
            words[LENGTH - 1] = BAD;
            batch_init(&batch, &rig, 0, STEP);
            batch_init(&next, &rig, 0, STEP);
            for (int32_t r = 0; r < BATCH; r++) {
                bool fails = offenders >> r & 1;
                batch_add(&batch, -1, 0, r == lost ? LENGTH : fails ? LENGTH - 1 : r, r);
                batch_add(&next, r, 0, r, BATCH + r);
                uint32_t value =
                    fails && r != lost ? 0 : step_of(INITIAL, r == lost ? 0 : words[r]);
                next.expected[r] = step_of(value, words[r]);
            }
            tt_engine_submit(rig.engine, &batch.task);
            tt_engine_submit(rig.engine, &next.task);
            assert_ptr_equal(await(&rig, 0), &batch.task);
            assert_ptr_equal(await(&rig, 0), &next.task);
            for (int32_t r = 0; r < BATCH; r++) {
                bool fails = r == lost || (offenders >> r & 1);
                assert_int_equal(batch.cells[r].err, fails ? TT_ERR_INVALID : TT_OK);
                if (r == lost)
                    assert_non_null(strstr(batch.whys[r].text, "no element 16 for input 'w'"));
                else if (fails)
                    assert_string_equal(batch.whys[r].text, "a word is out of range");
            }
            assert_all(&rig, &next);
            words[LENGTH - 1] = 1;
            rig_close(&rig);
        }
}

/* ---- random work ---- */

struct history {
    uint32_t values[SLOTS]; /* when all that is submitted has run */
    bool written[SLOTS];
    int32_t uses[SLOTS]; /* by cells under way */
    struct batch batches[EXECUTORS][DEPTH];
    int32_t submitted[EXECUTORS], returned[EXECUTORS];
};

static int32_t draw_source(const struct history *self, struct tt_prng *prng) {
    int32_t slot = (int32_t)tt_prng_below(prng, SLOTS + SLOTS / 4);
    return slot < SLOTS && self->written[slot] ? slot : -1;
}

static int32_t draw_free(const struct history *self, struct tt_prng *prng) {
    int32_t slot = (int32_t)tt_prng_below(prng, SLOTS);
    while (self->uses[slot] > 0)
        slot = (slot + 1) % SLOTS;
    return slot;
}

static uint32_t value_of(const struct history *self, int32_t slot) {
    return slot < 0 ? INITIAL : self->values[slot];
}

static void take_back(struct history *self, struct rig *rig, int32_t executor) {
    struct batch *batch = &self->batches[executor][self->returned[executor]++ % DEPTH];
    assert_ptr_equal(await(rig, executor), &batch->task);
    assert_all(rig, batch);
    for (int32_t i = 0; i < batch->task.member_count; i++) {
        const struct tt_engine_cell *cell = &batch->cells[i];
        int32_t arity = types[batch->task.head.first_step].arity;
        self->uses[cell->slot]--;
        for (int32_t q = 0; q < arity; q++)
            if (cell->sources[q] >= 0)
                self->uses[cell->sources[q]]--;
    }
}

static void submit_random(struct history *self, struct rig *rig, int32_t executor,
                          struct tt_prng *prng) {
    struct batch *batch = &self->batches[executor][self->submitted[executor]++ % DEPTH];
    int32_t type = (int32_t)tt_prng_below(prng, TYPES);
    int32_t rows = 1 + (int32_t)tt_prng_below(prng, 5);
    int32_t arity = types[type].arity, made[BATCH];
    batch_init(batch, rig, executor, type);
    for (int32_t i = 0; i < rows; i++) {
        int32_t sources[2] = {draw_source(self, prng), draw_source(self, prng)};
        for (int32_t q = 0; q < arity; q++)
            if (sources[q] >= 0)
                self->uses[sources[q]]++;
        made[i] = -1;
        int32_t element = (int32_t)tt_prng_below(prng, type == CHUNK ? CHUNKS : LENGTH);
        batch_add(batch, sources[0], sources[1], element, -1);
        uint32_t a = value_of(self, sources[0]);
        batch->expected[i] = type == STEP    ? step_of(a, words[element])
                             : type == CHUNK ? chunk_at(a, element)
                                             : join_of(a, value_of(self, sources[1]));
    }
    for (int32_t i = 0; i < rows; i++) { /* behind all sources, so none is overwritten */
        made[i] = draw_free(self, prng);
        self->uses[made[i]]++;
        batch->cells[i].slot = made[i];
    }
    for (int32_t i = 0; i < rows; i++) {
        self->values[made[i]] = batch->expected[i];
        self->written[made[i]] = true;
    }
    tt_engine_submit(rig->engine, &batch->task);
}

static void any_cells_in_any_order(void **state) {
    (void)state;
    enum { TASKS = 400 };
    static struct history history;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct tt_prng prng;
        struct rig rig;
        tt_prng_init(&prng, test_seed(23), (uint64_t)kind);
        memset(&history, 0, sizeof(history));
        rig_open(&rig, kind);
        for (int32_t t = 0; t < TASKS; t++) {
            int32_t executor = (int32_t)tt_prng_below(&prng, EXECUTORS);
            if (history.submitted[executor] - history.returned[executor] == DEPTH)
                take_back(&history, &rig, executor);
            submit_random(&history, &rig, executor, &prng);
            int32_t other = (int32_t)tt_prng_below(&prng, EXECUTORS);
            if (tt_prng_below(&prng, 3) == 0 && history.submitted[other] > history.returned[other])
                take_back(&history, &rig, other);
        }
        assert_true(counts(&rig).waits > 0);
        for (int32_t e = 0; e < EXECUTORS; e++)
            while (history.submitted[e] > history.returned[e])
                take_back(&history, &rig, e);
        rig_close(&rig);
    }
}

/* ---- faults ---- */

static void a_failed_device_fails_all(void **state) {
    (void)state;
    for (enum kind kind = HOST; kind <= EMULATED; kind++) {
        struct rig rig;
        static struct batch batches[3];
        rig_open(&rig, kind);
        rig.breaks = true;
        for (int32_t t = 0; t < 3; t++) {
            batch_init(&batches[t], &rig, 0, STEP);
            batch_add(&batches[t], t > 0 ? t - 1 : -1, 0, 0, t);
            tt_engine_submit(rig.engine, &batches[t].task);
        }
        for (int32_t t = 0; t < 3; t++) {
            assert_ptr_equal(await(&rig, 0), &batches[t].task);
            assert_int_equal(batches[t].task.head.outcome, TT_OUTCOME_FAILED);
            assert_int_equal(batches[t].cells[0].err, TT_ERR_UNAVAILABLE);
            assert_non_null(strstr(batches[t].whys[0].text, "has failed: kernel cells"));
        }
        rig_close(&rig);
    }
}

/* What does not fit is refused, and nothing is kept of it. */
static void too_many_slots(void **state) {
    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rig rig;
        struct tt_error why = {""};
        rig_open(&rig, kind);
        struct tt_engine_model *model = rig.model;
        for (int32_t slots = 1 << 17; slots <= 1 << 20; slots *= 2) {
            enum tt_err err = load(&rig, slots, &why);
            if (!err)
                rig.engine->ops->unload(rig.model);
            assert_int_equal(err == TT_ERR_NO_MEMORY, slots >= 1 << 18);
        }
        assert_non_null(strstr(why.text, "1048576 slots for cells"));
        rig.model = model;
        assert_int_equal(rig.engine->ops->cell_slots(model), SLOTS);
        rig_close(&rig);
    }
}

static void states_in_place_are_refused(void **state) {
    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rig rig;
        struct tt_error why = {""};
        rig_open(&rig, kind);
        types[STEP].has_cache = true;
        enum tt_err err = load(&rig, SLOTS, &why);
        types[STEP].has_cache = false;
        assert_int_equal(err, TT_ERR_UNSUPPORTED);
        assert_non_null(
            strstr(why.text, "has states in place, which are for executors on the CPU"));
        rig_close(&rig);
    }
}

int main(void) {
    for (uint32_t i = 0; i < LENGTH; i++)
        words[i] = i * i + 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_follow_without_the_host),
        cmocka_unit_test(another_stream_is_waited_for),
        cmocka_unit_test(chunks_are_filled_up),
        cmocka_unit_test(few_cells_move),
        cmocka_unit_test(offenders_fail_alone),
        cmocka_unit_test(any_cells_in_any_order),
        cmocka_unit_test(a_failed_device_fails_all),
        cmocka_unit_test(too_many_slots),
        cmocka_unit_test(states_in_place_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
