#include "device/async_host.h"

#include "base/clock.h"
#include "base/line.h"
#include "base/threads/eventcount.h"
#include "base/threads/queue_owner.h"
#include "device/async_move.h"
#include "device/async_order.h"
#include "device/async_threads.h"
#include "device/async_turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_MIB = 256, DEFAULT_STREAMS = 64, DEFAULT_DEPTH = 256 };
/* Copies of no more bytes take less time than what they would wait for. */
enum { SUBMITTED_BYTES = 4 << 10, SHORT_BYTES = 64 << 10 };
enum { SHORT_IN_A_ROW = 16 }; /* then others need not wait any more */

struct host_device {
    struct tt_async_device device;
    struct tt_async_host_options options;
    struct tt_async_arena arena;
    struct tt_async_turns turns;
    struct tt_async_threads threads;
};

/* The owner of the queue does its operations: a thread, the event it waits for, or the submitting
 * thread, which does short ones itself if it finds the stream empty. */
struct host_stream {
    struct tt_async_stream stream;
    struct tt_async_runnable runnable;
    struct tt_async_turn_waiter parked; /* at a wait, which is the first operation */
    struct tt_queue_owner owner;
    struct tt_async_op *ops; /* [count] */
    int32_t count;
    int32_t next;               /* the submitting thread's */
    int32_t first;              /* the owner's */
    bool is_closing;            /* _close waits for `ended`; under threads.lock */
    struct tt_eventcount ended; /* the last operation */
};

static struct host_device *host_of(struct tt_async_device *device) {
    return TT_CONTAINER_OF(device, struct host_device, device);
}

static struct tt_async_turn_event *turn_of(struct tt_async_event *event) {
    return TT_CONTAINER_OF(event, struct tt_async_turn_event, event);
}

static struct host_stream *stream_of(struct tt_async_runnable *runnable) {
    return TT_CONTAINER_OF(runnable, struct host_stream, runnable);
}

/* ---- operations ---- */

static bool is_move(const struct tt_async_op *op) {
    return op->kind == TT_ASYNC_COPY_IN || op->kind == TT_ASYNC_COPY_OUT ||
           op->kind == TT_ASYNC_COPY_WITHIN || op->kind == TT_ASYNC_FILL;
}

static enum tt_err move(struct host_device *self, int32_t stream, const struct tt_async_op *op,
                        struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (is_move(op) && self->options.moving)
        err = self->options.moving(self->options.moving_context, op->kind, op->bytes);
    if (err)
        return tt_fail(err, why, "a transfer of %zu bytes on stream %d failed: %s", op->bytes,
                       stream, tt_err_name(err));
    return tt_async_move(&self->device, &self->arena, stream, op, why);
}

static void execute(struct host_stream *stream, const struct tt_async_op *op) {
    struct host_device *self = host_of(stream->stream.device);
    struct tt_error why;
    enum tt_err err = TT_OK;
    if (tt_async_device_status(&self->device, NULL))
        return; /* what is left in the stream of a failed device does not happen */
    switch (op->kind) {
    case TT_ASYNC_RECORD:
        tt_async_turns_reach(&self->turns, turn_of(op->event), op->turn, tt_clock_now());
        break;
    case TT_ASYNC_WAIT: break; /* it has happened */
    case TT_ASYNC_COPY_IN:
    case TT_ASYNC_COPY_OUT:
    case TT_ASYNC_COPY_WITHIN:
    case TT_ASYNC_FILL:
    case TT_ASYNC_LAUNCH:
    case TT_ASYNC_CALL: err = move(self, stream->stream.index, op, &why); break;
    }
    if (err)
        tt_async_device_fail(&self->device, why.text);
}

/* How long it may take. */
enum length { AT_SUBMISSION, SHORT, LONG };

static enum length length_of(const struct host_device *self, const struct tt_async_op *op) {
    size_t bytes = op->bytes;
    switch (op->kind) {
    case TT_ASYNC_WAIT: return AT_SUBMISSION;
    case TT_ASYNC_RECORD: /* a thread that sleeps would make its instant too early */
        return turn_of(op->event)->is_timed ? SHORT : AT_SUBMISSION;
    case TT_ASYNC_COPY_IN:
    case TT_ASYNC_COPY_OUT:
    case TT_ASYNC_COPY_WITHIN:
    case TT_ASYNC_FILL:
        if (self->options.moving || bytes > SHORT_BYTES)
            return LONG;
        return bytes > SUBMITTED_BYTES ? SHORT : AT_SUBMISSION;
    case TT_ASYNC_CALL:
        if (op->call_kind == TT_ASYNC_CALL_ANY)
            return LONG;
        return op->call_kind == TT_ASYNC_CALL_SHORT ? SHORT : AT_SUBMISSION;
    case TT_ASYNC_LAUNCH: break;
    }
    return LONG;
}

/* Does the first operation. True: there is another one, and the stream is still the caller's. */
static bool advance(struct host_stream *stream, const struct tt_async_op *op, bool is_submitter) {
    struct host_device *self = host_of(stream->stream.device);
    /* From the moment it is parked it belongs to the event, which adds it again. */
    if (op->kind == TT_ASYNC_WAIT &&
        tt_async_turns_park(&self->turns, &stream->parked, turn_of(op->event), op->turn))
        return false;
    execute(stream, op);
    stream->first = (stream->first + 1) % stream->count;
    if (is_submitter || tt_queue_owner_count(&stream->owner) > 1)
        return tt_queue_owner_done(&stream->owner);
    /* Perhaps the last one, and then the submitting thread may close the stream and free it. */
    tt_lock_take(&self->threads.lock);
    bool goes_on = tt_queue_owner_done(&stream->owner);
    if (!goes_on && stream->is_closing)
        tt_eventcount_notify(&stream->ended);
    tt_lock_give(&self->threads.lock);
    return goes_on;
}

static bool run(struct tt_async_runnable *runnable, bool only_short) {
    struct host_stream *stream = stream_of(runnable);
    struct tt_async_threads *threads = &host_of(stream->stream.device)->threads;
    bool goes_on = true;
    for (int32_t i = 1; goes_on; i++) {
        const struct tt_async_op *op = &stream->ops[stream->first];
        bool is_long = length_of(host_of(stream->stream.device), op) == LONG;
        if (only_short && (is_long || i > SHORT_IN_A_ROW))
            return true;
        if (is_long)
            is_long = tt_async_threads_begin_long(threads, true);
        else if (i % SHORT_IN_A_ROW == 0)
            tt_async_threads_offer(threads);
        goes_on = advance(stream, op, false);
        if (is_long)
            tt_async_threads_end_long(threads);
    }
    return false;
}

/* The event that it waited for has happened, or the device has failed. */
static void resume(struct tt_async_turn_waiter *waiter) {
    struct host_stream *stream = TT_CONTAINER_OF(waiter, struct host_stream, parked);
    tt_async_threads_add(&host_of(stream->stream.device)->threads, &stream->runnable);
}

/* ---- streams ---- */

static enum tt_err stream_open(struct tt_async_device *device, int32_t index,
                               struct tt_async_stream **out_stream, struct tt_error *why) {
    int32_t count = host_of(device)->options.queue_depth + 1; /* one of them is under way */
    struct host_stream *self = tt_line_alloc(sizeof(*self));
    struct tt_async_op *ops = calloc((size_t)count, sizeof(*ops));
    enum tt_err err = self && ops
                          ? tt_async_threads_open(&host_of(device)->threads, why)
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for stream %d", index);
    if (err) {
        free(self);
        free(ops);
        return err;
    }
    self->stream = (struct tt_async_stream){.device = device, .index = index};
    self->parked.over = resume;
    self->ops = ops;
    self->count = count;
    tt_queue_owner_init(&self->owner);
    tt_eventcount_init(&self->ended);
    *out_stream = &self->stream;
    return TT_OK;
}

static void await_end(struct host_stream *self) {
    struct tt_async_threads *threads = &host_of(self->stream.device)->threads;
    tt_lock_take(&threads->lock);
    self->is_closing = true;
    while (tt_queue_owner_count(&self->owner) > 0) {
        tt_lock_give(&threads->lock);
        tt_eventcount_wait(&self->ended, TT_NEVER);
        tt_lock_take(&threads->lock);
    }
    tt_lock_give(&threads->lock);
}

static void stream_close(struct tt_async_stream *take_stream) {
    struct host_stream *self = TT_CONTAINER_OF(take_stream, struct host_stream, stream);
    struct tt_async_threads *threads = &host_of(take_stream->device)->threads;
    bool is_long = tt_async_threads_begin_long(threads, false);
    await_end(self);
    if (is_long)
        tt_async_threads_end_long(threads);
    tt_async_threads_close(threads);
    free(self->ops);
    free(self);
}

/* The submitting thread has found the stream empty. */
static void begin(struct host_stream *self) {
    struct host_device *device = host_of(self->stream.device);
    bool goes_on = true;
    while (goes_on) {
        const struct tt_async_op *op = &self->ops[self->first];
        if (length_of(device, op) != AT_SUBMISSION) {
            tt_async_threads_add(&device->threads, &self->runnable);
            return;
        }
        goes_on = advance(self, op, true);
    }
}

static enum tt_err submit(struct tt_async_stream *stream, const struct tt_async_op *op,
                          struct tt_error *why) {
    struct host_stream *self = TT_CONTAINER_OF(stream, struct host_stream, stream);
    if (tt_queue_owner_count(&self->owner) >= self->count)
        return tt_fail(TT_ERR_BUSY, why, "the queue of stream %d is full", stream->index);
    self->ops[self->next] = *op;
    self->next = (self->next + 1) % self->count;
    if (tt_queue_owner_add(&self->owner))
        begin(self);
    return TT_OK;
}

static void hold(struct tt_async_device *device) {
    tt_async_threads_hold(&host_of(device)->threads);
}
static void let_go(struct tt_async_device *device) {
    tt_async_threads_release(&host_of(device)->threads);
}

/* ---- events ---- */

static enum tt_err event_open(struct tt_async_device *device, bool is_timed,
                              struct tt_async_event **out_event, struct tt_error *why) {
    struct tt_async_turn_event *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an event");
    self->event.device = device;
    self->is_timed = is_timed;
    *out_event = &self->event;
    return TT_OK;
}

static void event_close(struct tt_async_event *take_event) { free(turn_of(take_event)); }

static enum tt_err query(struct tt_async_event *event, struct tt_error *why) {
    struct host_device *self = host_of(event->device);
    return tt_async_turns_reached(&self->turns, turn_of(event), event->turns)
               ? TT_OK
               : tt_fail(TT_ERR_BUSY, why, "the event has not happened yet");
}

static enum tt_err instant(struct tt_async_event *event, uint64_t turn, int64_t *out_at,
                           struct tt_error *why) {
    return tt_async_turns_instant(&host_of(event->device)->turns, turn_of(event), turn, out_at,
                                  why);
}

static enum tt_err wait(struct tt_async_event *event, int64_t until_at, struct tt_error *why) {
    struct host_device *self = host_of(event->device);
    bool is_long = tt_async_threads_begin_long(&self->threads, false);
    enum tt_err err =
        tt_async_turns_wait(&self->turns, turn_of(event), event->turns, until_at, why);
    if (is_long)
        tt_async_threads_end_long(&self->threads);
    return err;
}

/* ---- memory ---- */

static enum tt_err reserve(struct tt_async_device *device, size_t bytes, uint64_t *out_address,
                           struct tt_error *why) {
    return tt_async_arena_reserve(&host_of(device)->arena, bytes, out_address, why);
}

static void release(struct tt_async_device *device, uint64_t address) {
    tt_async_arena_release(&host_of(device)->arena, address);
}

static void *pointer(struct tt_async_device *device, uint64_t address) {
    return tt_async_arena_bytes(&host_of(device)->arena, address, 1);
}

static enum tt_err pin(struct tt_async_device *device, size_t bytes, void **out_bytes,
                       struct tt_error *why) {
    (void)device;
    void *made = tt_line_alloc(bytes);
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
    (void)device;
    return tt_clock_now();
}

static void failed(struct tt_async_device *device) {
    tt_async_turns_wake_all(&host_of(device)->turns);
}

static enum tt_err restart(struct tt_async_device *device, struct tt_error *why) {
    (void)device; /* its memory and its threads went with what was closed */
    (void)why;
    return TT_OK;
}

static void close_device(struct tt_async_device *take_device) {
    struct host_device *self = host_of(take_device);
    tt_async_device_fini(&self->device);
    tt_async_threads_fini(&self->threads);
    tt_async_turns_fini(&self->turns);
    tt_async_arena_fini(&self->arena);
    free(self);
}

static const struct tt_async_ops host_ops = {
    .name = "host",
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
    .hold = hold,
    .let_go = let_go,
    .query = query,
    .wait = wait,
    .instant = instant,
    .now = now,
    .pointer = pointer,
    .failed = failed,
};

enum tt_err tt_async_host_open(const struct tt_async_host_options *options,
                               struct tt_async_device **out_device, struct tt_error *why) {
    struct host_device *self = calloc(1, sizeof(*self));
    if (!self) {
        tt_async_order_free(options->take_order);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a host device");
    }
    self->options = *options;
    if (!self->options.memory_bytes)
        self->options.memory_bytes = (uint64_t)DEFAULT_MEMORY_MIB << 20;
    if (!self->options.max_streams)
        self->options.max_streams = DEFAULT_STREAMS;
    if (!self->options.queue_depth)
        self->options.queue_depth = DEFAULT_DEPTH;
    enum tt_err err = tt_async_arena_init(&self->arena, self->options.memory_bytes, why);
    if (err) {
        tt_async_order_free(options->take_order);
        free(self);
        return err;
    }
    const struct tt_async_info info = {.name = "host",
                                       .memory_bytes = (int64_t)self->options.memory_bytes,
                                       .copy_engines = self->options.max_streams,
                                       .max_streams = self->options.max_streams};
    err = tt_async_device_init(&self->device, &host_ops, &info, options->take_order);
    if (err) {
        tt_async_arena_fini(&self->arena);
        free(self);
        return tt_fail(err, why, "out of memory for a host device");
    }
    tt_async_turns_init(&self->turns);
    tt_async_threads_init(&self->threads, run);
    *out_device = &self->device;
    return TT_OK;
}
