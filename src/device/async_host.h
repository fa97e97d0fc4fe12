/* An asynchronous device whose streams are run by threads of this process.
 *
 * Kernels are C functions, copies are memcpy. Device memory is an arena that host code cannot
 * access (device/async_arena.h), so a missing copy is found at once. An operation on bytes outside
 * of reserved device memory makes the device fail, as on a GPU.
 *
 * A stream has a ring of operations. As many threads as streams share all of them
 * (device/async_threads.h), so that few are woken: a stream that waits for an event holds no
 * thread, and the submitting thread itself does notes and short copies of a stream that has nothing
 * to do. A kernel that never returns hangs its stream and its thread, and tt_async_stream_close
 * waits for it: a thread cannot be stopped. Implemented in async_host.c. */
#ifndef TT_DEVICE_ASYNC_HOST_H
#define TT_DEVICE_ASYNC_HOST_H

#include "device/async_device.h"

struct tt_async_host_options {
    uint64_t memory_bytes;             /* device memory; 0: 256 MiB */
    int32_t max_streams;               /* 0: 64 */
    int32_t queue_depth;               /* operations that wait in a stream; 0: 256 */
    struct tt_async_order *take_order; /* taken also on failure; NULL: order is not checked */
    /* Called on a thread of the device while a copy or fill is under way; an error makes it fail.
     * NULL: not wanted. */
    enum tt_err (*moving)(void *context, enum tt_async_op_kind kind, size_t bytes);
    void *moving_context;
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_host_open(const struct tt_async_host_options *options,
                                             struct tt_async_device **out_device,
                                             struct tt_error *why);

#endif
