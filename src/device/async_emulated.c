/* Everything is an event simulation under one lock. A stream is in one state: ready to begin its
 * next operation, in a timer, blocked by an event, ending or idle. The timers are the heap of
 * copies and the shared device. An operation ends without the lock, since it may be code of the
 * caller. */
#include "device/async_emulated.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "core/device.h"
#include "device/async_move.h"
#include "device/async_order.h"
#include "device/async_turns.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_MIB = 256, DEFAULT_STREAMS = 64, DEFAULT_DEPTH = 64 };

enum state { IDLE, READY, MOVING, COMPUTING, BLOCKED, ENDING, HUNG };

struct emulated_event {
    struct tt_async_turn_event base; /* first */
    struct tt_list blocked;          /* streams that wait for it */
};

struct emulated_stream {
    struct tt_async_stream stream;
    enum state state;
    struct tt_list_node link; /* READY: of the device; BLOCKED: of the event */
    struct tt_async_op *ops;  /* [queue_depth], a ring */
    int32_t head, count;
};

struct emulated_device {
    struct tt_async_device device;
    struct tt_async_emulated_options options;
    struct tt_async_arena arena;
    struct tt_async_turns turns;
    struct tt_lock lock; /* guards all below; taken before the lock of `turns` */
    struct emulated_stream **streams;
    struct tt_list ready;   /* to begin at now_at */
    struct tt_list arrived; /* real time: to begin when the device's thread sees them */
    struct tt_heap moving;  /* stream -> end of its copy */
    struct tt_device compute;
    struct tt_copy_engine in, out, within;
    int64_t now_at;
    bool is_settling;
    pthread_t thread; /* real time */
    struct tt_eventcount eventcount;
    struct tt_flag closing;
};

static struct emulated_device *emulated_of(struct tt_async_device *device) {
    return TT_CONTAINER_OF(device, struct emulated_device, device);
}

static struct emulated_stream *stream_of(struct tt_async_stream *stream) {
    return TT_CONTAINER_OF(stream, struct emulated_stream, stream);
}

static struct emulated_event *event_of(struct tt_async_event *event) {
    struct tt_async_turn_event *base = TT_CONTAINER_OF(event, struct tt_async_turn_event, event);
    return TT_CONTAINER_OF(base, struct emulated_event, base);
}

/* ---- the head of a stream ---- */

static void make_ready(struct emulated_device *self, struct emulated_stream *stream) {
    stream->state = READY;
    tt_list_push_back(&self->ready, &stream->link);
}

/* The head has ended. */
static void pop(struct emulated_device *self, struct emulated_stream *stream) {
    stream->head = (stream->head + 1) % self->options.queue_depth;
    stream->count--;
    stream->state = IDLE;
    if (stream->count > 0)
        make_ready(self, stream);
}

/* Carries the head out without the lock, since it may be code of the caller's. */
static void finish(struct emulated_device *self, struct emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    struct tt_error why;
    stream->state = ENDING;
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

static void begin_copy(struct emulated_device *self, struct emulated_stream *stream,
                       struct tt_copy_engine *engine) {
    int64_t bytes = (int64_t)stream->ops[stream->head].bytes;
    int64_t done_at = tt_copy_engine_add(engine, self->now_at, bytes);
    stream->state = MOVING;
    tt_heap_set(&self->moving, stream->stream.index, done_at, stream->stream.index);
}

static void begin_kernel(struct emulated_device *self, struct emulated_stream *stream) {
    const struct tt_async_kernel *kernel = &stream->ops[stream->head].kernel;
    stream->state = kernel->work_ns == TT_NEVER ? HUNG : COMPUTING;
    if (stream->state == COMPUTING)
        tt_device_start(&self->compute, self->now_at, stream->stream.index, kernel->work_ns,
                        kernel->demand_ppm);
}

static void record(struct emulated_device *self, struct emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    struct emulated_event *event = event_of(op->event);
    tt_async_turns_reach(&self->turns, &event->base, op->turn);
    /* They look again, each at the turn that it waits for. */
    struct tt_list_node *node;
    while ((node = tt_list_first(&event->blocked)) != NULL) {
        tt_list_remove(node);
        make_ready(self, TT_CONTAINER_OF(node, struct emulated_stream, link));
    }
    pop(self, stream);
}

static void wait_for_event(struct emulated_device *self, struct emulated_stream *stream) {
    const struct tt_async_op *op = &stream->ops[stream->head];
    struct emulated_event *event = event_of(op->event);
    if (tt_async_turns_reached(&self->turns, &event->base, op->turn)) {
        pop(self, stream);
        return;
    }
    stream->state = BLOCKED;
    tt_list_push_back(&event->blocked, &stream->link);
}

static void begin(struct emulated_device *self, struct emulated_stream *stream) {
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

static int64_t next_end(const struct emulated_device *self) {
    const struct tt_heap_entry *top = tt_heap_top(&self->moving);
    int64_t computed_at = tt_device_next_at(&self->compute);
    return top ? tt_instant_min(top->key, computed_at) : computed_at;
}

/* Ends what is due at `now_at`: copies first, then kernels; of equals the smaller stream first. */
static void end_due(struct emulated_device *self) {
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

/* Carries out all that is due by `now`. One thread at a time; a failed device stands still. Under
 * the lock, which it gives and takes. */
static void settle(struct emulated_device *self, int64_t now) {
    if (self->is_settling)
        return;
    self->is_settling = true;
    for (;;) {
        if (tt_async_device_status(&self->device, NULL))
            break;
        struct tt_list_node *node = tt_list_first(&self->ready);
        if (node) {
            struct emulated_stream *stream = TT_CONTAINER_OF(node, struct emulated_stream, link);
            tt_list_remove(node);
            begin(self, stream);
            continue;
        }
        int64_t at = next_end(self);
        if (at == TT_NEVER || at > now)
            break;
        self->now_at = tt_instant_max(self->now_at, at);
        end_due(self);
    }
    self->is_settling = false;
}

static void move_clock(struct emulated_device *self, int64_t to) {
    settle(self, to);
    self->now_at = tt_instant_max(self->now_at, to);
    if (!tt_list_empty(&self->arrived)) {
        tt_list_move_front(&self->arrived, tt_list_last(&self->arrived), &self->ready);
        settle(self, self->now_at);
    }
}

static void *real_main(void *argument) {
    struct emulated_device *self = argument;
    pthread_setname_np(pthread_self(), "tutti-emulated");
    while (!tt_flag_is_raised(&self->closing)) {
        tt_lock_take(&self->lock);
        move_clock(self, tt_clock_now());
        int64_t next_at = tt_async_device_status(&self->device, NULL) ? TT_NEVER : next_end(self);
        tt_lock_give(&self->lock);
        tt_eventcount_wait(&self->eventcount, next_at);
    }
    return NULL;
}

void tt_async_emulated_advance(struct tt_async_device *device, int64_t to) {
    struct emulated_device *self = emulated_of(device);
    tt_assert(!self->options.real_time);
    tt_assert(to != TT_NEVER);
    tt_lock_take(&self->lock);
    move_clock(self, to);
    tt_lock_give(&self->lock);
}

int64_t tt_async_emulated_next_at(struct tt_async_device *device) {
    struct emulated_device *self = emulated_of(device);
    tt_assert(!self->options.real_time);
    tt_lock_take(&self->lock);
    settle(self, self->now_at);
    int64_t next_at = next_end(self);
    tt_lock_give(&self->lock);
    return next_at;
}

/* ---- streams ---- */

static enum tt_err stream_open(struct tt_async_device *device, int32_t index,
                               struct tt_async_stream **out_stream, struct tt_error *why) {
    struct emulated_device *self = emulated_of(device);
    struct emulated_stream *stream = calloc(1, sizeof(*stream));
    struct tt_async_op *ops = calloc((size_t)self->options.queue_depth, sizeof(*ops));
    if (!stream || !ops) {
        free(stream);
        free(ops);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for stream %d", index);
    }
    stream->stream = (struct tt_async_stream){.device = device, .index = index};
    stream->ops = ops;
    tt_lock_take(&self->lock);
    self->streams[index] = stream;
    tt_lock_give(&self->lock);
    *out_stream = &stream->stream;
    return TT_OK;
}

static void stream_close(struct tt_async_stream *take_stream) {
    struct emulated_device *self = emulated_of(take_stream->device);
    struct emulated_stream *stream = stream_of(take_stream);
    bool has_failed = tt_async_device_status(&self->device, NULL) != TT_OK;
    tt_lock_take(&self->lock);
    while (stream->state == ENDING) { /* real time: its operation is being carried out */
        tt_lock_give(&self->lock);
        tt_eventcount_notify(&self->eventcount);
        sched_yield();
        tt_lock_take(&self->lock);
    }
    tt_assert(stream->count == 0 || has_failed);
    if (tt_list_linked(&stream->link))
        tt_list_remove(&stream->link);
    tt_heap_remove(&self->moving, take_stream->index);
    if (stream->state == COMPUTING)
        tt_device_stop(&self->compute, self->now_at, take_stream->index);
    self->streams[take_stream->index] = NULL;
    tt_lock_give(&self->lock);
    free(stream->ops);
    free(stream);
}

static enum tt_err submit(struct tt_async_stream *stream, const struct tt_async_op *op,
                          struct tt_error *why) {
    struct emulated_device *self = emulated_of(stream->device);
    struct emulated_stream *own = stream_of(stream);
    tt_assert(op->kind != TT_ASYNC_LAUNCH || op->kernel.work_ns > 0);
    tt_lock_take(&self->lock);
    bool full = own->count == self->options.queue_depth;
    if (!full) {
        own->ops[(own->head + own->count) % self->options.queue_depth] = *op;
        own->count++;
        if (own->state == IDLE) {
            own->state = READY;
            tt_list_push_back(self->options.real_time ? &self->arrived : &self->ready, &own->link);
        }
    }
    tt_lock_give(&self->lock);
    if (full)
        return tt_fail(TT_ERR_BUSY, why, "the queue of stream %d is full", stream->index);
    if (self->options.real_time)
        tt_eventcount_notify(&self->eventcount);
    return TT_OK;
}

/* ---- events ---- */

static enum tt_err event_open(struct tt_async_device *device, struct tt_async_event **out_event,
                              struct tt_error *why) {
    struct emulated_event *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an event");
    self->base.event.device = device;
    tt_list_init(&self->blocked);
    *out_event = &self->base.event;
    return TT_OK;
}

/* After a failure streams may still be linked to it. */
static void event_close(struct tt_async_event *take_event) {
    struct emulated_device *self = emulated_of(take_event->device);
    struct emulated_event *event = event_of(take_event);
    struct tt_list_node *node;
    tt_lock_take(&self->lock);
    while ((node = tt_list_first(&event->blocked)) != NULL)
        tt_list_remove(node);
    tt_lock_give(&self->lock);
    free(event);
}

static enum tt_err query(struct tt_async_event *event, struct tt_error *why) {
    struct emulated_device *self = emulated_of(event->device);
    if (!self->options.real_time) {
        tt_lock_take(&self->lock);
        settle(self, self->now_at);
        tt_lock_give(&self->lock);
    }
    if (tt_async_turns_reached(&self->turns, &event_of(event)->base, event->turns))
        return TT_OK;
    enum tt_err err = tt_async_device_status(&self->device, why);
    return err ? err : tt_fail(TT_ERR_BUSY, why, "the event has not happened yet");
}

static enum tt_err wait_virtual(struct emulated_device *self, struct tt_async_event *event,
                                int64_t until_at, struct tt_error *why) {
    struct tt_async_turn_event *base = &event_of(event)->base;
    tt_lock_take(&self->lock);
    enum tt_err err = TT_OK;
    for (int64_t to = self->now_at;; to = next_end(self)) {
        bool is_late = to == TT_NEVER || to > until_at;
        if (!is_late)
            settle(self, to);
        if (tt_async_turns_reached(&self->turns, base, event->turns))
            break;
        err = tt_async_device_status(&self->device, why);
        if (!err && is_late)
            err = tt_fail(TT_ERR_TIMEOUT, why, "the event did not happen in time");
        if (err)
            break;
    }
    if (err == TT_ERR_TIMEOUT && until_at != TT_NEVER)
        self->now_at = tt_instant_max(self->now_at, until_at);
    tt_lock_give(&self->lock);
    return err;
}

static enum tt_err wait(struct tt_async_event *event, int64_t until_at, struct tt_error *why) {
    struct emulated_device *self = emulated_of(event->device);
    if (self->options.real_time)
        return tt_async_turns_wait(&self->turns, &event_of(event)->base, event->turns, until_at,
                                   why);
    return wait_virtual(self, event, until_at, why);
}

/* ---- memory ---- */

static enum tt_err reserve(struct tt_async_device *device, size_t bytes, uint64_t *out_address,
                           struct tt_error *why) {
    return tt_async_arena_reserve(&emulated_of(device)->arena, bytes, out_address, why);
}

static void release(struct tt_async_device *device, uint64_t address) {
    tt_async_arena_release(&emulated_of(device)->arena, address);
}

static void *pointer(struct tt_async_device *device, uint64_t address) {
    return tt_async_arena_bytes(&emulated_of(device)->arena, address, 1);
}

static enum tt_err pin(struct tt_async_device *device, size_t bytes, void **out_bytes,
                       struct tt_error *why) {
    (void)device;
    void *made = calloc(1, bytes);
    if (!made)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu pinned bytes", bytes);
    *out_bytes = made;
    return TT_OK;
}

static void unpin(struct tt_async_device *device, void *bytes) {
    (void)device;
    free(bytes);
}

/* ---- the device ---- */

static int64_t now(struct tt_async_device *device) {
    struct emulated_device *self = emulated_of(device);
    if (self->options.real_time)
        return tt_clock_now();
    tt_lock_take(&self->lock);
    int64_t now_at = self->now_at;
    tt_lock_give(&self->lock);
    return now_at;
}

static void failed(struct tt_async_device *device) {
    tt_async_turns_wake_all(&emulated_of(device)->turns);
}

static void reset_engines(struct emulated_device *self) {
    const struct tt_async_emulated_options *options = &self->options;
    self->in = (struct tt_copy_engine){.fixed_ns = options->in.fixed_ns,
                                       .bytes_per_s = options->in.bytes_per_s};
    self->out = (struct tt_copy_engine){.fixed_ns = options->out.fixed_ns,
                                        .bytes_per_s = options->out.bytes_per_s};
    self->within = (struct tt_copy_engine){.fixed_ns = options->within.fixed_ns,
                                           .bytes_per_s = options->within.bytes_per_s};
}

static enum tt_err restart(struct tt_async_device *device, struct tt_error *why) {
    struct emulated_device *self = emulated_of(device);
    (void)why;
    tt_lock_take(&self->lock);
    reset_engines(self);
    tt_lock_give(&self->lock);
    return TT_OK;
}

static void close_device(struct tt_async_device *take_device) {
    struct emulated_device *self = emulated_of(take_device);
    if (self->options.real_time) {
        tt_flag_raise(&self->closing);
        tt_eventcount_notify(&self->eventcount);
        int joined = pthread_join(self->thread, NULL);
        tt_assert(joined == 0);
    }
    tt_device_fini(&self->compute);
    tt_heap_fini(&self->moving);
    tt_lock_fini(&self->lock);
    tt_async_turns_fini(&self->turns);
    tt_async_device_fini(&self->device);
    tt_async_arena_fini(&self->arena);
    free(self->streams);
    free(self);
}

static const struct tt_async_ops emulated_ops = {
    .name = "emulated",
    .close = close_device,
    .restart = restart,
    .reserve = reserve,
    .release = release,
    .pin = pin,
    .unpin = unpin,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .event_open = event_open,
    .event_close = event_close,
    .submit = submit,
    .query = query,
    .wait = wait,
    .now = now,
    .pointer = pointer,
    .failed = failed,
};

static enum tt_err check(struct tt_async_emulated_options *options, struct tt_error *why) {
    if (!options->memory_bytes)
        options->memory_bytes = (uint64_t)DEFAULT_MEMORY_MIB << 20;
    if (!options->max_streams)
        options->max_streams = DEFAULT_STREAMS;
    if (!options->queue_depth)
        options->queue_depth = DEFAULT_DEPTH;
    if (!options->copy_engines)
        options->copy_engines = 2;
    if (options->copy_engines != 1 && options->copy_engines != 2)
        return tt_fail(TT_ERR_INVALID, why, "an emulated device has 1 or 2 copy engines, not %d",
                       options->copy_engines);
    return TT_OK;
}

/* What needs memory, all or nothing. */
static enum tt_err init(struct emulated_device *self, struct tt_async_order *take_order,
                        struct tt_error *why) {
    int32_t streams = self->options.max_streams;
    const struct tt_async_info info = {.name = "emulated",
                                       .memory_bytes = (int64_t)self->options.memory_bytes,
                                       .copy_engines = self->options.copy_engines,
                                       .max_streams = streams};
    enum tt_err err = tt_async_device_init(&self->device, &emulated_ops, &info, take_order);
    if (err)
        return tt_fail(err, why, "out of memory for an emulated device");
    err = tt_async_arena_init(&self->arena, self->options.memory_bytes, why);
    if (err) {
        tt_async_device_fini(&self->device);
        return err;
    }
    self->streams = calloc((size_t)streams, sizeof(struct emulated_stream *));
    enum tt_err heap = self->streams ? tt_heap_init(&self->moving, streams) : TT_ERR_NO_MEMORY;
    enum tt_err compute = heap ? heap : tt_device_init(&self->compute, streams);
    if (!compute)
        return TT_OK;
    if (!heap)
        tt_heap_fini(&self->moving);
    free(self->streams);
    tt_async_arena_fini(&self->arena);
    tt_async_device_fini(&self->device);
    return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d streams", streams);
}

enum tt_err tt_async_emulated_open(const struct tt_async_emulated_options *options,
                                   struct tt_async_device **out_device, struct tt_error *why) {
    struct emulated_device *self = calloc(1, sizeof(*self));
    enum tt_err err = self ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a device");
    if (self) {
        self->options = *options;
        err = check(&self->options, why);
    }
    if (err) {
        tt_async_order_free(options->take_order);
        free(self);
        return err;
    }
    err = init(self, options->take_order, why);
    if (err) {
        free(self);
        return err;
    }
    tt_lock_init(&self->lock);
    tt_list_init(&self->ready);
    tt_list_init(&self->arrived);
    tt_async_turns_init(&self->turns);
    tt_eventcount_init(&self->eventcount);
    reset_engines(self);
    if (self->options.real_time) {
        self->now_at = tt_clock_now();
        int failed_with = pthread_create(&self->thread, NULL, real_main, self);
        if (failed_with) {
            self->options.real_time = false; /* there is no thread to join */
            close_device(&self->device);
            return tt_fail(TT_ERR_IO, why, "cannot start the thread of an emulated device: %s",
                           strerror(failed_with));
        }
    }
    *out_device = &self->device;
    return TT_OK;
}
