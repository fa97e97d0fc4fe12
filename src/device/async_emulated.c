#include "device/async_emulated.h"

#include "base/clock.h"
#include "device/async_emulated_time.h"
#include "device/async_order.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MEMORY_MIB = 256, DEFAULT_STREAMS = 64, DEFAULT_DEPTH = 64 };

static struct tt_async_emulated_stream *stream_of(struct tt_async_stream *stream) {
    return TT_CONTAINER_OF(stream, struct tt_async_emulated_stream, stream);
}

/* ---- real time ---- */

static void *real_main(void *argument) {
    struct tt_async_emulated *self = argument;
    pthread_setname_np(pthread_self(), "tutti-emulated");
    while (!tt_flag_is_raised(&self->closing)) {
        tt_lock_take(&self->lock);
        tt_async_emulated_move_clock(self, tt_clock_now());
        int64_t next_at = tt_async_device_status(&self->device, NULL)
                              ? TT_NEVER
                              : tt_async_emulated_next_end(self);
        tt_lock_give(&self->lock);
        tt_eventcount_wait(&self->eventcount, next_at);
    }
    return NULL;
}

void tt_async_emulated_advance(struct tt_async_device *device, int64_t to) {
    struct tt_async_emulated *self = tt_async_emulated_of(device);
    tt_assert(!self->options.real_time);
    tt_assert(to != TT_NEVER);
    tt_lock_take(&self->lock);
    tt_async_emulated_move_clock(self, to);
    tt_lock_give(&self->lock);
}

int64_t tt_async_emulated_next_at(struct tt_async_device *device) {
    struct tt_async_emulated *self = tt_async_emulated_of(device);
    tt_assert(!self->options.real_time);
    tt_lock_take(&self->lock);
    tt_async_emulated_settle(self, self->now_at);
    int64_t next_at = tt_async_emulated_next_end(self);
    tt_lock_give(&self->lock);
    return next_at;
}

/* ---- streams ---- */

static enum tt_err stream_open(struct tt_async_device *device, int32_t index,
                               struct tt_async_stream **out_stream, struct tt_error *why) {
    struct tt_async_emulated *self = tt_async_emulated_of(device);
    struct tt_async_emulated_stream *stream = calloc(1, sizeof(*stream));
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
    struct tt_async_emulated *self = tt_async_emulated_of(take_stream->device);
    struct tt_async_emulated_stream *stream = stream_of(take_stream);
    bool has_failed = tt_async_device_status(&self->device, NULL) != TT_OK;
    tt_lock_take(&self->lock);
    while (stream->state ==
           TT_ASYNC_EMULATED_ENDING) { /* real time: its operation is being carried out */
        tt_lock_give(&self->lock);
        tt_eventcount_notify(&self->eventcount);
        sched_yield();
        tt_lock_take(&self->lock);
    }
    tt_assert(stream->count == 0 || has_failed);
    if (tt_list_linked(&stream->link))
        tt_list_remove(&stream->link);
    tt_heap_remove(&self->moving, take_stream->index);
    if (stream->state == TT_ASYNC_EMULATED_COMPUTING)
        tt_device_stop(&self->compute, self->now_at, take_stream->index);
    self->streams[take_stream->index] = NULL;
    tt_lock_give(&self->lock);
    free(stream->ops);
    free(stream);
}

static enum tt_err submit(struct tt_async_stream *stream, const struct tt_async_op *op,
                          struct tt_error *why) {
    struct tt_async_emulated *self = tt_async_emulated_of(stream->device);
    struct tt_async_emulated_stream *own = stream_of(stream);
    tt_assert(op->kind != TT_ASYNC_LAUNCH || op->kernel.work_ns > 0);
    tt_lock_take(&self->lock);
    bool full = own->count == self->options.queue_depth;
    if (!full) {
        own->ops[(own->head + own->count) % self->options.queue_depth] = *op;
        own->count++;
        if (own->state == TT_ASYNC_EMULATED_IDLE) {
            own->state = TT_ASYNC_EMULATED_READY;
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

static enum tt_err event_open(struct tt_async_device *device, bool is_timed,
                              struct tt_async_event **out_event, struct tt_error *why) {
    (void)is_timed; /* all are */
    struct tt_async_emulated_event *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an event");
    self->base.event.device = device;
    tt_list_init(&self->blocked);
    *out_event = &self->base.event;
    return TT_OK;
}

/* After a failure streams may still be linked to it. */
static void event_close(struct tt_async_event *take_event) {
    struct tt_async_emulated *self = tt_async_emulated_of(take_event->device);
    struct tt_async_emulated_event *event = tt_async_emulated_event_of(take_event);
    struct tt_list_node *node;
    tt_lock_take(&self->lock);
    while ((node = tt_list_first(&event->blocked)) != NULL)
        tt_list_remove(node);
    tt_lock_give(&self->lock);
    free(event);
}

static enum tt_err query(struct tt_async_event *event, struct tt_error *why) {
    struct tt_async_emulated *self = tt_async_emulated_of(event->device);
    if (!self->options.real_time) {
        tt_lock_take(&self->lock);
        tt_async_emulated_settle(self, self->now_at);
        tt_lock_give(&self->lock);
    }
    if (tt_async_turns_reached(&self->turns, &tt_async_emulated_event_of(event)->base,
                               event->turns))
        return TT_OK;
    enum tt_err err = tt_async_device_status(&self->device, why);
    return err ? err : tt_fail(TT_ERR_BUSY, why, "the event has not happened yet");
}

static enum tt_err wait_virtual(struct tt_async_emulated *self, struct tt_async_event *event,
                                int64_t until_at, struct tt_error *why) {
    struct tt_async_turn_event *base = &tt_async_emulated_event_of(event)->base;
    tt_lock_take(&self->lock);
    enum tt_err err = TT_OK;
    for (int64_t to = self->now_at;; to = tt_async_emulated_next_end(self)) {
        bool is_late = to == TT_NEVER || to > until_at;
        if (!is_late)
            tt_async_emulated_settle(self, to);
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

static enum tt_err instant(struct tt_async_event *event, uint64_t turn, int64_t *out_at,
                           struct tt_error *why) {
    return tt_async_turns_instant(&tt_async_emulated_of(event->device)->turns,
                                  &tt_async_emulated_event_of(event)->base, turn, out_at, why);
}

static enum tt_err wait(struct tt_async_event *event, int64_t until_at, struct tt_error *why) {
    struct tt_async_emulated *self = tt_async_emulated_of(event->device);
    if (self->options.real_time)
        return tt_async_turns_wait(&self->turns, &tt_async_emulated_event_of(event)->base,
                                   event->turns, until_at, why);
    return wait_virtual(self, event, until_at, why);
}

/* ---- memory ---- */

static enum tt_err reserve(struct tt_async_device *device, size_t bytes, uint64_t *out_address,
                           struct tt_error *why) {
    return tt_async_arena_reserve(&tt_async_emulated_of(device)->arena, bytes, out_address, why);
}

static void release(struct tt_async_device *device, uint64_t address) {
    tt_async_arena_release(&tt_async_emulated_of(device)->arena, address);
}

static void *pointer(struct tt_async_device *device, uint64_t address) {
    return tt_async_arena_bytes(&tt_async_emulated_of(device)->arena, address, 1);
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
    struct tt_async_emulated *self = tt_async_emulated_of(device);
    if (self->options.real_time && !pthread_equal(pthread_self(), self->thread))
        return tt_clock_now();
    tt_lock_take(&self->lock);
    int64_t now_at = self->now_at;
    tt_lock_give(&self->lock);
    return now_at;
}

static void failed(struct tt_async_device *device) {
    tt_async_turns_wake_all(&tt_async_emulated_of(device)->turns);
}

static void reset_engines(struct tt_async_emulated *self) {
    const struct tt_async_emulated_options *options = &self->options;
    self->in = (struct tt_copy_engine){.fixed_ns = options->in.fixed_ns,
                                       .bytes_per_s = options->in.bytes_per_s};
    self->out = (struct tt_copy_engine){.fixed_ns = options->out.fixed_ns,
                                        .bytes_per_s = options->out.bytes_per_s};
    self->within = (struct tt_copy_engine){.fixed_ns = options->within.fixed_ns,
                                           .bytes_per_s = options->within.bytes_per_s};
}

static enum tt_err restart(struct tt_async_device *device, struct tt_error *why) {
    struct tt_async_emulated *self = tt_async_emulated_of(device);
    (void)why;
    tt_lock_take(&self->lock);
    reset_engines(self);
    tt_lock_give(&self->lock);
    return TT_OK;
}

static void close_device(struct tt_async_device *take_device) {
    struct tt_async_emulated *self = tt_async_emulated_of(take_device);
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
    .instant = instant,
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
static enum tt_err init(struct tt_async_emulated *self, struct tt_async_order *take_order,
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
    self->streams = calloc((size_t)streams, sizeof(struct tt_async_emulated_stream *));
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
    struct tt_async_emulated *self = calloc(1, sizeof(*self));
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
