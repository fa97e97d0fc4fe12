/* A stream engine on a device of the test's choice, with a model whose answers tell which steps
 * ran, how often, and in which order. All functions are inline; there is no .c file. */
#ifndef STREAM_BENCH_H
#define STREAM_BENCH_H

#include "base/threads/ring.h"
#include "device/async_emulated.h"
#include "device/async_host.h"
#include "device/async_order.h"
#include "engine/streams/stream_engine.h"
#include "engine/streams/stream_model.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    STREAM_STEPS = 3,
    STREAM_BATCH = 8,
    STREAM_EXECUTORS = 3,
    STREAM_DEPTH = 4,
    STREAM_SLOTS = 64
};

/* One INT32 per row in and out; between the steps it is followed by its complement. Step s makes
 * 3 x + s + 1 of x. */
static const struct tt_signature stream_signature = {
    .batched = true,
    .max_batch = STREAM_BATCH,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 1}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 1}}}},
};

struct stream_bench {
    struct tt_async_device *device;
    struct tt_engine *engine;
    struct tt_engine_model *model;
    struct tt_ring returned[STREAM_EXECUTORS];
    int64_t step_ns, row_ns; /* how long a step takes */
    uint32_t torn;           /* states whose complement was wrong */
    bool breaks;             /* the next kernel fails */
    int32_t row_limit;       /* a step has no memory for more rows; 0: it has for all */
    int32_t limited_step;    /* which one; -1: all */
    /* For devices that run no C functions. */
    enum tt_err (*enqueue)(void *context, int32_t executor, void *native_stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why);
    /* Called at each kernel's begin, by its thread; an error makes it fail. NULL: not wanted. */
    enum tt_err (*computing)(struct stream_bench *self, int32_t step, int32_t rows);
    char conflict[512];
};

static inline uint32_t stream_expected(uint32_t x) {
    for (uint32_t step = 0; step < STREAM_STEPS; step++)
        x = 3 * x + step + 1;
    return x;
}

static inline enum tt_err stream_compute(void *context, int32_t step, int32_t rows,
                                         const void *const *in, void *const *out,
                                         struct tt_error *why) {
    struct stream_bench *self = context;
    (void)why;
    if (__atomic_load_n(&self->breaks, __ATOMIC_RELAXED))
        return TT_ERR_INTERNAL;
    bool is_limited = self->limited_step < 0 || self->limited_step == step;
    if (is_limited && self->row_limit > 0 && rows > self->row_limit)
        return TT_ERR_NO_MEMORY;
    enum tt_err err = self->computing ? self->computing(self, step, rows) : TT_OK;
    if (err)
        return err;
    const uint32_t *from = in[0];
    uint32_t *to = out[0];
    for (int32_t row = 0; row < rows; row++) {
        uint32_t x = *from++;
        if (step > 0 && *from++ != ~x)
            __atomic_fetch_add(&self->torn, 1, __ATOMIC_RELAXED);
        uint32_t y = 3 * x + (uint32_t)step + 1;
        *to++ = y;
        if (step < STREAM_STEPS - 1)
            *to++ = ~y;
    }
    return TT_OK;
}

static inline int64_t stream_latency(void *context, int32_t rows, int32_t length,
                                     int32_t first_step, int32_t last_step) {
    const struct stream_bench *self = context;
    (void)length;
    return (self->step_ns + rows * self->row_ns) * (last_step - first_step + 1);
}

static inline void stream_done(void *context, struct tt_device_task *task) {
    struct stream_bench *self = context;
    bool pushed = tt_ring_push(&self->returned[task->executor], tt_engine_task_of(task));
    tt_assert(pushed);
}

static inline void stream_conflict(void *context, const char *text) {
    struct stream_bench *self = context;
    snprintf(self->conflict, sizeof(self->conflict), "%s", text);
}

static inline struct tt_async_order *stream_order(struct stream_bench *self) {
    struct tt_async_order_options options = {
        .max_streams = 16, .on_conflict = stream_conflict, .context = self};
    struct tt_async_order *order;
    tt_assert(tt_async_order_new(&options, &order, NULL) == TT_OK);
    return order;
}

static inline enum tt_err stream_load(struct stream_bench *self, int32_t slots,
                                      struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_stream_program program = {.signature = &stream_signature,
                                        .step_count = STREAM_STEPS,
                                        .slot_count = slots,
                                        .state_bytes = 8,
                                        .context = self,
                                        .latency_ns = stream_latency,
                                        .compute = stream_compute,
                                        .enqueue = self->enqueue};
    return tt_stream_engine_load(self->engine, &program, out_model, why);
}

/* The device is open. After an error nothing of the engine is left. */
static inline enum tt_err stream_bench_try(struct stream_bench *self,
                                           enum tt_stream_transfer transfer, struct tt_error *why) {
    struct tt_stream_engine_options options = {.engine = {.executor_count = STREAM_EXECUTORS,
                                                          .queue_depth = STREAM_DEPTH,
                                                          .done = stream_done,
                                                          .done_context = self},
                                               .device = self->device,
                                               .transfer = transfer};
    enum tt_err err = tt_stream_engine_open(&options, &self->engine, why);
    if (err)
        return err;
    err = stream_load(self, STREAM_SLOTS, &self->model, why);
    if (err) {
        self->engine->ops->close(self->engine);
        return err;
    }
    for (int e = 0; e < STREAM_EXECUTORS; e++)
        tt_assert(tt_ring_init(&self->returned[e], 64) == TT_OK);
    return TT_OK;
}

static inline void stream_bench_open(struct stream_bench *self, enum tt_stream_transfer transfer) {
    struct tt_error why = {""};
    enum tt_err err = stream_bench_try(self, transfer, &why);
    if (err)
        fprintf(stderr, "%s\n", why.text);
    tt_assert(err == TT_OK);
}

static inline void stream_bench_close(struct stream_bench *self) {
    self->engine->ops->unload(self->model);
    self->engine->ops->close(self->engine);
    for (int e = 0; e < STREAM_EXECUTORS; e++)
        tt_ring_fini(&self->returned[e]);
}

/* No two free slots are neighbours from now on: rows are copied between slots and arenas. `kept`
 * holds the others. */
static inline void stream_scatter(struct stream_bench *self, struct tt_engine_member *kept) {
    struct tt_stream_model *model = TT_CONTAINER_OF(self->model, struct tt_stream_model, model);
    for (int32_t i = 0; i < STREAM_SLOTS; i++) {
        struct tt_engine_member *member = &kept[i];
        *member = (struct tt_engine_member){.rows = 1};
        tt_stream_model_take(model, &member, 1);
        tt_assert(member->state != NULL);
    }
    for (int32_t i = 0; i < STREAM_SLOTS; i += 2)
        tt_stream_model_give(kept[i].state);
}

static inline void stream_gather_again(struct tt_engine_member *kept) {
    for (int32_t i = 1; i < STREAM_SLOTS; i += 2)
        tt_stream_model_give(kept[i].state);
}

/* A request, and a batch of requests for some of the steps. */
struct stream_request {
    uint32_t values[STREAM_BATCH];
    struct tt_tensor_view input;
    struct tt_error why;
    int32_t rows;
    struct tt_engine_state *state;
};

struct stream_batch {
    struct tt_engine_task task;
    struct tt_engine_member members[STREAM_BATCH];
    struct stream_request *requests[STREAM_BATCH];
};

static inline void stream_request_init(struct stream_request *self, int32_t rows, uint32_t value) {
    *self = (struct stream_request){.rows = rows};
    for (int32_t i = 0; i < rows; i++)
        self->values[i] = value + (uint32_t)i * 17;
    self->input = (struct tt_tensor_view){self->values, (size_t)rows * 4, {2, {rows, 1}}};
}

static inline void stream_batch_init(struct stream_batch *self, const struct stream_bench *bench,
                                     int32_t executor, int32_t first_step, int32_t last_step) {
    *self = (struct stream_batch){.task = {.head.executor = executor,
                                           .head.first_step = first_step,
                                           .head.last_step = last_step,
                                           .model = bench->model,
                                           .members = self->members}};
}

static inline void stream_batch_add(struct stream_batch *self, struct stream_request *request) {
    int32_t i = self->task.member_count++;
    self->requests[i] = request;
    self->members[i] = (struct tt_engine_member){.rows = request->rows,
                                                 .inputs = &request->input,
                                                 .state = request->state,
                                                 .why = &request->why};
}

/* A batch of the same requests that takes up those of `before`. */
static inline void stream_batch_follow(struct stream_batch *self, struct stream_batch *before) {
    for (int32_t i = 0; i < before->task.member_count; i++) {
        before->requests[i]->state = NULL;
        stream_batch_add(self, before->requests[i]);
    }
    self->task.after = &before->task;
}

/* True if every row of every member is what the steps make of its input. Releases the results. */
static inline bool stream_batch_is_right(struct stream_batch *self,
                                         const struct stream_bench *bench) {
    bool right = self->task.head.outcome == TT_OUTCOME_DONE;
    for (int32_t i = 0; i < self->task.member_count; i++) {
        struct tt_engine_member *member = &self->members[i];
        struct tt_tensor_view view;
        if (member->err || !member->result)
            return false;
        bench->engine->ops->output(member->result, 0, member->first_row, member->rows, &view);
        for (int32_t row = 0; row < member->rows; row++)
            right &= ((const uint32_t *)view.bytes)[row] ==
                     stream_expected(self->requests[i]->values[row]);
        bench->engine->ops->result_release(member->result);
    }
    return right;
}

#endif
