/* The engine: executors that run batches of tensors. It is a device set (core/device_set.h) whose
 * tasks carry pointers to tensors.
 *
 * An engine runs in this process. It has executors: threads on a CPU, streams on a GPU, timers on
 * an emulated device. Each executor runs one task at a time, in the order of submission. Every
 * executor can run every model of the engine. A task adds a payload to the metadata of a device
 * task: the rows and the input bytes of each request. If the members' bytes are adjacent in memory,
 * in order, and of one shape, the engine binds them as one batch without a copy. Otherwise it
 * gathers them and counts the bytes copied.
 *
 * A task may cover only some steps of a model. If it begins after step 0, its members continue from
 * their earlier tasks, whatever batches those were. If it ends before the last step, each member
 * keeps what later steps need (`state`). Inputs must stay valid until the last step is done. The
 * model may let a request leave early or skip steps; the member reports this at completion
 * (`next_step`). The other members of the task continue. Steps that no member needs count as done.
 *
 * Life of a task:
 *  1. The caller fills `struct tt_engine_task`, its own memory, untouched until completion.
 *  2. It submits the task, and the executor runs it.
 *  3. The engine calls `done(context, &task->head)` once, on the executor's thread or, with
 *     `run_here`, on the caller's.
 *  4. The outputs stay valid until `tt_engine_result_release`.
 *
 * D4: a task may take up the members of a task that has not ended (`after`). It begins as soon as
 * that task has ended, on any executor, without its caller in between. The engine passes on each
 * member's `state`. A member that failed keeps its error and is not computed. If the first task
 * ended other than as DONE, the second ends as ABORTED. `done` may come for the second one first.
 *
 * If a batch fails, the executor runs its members one by one, so that only the offender gets the
 * error. An aborted task has no results: its members have TT_ERR_CANCELLED and may run again. A
 * preempted task has results only for members that left early; its members have TT_OK.
 *
 * The engine's kind (engine/engine_kind.h) states how to open it, what it needs of a model, and
 * what else it can do. An engine never decides what to run or when, and reads no policy. */
#ifndef TT_ENGINE_ENGINE_H
#define TT_ENGINE_ENGINE_H

#include "base/err.h"
#include "base/line.h"
#include "base/threads/flag.h"
#include "core/device_set.h"
#include "core/tensor.h"

#include <stdbool.h>
#include <stddef.h>

struct tt_engine;
struct tt_engine_model;
struct tt_cell_answer;
struct tt_engine_result; /* outputs of one run, shared by its requests */
struct tt_engine_state;  /* what an engine keeps of a request between its tasks */

/* Bytes of one tensor of one request. Each element of a BYTES tensor is a length of 4 bytes (little
 * endian), then the bytes. In a batched model, dimension 0 of `shape` is the request's rows. */
struct tt_tensor_view {
    const void *bytes;
    size_t size_bytes;
    struct tt_shape shape;
};

/* One request's part in a task. */
struct tt_engine_member {
    int32_t rows;
    const struct tt_tensor_view
        *inputs;    /* one per input of the signature; borrowed until completion */
    void *user;     /* the caller's */
    const char *id; /* the client's for its request; NULL: it gave none; borrowed as `inputs` */
    /* What the engine keeps of the request between two tasks. NULL before the first task and after
     * the last step; each task passes it to the next. If the request ends earlier (cancelled,
     * failed, dropped), the caller must pass it to `state_release`. */
    struct tt_engine_state *state;
    /* Set at completion: */
    enum tt_err err;
    struct tt_error *why;            /* receives the error message; may be NULL */
    struct tt_engine_result *result; /* owned by the member, which releases it; NULL on error */
    int32_t first_row;               /* the member's first row within the result */
    /* D8: the request's next step, if it differs from that of the others; -1: it does not.
     * step_count: it left the model early and has its result. */
    int32_t next_step;
    int32_t skips; /* number of times it skipped steps, within the task or at its end */
};

enum { TT_ENGINE_MAX_SOURCES = 8 };

/* One input of a request to a model of cells: adjacent elements, each of the size that the model
 * states. Borrowed. */
struct tt_engine_elements {
    const void *bytes;
    size_t size_bytes;
};

/* One cell of one request in a task of a model of cells (model/cells/cells.h). The task's one step
 * is the cell's type. A slot holds a cell's outputs for the cells that read it. The caller assigns
 * the slots (engine/cell_slots.h), since it knows which cells are still to come. On one executor,
 * reads and writes follow the order of submission. Between executors the caller waits for
 * completion. */
struct tt_engine_cell {
    const struct tt_engine_elements *inputs; /* the request's, in the model's order; borrowed */
    void *user;                              /* the caller's */
    struct tt_error *why;                    /* receives the error message; may be NULL */
    int64_t emitted; /* set at completion: the integer that the cell emitted, if its type emits */
    int32_t element; /* index of the input element that it reads, if it reads one */
    int32_t slot;    /* the slot that it writes; no other cell of the task reads it */
    int32_t number, spec; /* the caller's */
    enum tt_err err;      /* TT_OK; set at completion if the cell was not computed */
    /* C6: copies that make slots adjacent. `moves_in`: the first source is copied to `staging_slot`
     * and read there. `moves_out`: the outputs are written to `exit` and copied from there to
     * `slot`. Until completion only later tasks on the same executor may use these two slots. */
    bool moves_in, moves_out;
    bool is_read;   /* later cells read `slot`; if not, it is for the answer only */
    bool is_answer; /* cell_emit or cell_finish may read `slot` when the task is back; set for
                       engines that say `tells_answers` */
    int32_t staging_slot;
    int32_t sources[TT_ENGINE_MAX_SOURCES]; /* the slots that it reads, [arity]; -1: the initial
                                               state */
    /* The first cache line ends with sources[0]: a cell of a chain that needs no copies reads no
     * more. */
    int32_t exit;
    /* Of a type with a cache (engine/cell_set.h): the row of the cache's memory that it updates in
     * place. If that is not `cache_from`, the cell first copies that row there; -1: the initial
     * values. The cells of a task are in the order of their rows; those with adjacent ones are one
     * run. */
    int32_t cache, cache_from;
    /* C1: only of a task that says `is_mixed`: the model of its request, whose slots it reads and
     * writes, and its type there. */
    struct tt_engine_model *home;
    int32_t home_type;
} __attribute__((aligned(TT_LINE_BYTES)));
_Static_assert(sizeof(void *) != 8 || offsetof(struct tt_engine_cell, sources[1]) == TT_LINE_BYTES,
               "one cache line");

/* One request in a task that runs whole sequences in one batch (C7). The members go through their
 * chains in step. A member that has finished a chain waits for the longest one, while its rows are
 * still computed. In a `diverging` task the task ends there instead (L6). A task may begin where
 * earlier tasks left its members, whatever batches those were, however many cells each has done. */
struct tt_engine_sequence {
    const struct tt_engine_elements *inputs; /* as in tt_engine_cell */
    void *user;
    const int32_t *repeats;    /* [step_count]: cells of each type (decoder: maximum); borrowed */
    int32_t slots[3];          /* the request's own; the last may be the one that holds `state` */
    int32_t cache, cache_from; /* as in tt_engine_cell; the latter for its first cell here */
    int32_t number;            /* the caller's */
    struct tt_cell_answer *answer; /* receives the rows that it emits */
    /* Position: how many cells of first_step's type are done (rounds, in a recurrent block), and
     * the slot that the last cell wrote (-1: none has run). Updated at completion unless aborted;
     * `round` then refers to next_step. */
    int32_t round, state;
    bool through; /* the engine's: it has finished the current type */
    /* Set at completion: */
    int32_t next_step; /* the step to continue with, if err is TT_OK; step_count: all done */
    enum tt_err err;
    struct tt_error *why;
};

/* Which array of members a task has. */
enum tt_engine_members {
    TT_ENGINE_REQUESTS,  /* `members`: requests to a model of one graph or of stages */
    TT_ENGINE_CELLS,     /* `cells`: one cell each, of one type, of a model of cells */
    TT_ENGINE_SEQUENCES, /* `sequences`: whole chains in step, of a model of cells */
};

/* D4: what a task and the one that takes up its members know of each other. The engine's. */
struct tt_engine_hand_on {
    struct tt_engine_task *follower; /* names this task; under the lock of this task's executor */
    bool is_over;                    /* it has run; under the same lock */
    bool is_refused;                 /* the task named did not end as DONE: this one must not run */
    struct tt_flag may_begin;        /* what the task named leaves is here */
    int64_t
        ended_at; /* on the device's own clock; 0: the device has none, or the task is not over */
    int64_t begins_at; /* the `ended_at` of the task named */
};

/* When copies were under way; both 0: there were none. */
struct tt_engine_copies {
    int64_t begin_at, end_at;
};

struct tt_engine_task {
    struct tt_device_task head; /* first: the part that schedulers and remote devices see */
    struct tt_engine_model *model;
    enum tt_engine_members kind; /* selects the member of the union */
    int32_t member_count;        /* 1 where the model is not batched */
    union {                      /* [member_count]; the caller's */
        struct tt_engine_member *members;
        struct tt_engine_cell *cells;
        struct tt_engine_sequence *sequences;
    };
    /* D4: a task of requests, submitted before this one, whose members these are, in the same
     * order; NULL: none. Its steps come before, and the caller has not taken it back when it
     * submits this one. At most one task names it. A member's `state` is NULL here. */
    struct tt_engine_task *after;
    struct tt_engine_hand_on hand_on; /* the engine's */
    /* E7: called when the outputs of a member are there and the task is still under way for others:
     * the member's `result` and `first_row` are set, and so are the task's `started_at`, `input_ns`
     * and `infer_ns`. Before `done`, on a thread as that. NULL: not wanted. Only engines that say
     * `answers_each` call it. */
    void (*answered)(struct tt_engine_task *task, struct tt_engine_member *member);
    /* Called when the cells of a member, which the engine runs as a whole request, emitted `count`
     * rows of output tt_served_model_emitted(). As `answered`, but the member is still under way.
     * False: its client does not read them. NULL: not wanted. Only engines that say `emits` call
     * it. */
    bool (*emitted)(struct tt_engine_task *task, struct tt_engine_member *member, const void *rows,
                    int32_t count);
    /* C1: cells: they are of several models of the engine, whose types compute the same. None of
     * them moves in or out. `model` and the steps are those of one of them. */
    bool is_mixed;
    bool together;  /* members: none leaves early or skips steps; for measurements */
    bool diverging; /* sequences: ends when the first member finishes a chain; else all wait */
    int32_t stop;   /* the engine's: how it was asked to stop; under the executor's lock */
    /* A run longer than this is one too long (serve/run_watch.h); 0: no limit. Only the caller of
     * `watch` acts on it. */
    int64_t max_run_ns;
    bool was_cut; /* set by watch->cut; read from `done` on */
    /* Receives the instant at which each step ended, beginning with first_step; NULL: not wanted.
     * Not written: steps beyond `step_ends_capacity`, and those of a batch that failed and ran
     * again one by one. */
    int64_t *step_ends;
    int32_t step_ends_capacity;
    /* Sequences: receives how often each step ran; of step_ends_capacity; may be NULL. Of a
     * recurrent block of several steps, the first to run gets the instant of the block's end and
     * the number of steps run; the others get nothing. */
    int32_t *step_rounds;
    /* Set at completion: parts of the time from start to end. input_ns: making the inputs
     * contiguous. infer_ns: running. An engine that does not separate the two counts all as
     * infer_ns. */
    int64_t input_ns, infer_ns;
    struct tt_engine_copies copies_in,
        copies_out;         /* between the host and the memory of an asynchronous device */
    int64_t gathered_bytes; /* copied to make the batch contiguous, padding included */
    int64_t spilled_bytes;  /* of those, activations that found no slots */
    int64_t spared_bytes;   /* C6: cells' states that were read in place, without a copy */
    int64_t cell_count;     /* cells that ran, including rows computed without effect */
    int32_t run_count; /* batches of cells that ran: more where caches were not adjacent; 0: the
                          engine does not count */
};
_Static_assert(offsetof(struct tt_engine_task, head) == 0, "a device task is its beginning");

static inline struct tt_engine_task *tt_engine_task_of(struct tt_device_task *head) {
    return (struct tt_engine_task *)(void *)head;
}

/* E1: inputs that are copied to a device when they arrive, each request alone and in order, while
 * executors compute. A model has a ring of slots, one per row, on the host and on the device. A
 * member whose inputs lie in adjacent slots of the host's part is found on the device; a task waits
 * for the copy of its last member only. Members elsewhere are copied with their batch. */
struct tt_engine_input_ops {
    /* Makes the ring, once per model, before any task of it; out_bytes[i] is that of input i, and
     * holds zeros. It goes with the model. Errors: NO_MEMORY (of the device, too), INVALID. */
    enum tt_err (*open)(struct tt_engine_model *model, int32_t slots, char **out_bytes,
                        struct tt_error *why);
    /* The slots have a request's rows: copies them. Any thread. A copy that finds no place in the
     * device's queue is left to the batch. */
    void (*send)(struct tt_engine_model *model, int32_t first_slot, int32_t rows);
    /* Returns when no copy reads the slots, which are about to be written; a request that left
     * before its copy was made may have used them. At most a second. Any thread. */
    void (*settle)(struct tt_engine_model *model, int32_t first_slot, int32_t rows);
    /* When the copy of the request in these slots was under way; both 0: there was none. Of a
     * member of a task that has come back. */
    struct tt_engine_copies (*copies)(const struct tt_engine_model *model, int32_t first_slot);
};

/* What an executor runs now. */
struct tt_engine_running {
    const struct tt_engine_task *task;
    int64_t started_at;
    int64_t max_run_ns; /* the task's */
    bool is_here;       /* on the thread that called run_here */
};

/* Runs that take too long. An executor whose run does not return even after `cut` is replaced: a
 * new executor takes its index and what is queued behind the run. The lost run keeps the old one.
 * It may return later: `done` is then called with the outcome LOST, and its results are the
 * caller's to release. Until then the task, its members and their inputs belong to the engine. */
struct tt_engine_watch_ops {
    /* False: nothing runs there. Any thread, but not during `replace`. */
    bool (*running)(struct tt_engine *engine, int32_t executor, struct tt_engine_running *out);
    /* Stops that run as abort does, and sets its `was_cut`. No effect if it has ended. Threads as
     * `running`. */
    void (*cut)(struct tt_engine *engine, const struct tt_engine_running *running);
    /* Makes the executor that is to replace this one; no effect if there is one already. Threads as
     * `running`, one at a time. Errors: NO_MEMORY, IO. */
    enum tt_err (*prepare)(struct tt_engine *engine, int32_t executor, struct tt_error *why);
    /* Replaces the executor of that run by the prepared one. False: the run has ended, or it is on
     * the thread that called run_here, or none is prepared. The thread that submits. */
    bool (*replace)(struct tt_engine *engine, const struct tt_engine_running *running);
};

struct tt_engine_ops {
    const char *name;   /* "cpu", "emulated" */
    bool answers_each;  /* see `answered` of a task */
    bool emits;         /* see `emitted` of a task */
    bool tells_answers; /* see `is_answer` of a cell */
    /* submit, flush, yield and abort (core/device_set.h; `self` is the engine). One thread submits
     * all tasks of an executor. Completion is pushed through `done`. */
    struct tt_device_ops device;
    /* Instead of `submit`: runs the task on the calling thread and calls `done` there before it
     * returns. The executor must have nothing queued or running, and gets no submit or stop
     * meanwhile. A run here can be stopped, but not given up: its thread serves connections, and
     * nothing replaces it. So an engine has this only if its runs end soon after they were asked to
     * stop, or take no longer than their inputs explain. NULL: it promises neither, or its
     * executors are not threads of this machine. */
    void (*run_here)(struct tt_engine *engine, struct tt_engine_task *task);
    /* The client of a submitted task's member has gone: its result will be discarded. The task
     * comes back as always; the member has any error or result. The thread that submits, before it
     * has taken the task back. NULL: the engine has no use for it. */
    void (*withdraw)(struct tt_engine *engine, struct tt_engine_member *member);
    const struct tt_engine_watch_ops *watch; /* NULL: runs cannot be watched */
    /* NULL, or takes_inputs() is false: inputs are read where the caller has them. */
    const struct tt_engine_input_ops *inputs;
    bool (*takes_inputs)(const struct tt_engine *engine); /* of an engine with `inputs` */
    /* A device that fails as a whole. True: it has failed, and `why` receives the reason; from then
     * on every task ends as FAILED with it. Any thread. NULL: the engine has no such device. */
    bool (*has_failed)(struct tt_engine *engine, struct tt_error *why);
    /* It has failed: returns all tasks under way, through `done` on the calling thread. No effect
     * the second time. False: the calling thread is within a `done` of the engine's, where this is
     * impossible, and it must be called again. The thread that submits. NULL if has_failed is. */
    bool (*return_failed)(struct tt_engine *engine);
    /* Number of steps of the loaded model, >= 1. */
    int32_t (*step_count)(const struct tt_engine_model *model);
    const struct tt_signature *(*signature)(const struct tt_engine_model *model);
    /* For how many rows the engine has memory between the steps of a model in stages; 0 for a model
     * of one step. Activations of more rows are allocated per request. NULL: no such limit. */
    int32_t (*stage_slots)(const struct tt_engine_model *model);
    /* Number of slots of a model of cells. NULL: the engine runs no models of cells. */
    int32_t (*cell_slots)(const struct tt_engine_model *model);
    /* Number of rows for caches of a model of cells; 0: it has none. NULL: as 0. */
    int32_t (*cell_caches)(const struct tt_engine_model *model);
    void (*unload)(struct tt_engine_model *take_model); /* no task of it may be queued or running */
    /* Output `index` for the rows [first_row, first_row + rows) of the result; borrowed until the
     * result is released. */
    void (*output)(const struct tt_engine_result *result, int32_t index, int32_t first_row,
                   int32_t rows, struct tt_tensor_view *out_view);
    void (*result_release)(struct tt_engine_result *take_result); /* drops one reference */
    /* Models of cells, after a cell has completed; NULL if the engine runs none. _emit: appends the
     * outputs in `slot` to the answer (`most`: maximum of cells that will emit, >= 1). _finish:
     * appends the last ones, and makes a result of one row with one reference. Errors:
     * NO_MEMORY. */
    enum tt_err (*cell_emit)(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                             int32_t slot, int32_t most);
    enum tt_err (*cell_finish)(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                               int32_t slot, struct tt_engine_result **out_result);
    /* Any thread; NULL-safe; no task of the request may be queued or running. */
    void (*state_release)(struct tt_engine_state *take_state);
    void (*close)(struct tt_engine *take_engine); /* nothing may be queued, and no model loaded */
};

/* Every engine and every model begins with these structs; callers dispatch through them. */
struct tt_engine {
    const struct tt_engine_ops *ops;
    int32_t executor_count;
    /* S4: messages to executors take time. Tasks state `received_at`; none runs on the caller's
     * thread. */
    bool is_remote;
    tt_device_done_fn *done;
    void *done_context;
};

struct tt_engine_model {
    struct tt_engine *engine;
};

static inline void tt_engine_submit(struct tt_engine *engine, struct tt_engine_task *task) {
    engine->ops->device.submit(engine, &task->head);
}
static inline void tt_engine_flush(struct tt_engine *engine) {
    if (engine->ops->device.flush)
        engine->ops->device.flush(engine);
}
static inline void tt_engine_yield(struct tt_engine *engine, struct tt_engine_task *task) {
    engine->ops->device.yield(engine, &task->head);
}
static inline void tt_engine_abort(struct tt_engine *engine, struct tt_engine_task *task) {
    engine->ops->device.abort(engine, &task->head);
}

#endif
