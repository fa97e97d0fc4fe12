#include "device/async_cuda.h"

#include "base/clock.h"
#include "base/threads/eventcount.h"
#include "device/async_cuda_calls.h"
#include "device/async_order.h"
#include "device/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_STREAMS = 64 };
/* A wait with a limit asks again and again, first soon, then rarely. */
#define FIRST_PAUSE_NS (10 * TT_US)
#define LAST_PAUSE_NS TT_MS

/* The driver tells only how far two events are apart, in a float of milliseconds. So instants are
 * counted from an event of our own, which is recorded again before the float becomes coarse: at 8 s
 * its steps are half a microsecond. */
#define BASE_LIMIT_NS (8 * TT_S)
#define BASE_NEAR_NS (50 * TT_US)
enum { BASE_TRIES = 5 };

struct cuda_device {
    struct tt_async_device device;
    struct tt_cuda_driver driver;
    int gpu;
    void *context;
    struct tt_counter is_dead;      /* 0 or 1: the driver reports a sticky error */
    struct tt_async_cuda_kept kept; /* in quarantine */
    struct tt_lock base_lock;       /* guards: */
    void *base_stream, *base;       /* NULL: not yet */
    void *next_base;                /* an event for the next try */
    int64_t base_at;                /* when `base` happened */
};

struct cuda_stream {
    struct tt_async_stream stream;
    void *native;
    struct tt_async_cuda_calls *calls;
};

struct cuda_event {
    struct tt_async_event event;
    void *native;
};

static struct cuda_device *cuda_of(struct tt_async_device *device) {
    return TT_CONTAINER_OF(device, struct cuda_device, device);
}

/* ---- results ---- */

/* After these nothing of the context works any more. */
static bool is_sticky(int result) {
    switch (result) {
    case TT_CUDA_DEINITIALIZED:
    case TT_CUDA_DEVICE_UNAVAILABLE:
    case TT_CUDA_NO_DEVICE:
    case TT_CUDA_INVALID_DEVICE:
    case TT_CUDA_ECC_UNCORRECTABLE:
    case TT_CUDA_NVLINK_UNCORRECTABLE:
    case TT_CUDA_ILLEGAL_ADDRESS:
    case TT_CUDA_LAUNCH_TIMEOUT:
    case TT_CUDA_CONTEXT_IS_DESTROYED:
    case TT_CUDA_ASSERT:
    case TT_CUDA_UNKNOWN: return true;
    default: return result >= TT_CUDA_HARDWARE_STACK_ERROR && result <= TT_CUDA_LAUNCH_FAILED;
    }
}

/* What the result of `call` means for the caller. */
static enum tt_err check(struct cuda_device *self, int result, const char *call,
                         struct tt_error *why) {
    if (result == TT_CUDA_SUCCESS)
        return TT_OK;
    if (result == TT_CUDA_NOT_READY)
        return tt_fail(TT_ERR_BUSY, why, "the event has not happened yet");
    const char *name = tt_cuda_result_name(&self->driver, result);
    if (is_sticky(result)) {
        char reason[256];
        snprintf(reason, sizeof(reason), "%s: %s (%d)", call, name, result);
        tt_counter_set(&self->is_dead, 1);
        tt_async_device_fail(&self->device, reason);
        return tt_async_device_status(&self->device, why);
    }
    return tt_fail(result == TT_CUDA_OUT_OF_MEMORY ? TT_ERR_NO_MEMORY : TT_ERR_INTERNAL, why,
                   "%s on device %s: %s (%d)", call, self->device.info.name, name, result);
}

/* Makes the context current on this thread; others (ONNX Runtime) may have changed it. */
static enum tt_err enter(struct cuda_device *self, struct tt_error *why) {
    return check(self, self->driver.cuCtxSetCurrent(self->context), "cuCtxSetCurrent", why);
}

/* ---- quarantine ---- */

/* After a sticky error nothing runs in the context any more. */
static bool keeps(struct tt_async_device *device) {
    return tt_counter_get(&cuda_of(device)->is_dead) == 0 &&
           tt_async_device_status(device, NULL) != TT_OK;
}

static void keep(struct tt_async_device *device, void *thing) {
    tt_async_cuda_keep(&cuda_of(device)->kept, thing);
}

/* ---- streams and events ---- */

static enum tt_err stream_open(struct tt_async_device *device, int32_t index,
                               struct tt_async_stream **out_stream, struct tt_error *why) {
    struct cuda_device *self = cuda_of(device);
    struct cuda_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for stream %d", index);
    enum tt_err err = tt_async_cuda_calls_new(device, &stream->calls, why);
    if (!err)
        err = enter(self, why);
    if (!err)
        err = check(self, self->driver.cuStreamCreate(&stream->native, TT_CUDA_STREAM_NON_BLOCKING),
                    "cuStreamCreate", why);
    if (err) {
        tt_async_cuda_calls_free(stream->calls);
        free(stream);
        return err;
    }
    stream->stream = (struct tt_async_stream){.device = device, .index = index};
    *out_stream = &stream->stream;
    return TT_OK;
}

/* What closes ignores results: on a failed device there is nothing left to close. */
static void stream_close(struct tt_async_stream *take_stream) {
    struct cuda_device *self = cuda_of(take_stream->device);
    struct cuda_stream *stream = TT_CONTAINER_OF(take_stream, struct cuda_stream, stream);
    if (tt_async_device_status(&self->device, NULL)) /* nothing waits for them below */
        tt_async_cuda_calls_mute(stream->calls);
    if (keeps(&self->device)) {
        tt_async_cuda_keep_calls(&self->kept, stream->calls);
        free(stream);
        return;
    }
    (void)self->driver.cuCtxSetCurrent(self->context);
    if (tt_async_device_status(&self->device, NULL) == TT_OK) /* its last calls have returned */
        (void)self->driver.cuStreamSynchronize(stream->native);
    (void)self->driver.cuStreamDestroy_v2(stream->native);
    tt_async_cuda_calls_free(stream->calls);
    free(stream);
}

static enum tt_err event_open(struct tt_async_device *device, bool is_timed,
                              struct tt_async_event **out_event, struct tt_error *why) {
    struct cuda_device *self = cuda_of(device);
    struct cuda_event *event = calloc(1, sizeof(*event));
    if (!event)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an event");
    enum tt_err err = enter(self, why);
    unsigned flags = TT_CUDA_EVENT_BLOCKING_SYNC;
    if (!is_timed)
        flags |= TT_CUDA_EVENT_DISABLE_TIMING;
    if (!err)
        err = check(self, self->driver.cuEventCreate(&event->native, flags), "cuEventCreate", why);
    if (err) {
        free(event);
        return err;
    }
    event->event.device = device;
    *out_event = &event->event;
    return TT_OK;
}

static void event_close(struct tt_async_event *take_event) {
    struct cuda_device *self = cuda_of(take_event->device);
    struct cuda_event *event = TT_CONTAINER_OF(take_event, struct cuda_event, event);
    if (!keeps(&self->device)) {
        (void)self->driver.cuCtxSetCurrent(self->context);
        (void)self->driver.cuEventDestroy_v2(event->native);
    }
    free(event);
}

static void *native_stream(struct tt_async_stream *stream) {
    return TT_CONTAINER_OF(stream, struct cuda_stream, stream)->native;
}

static void *native_of(struct tt_async_event *event) {
    return TT_CONTAINER_OF(event, struct cuda_event, event)->native;
}

static enum tt_err query(struct tt_async_event *event, struct tt_error *why) {
    struct cuda_device *self = cuda_of(event->device);
    enum tt_err err = enter(self, why);
    return err ? err
               : check(self, self->driver.cuEventQuery(native_of(event)), "cuEventQuery", why);
}

/* The driver cannot wait with a limit, so this asks and sleeps. */
static enum tt_err wait_until(struct tt_async_event *event, int64_t until_at,
                              struct tt_error *why) {
    struct tt_eventcount pause; /* never notified: it only sleeps */
    tt_eventcount_init(&pause);
    int64_t pause_ns = FIRST_PAUSE_NS;
    for (;;) {
        enum tt_err err = tt_async_device_status(event->device, why);
        if (!err)
            err = query(event, why);
        if (err != TT_ERR_BUSY)
            return err;
        int64_t now = tt_clock_now();
        if (now >= until_at)
            return tt_fail(TT_ERR_TIMEOUT, why, "the event did not happen in time");
        tt_eventcount_sleep(&pause, tt_instant_min(until_at, now + pause_ns));
        pause_ns = tt_instant_min(pause_ns * 2, LAST_PAUSE_NS);
    }
}

/* ---- when events happened ---- */

/* Under base_lock; of a context that may be gone. The stream first: it may still record the event.
 */
static void drop_base(struct cuda_device *self) {
    if (self->base_stream)
        (void)self->driver.cuStreamDestroy_v2(self->base_stream);
    if (self->base)
        (void)self->driver.cuEventDestroy_v2(self->base);
    if (self->next_base)
        (void)self->driver.cuEventDestroy_v2(self->next_base);
    self->base = self->next_base = self->base_stream = NULL;
}

/* On a stream that has nothing else to do, the base happens at once: between two looks at the
 * clock, in the middle of which it is put. They may be far apart on a busy machine; then again, and
 * the try counts in which they were nearest. */
static enum tt_err record_base(struct cuda_device *self, struct tt_error *why) {
    const struct tt_cuda_driver *driver = &self->driver;
    enum tt_err err = TT_OK;
    int64_t nearest_ns = TT_NEVER;
    for (int32_t i = 0; !err && nearest_ns >= BASE_NEAR_NS && i < BASE_TRIES; i++) {
        void *tried = self->next_base;
        int64_t before = tt_clock_now();
        err = check(self, driver->cuEventRecord(tried, self->base_stream), "cuEventRecord", why);
        if (!err)
            err = check(self, driver->cuEventSynchronize(tried), "cuEventSynchronize", why);
        int64_t apart_ns = tt_clock_now() - before;
        if (err || apart_ns >= nearest_ns)
            continue;
        nearest_ns = apart_ns;
        self->base_at = before + apart_ns / 2;
        self->next_base = self->base;
        self->base = tried;
    }
    return err;
}

static enum tt_err renew_base(struct cuda_device *self, struct tt_error *why) {
    const struct tt_cuda_driver *driver = &self->driver;
    enum tt_err err = TT_OK;
    if (!self->base_stream)
        err = check(self, driver->cuStreamCreate(&self->base_stream, TT_CUDA_STREAM_NON_BLOCKING),
                    "cuStreamCreate", why);
    if (!err && !self->base)
        err = check(self, driver->cuEventCreate(&self->base, TT_CUDA_EVENT_BLOCKING_SYNC),
                    "cuEventCreate", why);
    if (!err && !self->next_base)
        err = check(self, driver->cuEventCreate(&self->next_base, TT_CUDA_EVENT_BLOCKING_SYNC),
                    "cuEventCreate", why);
    if (!err)
        err = record_base(self, why);
    if (err)
        drop_base(self);
    return err;
}

/* An event before the base is a negative time from it. */
static enum tt_err from_base(struct cuda_device *self, void *event, int64_t *out_at,
                             struct tt_error *why) {
    float ms = 0;
    enum tt_err err = TT_OK;
    tt_lock_take(&self->base_lock);
    if (!self->base || tt_clock_now() - self->base_at > BASE_LIMIT_NS)
        err = renew_base(self, why);
    if (!err)
        err = check(self, self->driver.cuEventElapsedTime(&ms, self->base, event),
                    "cuEventElapsedTime", why);
    if (!err)
        *out_at = self->base_at + (int64_t)((double)ms * (double)TT_MS);
    tt_lock_give(&self->base_lock);
    return err;
}

static enum tt_err instant(struct tt_async_event *event, uint64_t turn, int64_t *out_at,
                           struct tt_error *why) {
    struct cuda_device *self = cuda_of(event->device);
    (void)turn; /* the driver knows the last record only */
    enum tt_err err = enter(self, why);
    if (!err)
        err = check(self, self->driver.cuEventQuery(native_of(event)), "cuEventQuery", why);
    return err ? err : from_base(self, native_of(event), out_at, why);
}

/* ---- waiting ---- */

static enum tt_err wait(struct tt_async_event *event, int64_t until_at, struct tt_error *why) {
    struct cuda_device *self = cuda_of(event->device);
    if (until_at != TT_NEVER)
        return wait_until(event, until_at, why);
    enum tt_err err = enter(self, why);
    return err ? err
               : check(self, self->driver.cuEventSynchronize(native_of(event)),
                       "cuEventSynchronize", why);
}

/* ---- submissions ---- */

static enum tt_err launch(struct cuda_device *self, const struct tt_async_kernel *kernel,
                          void *stream, struct tt_error *why) {
    if (!kernel->enqueue)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "kernel %s has no form for CUDA", kernel->name);
    struct tt_error reason = {""};
    enum tt_err err = kernel->enqueue(&self->device, kernel->context, stream, &reason);
    return err ? tt_fail(err, why, "kernel %s was not put on its stream: %s", kernel->name,
                         *reason.text ? reason.text : tt_err_name(err))
               : TT_OK;
}

static enum tt_err call(struct cuda_device *self, struct tt_async_stream *stream,
                        const struct tt_async_op *op, struct tt_error *why) {
    struct cuda_stream *own = TT_CONTAINER_OF(stream, struct cuda_stream, stream);
    struct tt_async_cuda_call *made =
        tt_async_cuda_calls_take(own->calls, op->call, op->call_context);
    if (!made)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a call on stream %d",
                       stream->index);
    enum tt_err err =
        check(self, self->driver.cuLaunchHostFunc(own->native, tt_async_cuda_calls_run, made),
              "cuLaunchHostFunc", why);
    if (err)
        tt_async_cuda_calls_give(made);
    return err;
}

static enum tt_err submit(struct tt_async_stream *stream, const struct tt_async_op *op,
                          struct tt_error *why) {
    struct cuda_device *self = cuda_of(stream->device);
    const struct tt_cuda_driver *driver = &self->driver;
    void *native = native_stream(stream);
    enum tt_err err = enter(self, why);
    if (err)
        return err;
    switch (op->kind) {
    case TT_ASYNC_RECORD:
        err =
            check(self, driver->cuEventRecord(native_of(op->event), native), "cuEventRecord", why);
        break;
    case TT_ASYNC_WAIT:
        err = check(self, driver->cuStreamWaitEvent(native, native_of(op->event), 0),
                    "cuStreamWaitEvent", why);
        break;
    case TT_ASYNC_COPY_IN:
        err = check(self, driver->cuMemcpyHtoDAsync_v2(op->to, op->host_from, op->bytes, native),
                    "cuMemcpyHtoDAsync", why);
        break;
    case TT_ASYNC_COPY_OUT:
        err = check(self, driver->cuMemcpyDtoHAsync_v2(op->host_to, op->from, op->bytes, native),
                    "cuMemcpyDtoHAsync", why);
        break;
    case TT_ASYNC_COPY_WITHIN:
        err = check(self, driver->cuMemcpyDtoDAsync_v2(op->to, op->from, op->bytes, native),
                    "cuMemcpyDtoDAsync", why);
        break;
    case TT_ASYNC_FILL:
        err = check(self, driver->cuMemsetD8Async(op->to, op->value, op->bytes, native),
                    "cuMemsetD8Async", why);
        break;
    case TT_ASYNC_LAUNCH: err = launch(self, &op->kernel, native, why); break;
    case TT_ASYNC_CALL: err = call(self, stream, op, why); break;
    }
    return err;
}

/* ---- memory ---- */

static enum tt_err reserve(struct tt_async_device *device, size_t bytes, uint64_t *out_address,
                           struct tt_error *why) {
    struct cuda_device *self = cuda_of(device);
    enum tt_err err = enter(self, why);
    if (err)
        return err;
    uint64_t address = 0;
    err = check(self, self->driver.cuMemAlloc_v2(&address, bytes), "cuMemAlloc", why);
    if (err == TT_ERR_NO_MEMORY) {
        size_t free_bytes = 0, total = 0;
        (void)self->driver.cuMemGetInfo_v2(&free_bytes, &total);
        return tt_fail(err, why, "out of device memory: %zu bytes asked for, %zu of %zu in use",
                       bytes, total - free_bytes, total);
    }
    if (!err)
        *out_address = address;
    return err;
}

static void release(struct tt_async_device *device, uint64_t address) {
    struct cuda_device *self = cuda_of(device);
    if (keeps(device))
        return;
    (void)self->driver.cuCtxSetCurrent(self->context);
    (void)self->driver.cuMemFree_v2(address);
}

static enum tt_err pin(struct tt_async_device *device, size_t bytes, void **out_bytes,
                       struct tt_error *why) {
    struct cuda_device *self = cuda_of(device);
    enum tt_err err = enter(self, why);
    void *made = NULL;
    if (!err)
        err = check(self, self->driver.cuMemHostAlloc(&made, bytes, 0), "cuMemHostAlloc", why);
    if (!err)
        *out_bytes = made;
    return err;
}

static void unpin(struct tt_async_device *device, void *bytes) {
    struct cuda_device *self = cuda_of(device);
    if (keeps(device))
        return;
    (void)self->driver.cuCtxSetCurrent(self->context);
    (void)self->driver.cuMemFreeHost(bytes);
}

/* ---- the device ---- */

static int64_t now(struct tt_async_device *device) {
    (void)device;
    return tt_clock_now();
}

/* The driver reports a sticky error by any call. */
static enum tt_err probe(struct tt_async_device *device, struct tt_error *why) {
    struct cuda_device *self = cuda_of(device);
    size_t free_bytes = 0, total = 0;
    enum tt_err err = enter(self, why);
    return err ? err
               : check(self, self->driver.cuMemGetInfo_v2(&free_bytes, &total), "cuMemGetInfo",
                       why);
}

/* A first allocation shows whether the context works. */
static int try_context(struct cuda_device *self, const char **out_call) {
    const struct tt_cuda_driver *driver = &self->driver;
    uint64_t probe = 0;
    *out_call = "cuDevicePrimaryCtxRetain";
    int result = driver->cuDevicePrimaryCtxRetain(&self->context, self->gpu);
    if (!result)
        result = driver->cuCtxSetCurrent(self->context);
    if (!result) {
        *out_call = "cuMemAlloc";
        result = driver->cuMemAlloc_v2(&probe, 1);
    }
    return result ? result : driver->cuMemFree_v2(probe);
}

/* The reset destroys the context, and the next retain makes another. */
static int make_context_again(struct cuda_device *self, const char **out_call) {
    const struct tt_cuda_driver *driver = &self->driver;
    *out_call = "cuDevicePrimaryCtxReset";
    (void)driver->cuDevicePrimaryCtxRelease_v2(self->gpu);
    self->context = NULL;
    int result = driver->cuDevicePrimaryCtxReset_v2(self->gpu);
    return result ? result : try_context(self, out_call);
}

static enum tt_err restart(struct tt_async_device *device, struct tt_error *why) {
    struct cuda_device *self = cuda_of(device);
    const char *call;
    tt_lock_take(&self->base_lock);
    drop_base(self);
    tt_lock_give(&self->base_lock);
    int result = make_context_again(self, &call);
    if (!result) { /* with the old context went what was kept */
        tt_async_cuda_kept_release(&self->kept);
        tt_counter_set(&self->is_dead, 0);
        return TT_OK;
    }
    return tt_fail(TT_ERR_UNAVAILABLE, why,
                   "device %s cannot be restarted: %s: %s (%d); restart the process",
                   device->info.name, call, tt_cuda_result_name(&self->driver, result), result);
}

static void close_device(struct tt_async_device *take_device) {
    struct cuda_device *self = cuda_of(take_device);
    bool stays = keeps(take_device); /* and so does the context, in which work may run */
    tt_async_cuda_kept_for_good(&self->kept);
    tt_async_cuda_kept_fini(&self->kept);
    if (self->context && !stays) {
        (void)self->driver.cuCtxSetCurrent(self->context);
        drop_base(self);
        (void)self->driver.cuCtxSetCurrent(NULL);
        (void)self->driver.cuDevicePrimaryCtxRelease_v2(self->gpu);
    }
    tt_async_device_fini(&self->device);
    tt_lock_fini(&self->base_lock);
    free(self);
}

static const struct tt_async_ops cuda_ops = {
    .name = "cuda",
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
    .probe = probe,
    .native = native_stream,
    .keeps = keeps,
    .keep = keep,
};

static enum tt_err count_gpus(const struct tt_cuda_driver *driver, int32_t *out_count,
                              struct tt_error *why) {
    int count = 0;
    int result = driver->cuDeviceGetCount(&count);
    if (result)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "the CUDA driver cannot list its GPUs: %s (%d)",
                       tt_cuda_result_name(driver, result), result);
    if (count == 0)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "the CUDA driver finds no GPU");
    *out_count = count;
    return TT_OK;
}

enum tt_err tt_async_cuda_count(const char *driver_path, int32_t *out_count, struct tt_error *why) {
    struct tt_cuda_driver driver;
    enum tt_err err = tt_cuda_driver_load(driver_path, &driver, why);
    return err ? err : count_gpus(&driver, out_count, why);
}

/* What the driver says of the GPU. */
static int describe(const struct tt_cuda_driver *driver, int gpu, struct tt_async_info *info) {
    size_t bytes = 0;
    int engines = 0;
    int result = driver->cuDeviceGetName(info->name, (int)sizeof(info->name), gpu);
    if (!result)
        result = driver->cuDeviceTotalMem_v2(&bytes, gpu);
    if (!result)
        result = driver->cuDeviceGetAttribute(&engines, TT_CUDA_ATTRIBUTE_ASYNC_ENGINE_COUNT, gpu);
    info->memory_bytes = (int64_t)bytes;
    info->copy_engines = engines;
    return result;
}

static enum tt_err find_gpu(struct cuda_device *self, const struct tt_async_cuda_options *options,
                            struct tt_async_info *info, struct tt_error *why) {
    int32_t count = 0;
    enum tt_err err = tt_cuda_driver_load(options->driver_path, &self->driver, why);
    if (!err)
        err = count_gpus(&self->driver, &count, why);
    if (err)
        return err;
    if (options->index < 0 || options->index >= count)
        return tt_fail(TT_ERR_INVALID, why,
                       "there is no GPU %d: this machine has %d, counted from 0", options->index,
                       count);
    info->max_streams = options->max_streams ? options->max_streams : DEFAULT_STREAMS;
    int result = self->driver.cuDeviceGet(&self->gpu, options->index);
    if (!result)
        result = describe(&self->driver, self->gpu, info);
    const char *call;
    if (!result)
        result = try_context(self, &call);
    if (is_sticky(result)) /* a device that failed and was closed left it so */
        result = make_context_again(self, &call);
    if (!result)
        return TT_OK;
    if (self->context)
        (void)self->driver.cuDevicePrimaryCtxRelease_v2(self->gpu);
    return tt_fail(TT_ERR_UNAVAILABLE, why, "GPU %d cannot be opened: %s (%d)", options->index,
                   tt_cuda_result_name(&self->driver, result), result);
}

enum tt_err tt_async_cuda_open(const struct tt_async_cuda_options *options,
                               struct tt_async_device **out_device, struct tt_error *why) {
    struct tt_async_info info = {0};
    struct cuda_device *self = calloc(1, sizeof(*self));
    enum tt_err err = self ? find_gpu(self, options, &info, why)
                           : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a device");
    if (err) {
        tt_async_order_free(options->take_order);
        free(self);
        return err;
    }
    err = tt_async_device_init(&self->device, &cuda_ops, &info, options->take_order);
    if (err) {
        (void)self->driver.cuDevicePrimaryCtxRelease_v2(self->gpu);
        free(self);
        return tt_fail(err, why, "out of memory for a device");
    }
    tt_async_cuda_kept_init(&self->kept);
    tt_lock_init(&self->base_lock);
    *out_device = &self->device;
    return TT_OK;
}
