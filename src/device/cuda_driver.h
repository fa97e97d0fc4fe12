/* The functions of NVIDIA's driver (libcuda.so.1) that we call, found at run time.
 *
 * Why the driver's API and not the runtime's (libcudart): every machine with a GPU has the driver,
 * while the runtime comes with a toolkit of its own release; the names below have not changed since
 * CUDA 11; and its streams are those that ONNX Runtime takes as user_compute_stream. Both share the
 * device's primary context, which we use.
 *
 * No header of CUDA is needed: types and numbers that we use are declared here. The library stays
 * loaded until the process ends. Implemented in cuda_driver.c. */
#ifndef TT_DEVICE_CUDA_DRIVER_H
#define TT_DEVICE_CUDA_DRIVER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Results that mean more to us than a failure. */
enum tt_cuda_result {
    TT_CUDA_SUCCESS = 0,
    TT_CUDA_OUT_OF_MEMORY = 2,
    TT_CUDA_DEINITIALIZED = 4,
    TT_CUDA_DEVICE_UNAVAILABLE = 46,
    TT_CUDA_NO_DEVICE = 100,
    TT_CUDA_INVALID_DEVICE = 101,
    TT_CUDA_ECC_UNCORRECTABLE = 214,
    TT_CUDA_NVLINK_UNCORRECTABLE = 220,
    TT_CUDA_NOT_READY = 600,
    TT_CUDA_ILLEGAL_ADDRESS = 700,
    TT_CUDA_LAUNCH_TIMEOUT = 702,
    TT_CUDA_CONTEXT_IS_DESTROYED = 709,
    TT_CUDA_ASSERT = 710,
    TT_CUDA_HARDWARE_STACK_ERROR = 714, /* up to LAUNCH_FAILED: faults of kernels */
    TT_CUDA_LAUNCH_FAILED = 719,
    TT_CUDA_UNKNOWN = 999,
};

enum {
    TT_CUDA_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    TT_CUDA_STREAM_NON_BLOCKING = 1,
    TT_CUDA_EVENT_BLOCKING_SYNC = 1,
    TT_CUDA_EVENT_DISABLE_TIMING = 2,
};

/* Name in the library, parameters. Handles are pointers, device addresses are integers. */
#define TT_CUDA_FUNCTIONS(X)                                                                       \
    X(cuInit, unsigned flags)                                                                      \
    X(cuGetErrorName, int result, const char **out_name)                                           \
    X(cuDeviceGetCount, int *out_count)                                                            \
    X(cuDeviceGet, int *out_device, int index)                                                     \
    X(cuDeviceGetName, char *out_name, int capacity, int device)                                   \
    X(cuDeviceTotalMem_v2, size_t *out_bytes, int device)                                          \
    X(cuDeviceGetAttribute, int *out_value, int attribute, int device)                             \
    X(cuDevicePrimaryCtxRetain, void **out_context, int device)                                    \
    X(cuDevicePrimaryCtxRelease_v2, int device)                                                    \
    X(cuDevicePrimaryCtxReset_v2, int device)                                                      \
    X(cuCtxSetCurrent, void *context)                                                              \
    X(cuMemAlloc_v2, uint64_t *out_address, size_t bytes)                                          \
    X(cuMemFree_v2, uint64_t address)                                                              \
    X(cuMemGetInfo_v2, size_t *out_free, size_t *out_total)                                        \
    X(cuMemHostAlloc, void **out_bytes, size_t bytes, unsigned flags)                              \
    X(cuMemFreeHost, void *bytes)                                                                  \
    X(cuStreamCreate, void **out_stream, unsigned flags)                                           \
    X(cuStreamDestroy_v2, void *stream)                                                            \
    X(cuStreamSynchronize, void *stream)                                                           \
    X(cuStreamWaitEvent, void *stream, void *event, unsigned flags)                                \
    X(cuEventCreate, void **out_event, unsigned flags)                                             \
    X(cuEventDestroy_v2, void *event)                                                              \
    X(cuEventRecord, void *event, void *stream)                                                    \
    X(cuEventQuery, void *event)                                                                   \
    X(cuEventSynchronize, void *event)                                                             \
    X(cuEventElapsedTime, float *out_ms, void *begin, void *end)                                   \
    X(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes, void *stream)             \
    X(cuMemcpyDtoHAsync_v2, void *to, uint64_t from, size_t bytes, void *stream)                   \
    X(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, void *stream)                \
    X(cuMemsetD8Async, uint64_t to, unsigned char value, size_t bytes, void *stream)               \
    X(cuLaunchHostFunc, void *stream, void (*call)(void *context), void *context)

struct tt_cuda_driver {
#define TT_CUDA_MEMBER(name, ...) int (*(name))(__VA_ARGS__);
    TT_CUDA_FUNCTIONS(TT_CUDA_MEMBER)
#undef TT_CUDA_MEMBER
};

/* `path`: the library; NULL: that in the environment variable TUTTI_CUDA_DRIVER, else libcuda.so.1,
 * as the system finds it. Errors: NOT_FOUND (no driver),
 * UNSUPPORTED (a function is missing), UNAVAILABLE (the driver finds no GPU, or cannot start). */
TT_MUST_CHECK enum tt_err tt_cuda_driver_load(const char *path, struct tt_cuda_driver *out_driver,
                                              struct tt_error *why);
/* The result's name, such as CUDA_ERROR_ILLEGAL_ADDRESS; static storage. */
const char *tt_cuda_result_name(const struct tt_cuda_driver *driver, int result);

#endif
