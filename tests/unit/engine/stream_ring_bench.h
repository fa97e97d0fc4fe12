/* A stream engine with a model of one step whose inputs have a ring on the device. It negates its
 * input. All functions are inline; there is no .c file. */
#ifndef STREAM_RING_BENCH_H
#define STREAM_RING_BENCH_H

#include "unit/engine/stream_bench.h"

#include "base/instant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 64, COPY = 100 * TT_US };

/* A model of one step of `alpha` rows + `beta`, and its ring. */
struct ringed {
    struct stream_bench bench; /* its own model has no ring */
    struct tt_engine_model *model;
    char *ring; /* of the one input */
    int64_t alpha_ns, beta_ns;
    struct stream_request requests[SLOTS];
    struct stream_batch batches[SLOTS];
};

static inline int64_t ringed_latency(void *context, int32_t rows, int32_t length,
                                     int32_t first_step, int32_t last_step) {
    const struct ringed *self = context;
    (void)length;
    assert_int_equal(first_step + last_step, 0);
    return self->alpha_ns * rows + self->beta_ns;
}

static inline enum tt_err ringed_negate(void *context, int32_t step, int32_t rows,
                                        const void *const *in, void *const *out,
                                        struct tt_error *why) {
    (void)context;
    (void)step;
    (void)why;
    for (int32_t row = 0; row < rows; row++)
        ((uint32_t *)out[0])[row] = ~((const uint32_t *)in[0])[row];
    return TT_OK;
}

static inline void ringed_load(struct ringed *self) {
    struct tt_stream_program program = {.signature = &stream_signature,
                                        .step_count = 1,
                                        .context = self,
                                        .latency_ns = ringed_latency,
                                        .compute = ringed_negate};
    const struct tt_engine_ops *ops = self->bench.engine->ops;
    struct tt_error why = {""};
    assert_int_equal(tt_stream_engine_load(self->bench.engine, &program, &self->model, &why),
                     TT_OK);
    if (!ops->takes_inputs(self->bench.engine))
        return;
    assert_int_equal(ops->inputs->open(self->model, SLOTS, &self->ring, &why), TT_OK);
    for (int i = 0; i < SLOTS * 4; i++)
        assert_int_equal(self->ring[i], 0);
}

static inline void ringed_open_emulated(struct ringed *self, enum tt_stream_transfer transfer,
                                        int64_t copy_ns) {
    const struct tt_async_emulated_options options = {.max_streams = 16,
                                                      .queue_depth = 1024,
                                                      .in = {.fixed_ns = copy_ns},
                                                      .take_order = stream_order(&self->bench)};
    assert_int_equal(tt_async_emulated_open(&options, &self->bench.device, NULL), TT_OK);
    stream_bench_open(&self->bench, transfer);
    ringed_load(self);
}

static inline void ringed_close(struct ringed *self) {
    self->bench.engine->ops->unload(self->model);
    stream_bench_close(&self->bench);
    assert_string_equal(self->bench.conflict, "");
    tt_async_device_close(self->bench.device);
}

/* Writes request `number` to its slots and sends it; slot -1: it stays where it is. */
static inline void ringed_send(struct ringed *self, int32_t number, int32_t rows, int32_t slot) {
    const struct tt_engine_input_ops *ops = self->bench.engine->ops->inputs;
    struct stream_request *request = &self->requests[number];
    stream_request_init(request, rows, (uint32_t)number * 1000);
    if (slot < 0)
        return;
    ops->settle(self->model, slot, rows);
    memcpy(self->ring + (size_t)slot * 4, request->values, (size_t)rows * 4);
    request->input.bytes = self->ring + (size_t)slot * 4;
    ops->send(self->model, slot, rows);
}

static inline void ringed_begin(struct ringed *self, int32_t batch) {
    stream_batch_init(&self->batches[batch], &self->bench, 0, 0, 0);
    self->batches[batch].task.model = self->model;
}

static inline void ringed_check(const struct ringed *self, struct stream_batch *batch) {
    assert_int_equal(batch->task.head.outcome, TT_OUTCOME_DONE);
    for (int32_t i = 0; i < batch->task.member_count; i++) {
        struct tt_engine_member *member = &batch->members[i];
        struct tt_tensor_view view;
        assert_int_equal(member->err, TT_OK);
        self->bench.engine->ops->output(member->result, 0, member->first_row, member->rows, &view);
        for (int32_t row = 0; row < member->rows; row++)
            assert_int_equal(((const uint32_t *)view.bytes)[row], ~batch->requests[i]->values[row]);
        self->bench.engine->ops->result_release(member->result);
    }
}

static inline struct stream_batch *ringed_take(struct ringed *self) {
    struct tt_engine_task *task = tt_ring_pop(&self->bench.returned[0]);
    return task ? TT_CONTAINER_OF(task, struct stream_batch, task) : NULL;
}

#endif
