/* Functions that a stream of a GPU calls at their turn, and the quarantine of a GPU.
 *
 * The driver calls what was put on a stream, also after its caller has given the stream up. So each
 * call passes a record of ours: none is made once the device has failed, so none sees what an
 * earlier one has left undone; _mute makes that no call of the stream is made from then on, and
 * returns when none is under way. Records are used again; they live as long as their stream, or,
 * in quarantine, until the GPU's context has gone or the process ends.
 *
 * Any thread, but _new, _mute and _free: one. Implemented in async_cuda_calls.c. */
#ifndef TT_DEVICE_ASYNC_CUDA_CALLS_H
#define TT_DEVICE_ASYNC_CUDA_CALLS_H

#include "device/async_device.h"

struct tt_async_cuda_calls;
struct tt_async_cuda_call;

/* `device` outlives them, unless they are muted. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_cuda_calls_new(const struct tt_async_device *device,
                                                  struct tt_async_cuda_calls **out_calls,
                                                  struct tt_error *why);
/* NULL-safe. The driver makes none of its calls any more. */
void tt_async_cuda_calls_free(struct tt_async_cuda_calls *take_self);
/* NULL: no memory. */
struct tt_async_cuda_call *tt_async_cuda_calls_take(struct tt_async_cuda_calls *self,
                                                    void (*call)(void *context), void *context);
/* It was not put on the stream. */
void tt_async_cuda_calls_give(struct tt_async_cuda_call *take_call);
/* What the driver calls; `call` is the record. */
void tt_async_cuda_calls_run(void *call);
void tt_async_cuda_calls_mute(struct tt_async_cuda_calls *self);

/* What is in quarantine, besides what only the driver knows. */
struct tt_async_cuda_kept {
    struct tt_lock lock;               /* guards: */
    struct tt_async_cuda_calls *calls; /* muted, linked */
    void **things;                     /* the caller's */
    int64_t capacity;
    int32_t count;
};

void tt_async_cuda_kept_init(struct tt_async_cuda_kept *self);
/* Nothing is kept. */
void tt_async_cuda_kept_fini(struct tt_async_cuda_kept *self);
void tt_async_cuda_keep_calls(struct tt_async_cuda_kept *self,
                              struct tt_async_cuda_calls *take_calls);
/* `thing` stays reachable. Without memory for that it stays all the same. */
void tt_async_cuda_keep(struct tt_async_cuda_kept *self, void *thing);
/* The context has gone, and makes no calls: frees them. The caller's things remain until the
 * process ends. */
void tt_async_cuda_kept_release(struct tt_async_cuda_kept *self);
/* The context stays: all remains until the process ends. */
void tt_async_cuda_kept_for_good(struct tt_async_cuda_kept *self);

#endif
