/* An asynchronous device that is an NVIDIA GPU, through its driver (device/cuda_driver.h).
 *
 * One device is one GPU's primary context; streams, events and memory are CUDA's own. Work of the
 * caller goes to a stream by a kernel's `enqueue`, which gets the CUstream. ONNX Runtime's CUDA
 * provider takes that stream as user_compute_stream.
 *
 * Results that leave the context unusable (illegal address, fault of a kernel, lost device) make
 * the device fail. tt_async_device_restart resets the primary context, which ends all of this
 * process's work on that GPU; so does _open, if it finds the context unusable. After some faults
 * the driver refuses that until the process ends.
 *
 * What was given up, but not by the driver, may still run: it is kept (device/async_device.h). A
 * device that keeps something closes without its context, which stays until the process ends.
 *
 * Differences from other kinds: a wait without a limit ends with the event or with the device's
 * failure as the driver reports it, not by tt_async_device_fail; queues have no limit of ours, and
 * a submission blocks where the driver's own is reached. Implemented in async_cuda.c. */
#ifndef TT_DEVICE_ASYNC_CUDA_H
#define TT_DEVICE_ASYNC_CUDA_H

#include "device/async_device.h"

struct tt_async_cuda_options {
    const char *driver_path;           /* NULL: see tt_cuda_driver_load */
    int32_t index;                     /* which GPU */
    int32_t max_streams;               /* 0: 64 */
    struct tt_async_order *take_order; /* taken also on failure; NULL: order is not checked */
};

/* How many GPUs there are, at least 1. Errors: NOT_FOUND (no driver), UNSUPPORTED (too old),
 * UNAVAILABLE (no GPU); each with a sentence that says so. */
TT_MUST_CHECK enum tt_err tt_async_cuda_count(const char *driver_path, int32_t *out_count,
                                              struct tt_error *why);
/* Errors: those of _count, INVALID (no such GPU), NO_MEMORY, UNAVAILABLE, INTERNAL. */
TT_MUST_CHECK enum tt_err tt_async_cuda_open(const struct tt_async_cuda_options *options,
                                             struct tt_async_device **out_device,
                                             struct tt_error *why);

#endif
