#include "device/async_emulated_time.h"

#include "base/instant.h"
#include "device/async_move.h"

/* ---- the head of a stream ---- */

static void make_ready(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream) {
    stream->state = TT_ASYNC_EMULATED_READY;
    tt_list_push_back(&self->ready, &stream->link);
}

/* The head has ended. */
static void pop(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream) {
    stream->head = (stream->head + 1) % self->options.queue_depth;
    stream->count--;
    stream->state = TT_ASYNC_EMULATED_IDLE;
    if (stream->count > 0)
        make_ready(self, stream);
}

/* Carries the head out without the lock, since it may be code of the caller's. */
static void finish(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    struct tt_error why;
    stream->state = TT_ASYNC_EMULATED_ENDING;
    tt_lock_give(&self->lock);
    enum tt_err err = tt_async_device_status(&self->device, NULL);
    if (!err) {
        err = tt_async_move(&self->device, &self->arena, stream->stream.index, op, &why);
        if (err)
            tt_async_device_fail(&self->device, why.text);
    }
    tt_lock_take(&self->lock);
    pop(self, stream);
}

static void begin_copy(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream,
                       struct tt_copy_engine *engine) {
    int64_t bytes = (int64_t)stream->ops[stream->head].bytes;
    int64_t done_at = tt_copy_engine_add(engine, self->now_at, bytes);
    stream->state = TT_ASYNC_EMULATED_MOVING;
    tt_heap_set(&self->moving, stream->stream.index, done_at, stream->stream.index);
}

static void begin_kernel(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream) {
    const struct tt_async_kernel *kernel = &stream->ops[stream->head].kernel;
    stream->state =
        kernel->work_ns == TT_NEVER ? TT_ASYNC_EMULATED_HUNG : TT_ASYNC_EMULATED_COMPUTING;
    if (stream->state == TT_ASYNC_EMULATED_COMPUTING)
        tt_device_start(&self->compute, self->now_at, stream->stream.index, kernel->work_ns,
                        kernel->demand_ppm);
}

static void record(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    struct tt_async_emulated_event *event = tt_async_emulated_event_of(op->event);
    tt_async_turns_reach(&self->turns, &event->base, op->turn, self->now_at);
    /* They look again, each at the turn that it waits for. */
    struct tt_list_node *node;
    while ((node = tt_list_first(&event->blocked)) != NULL) {
        tt_list_remove(node);
        make_ready(self, TT_CONTAINER_OF(node, struct tt_async_emulated_stream, link));
    }
    pop(self, stream);
}

static void wait_for_event(struct tt_async_emulated *self,
                           struct tt_async_emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    struct tt_async_emulated_event *event = tt_async_emulated_event_of(op->event);
    if (tt_async_turns_reached(&self->turns, &event->base, op->turn)) {
        pop(self, stream);
        return;
    }
    stream->state = TT_ASYNC_EMULATED_BLOCKED;
    tt_list_push_back(&event->blocked, &stream->link);
}

static void begin(struct tt_async_emulated *self, struct tt_async_emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    bool one_engine = self->options.copy_engines == 1;
    switch (op->kind) {
    case TT_ASYNC_RECORD: record(self, stream); break;
    case TT_ASYNC_WAIT: wait_for_event(self, stream); break;
    case TT_ASYNC_COPY_IN: begin_copy(self, stream, &self->in); break;
    case TT_ASYNC_COPY_OUT: begin_copy(self, stream, one_engine ? &self->in : &self->out); break;
    case TT_ASYNC_COPY_WITHIN:
    case TT_ASYNC_FILL: begin_copy(self, stream, &self->within); break;
    case TT_ASYNC_LAUNCH: begin_kernel(self, stream); break;
    case TT_ASYNC_CALL: finish(self, stream); break;
    }
}

/* ---- time ---- */

int64_t tt_async_emulated_next_end(const struct tt_async_emulated *self) {
    return tt_instant_min(tt_heap_next_key(&self->moving), tt_device_next_at(&self->compute));
}

/* Ends what is due at `now_at`: copies first, then kernels; of equals the smaller stream first. */
static void end_due(struct tt_async_emulated *self) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->moving)) != NULL && top->key <= self->now_at) {
        int32_t index = top->id;
        tt_heap_remove(&self->moving, index);
        finish(self, self->streams[index]);
    }
    int32_t index;
    while ((index = tt_device_take_ended(&self->compute, self->now_at)) >= 0)
        finish(self, self->streams[index]);
}

void tt_async_emulated_settle(struct tt_async_emulated *self, int64_t now) {
    if (self->is_settling)
        return;
    self->is_settling = true;
    for (;;) {
        if (tt_async_device_status(&self->device, NULL))
            break;
        struct tt_list_node *node = tt_list_first(&self->ready);
        if (node) {
            struct tt_async_emulated_stream *stream =
                TT_CONTAINER_OF(node, struct tt_async_emulated_stream, link);
            tt_list_remove(node);
            begin(self, stream);
            continue;
        }
        int64_t at = tt_async_emulated_next_end(self);
        if (at == TT_NEVER || at > now)
            break;
        self->now_at = tt_instant_max(self->now_at, at);
        end_due(self);
    }
    self->is_settling = false;
}

void tt_async_emulated_move_clock(struct tt_async_emulated *self, int64_t to) {
    tt_async_emulated_settle(self, to);
    self->now_at = tt_instant_max(self->now_at, to);
    if (!tt_list_empty(&self->arrived)) {
        tt_list_move_front(&self->arrived, tt_list_last(&self->arrived), &self->ready);
        tt_async_emulated_settle(self, self->now_at);
    }
}
