/* Carries out an operation in the memory of a device without hardware of its own: copies, fills,
 * kernels and calls. Implemented in async_move.c. */
#ifndef TT_DEVICE_ASYNC_MOVE_H
#define TT_DEVICE_ASYNC_MOVE_H

#include "device/async_arena.h"
#include "device/async_device.h"

/* Errors: those of the kernel; INVALID: bytes that are not reserved device memory. `why` names the
 * operation. On the thread of the stream. */
TT_MUST_CHECK enum tt_err tt_async_move(struct tt_async_device *device,
                                        struct tt_async_arena *arena, int32_t stream,
                                        const struct tt_async_op *op, struct tt_error *why);

#endif
