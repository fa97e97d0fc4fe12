/* D4, C6: executors that are streams of an asynchronous device: a device set (core/device_set.h).
 *
 * A task is work for a stream. It may name tasks that it comes after, on any executor of the set:
 * its stream then waits for their events on the device, without the host. So a stage can be
 * submitted before the stage that feeds it has ended, and follows it without a gap.
 *
 * Each executor has a stream and two timed events per task that it can hold: it records one before
 * the task's work and one behind it. So the times of a task are the device's own, whenever the host
 * is notified. It waits for one per task of another executor that the task names.
 *
 * Life of a task: submit; its stream waits, runs it, and records its event; `done` is called, once,
 * with DONE or FAILED. `done` comes from the executor's stream. With `notify_apart` it comes from a
 * second stream, so that the first never waits for the host (calls on a GPU's stream hold it up).
 * Where calls on streams must not submit (CUDA), it comes from a thread of the set's
 * (device/async_completions.h). So `done` may submit in any case.
 *
 * If the device fails, tasks under way stay there until tt_async_executors_end, which returns them
 * as FAILED; a task submitted meanwhile returns as FAILED at once, or stays, too. A task whose work
 * could not be put on the stream returns as FAILED alone. If the device refuses the operations by
 * which the set itself keeps order, the set makes the device fail: no task may be lost.
 *
 * A task whose kernel never returns can be lost (_lose): `done` is not called for it, and its
 * executor's stream stays open until _close.
 *
 * One thread submits all tasks of a set. It decides nothing, and never stops a task. Implemented in
 * async_executors.c. */
#ifndef TT_DEVICE_ASYNC_EXECUTORS_H
#define TT_DEVICE_ASYNC_EXECUTORS_H

#include "core/device_set.h"
#include "device/async_completions.h"
#include "device/async_device.h"

struct tt_async_executors;

/* Where a task may put more work. */
enum tt_async_put {
    TT_ASYNC_PUT_FIRST,  /* the executor's stream, before the kernel */
    TT_ASYNC_PUT_LAST,   /* the executor's stream, behind the kernel and before its event */
    TT_ASYNC_PUT_NOTICE, /* the stream that calls `done`, behind the task's event */
};

struct tt_async_task {
    struct tt_device_task head;    /* first; `executor`, and what is set at completion, are used */
    struct tt_async_kernel kernel; /* the work */
    /* Tasks whose results it reads, submitted before; their memory is valid until this task is
     * submitted. A task that has come back need not be named. */
    struct tt_async_task *const *after;
    int32_t after_count;
    /* Puts more work on these streams: copies, waits for events. Called by the submitting thread;
     * with TT_ASYNC_PUT_FIRST also for a task whose work was `refused` before. An error makes the
     * task come back as FAILED. NULL: none. */
    enum tt_err (*put)(struct tt_async_task *task, enum tt_async_put where,
                       struct tt_async_stream *stream, struct tt_error *why);
    const void *user; /* the caller's, for _running; and: */
    int64_t max_run_ns;
    struct tt_error *why; /* receives why its work was refused; may be NULL */
    /* Set by _submit: why its work could not be put on the stream, or TT_OK. The task comes back
     * all the same. */
    enum tt_err refused;
    /* Set before `done`, as head.started_at: when its work ended on the device. head.ended_at is
     * when what _PUT_NOTICE put behind it had ended. */
    int64_t computed_at;
    /* The set's: */
    struct tt_async_executors *set;
    uint64_t number;   /* of the executor's tasks */
    uint64_t end_turn; /* of the event behind its work */
    struct tt_async_completion ended;
};
_Static_assert(offsetof(struct tt_async_task, head) == 0, "a device task is its beginning");

struct tt_async_executors_options {
    struct tt_async_device *device; /* borrowed */
    int32_t executor_count;         /* >= 1 */
    int32_t depth;                  /* tasks of an executor at once, >= 1 */
    bool notify_apart;
    bool notes_starts; /* with notify_apart: the event before the work, too */
    /* A task that is submitted after the device's failure stays there, too: the tasks of an
     * executor come back in the order of their submission. */
    bool keeps_failed;
    tt_device_done_fn *done;
    void *done_context;
};

/* The device's queues hold 4 operations per task, one per task that it names, and those of `put`.
 * Errors: INVALID
 * (a count below 1), NO_MEMORY, and those of opening streams and events. */
TT_MUST_CHECK enum tt_err tt_async_executors_open(const struct tt_async_executors_options *options,
                                                  struct tt_async_executors **out_set,
                                                  struct tt_error *why);
/* NULL-safe. No task is under way, unless the device has failed; kernels of lost tasks have
 * returned. Returns what _end would. */
void tt_async_executors_close(struct tt_async_executors *take_set);
/* The device has failed: returns all tasks under way as FAILED, those of an executor in the order
 * of their submission, through `done` on the calling thread. Waits for what streams do right now,
 * but for lost tasks. Later tasks return as FAILED at once. Not within `done`; the submitting
 * thread. */
void tt_async_executors_end(struct tt_async_executors *self);
/* Never blocks. Of the executor at most `depth` tasks have not come back. */
void tt_async_executors_submit(struct tt_async_executors *self, struct tt_async_task *task);
/* For calls on streams of the set's tasks, before `done` of the task: calls the completion's
 * function as `done` is called, so it may submit, and comes before that. */
void tt_async_executors_call(struct tt_async_executors *self,
                             struct tt_async_completion *completion);
/* When the task began; it has begun, and has not come back. If the device has failed meanwhile:
 * when it was submitted. Needs `notes_starts`. Not in calls on streams. */
int64_t tt_async_executors_started_at(struct tt_async_executors *self,
                                      const struct tt_async_task *task);
/* The same: when its work ended; it has. If the device has failed: now. */
int64_t tt_async_executors_computed_at(struct tt_async_executors *self,
                                       const struct tt_async_task *task);
/* The stream on which the executor's kernels run, until _end. */
struct tt_async_stream *tt_async_executors_stream(const struct tt_async_executors *self,
                                                  int32_t executor);
/* The caller knows that the task has come back: what it submits from now on comes after it. Only
 * the order checker needs that, before memory of the task is used again. False: the device did not
 * answer; try again. The submitting thread. */
bool tt_async_executors_take_back(struct tt_async_executors *self,
                                  const struct tt_async_task *task);

struct tt_async_running {
    const struct tt_async_task *task; /* which one; it may have come back since */
    const void *user;                 /* the task's */
    int64_t started_at, max_run_ns;
};
/* The oldest task of the executor that has begun and not come back. False: there is none. Needs
 * `notes_starts`, or notices on the same stream. Any thread. */
bool tt_async_executors_running(struct tt_async_executors *self, int32_t executor,
                                struct tt_async_running *out_running);
/* That task, if it still runs, does not come back: the caller has found that its kernel hangs. The
 * device fails next. NULL: it has come back. Any thread. */
struct tt_async_task *tt_async_executors_lose(struct tt_async_executors *self, int32_t executor,
                                              const struct tt_async_running *running);
/* The same as a device set of push completion. */
struct tt_device_set tt_async_executors_set(struct tt_async_executors *self);

/* What was submitted to the device so far. */
struct tt_async_executors_counts {
    int64_t tasks, records, waits;
};
struct tt_async_executors_counts tt_async_executors_counts(const struct tt_async_executors *self);

#endif
