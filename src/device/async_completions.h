/* The thread that calls `done` for tasks of a set of executors (device/async_executors.h), where
 * the streams' own calls must not: CUDA forbids a function that it calls on a stream to call the
 * driver, and `done` usually submits the next task.
 *
 * Life of a task: it has ended on the device, and a call on its stream adds it; the thread takes
 * it, in the order in which tasks were added, and calls `done`; then the task is the caller's.
 * Adding
 * never waits for a call of the device. Closing waits until `done` has been called for all.
 * Implemented in async_completions.c. */
#ifndef TT_DEVICE_ASYNC_COMPLETIONS_H
#define TT_DEVICE_ASYNC_COMPLETIONS_H

#include "device/async_executors.h"

struct tt_async_completions;

/* Errors: NO_MEMORY, IO (no thread). */
TT_MUST_CHECK enum tt_err tt_async_completions_open(tt_device_done_fn *done, void *done_context,
                                                    struct tt_async_completions **out_self,
                                                    struct tt_error *why);
/* Any thread. */
void tt_async_completions_add(struct tt_async_completions *self, struct tt_async_task *task);
/* NULL-safe. Nothing is added any more. Not within `done`. */
void tt_async_completions_close(struct tt_async_completions *take_self);

#endif
