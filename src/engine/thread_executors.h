/* Executors that are threads: the part that all engines with such executors share.
 *
 * An executor thread has a bounded queue of tasks and runs one at a time, in order. One other
 * thread submits and stops tasks. The executor thread runs each task through its engine's `run`,
 * sets started_at and ended_at, and calls the engine's `done`. To stop a task, its `stop` is set
 * under the executor's lock. If the task is running and must end at once, the engine's `interrupt`
 * is called under the same lock. So a stop never affects the task after it.
 *
 * An engine's struct begins with `struct tt_thread_engine`; the struct of its executors begins with
 * `struct tt_executor_thread`. Its operations table takes submit, run_here, yield and abort from
 * here (TT_THREAD_ENGINE_DEVICE). examples/engine/echo.c is a complete engine of this kind.
 *
 * Life:
 *  - tt_thread_engine_open makes the engine, without threads;
 *  - the engine initialises its own part of each executor;
 *  - tt_thread_engine_start starts the threads, and tt_thread_engine_stop joins them;
 *  - the engine frees its own part of each executor;
 *  - tt_thread_engine_free frees the rest.
 *
 * An executor may be replaced while it runs a task that does not return (struct
 * tt_engine_watch_ops). The new one gets a copy of the old one's queue, and `renew` makes the
 * engine's part of it. The old one keeps its part, since the task may still use it. When the task
 * returns, the old thread ends; tt_thread_engine_stop waits for it.
 *
 * An executor thread knows nothing of models or tensors, and makes no decisions. */
#ifndef TT_ENGINE_THREAD_EXECUTORS_H
#define TT_ENGINE_THREAD_EXECUTORS_H

#include "base/err.h"
#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "base/threads/ring.h"
#include "engine/engine_kind.h"

#include <pthread.h>
#include <stdbool.h>

enum tt_executor_stop { TT_EXECUTOR_GO, TT_EXECUTOR_YIELD, TT_EXECUTOR_ABORT };

struct tt_executor_thread;

struct tt_executor_thread_ops {
    /* Runs the task and sets its outcome, last_step_done, gathered_bytes and members. */
    void (*run)(struct tt_executor_thread *executor, struct tt_engine_task *task);
    /* Cancels an earlier interrupt before a task begins. Executor's thread, under its lock. NULL:
     * nothing to cancel. */
    void (*arm)(struct tt_executor_thread *executor);
    /* Makes `run` return as soon as it can. Submitting thread, under the executor's lock. NULL:
     * `run` polls tt_executor_thread_asked(). */
    void (*interrupt)(struct tt_executor_thread *executor);
    /* Initialises the engine's part (all zero) of an executor that will replace `old`, which runs
     * meanwhile. NULL: zero is a valid state. Errors: NO_MEMORY. */
    enum tt_err (*renew)(struct tt_executor_thread *executor, const struct tt_executor_thread *old);
    /* Frees the engine's part of an executor that is not in tt_thread_engine_executor(): a replaced
     * one, or one that was not needed. NULL: there is nothing to free. */
    void (*release)(struct tt_executor_thread *executor);
};

/* First member of an engine's executor. */
struct tt_executor_thread {
    const struct tt_executor_thread_ops *ops;
    struct tt_engine *engine;
    int32_t index;
    pthread_t thread;
    struct tt_ring queue;
    struct tt_eventcount eventcount;
    struct tt_lock lock; /* guards `current`, the four flags below, and the `stop` of tasks */
    struct tt_engine_task *current;
    bool closing;
    bool is_here; /* the task runs on the caller's thread (run_here); constant while it runs */
    bool is_lost; /* another executor has its index; its thread ends with its task */
    bool is_over; /* its thread has returned its last task */
    struct tt_executor_thread *spare; /* prepared to replace it; NULL: none */
    struct tt_executor_thread *next;  /* in the engine's list of replaced ones */
};

/* First member of an engine. */
struct tt_thread_engine {
    struct tt_engine engine;
    size_t executor_bytes;
    struct tt_executor_thread **executors; /* [executor_count], each of executor_bytes */
    int32_t queue_depth, started;
    struct tt_lock lost_lock;        /* guards the list below, and writing and waking `executors` */
    struct tt_executor_thread *lost; /* replaced ones whose threads are not joined, by `next` */
};

struct tt_thread_engine_layout {
    size_t engine_bytes, executor_bytes; /* sizes of the engine's own structs */
    const struct tt_engine_ops *ops;
};

/* Makes the engine and its executors, all zero except for the fields above; starts no thread.
 * Errors: INVALID (executor count or queue depth below 1), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_thread_engine_open(const struct tt_thread_engine_layout *layout,
                                                const struct tt_engine_options *options,
                                                struct tt_thread_engine **out_engine,
                                                struct tt_error *why);
/* Starts the threads. Errors: NO_MEMORY, IO (the system gave no thread). On error some threads may
 * run, until tt_thread_engine_stop. */
TT_MUST_CHECK enum tt_err tt_thread_engine_start(struct tt_thread_engine *self,
                                                 const struct tt_executor_thread_ops *ops,
                                                 struct tt_error *why);
/* Joins the threads that were started. Nothing may be queued or running, no lost run either. */
void tt_thread_engine_stop(struct tt_thread_engine *self);
/* After tt_thread_engine_stop. */
void tt_thread_engine_free(struct tt_thread_engine *take_self);

static inline struct tt_executor_thread *tt_thread_engine_executor(struct tt_thread_engine *self,
                                                                   int32_t index) {
    tt_assert(index >= 0);
    tt_assert(index < self->engine.executor_count);
    return self->executors[index];
}

/* Operations of engine.h, for every engine whose executors are threads. */
void tt_thread_engine_submit(void *self, struct tt_device_task *task);
void tt_thread_engine_yield(void *self, struct tt_device_task *task);
void tt_thread_engine_abort(void *self, struct tt_device_task *task);
void tt_thread_engine_run_here(struct tt_engine *engine, struct tt_engine_task *task);
#define TT_THREAD_ENGINE_DEVICE                                                                    \
    {                                                                                              \
        .submit = tt_thread_engine_submit, .yield = tt_thread_engine_yield,                        \
        .abort = tt_thread_engine_abort                                                            \
    }
extern const struct tt_engine_watch_ops tt_thread_engine_watch;

/* Executor's thread: how the running task has been asked to stop. */
enum tt_executor_stop tt_executor_thread_asked(struct tt_executor_thread *self);

#endif
