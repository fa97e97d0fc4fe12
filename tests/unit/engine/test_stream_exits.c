/* threaded */
/* D8: early exits of models on streams: on the host device, on the emulated one in virtual time,
 * and on CUDA over a stand-in for the driver. Random batches against a naive evaluation: which left
 * or skipped steps where, and with what answer; the order checker watches the read-backs. */
#include "base/clock.h"
#include "base/prng.h"
#include "base/threads/ring.h"
#include "device/async_cuda.h"
#include "device/async_emulated.h"
#include "device/async_host.h"
#include "device/async_order.h"
#include "device/cuda_driver.h"
#include "engine/streams/stream_engine.h"
#include "engine/streams/stream_layout.h"
#include "standin/cuda_standin.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 4,
    BATCH = 8,
    SLOTS = 80, /* wherever the rows of 13 requests lie, 3 neighbours are free */
    REQUESTS = 14,
    MAX_ROWS = 3,
    EXECUTORS = 2,
    DEPTH = 3,
    ROUNDS = 1500,
    MEMORY = 1 << 20,
    COPY_NS = 50,
    STEP_NS = 1000,
    LIMIT_S = 60
};
enum kind { HOST, EMULATED, CUDA, KINDS };

static const char *const driver_path = TUTTI_BUILD_DIR "/tests/standin/cuda_standin.so";

/* ---- the model ----
 *
 * A row of one word. Behind step 0 it leaves, or else skips to step 3; behind step 1 it leaves
 * since f1 moved little from f0, or else skips step 2 with the input itself in place of s2. */

enum { X, S0, F0, S1, F1, S2, Y, LEAVES_0, EARLY_0, SKIPS_0, GIVEN_0, SKIPS_1, TENSORS };
enum { LEAVE_0, SKIP_0, LEAVE_1, SKIP_1, EXITS };
#define LESS_THAN 0.25

static uint32_t s0_of(uint32_t x) { return 3 * x + 1; }
static float f0_of(uint32_t s0) { return (float)(s0 % 1000) + 1; }
static uint32_t s1_of(uint32_t s0) { return 5 * s0 + 2; }
static float f1_of(uint32_t s1, float f0) { return f0 * (1 + (float)(s1 % 100) / 100); }
static uint32_t s2_of(uint32_t s1) { return 7 * s1 + 3; }
static uint32_t y_of(uint32_t s2) { return 11 * s2 + 4; }

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = BATCH,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_UINT32, {2, {-1, 1}}}},
    .outputs = {{"y", TT_DTYPE_UINT32, {2, {-1, 1}}}},
};

struct tensor {
    enum tt_dtype dtype;
    int32_t producer, last_use;
};
static const struct tensor tensors[TENSORS] = {
    [X] = {TT_DTYPE_UINT32, -1, 0},      [S0] = {TT_DTYPE_UINT32, 0, 1},
    [F0] = {TT_DTYPE_FP32, 0, 1},        [S1] = {TT_DTYPE_UINT32, 1, 2},
    [F1] = {TT_DTYPE_FP32, 1, 1},        [S2] = {TT_DTYPE_UINT32, 2, 3},
    [Y] = {TT_DTYPE_UINT32, 3, STEPS},   [LEAVES_0] = {TT_DTYPE_BOOL, 0, 0},
    [EARLY_0] = {TT_DTYPE_UINT32, 0, 0}, [SKIPS_0] = {TT_DTYPE_FP32, 0, 0},
    [GIVEN_0] = {TT_DTYPE_UINT32, 0, 0}, [SKIPS_1] = {TT_DTYPE_BOOL, 1, 1},
};

struct wires {
    int32_t inputs[2], outputs[2]; /* -1: none */
};
static const struct wires runs[STEPS + EXITS] = {
    {{X, -1}, {S0, F0}},
    {{S0, F0}, {S1, F1}},
    {{S1, -1}, {S2, -1}},
    {{S2, -1}, {Y, -1}},
    {{S0, -1}, {LEAVES_0, EARLY_0}},
    {{S0, X}, {SKIPS_0, GIVEN_0}},
    {{-1, -1}, {-1, -1}},
    {{S1, -1}, {SKIPS_1, -1}},
};
static const struct {
    int32_t step, to, condition, tensor, from;
} exits[EXITS] = {
    [LEAVE_0] = {0, STEPS, LEAVES_0, Y, EARLY_0},
    [SKIP_0] = {0, 3, SKIPS_0, S2, GIVEN_0},
    [LEAVE_1] = {1, STEPS, -1, Y, S1},
    [SKIP_1] = {1, 3, SKIPS_1, S2, X},
};

static void wire(struct tt_dataflow_step *step, const struct wires *wires) {
    int32_t inputs = (wires->inputs[0] >= 0) + (wires->inputs[1] >= 0);
    int32_t outputs = (wires->outputs[0] >= 0) + (wires->outputs[1] >= 0);
    assert_int_equal(tt_dataflow_step_init(step, inputs, outputs), TT_OK);
    memcpy(step->inputs, wires->inputs, (size_t)inputs * sizeof(int32_t));
    memcpy(step->outputs, wires->outputs, (size_t)outputs * sizeof(int32_t));
}

static void make_flow(struct tt_dataflow *flow) {
    assert_int_equal(tt_dataflow_init(flow, STEPS, TENSORS), TT_OK);
    assert_int_equal(tt_dataflow_exits_init(flow, EXITS), TT_OK);
    for (int32_t t = 0; t < TENSORS; t++) {
        size_t bytes = tt_dtype_bytes(tensors[t].dtype);
        flow->tensors[t] = (struct tt_dataflow_tensor){.dtype = tensors[t].dtype,
                                                       .shape = {2, {-1, 1}},
                                                       .row_bytes = bytes,
                                                       .producer = tensors[t].producer,
                                                       .last_use = tensors[t].last_use};
    }
    flow->outputs[0] = Y;
    for (int32_t s = 0; s < STEPS; s++)
        wire(&flow->steps[s], &runs[s]);
    for (int32_t e = 0; e < EXITS; e++) {
        struct tt_dataflow_exit *exit = &flow->exits[e];
        wire(&exit->test, &runs[STEPS + e]);
        exit->step = exits[e].step;
        exit->to = exits[e].to;
        exit->condition = exits[e].condition;
        exit->moved = F1;
        exit->since = F0;
        exit->less_than = LESS_THAN;
        exit->gives = calloc(1, sizeof(*exit->gives));
        assert_non_null(exit->gives);
        exit->gives[exit->give_count++] = (struct tt_dataflow_give){exits[e].tensor, exits[e].from};
    }
    tt_dataflow_keep_for_exits(flow);
}

/* ---- what it computes ---- */

static bool leaves_0(uint32_t s0) { return s0 % 4 == 0; }
static bool skips_0(uint32_t s0) { return s0 % 4 == 1; }
static bool skips_1(uint32_t s1) { return s1 % 7 == 0; }
static bool leaves_1(uint32_t s1, float f0) {
    float f1 = f1_of(s1, f0);
    return f1 - f0 < LESS_THAN * f0; /* both positive */
}
static uint32_t early_of(uint32_t s0) { return s0 ^ 0xa5a5a5a5; }
static uint32_t given_of(uint32_t s0, uint32_t x) { return 13 * s0 + x; }

static void compute_row(int32_t index, const uint32_t *a, const uint32_t *b, char *to, char *more) {
    float f = 0;
    uint32_t u = 0;
    bool is = false;
    switch (index) {
    case 0:
        u = s0_of(a[0]);
        f = f0_of(u);
        memcpy(more, &f, sizeof(f));
        break;
    case 1:
        u = s1_of(a[0]);
        memcpy(&f, b, sizeof(f));
        f = f1_of(u, f);
        memcpy(more, &f, sizeof(f));
        break;
    case 2: u = s2_of(a[0]); break;
    case 3: u = y_of(a[0]); break;
    case STEPS + LEAVE_0:
        is = leaves_0(a[0]);
        memcpy(to, &is, sizeof(is));
        u = early_of(a[0]);
        memcpy(more, &u, sizeof(u));
        return;
    case STEPS + SKIP_0:
        f = skips_0(a[0]) ? 0.5f : -1;
        u = given_of(a[0], b[0]);
        memcpy(to, &f, sizeof(f));
        memcpy(more, &u, sizeof(u));
        return;
    case STEPS + SKIP_1:
        is = skips_1(a[0]);
        memcpy(to, &is, sizeof(is));
        return;
    default: abort(); /* LEAVE_1 has nothing to run */
    }
    memcpy(to, &u, sizeof(u));
}

static void compute_rows(int32_t index, int32_t rows, const void *const *in, void *const *out) {
    const struct wires *wires = &runs[index];
    size_t first = tt_dtype_bytes(tensors[wires->outputs[0]].dtype);
    for (int32_t row = 0; row < rows; row++)
        compute_row(index, (const uint32_t *)in[0] + row,
                    wires->inputs[1] < 0 ? NULL : (const uint32_t *)in[1] + row,
                    (char *)out[0] + (size_t)row * first,
                    wires->outputs[1] < 0 ? NULL : (char *)out[1] + (size_t)row * 4);
}

/* ---- the rig ---- */

struct request {
    uint32_t x[MAX_ROWS];
    struct tt_tensor_view view;
    struct tt_error why;
    struct tt_engine_state *state;
    int32_t rows, step; /* step -1: in a task */
    int32_t route;      /* LEAVE_0 ..., or EXITS: to the end; SKIP_0 and SKIP_1 end at Y */
};

struct batch {
    struct tt_engine_task task; /* first */
    struct tt_engine_member members[BATCH];
    struct request *requests[BATCH];
    bool is_used;
};

struct rig {
    enum kind kind;
    struct tt_async_device *device;
    struct tt_engine *engine;
    struct tt_engine_model *model;
    struct tt_dataflow flow;
    struct tt_cuda_driver driver;
    struct tt_ring returned[EXECUTORS];
    struct request requests[REQUESTS];
    struct batch batches[EXECUTORS * DEPTH];
    int32_t depth[EXECUTORS], under_way;
    int32_t ended[EXITS + 1]; /* by route */
    int32_t in_place, gathered;
    bool refuses_reading; /* the next copy to the host */
    struct tt_prng prng;
    char conflict[512];
};

static int32_t below(struct rig *rig, int32_t limit) {
    return (int32_t)tt_prng_below(&rig->prng, (uint64_t)limit);
}

static enum tt_err compute(void *context, int32_t index, int32_t rows, const void *const *in,
                           void *const *out, struct tt_error *why) {
    (void)context;
    (void)why;
    compute_rows(index, rows, in, out);
    return TT_OK;
}

struct launched {
    int32_t index, rows;
    uint64_t in[2], out[2];
};

static void launched_run(void *context) {
    struct launched *self = context;
    const void *in[2];
    void *out[2];
    for (int i = 0; i < 2; i++) {
        in[i] = (const void *)(uintptr_t)self->in[i];
        out[i] = (void *)(uintptr_t)self->out[i];
    }
    compute_rows(self->index, self->rows, in, out);
    free(self);
}

/* Values are not known when it enqueues. */
static enum tt_err enqueue(void *context, int32_t executor, void *native_stream, int32_t index,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why) {
    struct rig *rig = context;
    const struct tt_dataflow_step *run = tt_dataflow_run(&rig->flow, index);
    struct launched *self = calloc(1, sizeof(*self));
    tt_assert(self);
    (void)executor;
    self->index = index;
    self->rows = rows;
    memcpy(self->in, in, (size_t)run->input_count * sizeof(*in));
    memcpy(self->out, out, (size_t)run->output_count * sizeof(*out));
    int result = rig->driver.cuLaunchHostFunc(native_stream, launched_run, self);
    return result ? tt_fail(TT_ERR_INTERNAL, why, "launch: %d", result) : TT_OK;
}

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)context;
    (void)rows;
    (void)length;
    return (last_step - first_step + 1) * STEP_NS;
}

static void done(void *context, struct tt_device_task *task) {
    struct rig *rig = context;
    bool pushed = tt_ring_push(&rig->returned[task->executor], task);
    tt_assert(pushed);
}

static void on_conflict(void *context, const char *text) {
    struct rig *rig = context;
    snprintf(rig->conflict, sizeof(rig->conflict), "%s", text);
}

static enum tt_err moving(void *context, enum tt_async_op_kind kind, size_t bytes) {
    struct rig *rig = context;
    (void)bytes;
    return kind == TT_ASYNC_COPY_OUT &&
                   __atomic_exchange_n(&rig->refuses_reading, false, __ATOMIC_RELAXED)
               ? TT_ERR_IO
               : TT_OK;
}

static void load_driver(struct rig *rig) {
    struct tt_error why;
    if (tt_cuda_driver_load(driver_path, &rig->driver, &why))
        fail_msg("%s", why.text);
    void *library = dlopen(driver_path, RTLD_NOW | RTLD_NOLOAD);
    const struct cuda_standin *standin = dlsym(library, "cuda_standin");
    standin->reset(1, MEMORY);
    dlclose(library);
}

static void open_device(struct rig *rig) {
    const struct tt_async_order_options options = {
        .max_streams = 16, .on_conflict = on_conflict, .context = rig};
    struct tt_async_order *order;
    struct tt_error why = {""};
    assert_int_equal(tt_async_order_new(&options, &order, &why), TT_OK);
    const struct tt_async_host_options host = {.memory_bytes = MEMORY,
                                               .max_streams = 16,
                                               .queue_depth = 1024,
                                               .take_order = order,
                                               .moving = moving,
                                               .moving_context = rig};
    const struct tt_async_emulated_options emulated = {.memory_bytes = MEMORY,
                                                       .max_streams = 16,
                                                       .queue_depth = 1024,
                                                       .out = {.fixed_ns = COPY_NS},
                                                       .take_order = order};
    const struct tt_async_cuda_options cuda = {
        .driver_path = driver_path, .max_streams = 16, .take_order = order};
    enum tt_err err = rig->kind == HOST ? tt_async_host_open(&host, &rig->device, &why)
                      : rig->kind == EMULATED
                          ? tt_async_emulated_open(&emulated, &rig->device, &why)
                          : tt_async_cuda_open(&cuda, &rig->device, &why);
    if (err)
        fail_msg("%s", why.text);
}

static void rig_open(struct rig *rig, enum kind kind, enum tt_stream_transfer transfer) {
    struct tt_error why = {""};
    *rig = (struct rig){.kind = kind};
    make_flow(&rig->flow);
    if (kind == CUDA)
        load_driver(rig);
    open_device(rig);
    for (int32_t e = 0; e < EXECUTORS; e++)
        assert_int_equal(tt_ring_init(&rig->returned[e], 64), TT_OK);
    const struct tt_stream_engine_options options = {.engine = {.executor_count = EXECUTORS,
                                                                .queue_depth = DEPTH,
                                                                .done = done,
                                                                .done_context = rig},
                                                     .device = rig->device,
                                                     .transfer = transfer};
    const struct tt_stream_program program = {.signature = &signature,
                                              .step_count = STEPS,
                                              .slot_count = SLOTS,
                                              .dataflow = &rig->flow,
                                              .context = rig,
                                              .latency_ns = kind == EMULATED ? latency : NULL,
                                              .compute = compute,
                                              .enqueue = enqueue};
    if (tt_stream_engine_open(&options, &rig->engine, &why) ||
        tt_stream_engine_load(rig->engine, &program, &rig->model, &why))
        fail_msg("%s", why.text);
}

static void rig_close(struct rig *rig) {
    for (int32_t i = 0; i < REQUESTS; i++)
        rig->engine->ops->state_release(rig->requests[i].state);
    rig->engine->ops->unload(rig->model); /* which asserts that no slot is left behind */
    rig->engine->ops->close(rig->engine);
    tt_async_device_close(rig->device);
    for (int32_t e = 0; e < EXECUTORS; e++)
        tt_ring_fini(&rig->returned[e]);
    tt_dataflow_fini(&rig->flow);
    assert_string_equal(rig->conflict, "");
}

static struct batch *take(struct rig *rig) {
    struct batch *batch = NULL;
    for (int32_t e = 0; !batch && e < EXECUTORS; e++)
        batch = tt_ring_pop(&rig->returned[e]);
    return batch;
}

static struct batch *await(struct rig *rig) {
    struct batch *batch;
    int64_t until_at = tt_clock_now() + LIMIT_S * TT_S;
    while (!(batch = take(rig))) {
        assert_true(tt_clock_now() < until_at);
        if (rig->kind == EMULATED)
            tt_async_emulated_advance(rig->device, tt_async_device_now(rig->device) + COPY_NS);
        if (rig->engine->ops->has_failed(rig->engine, NULL))
            (void)rig->engine->ops->return_failed(rig->engine);
        sched_yield();
    }
    return batch;
}

/* ---- requests ---- */

/* A request goes by an exit if all its rows do. */
static int32_t route_of(const struct request *request) {
    bool goes[EXITS] = {true, true, true, true};
    for (int32_t r = 0; r < request->rows; r++) {
        uint32_t s0 = s0_of(request->x[r]), s1 = s1_of(s0);
        goes[LEAVE_0] &= leaves_0(s0);
        goes[SKIP_0] &= skips_0(s0);
        goes[LEAVE_1] &= leaves_1(s1, f0_of(s0));
        goes[SKIP_1] &= skips_1(s1);
    }
    int32_t route = 0;
    while (route < EXITS && !goes[route])
        route++;
    return route;
}

static uint32_t answer_of(int32_t route, uint32_t x) {
    uint32_t s0 = s0_of(x), s1 = s1_of(s0);
    switch (route) {
    case LEAVE_0: return early_of(s0);
    case SKIP_0: return y_of(given_of(s0, x));
    case LEAVE_1: return s1;
    case SKIP_1: return y_of(x);
    default: return y_of(s2_of(s1));
    }
}

/* Rows of a request often go the same way, so that it does. */
static void new_request(struct rig *rig, struct request *request) {
    *request = (struct request){.rows = 1 + below(rig, MAX_ROWS)};
    uint32_t x = (uint32_t)below(rig, 1 << 20), step = below(rig, 4) ? 8400 : 1;
    for (int32_t r = 0; r < request->rows; r++)
        request->x[r] = x + (uint32_t)r * step;
    request->view = (struct tt_tensor_view){
        request->x, (size_t)request->rows * sizeof(uint32_t), {2, {request->rows, 1}}};
    request->route = route_of(request);
}

static void add_member(struct batch *batch, struct request *request) {
    int32_t i = batch->task.member_count++;
    batch->requests[i] = request;
    batch->members[i] = (struct tt_engine_member){.rows = request->rows,
                                                  .inputs = &request->view,
                                                  .state = request->state,
                                                  .why = &request->why};
    request->step = -1;
}

static void begin_batch(struct rig *rig, struct batch *batch, int32_t executor, int32_t first,
                        int32_t last) {
    *batch = (struct batch){.is_used = true,
                            .task = {.head.executor = executor,
                                     .head.first_step = first,
                                     .head.last_step = last,
                                     .model = rig->model,
                                     .members = batch->members}};
}

static void check_answer(struct rig *rig, const struct batch *batch, int32_t i, int32_t route) {
    const struct tt_engine_member *member = &batch->members[i];
    const struct request *request = batch->requests[i];
    struct tt_tensor_view view;
    assert_non_null(member->result);
    assert_null(member->state);
    rig->engine->ops->output(member->result, 0, member->first_row, member->rows, &view);
    assert_int_equal(view.shape.dims[0], request->rows);
    for (int32_t r = 0; r < request->rows; r++)
        assert_int_equal(((const uint32_t *)view.bytes)[r], answer_of(route, request->x[r]));
    rig->engine->ops->result_release(member->result);
}

static void land(struct rig *rig, const struct batch *batch, int32_t i) {
    const struct tt_engine_member *member = &batch->members[i];
    struct request *request = batch->requests[i];
    int32_t last = batch->task.head.last_step, route = request->route;
    bool takes = route < EXITS && exits[route].step == last;
    assert_int_equal(member->err, TT_OK);
    assert_int_equal(member->next_step, takes ? exits[route].to : -1);
    assert_int_equal(member->skips, takes && exits[route].to < STEPS);
    request->state = member->state;
    request->step = takes ? exits[route].to : last + 1;
    if (request->step < STEPS) {
        assert_null(member->result);
        assert_non_null(member->state);
        return;
    }
    check_answer(rig, batch, i, route);
    rig->ended[route]++;
    new_request(rig, request);
}

static void settle(struct rig *rig, struct batch *batch) {
    assert_int_equal(batch->task.head.outcome, TT_OUTCOME_DONE);
    rig->in_place += batch->task.gathered_bytes == 0;
    rig->gathered += batch->task.gathered_bytes > 0;
    for (int32_t i = 0; i < batch->task.member_count; i++)
        land(rig, batch, i);
    batch->is_used = false;
    rig->depth[batch->task.head.executor]--;
    rig->under_way--;
}

/* A random task of requests that wait for one step. It ends where some may go. */
static bool submit_some(struct rig *rig) {
    int32_t executor = below(rig, EXECUTORS), rows = 0;
    int32_t first = rig->requests[below(rig, REQUESTS)].step;
    struct batch *batch = rig->batches;
    if (first < 0 || rig->depth[executor] == DEPTH)
        return false;
    while (batch->is_used)
        batch++;
    begin_batch(rig, batch, executor, first, first < 2 ? first : first + below(rig, STEPS - first));
    int32_t most = MAX_ROWS + below(rig, BATCH - MAX_ROWS + 1);
    for (int32_t i = 0; i < REQUESTS; i++)
        if (rig->requests[i].step == first && rows + rig->requests[i].rows <= most) {
            rows += rig->requests[i].rows;
            add_member(batch, &rig->requests[i]);
        }
    rig->depth[executor]++;
    rig->under_way++;
    tt_engine_submit(rig->engine, &batch->task);
    return true;
}

/* ---- tests ---- */

static void run_world(enum kind kind, enum tt_stream_transfer transfer, uint64_t seed) {
    static struct rig rig;
    rig_open(&rig, kind, transfer);
    tt_prng_init(&rig.prng, seed, (uint64_t)kind);
    for (int32_t i = 0; i < REQUESTS; i++)
        new_request(&rig, &rig.requests[i]);
    for (int32_t round = 0; round < ROUNDS; round++) {
        if (!submit_some(&rig) && rig.under_way > 0)
            settle(&rig, await(&rig));
        for (struct batch *back; (back = take(&rig));)
            settle(&rig, back);
    }
    while (rig.under_way > 0)
        settle(&rig, await(&rig));
    print_message("left %d %d, skipped %d %d, whole %d; %d tasks in place, %d that copied\n",
                  rig.ended[LEAVE_0], rig.ended[LEAVE_1], rig.ended[SKIP_0], rig.ended[SKIP_1],
                  rig.ended[EXITS], rig.in_place, rig.gathered);
    for (int32_t route = 0; route <= EXITS; route++)
        assert_true(rig.ended[route] > 20);
    assert_true(rig.in_place > 0 && rig.gathered > 0);
    rig_close(&rig);
}

/* D8 */
static void which_left_where(void **state) {
    (void)state;
    uint64_t seed = test_seed(81);
    for (int kind = 0; kind < KINDS; kind++)
        for (int transfer = 0; transfer < 2; transfer++)
            run_world((enum kind)kind, transfer ? TT_STREAM_WHOLE : TT_STREAM_EACH, seed);
}

/* One request of one row, whose route is the given one. */
static struct batch *submit_one(struct rig *rig, int32_t route, int32_t first, int32_t last) {
    struct request *request = &rig->requests[0];
    struct batch *batch = &rig->batches[0];
    request->rows = 1;
    request->view = (struct tt_tensor_view){request->x, sizeof(uint32_t), {2, {1, 1}}};
    while (route_of(request) != route)
        request->x[0]++;
    request->route = route;
    begin_batch(rig, batch, 0, first, last);
    add_member(batch, request);
    return batch;
}

/* Virtual time: what decides comes back by a copy behind the step; a step without exits needs
 * none. */
static void a_decision_costs_a_copy(void **state) {
    (void)state;
    static struct rig rig;
    rig_open(&rig, EMULATED, TT_STREAM_EACH);
    struct batch *batch = submit_one(&rig, EXITS, 0, 0);
    static const int32_t copies[] = {3, 4, 0}; /* behind each step */
    for (int32_t step = 0; step < STEPS - 1; step++) {
        const struct tt_engine_task *task = &batch->task;
        tt_engine_submit(rig.engine, &batch->task);
        assert_ptr_equal(await(&rig), batch);
        assert_int_equal(task->copies_out.begin_at > 0, copies[step] > 0);
        assert_int_equal(task->head.ended_at - task->head.started_at,
                         STEP_NS + copies[step] * COPY_NS);
        rig.requests[0].state = batch->members[0].state;
        begin_batch(&rig, batch, 0, step + 1, step + 1);
        add_member(batch, &rig.requests[0]);
    }
    rig_close(&rig);
}

/* For measurements: all run to the end, whatever the conditions are. */
static void together_none_leaves(void **state) {
    (void)state;
    static struct rig rig;
    for (int kind = 0; kind < KINDS; kind++) {
        rig_open(&rig, (enum kind)kind, TT_STREAM_EACH);
        struct batch *batch = submit_one(&rig, LEAVE_0, 0, STEPS - 1);
        batch->task.together = true;
        tt_engine_submit(rig.engine, &batch->task);
        assert_ptr_equal(await(&rig), batch);
        assert_int_equal(batch->members[0].next_step, -1);
        check_answer(&rig, batch, 0, EXITS);
        rig_close(&rig);
    }
}

/* What decides cannot be read: it is unknown where the requests go, so they fail with the device.
 */
static void a_refused_read_back(void **state) {
    (void)state;
    static struct rig rig;
    rig_open(&rig, HOST, TT_STREAM_EACH);
    struct batch *batch = submit_one(&rig, LEAVE_0, 0, 0);
    __atomic_store_n(&rig.refuses_reading, true, __ATOMIC_RELAXED);
    tt_engine_submit(rig.engine, &batch->task);
    assert_ptr_equal(await(&rig), batch);
    assert_int_equal(batch->task.head.outcome, TT_OUTCOME_FAILED);
    assert_int_not_equal(batch->members[0].err, TT_OK);
    assert_null(batch->members[0].result);
    assert_int_equal(batch->members[0].next_step, -1);
    assert_true(strlen(rig.requests[0].why.text) > 0);
    rig.requests[0].state = batch->members[0].state;
    rig_close(&rig);
}

static void run_across_an_exit(void) {
    static struct rig rig;
    rig_open(&rig, EMULATED, TT_STREAM_EACH);
    tt_engine_submit(rig.engine, &submit_one(&rig, LEAVE_0, 0, 2)->task);
}

static void follow_where_some_may_leave(void) {
    static struct rig rig;
    rig_open(&rig, EMULATED, TT_STREAM_EACH);
    struct batch *batch = submit_one(&rig, LEAVE_0, 0, 0), *next = &rig.batches[1];
    tt_engine_submit(rig.engine, &batch->task);
    begin_batch(&rig, next, 1, 1, 1);
    add_member(next, &rig.requests[0]);
    next->task.after = &batch->task;
    tt_engine_submit(rig.engine, &next->task);
}

static void callers_at_fault(void **state) {
    (void)state;
    assert_breaks(run_across_an_exit, "across", "tt_stream_exits_within");
    assert_breaks(follow_where_some_may_leave, "follow", "tt_stream_exits_any");
}

static void too_much_to_read_back(void **state) {
    (void)state;
    struct tt_dataflow flow;
    struct tt_stream_layout layout;
    struct tt_error why;
    enum { MANY = TT_STREAM_MAX_READ_BACKS };
    for (int32_t more = 0; more < 2; more++) {
        make_flow(&flow);
        struct tt_dataflow_tensor *wide =
            realloc(flow.tensors, (TENSORS + MANY) * sizeof(*flow.tensors));
        struct tt_dataflow_give *gives = realloc(flow.exits[LEAVE_0].gives, MANY * sizeof(*gives));
        assert_true(wide && gives);
        flow.tensors = wide;
        flow.exits[LEAVE_0].gives = gives;
        /* Beside these, two conditions and one answer. */
        for (int32_t i = 0; i < MANY - 3 + more; i++) {
            wide[flow.tensor_count] = wide[EARLY_0];
            gives[flow.exits[LEAVE_0].give_count++] =
                (struct tt_dataflow_give){Y, flow.tensor_count++};
        }
        enum tt_err err = tt_stream_layout_init(&layout, &flow, &signature, SLOTS, &why);
        assert_int_equal(err, more ? TT_ERR_UNSUPPORTED : TT_OK);
        if (more)
            assert_non_null(strstr(why.text, "behind step 0 have more than 64"));
        tt_stream_layout_fini(&layout);
        tt_dataflow_fini(&flow);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_at_fault), /* before any thread */
        cmocka_unit_test(too_much_to_read_back),   cmocka_unit_test(which_left_where),
        cmocka_unit_test(a_decision_costs_a_copy), cmocka_unit_test(together_none_leaves),
        cmocka_unit_test(a_refused_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
