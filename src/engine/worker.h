/* An executor that is a thread: a bounded queue of tasks, run one at a time in order.
 *
 * One other thread submits and stops tasks; the worker runs each through its engine's `run`, stamps
 * start and finish, and tells the engine's owner (`done`). To stop a task, its mark is set under
 * the worker's lock, and, if it is the one that runs and shall end at once, the engine's
 * `interrupt` is called under the same lock: so a stop never reaches the task after it. The worker
 * knows nothing of models or tensors. */
#ifndef TT_ENGINE_WORKER_H
#define TT_ENGINE_WORKER_H

#include "base/err.h"
#include "base/lock.h"
#include "base/parker.h"
#include "base/ring.h"
#include "engine/engine.h"

#include <pthread.h>
#include <stdbool.h>

enum tt_worker_stop { TT_WORKER_GO, TT_WORKER_YIELD, TT_WORKER_ABORT };

struct tt_worker;

struct tt_worker_ops {
    /* Runs the task and sets its outcome, last_step_done, gathered_bytes and members. */
    void (*run)(struct tt_worker *worker, struct tt_engine_task *task);
    /* Takes back an earlier interrupt, before a task begins; worker's thread, under its lock. */
    void (*arm)(struct tt_worker *worker);
    /* Makes `run` return as soon as it can; submitting thread, under the worker's lock. */
    void (*interrupt)(struct tt_worker *worker);
};

struct tt_worker {
    const struct tt_worker_ops *ops;
    struct tt_engine *engine;
    int32_t index;
    pthread_t thread;
    struct tt_ring queue;
    struct tt_parker parker;
    struct tt_lock lock; /* guards the two below, and the `stop` of queued tasks */
    struct tt_engine_task *current;
    bool closing;
    bool is_here; /* the task runs on another thread than the worker's: tt_worker_run_here */
};

/* Starts the thread. `engine` outlives the worker; `depth` is the most tasks queued or running.
 * Errors: NO_MEMORY, IO (no thread to be had). */
TT_MUST_CHECK enum tt_err tt_worker_open(struct tt_worker *self, const struct tt_worker_ops *ops,
                                         struct tt_engine *engine, int32_t index, int32_t depth,
                                         struct tt_error *why);
/* Ends the thread; nothing may be queued or running. */
void tt_worker_close(struct tt_worker *self);
/* Submitting thread. More tasks than `depth` are a bug. */
void tt_worker_submit(struct tt_worker *self, struct tt_engine_task *task);
/* Runs the task on the calling thread, as the worker would. Nothing else is queued or running, and
 * nobody submits or stops until it returns. */
void tt_worker_run_here(struct tt_worker *self, struct tt_engine_task *task);
void tt_worker_stop(struct tt_worker *self, struct tt_engine_task *task, enum tt_worker_stop how);
/* Worker's thread: how the running task was asked to stop so far. */
enum tt_worker_stop tt_worker_asked(struct tt_worker *self);

#endif
