#include "device/async_host.h"

#include "base/clock.h"
#include "base/line.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "base/threads/ring.h"
#include "device/async_move.h"
#include "device/async_order.h"
#include "device/async_turns.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_MIB = 256, DEFAULT_STREAMS = 64, DEFAULT_DEPTH = 256 };

struct host_device {
    struct tt_async_device device;
    struct tt_async_host_options options;
    struct tt_async_arena arena;
    struct tt_async_turns turns;
};

struct host_stream {
    struct tt_async_stream stream;
    pthread_t thread;
    struct tt_ring queue;
    struct tt_eventcount eventcount;
    struct tt_async_op *ops; /* [ring's capacity + 2]: those in the ring, one that runs, one more */
    uint32_t next, count;
    struct tt_flag closing;
};

static struct host_device *host_of(struct tt_async_device *device) {
    return TT_CONTAINER_OF(device, struct host_device, device);
}

static struct tt_async_turn_event *turn_of(struct tt_async_event *event) {
    return TT_CONTAINER_OF(event, struct tt_async_turn_event, event);
}

/* ---- a stream's thread ---- */

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
    case TT_ASYNC_WAIT: /* it fails only with the device */
        (void)tt_async_turns_wait(&self->turns, turn_of(op->event), op->turn, TT_NEVER, NULL);
        break;
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

static void *stream_main(void *argument) {
    struct host_stream *self = argument;
    char name[16];
    snprintf(name, sizeof(name), "tutti-strm-%d", self->stream.index % 1000);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        const struct tt_async_op *op = tt_ring_pop(&self->queue);
        if (op) {
            execute(self, op);
            continue;
        }
        if (tt_flag_is_raised(&self->closing) && tt_ring_is_empty(&self->queue))
            return NULL;
        tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

static enum tt_err stream_open(struct tt_async_device *device, int32_t index,
                               struct tt_async_stream **out_stream, struct tt_error *why) {
    int32_t depth = host_of(device)->options.queue_depth;
    struct host_stream *self = tt_line_alloc(sizeof(*self));
    struct tt_async_op *ops = calloc((size_t)depth + 2, sizeof(*ops));
    if (!self || !ops || tt_ring_init(&self->queue, depth) != TT_OK) {
        free(self);
        free(ops);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for stream %d", index);
    }
    self->stream = (struct tt_async_stream){.device = device, .index = index};
    self->ops = ops;
    self->count = (uint32_t)depth + 2;
    tt_eventcount_init(&self->eventcount);
    int failed = pthread_create(&self->thread, NULL, stream_main, self);
    if (failed) {
        tt_ring_fini(&self->queue);
        free(ops);
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of stream %d: %s", index,
                       strerror(failed));
    }
    *out_stream = &self->stream;
    return TT_OK;
}

static void stream_close(struct tt_async_stream *take_stream) {
    struct host_stream *self = TT_CONTAINER_OF(take_stream, struct host_stream, stream);
    tt_flag_raise(&self->closing);
    tt_eventcount_notify(&self->eventcount);
    int failed = pthread_join(self->thread, NULL);
    tt_assert(failed == 0);
    tt_ring_fini(&self->queue);
    free(self->ops);
    free(self);
}

static enum tt_err submit(struct tt_async_stream *stream, const struct tt_async_op *op,
                          struct tt_error *why) {
    struct host_stream *self = TT_CONTAINER_OF(stream, struct host_stream, stream);
    struct tt_async_op *slot = &self->ops[self->next];
    *slot = *op;
    if (!tt_ring_push(&self->queue, slot))
        return tt_fail(TT_ERR_BUSY, why, "the queue of stream %d is full", stream->index);
    self->next = (self->next + 1) % self->count;
    tt_eventcount_notify(&self->eventcount);
    return TT_OK;
}

/* ---- events ---- */

static enum tt_err event_open(struct tt_async_device *device, bool is_timed,
                              struct tt_async_event **out_event, struct tt_error *why) {
    (void)is_timed; /* all are */
    struct tt_async_turn_event *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an event");
    self->event.device = device;
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
    return tt_async_turns_wait(&self->turns, turn_of(event), event->turns, until_at, why);
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
    *out_device = &self->device;
    return TT_OK;
}
