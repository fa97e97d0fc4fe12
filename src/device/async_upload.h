/* Copies host memory that is not pinned to a device, and waits: for weights and initial values,
 * when a model is loaded. It passes a pinned buffer on a stream of its own. Life: open; put as
 * often as needed; close. One thread. Implemented in async_upload.c. */
#ifndef TT_DEVICE_ASYNC_UPLOAD_H
#define TT_DEVICE_ASYNC_UPLOAD_H

#include "device/async_device.h"

struct tt_async_upload; /* NULL: not open */

/* Errors: NO_MEMORY, BUSY (no stream is left), UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_async_upload_open(struct tt_async_device *device,
                                               struct tt_async_upload **out_upload,
                                               struct tt_error *why);
void tt_async_upload_close(struct tt_async_upload *take_upload); /* NULL-safe */
/* Copies to new device memory, which is the caller's. Errors: NO_MEMORY, UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_async_upload_put(struct tt_async_upload *self, const void *bytes,
                                              size_t count, uint64_t *out_address,
                                              struct tt_error *why);

#endif
