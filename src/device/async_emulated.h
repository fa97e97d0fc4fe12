/* An asynchronous device that takes the time of a description (S11).
 *
 * Copies take a fixed time plus bytes / bandwidth on a copy engine, one after the other per engine.
 * Kernels take their `work_ns` and share the device's capacity (core/device.h). Events, calls and
 * waits take no time. An operation has its effect when it ends, in a memory as that of the host
 * device. There is no thread per stream: thousands of streams fit into one process.
 *
 * Virtual time: the clock moves only in tt_async_event_wait and tt_async_emulated_advance, which
 * carry out what becomes due, on the caller's thread. One thread at a time calls these two and
 * tt_async_event_query. A wait without a limit for an event that can no longer happen returns
 * TIMEOUT. With the same calls, every run is the same.
 * Real time: one thread per device carries out what becomes due, on the monotonic clock. However
 * late it is, what it calls sees the instant at which the operation was due.
 *
 * Implemented in async_emulated.c. */
#ifndef TT_DEVICE_ASYNC_EMULATED_H
#define TT_DEVICE_ASYNC_EMULATED_H

#include "device/async_device.h"

/* What a copy of one direction costs. */
struct tt_async_transfer {
    int64_t fixed_ns;
    int64_t bytes_per_s; /* 0: bytes cost nothing */
};

struct tt_async_emulated_options {
    uint64_t memory_bytes; /* 0: 256 MiB */
    int32_t max_streams;   /* 0: 64 */
    int32_t queue_depth;   /* operations that wait in a stream; 0: 64 */
    /* 1: copies in and out share an engine; 2: each direction has one. 0: 2. Copies within the
     * device and fills have an engine of their own. */
    int32_t copy_engines;
    struct tt_async_transfer in, out, within;
    bool real_time;
    struct tt_async_order *take_order; /* taken also on failure; NULL: order is not checked */
};

/* Errors: INVALID (copy_engines), NO_MEMORY, IO (no thread). */
TT_MUST_CHECK enum tt_err tt_async_emulated_open(const struct tt_async_emulated_options *options,
                                                 struct tt_async_device **out_device,
                                                 struct tt_error *why);
/* Virtual time: moves the clock to the instant `to`, and carries out what is due by then. */
void tt_async_emulated_advance(struct tt_async_device *device, int64_t to);
/* Virtual time: when the next operation ends; TT_NEVER: none is under way. */
int64_t tt_async_emulated_next_at(struct tt_async_device *device);

#endif
