/* The thread that makes calls which the calls of a device's streams must not make: CUDA forbids a
 * function that it calls on a stream to call the driver, and what follows the end of a task usually
 * submits the next one.
 *
 * Life of a completion: a call on a stream adds it; the thread takes it, in the order in which
 * completions were added, and calls its function; from then on it is the caller's again. Adding
 * never waits for a call of the device. Closing waits until all functions have been called.
 * Implemented in async_completions.c. */
#ifndef TT_DEVICE_ASYNC_COMPLETIONS_H
#define TT_DEVICE_ASYNC_COMPLETIONS_H

#include "base/err.h"
#include "base/list.h"

struct tt_async_completions;

/* All zero until it is added, but for: */
struct tt_async_completion {
    void (*call)(void *context);
    void *context;
    struct tt_list_node node;
};

/* Errors: NO_MEMORY, IO (no thread). */
TT_MUST_CHECK enum tt_err tt_async_completions_open(struct tt_async_completions **out_self,
                                                    struct tt_error *why);
/* Any thread. */
void tt_async_completions_add(struct tt_async_completions *self,
                              struct tt_async_completion *completion);
/* NULL-safe. Nothing is added any more. Not within a call. */
void tt_async_completions_close(struct tt_async_completions *take_self);

#endif
