#include "device/async_device.h"

#include "device/async_order.h"

#include <stdio.h>
#include <stdlib.h>

/* What runs on this thread; NULL: nothing. */
static _Thread_local const struct tt_async_device *running;
static _Thread_local const struct tt_async_kernel *running_kernel;

/* ---- the device ---- */

enum tt_err tt_async_device_init(struct tt_async_device *self, const struct tt_async_ops *ops,
                                 const struct tt_async_info *info,
                                 struct tt_async_order *take_order) {
    *self = (struct tt_async_device){.ops = ops, .info = *info};
    tt_assert(info->max_streams > 0);
    self->stream_taken = calloc((size_t)info->max_streams, sizeof(*self->stream_taken));
    if (!self->stream_taken) {
        tt_async_order_free(take_order);
        return TT_ERR_NO_MEMORY;
    }
    self->order = take_order;
    tt_lock_init(&self->lock);
    return TT_OK;
}

void tt_async_device_fini(struct tt_async_device *self) {
    tt_async_order_free(self->order);
    tt_lock_fini(&self->lock);
    free(self->stream_taken);
}

/* A stream, an event or memory more or less. */
static void count(struct tt_async_device *self, int32_t *counted, int32_t change) {
    tt_lock_take(&self->lock);
    *counted += change;
    tt_assert(*counted >= 0);
    tt_lock_give(&self->lock);
}

static void assert_all_closed(struct tt_async_device *self) {
    tt_lock_take(&self->lock);
    tt_assert(self->streams == 0);
    tt_assert(self->events == 0);
    tt_assert(self->reservations == 0);
    tt_lock_give(&self->lock);
}

void tt_async_device_close(struct tt_async_device *take_device) {
    if (!take_device)
        return;
    assert_all_closed(take_device);
    take_device->ops->close(take_device);
}

void tt_async_device_fail(struct tt_async_device *self, const char *reason) {
    tt_lock_take(&self->lock);
    bool first = tt_counter_get(&self->has_failed) == 0;
    if (first) {
        snprintf(self->reason.text, sizeof(self->reason.text), "%s", reason);
        tt_counter_set(&self->has_failed, 1);
    }
    tt_lock_give(&self->lock);
    if (first && self->ops->failed)
        self->ops->failed(self);
}

enum tt_err tt_async_device_reason(struct tt_async_device *self, struct tt_error *why) {
    tt_lock_take(&self->lock);
    enum tt_err err = tt_fail(TT_ERR_UNAVAILABLE, why, "device %s has failed: %s", self->info.name,
                              self->reason.text);
    tt_lock_give(&self->lock);
    return err;
}

enum tt_err tt_async_device_probe(struct tt_async_device *self, struct tt_error *why) {
    if (tt_counter_get(&self->has_failed) == 0 && self->ops->probe)
        (void)self->ops->probe(self, NULL); /* other errors than a failure are no reason to fail */
    return tt_async_device_status(self, why);
}

enum tt_err tt_async_device_restart(struct tt_async_device *self, struct tt_error *why) {
    assert_all_closed(self);
    enum tt_err err = self->ops->restart(self, why);
    if (err)
        return err;
    if (self->order)
        tt_async_order_clear(self->order);
    tt_lock_take(&self->lock);
    tt_counter_set(&self->has_failed, 0);
    tt_lock_give(&self->lock);
    return TT_OK;
}

int64_t tt_async_device_now(struct tt_async_device *self) { return self->ops->now(self); }

/* ---- memory ---- */

enum tt_err tt_async_reserve(struct tt_async_device *self, size_t bytes, uint64_t *out_address,
                             struct tt_error *why) {
    tt_assert(bytes > 0);
    enum tt_err err = tt_async_device_status(self, why);
    if (!err)
        err = self->ops->reserve(self, bytes, out_address, why);
    if (!err)
        count(self, &self->reservations, 1);
    return err;
}

void tt_async_release(struct tt_async_device *self, uint64_t address, size_t bytes) {
    if (self->order && tt_counter_get(&self->has_failed) == 0) {
        const struct tt_async_range range = {.address = address, .bytes = bytes, .writes = true};
        tt_async_order_host_access(self->order, "release", &range);
    }
    self->ops->release(self, address);
    count(self, &self->reservations, -1);
}

enum tt_err tt_async_pin(struct tt_async_device *self, size_t bytes, void **out_bytes,
                         struct tt_error *why) {
    tt_assert(bytes > 0);
    enum tt_err err = tt_async_device_status(self, why);
    if (!err)
        err = self->ops->pin(self, bytes, out_bytes, why);
    if (!err)
        count(self, &self->reservations, 1);
    return err;
}

void tt_async_unpin(struct tt_async_device *self, void *take_bytes) {
    self->ops->unpin(self, take_bytes);
    count(self, &self->reservations, -1);
}

/* The checker knows only what kernels state, so a kernel may touch nothing else. */
static void check_stated(struct tt_async_device *self, uint64_t address) {
    const struct tt_async_kernel *kernel = running_kernel;
    bool is_stated = false;
    for (int32_t i = 0; i < kernel->range_count; i++)
        is_stated |= address - kernel->ranges[i].address < kernel->ranges[i].bytes;
    if (is_stated)
        return;
    char reason[256];
    snprintf(reason, sizeof(reason), "kernel %s touches 0x%llx, which none of its ranges has",
             kernel->name, (unsigned long long)address);
    tt_async_device_fail(self, reason);
}

void *tt_async_pointer(struct tt_async_device *self, uint64_t address) {
    tt_assert(running == self);
    tt_assert(self->ops->pointer);
    if (self->order)
        check_stated(self, address);
    return self->ops->pointer(self, address);
}

void tt_async_host_access(struct tt_async_device *self, const void *bytes, size_t count_bytes,
                          bool writes) {
    const struct tt_async_range range = {
        .address = (uintptr_t)bytes, .bytes = count_bytes, .writes = writes};
    if (self->order)
        tt_async_order_host_access(self->order, "host", &range);
}

enum tt_err tt_async_kernel_run(struct tt_async_device *self,
                                const struct tt_async_kernel *kernel) {
    if (!kernel->run)
        return TT_OK;
    running = self;
    running_kernel = kernel;
    enum tt_err err = kernel->run(self, kernel->context);
    running = NULL;
    running_kernel = NULL;
    return err;
}

/* ---- streams and events ---- */

static int32_t take_index(struct tt_async_device *self) {
    int32_t index = -1;
    tt_lock_take(&self->lock);
    for (int32_t i = 0; index < 0 && self->streams < self->info.max_streams; i++) {
        int32_t at = (self->next_index + i) % self->info.max_streams;
        if (!self->stream_taken[at])
            index = at;
    }
    if (index >= 0) {
        self->next_index = index + 1;
        self->stream_taken[index] = true;
        self->streams++;
    }
    tt_lock_give(&self->lock);
    return index;
}

static void return_index(struct tt_async_device *self, int32_t index) {
    tt_lock_take(&self->lock);
    tt_assert(self->stream_taken[index]);
    self->stream_taken[index] = false;
    self->streams--;
    tt_lock_give(&self->lock);
}

enum tt_err tt_async_stream_open(struct tt_async_device *self, struct tt_async_stream **out_stream,
                                 struct tt_error *why) {
    enum tt_err err = tt_async_device_status(self, why);
    if (err)
        return err;
    int32_t index = take_index(self);
    if (index < 0)
        return tt_fail(TT_ERR_BUSY, why, "all %d streams of device %s are open",
                       self->info.max_streams, self->info.name);
    err = self->ops->stream_open(self, index, out_stream, why);
    if (err)
        return_index(self, index);
    return err;
}

void tt_async_stream_close(struct tt_async_stream *take_stream) {
    struct tt_async_device *device = take_stream->device;
    int32_t index = take_stream->index;
    device->ops->stream_close(take_stream);
    return_index(device, index);
}

static enum tt_err event_open(struct tt_async_device *self, bool is_timed,
                              struct tt_async_event **out_event, struct tt_error *why) {
    enum tt_err err = tt_async_device_status(self, why);
    if (err)
        return err;
    uint64_t *clock = NULL;
    if (self->order) {
        clock = tt_async_order_clock_new(self->order);
        if (!clock)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the clock of an event");
    }
    struct tt_async_event *event = NULL;
    err = self->ops->event_open(self, is_timed, &event, why);
    if (err) {
        free(clock);
        return err;
    }
    event->clock = clock;
    count(self, &self->events, 1);
    *out_event = event;
    return TT_OK;
}

enum tt_err tt_async_event_open(struct tt_async_device *self, struct tt_async_event **out_event,
                                struct tt_error *why) {
    return event_open(self, false, out_event, why);
}

enum tt_err tt_async_event_open_timed(struct tt_async_device *self,
                                      struct tt_async_event **out_event, struct tt_error *why) {
    return event_open(self, true, out_event, why);
}

void tt_async_event_close(struct tt_async_event *take_event) {
    struct tt_async_device *device = take_event->device;
    free(take_event->clock);
    device->ops->event_close(take_event);
    count(device, &device->events, -1);
}

/* ---- submissions ---- */

static enum tt_err submit(struct tt_async_stream *stream, const struct tt_async_op *op,
                          const char *name, const struct tt_async_range *ranges,
                          int32_t range_count, struct tt_error *why) {
    struct tt_async_device *device = stream->device;
    enum tt_err err = tt_async_device_status(device, why);
    if (!err)
        err = device->ops->submit(stream, op, why);
    if (!err && device->order && name)
        tt_async_order_operation(device->order, stream->index, name, ranges, range_count);
    return err;
}

enum tt_err tt_async_record(struct tt_async_stream *stream, struct tt_async_event *event,
                            struct tt_error *why) {
    struct tt_async_device *device = stream->device;
    tt_assert(event->device == device);
    const struct tt_async_op op = {
        .kind = TT_ASYNC_RECORD, .event = event, .turn = event->turns + 1};
    enum tt_err err = submit(stream, &op, NULL, NULL, 0, why);
    if (err)
        return err;
    event->turns++;
    if (device->order)
        tt_async_order_record(device->order, stream->index, event->clock);
    return TT_OK;
}

enum tt_err tt_async_wait(struct tt_async_stream *stream, struct tt_async_event *event,
                          struct tt_error *why) {
    tt_assert(event->device == stream->device);
    if (event->turns == 0)
        return tt_async_device_status(stream->device, why);
    const struct tt_async_op op = {.kind = TT_ASYNC_WAIT, .event = event, .turn = event->turns};
    enum tt_err err = submit(stream, &op, NULL, NULL, 0, why);
    if (!err && stream->device->order)
        tt_async_order_wait(stream->device->order, stream->index, event->clock);
    return err;
}

enum tt_err tt_async_copy_in(struct tt_async_stream *stream, uint64_t to, const void *from,
                             size_t bytes, struct tt_error *why) {
    const struct tt_async_op op = {
        .kind = TT_ASYNC_COPY_IN, .to = to, .host_from = from, .bytes = bytes};
    const struct tt_async_range ranges[] = {{to, bytes, true}, {(uintptr_t)from, bytes, false}};
    return submit(stream, &op, "copy in", ranges, 2, why);
}

enum tt_err tt_async_copy_out(struct tt_async_stream *stream, void *to, uint64_t from, size_t bytes,
                              struct tt_error *why) {
    const struct tt_async_op op = {
        .kind = TT_ASYNC_COPY_OUT, .host_to = to, .from = from, .bytes = bytes};
    const struct tt_async_range ranges[] = {{(uintptr_t)to, bytes, true}, {from, bytes, false}};
    return submit(stream, &op, "copy out", ranges, 2, why);
}

enum tt_err tt_async_copy_within(struct tt_async_stream *stream, uint64_t to, uint64_t from,
                                 size_t bytes, struct tt_error *why) {
    const struct tt_async_op op = {
        .kind = TT_ASYNC_COPY_WITHIN, .to = to, .from = from, .bytes = bytes};
    const struct tt_async_range ranges[] = {{to, bytes, true}, {from, bytes, false}};
    return submit(stream, &op, "copy within", ranges, 2, why);
}

enum tt_err tt_async_fill(struct tt_async_stream *stream, uint64_t to, uint8_t value, size_t bytes,
                          struct tt_error *why) {
    const struct tt_async_op op = {.kind = TT_ASYNC_FILL, .to = to, .value = value, .bytes = bytes};
    const struct tt_async_range range = {to, bytes, true};
    return submit(stream, &op, "fill", &range, 1, why);
}

enum tt_err tt_async_launch(struct tt_async_stream *stream, const struct tt_async_kernel *kernel,
                            struct tt_error *why) {
    const struct tt_async_op op = {.kind = TT_ASYNC_LAUNCH, .kernel = *kernel};
    return submit(stream, &op, kernel->name, kernel->ranges, kernel->range_count, why);
}

static enum tt_err submit_call(struct tt_async_stream *stream, void (*call)(void *context),
                               void *context, enum tt_async_call_kind kind, struct tt_error *why) {
    const struct tt_async_op op = {
        .kind = TT_ASYNC_CALL, .call = call, .call_context = context, .call_kind = kind};
    return submit(stream, &op, "call", NULL, 0, why);
}

enum tt_err tt_async_call(struct tt_async_stream *stream, void (*call)(void *context),
                          void *context, struct tt_error *why) {
    return submit_call(stream, call, context, TT_ASYNC_CALL_ANY, why);
}

enum tt_err tt_async_call_short(struct tt_async_stream *stream, void (*call)(void *context),
                                void *context, struct tt_error *why) {
    return submit_call(stream, call, context, TT_ASYNC_CALL_SHORT, why);
}

enum tt_err tt_async_call_note(struct tt_async_stream *stream, void (*call)(void *context),
                               void *context, struct tt_error *why) {
    return submit_call(stream, call, context, TT_ASYNC_CALL_NOTE, why);
}

/* ---- waiting ---- */

static void host_waited(struct tt_async_event *event) {
    if (event->device->order)
        tt_async_order_host_waited(event->device->order, event->clock);
}

enum tt_err tt_async_event_query(struct tt_async_event *event, struct tt_error *why) {
    enum tt_err err = tt_async_device_status(event->device, why);
    if (err || event->turns == 0)
        return err;
    err = event->device->ops->query(event, why);
    if (!err)
        host_waited(event);
    return err;
}

enum tt_err tt_async_event_instant(struct tt_async_event *event, uint64_t turn, int64_t *out_at,
                                   struct tt_error *why) {
    enum tt_err err = tt_async_device_status(event->device, why);
    return err ? err : event->device->ops->instant(event, turn, out_at, why);
}

enum tt_err tt_async_event_wait(struct tt_async_event *event, int64_t until_at,
                                struct tt_error *why) {
    enum tt_err err = tt_async_device_status(event->device, why);
    if (err || event->turns == 0)
        return err;
    err = event->device->ops->wait(event, until_at, why);
    if (!err)
        host_waited(event);
    return err;
}
