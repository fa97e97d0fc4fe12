/* The device interface: whatever runs batches for a scheduler, be it local, emulated or remote.
 *
 * A device set is a number of executors. Each executor runs one task at a time, in the order of
 * submission. A task is one batch: consecutive steps of one model for some requests. Two kinds of
 * caller meet here, and they need different things:
 *   - A scheduler knows requests by metadata only: ids, rows, model, steps, executor, times. That
 *     is `struct tt_device_task`, and it is all that a remote or emulated device needs.
 *   - A local engine (engine/engine.h) also needs the tensors by pointer. That is a payload: a
 *     larger struct whose first member is the device task. Only the engine reads the payload.
 *
 * Life of a task: the scheduler fills the metadata and calls `submit`. From then on the task
 * belongs to the device set. It comes back exactly once, with `outcome`, `last_step_done`,
 * `started_at` and `ended_at` set, in one of two ways that the device set chooses when it opens:
 *   - push: it calls a `tt_device_done_fn` from a thread of its own (engines);
 *   - pull: the scheduler calls `ended` until that returns NULL, at the latest at `next_at`
 *     (emulated fleets; devices whose messages arrive on a ring that the scheduler polls).
 * The outcome has one meaning for all of them (enum tt_outcome). A task that was asked to stop may
 * still end as DONE. A LOST task came back since its executor went away: nothing of it counts, and
 * no state of it exists any more.
 *
 * Which functions are needed: `submit` is mandatory. A pull device implements `ended` and
 * `next_at`, a push device neither. `lose` is mandatory where executors can go away. `yield` and
 * `abort` are mandatory where the policy may stop tasks. `flush` and `pending` are optional.
 *
 * A device set never decides what to run, when, or where. It reads no queue and no policy. */
#ifndef TT_CORE_DEVICE_SET_H
#define TT_CORE_DEVICE_SET_H

#include <stdbool.h>
#include <stdint.h>

/* How a task came back. */
enum tt_outcome {
    TT_OUTCOME_DONE,      /* every step of the task ran */
    TT_OUTCOME_PREEMPTED, /* stopped at a step boundary on request (YIELD) */
    TT_OUTCOME_DIVERGED,  /* stopped where a recurrent block ended for some of its requests only */
    TT_OUTCOME_ABORTED,   /* stopped on request (ABORT); nothing of it counts */
    TT_OUTCOME_FAILED,    /* the device failed; every request of it fails */
    TT_OUTCOME_LOST,      /* the executor went away; nothing of it counts */
};

/* A request as metadata. The device set returns `id` and never interprets it. */
struct tt_device_request {
    int64_t arrived_at;
    int64_t deadline_at; /* TT_NEVER: none */
    uint64_t id;
    uint16_t model;
    uint16_t rows; /* >= 1 */
    int32_t length;
};
_Static_assert(sizeof(struct tt_device_request) == 32, "two to a cache line");

enum { TT_DEVICE_ALL_STEPS = -1 }; /* as last_step: up to the model's last */

/* One batch as metadata. The first cache line is what every submission and completion touches. */
struct tt_device_task {
    int32_t model;           /* the number that the scheduler and the device set agreed upon */
    int32_t executor;        /* of the device set */
    int32_t count;           /* requests */
    int32_t rows;            /* of all requests */
    int32_t length;          /* inputs are padded to this; 0: they stay as they are */
    enum tt_outcome outcome; /* set at completion */
    int64_t submitted_at;    /* set by the scheduler: when it decided */
    int64_t start_at;        /* not before this; devices with a clock start at once */
    int64_t started_at;      /* set at completion, on the device's clock */
    int64_t ended_at;        /* the same */
    /* When the task's message was at the device (S4), set at completion where messages take time;
     * 0: they do not. */
    int64_t received_at;
    void *user;                    /* the scheduler's */
    int32_t first_step, last_step; /* 0 and TT_DEVICE_ALL_STEPS: the whole model */
    /* Set at completion where last_step names a step; first_step - 1: none. */
    int32_t last_step_done;
    /* Set at completion: the device reports another task at once, from the same thread, so the
     * scheduler need not be woken for this one. */
    bool more;
    /* [count] ids and rows for devices that are not in this process; NULL: the payload has them. */
    const struct tt_device_request *requests;
};

/* Push completion: returns the task to the scheduler. Called on a thread of the device set, or on
 * the caller's where a task runs there. */
typedef void tt_device_done_fn(void *context, struct tt_device_task *task);

/* All operations but `yield` and `abort` are called by one thread at a time per executor (push), or
 * by one thread (pull). */
struct tt_device_ops {
    /* Queues the task on its executor. Never blocks. The caller keeps within the executor's depth.
     * A device set with `flush` may hold the task back until then. */
    void (*submit)(void *self, struct tt_device_task *task);
    /* The scheduler's turn is over: everything submitted must go out. NULL: submit did that. */
    void (*flush)(void *self);
    /* Asks a submitted task to stop: after its current step, at least one done (yield), or as soon
     * as the device can, even before it began (abort). The task comes back as always, once. Called
     * by the thread that submits, before it has taken the task back. NULL: tasks cannot be
     * stopped. */
    void (*yield)(void *self, struct tt_device_task *task);
    void (*abort)(void *self, struct tt_device_task *task);
    /* The executor has gone away. Its task, if any, comes back as LOST, at once or when the device
     * gives it up. NULL: executors never go away. */
    void (*lose)(void *self, int64_t now, int32_t executor);
    /* Pull: a task that has ended by `now`; NULL: none is left. */
    struct tt_device_task *(*ended)(void *self, int64_t now);
    /* Pull: true if `ended` would return a task. Called before the scheduler sleeps, so that a task
     * that ends at that instant is not missed. NULL: `next_at` is enough. */
    bool (*pending)(void *self);
    /* Pull: when to call `ended` again even if nothing wakes the scheduler; TT_NEVER. */
    int64_t (*next_at)(void *self);
};

/* A device set in the hands of its scheduler. */
struct tt_device_set {
    void *self;
    struct tt_device_ops ops;
};

#endif
