/* What computes: the device interface (core/device_set.h) with tensors by pointer.
 *
 * An engine is a device set in this process. It has executors (threads on a CPU, streams on a GPU,
 * timers on an emulated device), each of which runs one task at a time in the order of submission,
 * and models that any of its executors can run. Its tasks carry a payload behind the metadata: per
 * request the rows it brings and where its input bytes lie. Where the members' bytes are adjacent
 * in memory, in order, and of one shape, the engine binds them as one batch without a copy. Else it
 * gathers them, and counts the bytes that it moved.
 *
 * A task that begins in the middle of a model continues its members where their last tasks left
 * them, in whatever batches those were. One that ends in the middle leaves what later steps need
 * with each member (`state`). The inputs must be there until the last step is done. The model may
 * decide that a request leaves early or skips steps; the member says so at completion
 * (`next_step`). Within a task the others go on without it. Where no member is left to run for,
 * the remaining steps count as done.
 *
 * Life of a task: the caller fills `struct tt_engine_task` (its own memory, untouched until
 * completion) and submits it; the executor runs it; the engine calls `done(context, &task->head)`
 * once, on the executor's thread (or the caller's: `run_here`). After that the outputs live until
 * `tt_engine_result_release`. When the run of a batch fails, the executor runs the members one by
 * one, so that only the offender carries the error. An aborted task leaves no result: its members
 * say TT_ERR_CANCELLED and may run again. A preempted task leaves results only for members that
 * left early; its members say TT_OK.
 *
 * How an engine is opened, what it needs of a model and what it can do beyond running tasks is said
 * by its kind (engine/engine_kind.h). The engine never decides what to run or when, and reads no
 * policy. */
#ifndef TT_ENGINE_ENGINE_H
#define TT_ENGINE_ENGINE_H

#include "base/err.h"
#include "base/line.h"
#include "core/device_set.h"
#include "core/tensor.h"

#include <stdbool.h>
#include <stddef.h>

struct tt_engine;
struct tt_engine_model;
struct tt_cell_answer;
struct tt_engine_result; /* the outputs of one run, shared by the requests that were in it */
struct tt_engine_state;  /* what an engine keeps of a request between its tasks */

/* Bytes of one tensor of one request. BYTES tensors are in the protocol's binary form: each element
 * 4 bytes of length (little endian), then its bytes. Dimension 0 of `shape` is the request's rows
 * where the model is batched. */
struct tt_tensor_view {
    const void *bytes;
    size_t size_bytes;
    struct tt_shape shape;
};

/* One request's part in a task. */
struct tt_engine_member {
    int32_t rows;
    const struct tt_tensor_view
        *inputs; /* one per input of the signature; borrowed until completion */
    void *user;  /* the caller's */
    /* What the engine keeps of the request between two tasks: NULL before the first, passed from
     * each task to the next, NULL again after the last step. A request that ends before that
     * (cancelled, failed, dropped) must pass it to `state_release`. */
    struct tt_engine_state *state;
    /* Set at completion: */
    enum tt_err err;
    struct tt_error *why;            /* where to write the sentence; may be NULL */
    struct tt_engine_result *result; /* owned by the member: release it; NULL on error */
    int32_t first_row;               /* of this member within the result */
    /* D8: the request's next step, if it is not the one after the task's last one done: step_count
     * where it left the model early (and has its result). -1: the same as the others. */
    int32_t next_step;
    int32_t skips; /* how often it skipped steps, within the task or at its end */
};

enum { TT_ENGINE_MAX_SOURCES = 8 };

/* An input of a request to a model of cells: adjacent elements of the size that the model says;
 * borrowed. */
struct tt_engine_elements {
    const void *bytes;
    size_t size_bytes;
};

/* One cell of one request in a task of a model of cells (model/cells/cells.h): the task's one step
 * is the cell's type. A slot holds a cell's outputs for the cells that read it. The caller knows
 * which cells are still to come, so it assigns the slots (engine/cell_slots.h). Reads and writes
 * follow the order of submission on one executor; between executors the caller waits for
 * completion. */
struct tt_engine_cell {
    const struct tt_engine_elements *inputs; /* the request's, in the model's order; borrowed */
    void *user;                              /* the caller's */
    struct tt_error *why; /* where to write the sentence of an error; may be NULL */
    int64_t emitted;      /* set at completion: the integer that it emitted, if its type does */
    int32_t element;      /* of the inputs: the one that it reads, where it does */
    int32_t slot;         /* that it writes; no other cell of the task reads it */
    int32_t number, spec; /* the caller's */
    enum tt_err err;      /* TT_OK; set at completion if it was not computed */
    /* C6: how slots are made adjacent. `moves_in`: the first source is copied to `staging_slot` and
     * read there. `moves_out`: the outputs are written to `exit` and copied from there to `slot`.
     * Until the task is back, only later tasks on its executor may use these two slots. */
    bool moves_in, moves_out;
    bool is_read; /* by later cells; else `slot` is for the answer alone */
    int32_t staging_slot;
    int32_t sources[TT_ENGINE_MAX_SOURCES]; /* slots that it reads, [arity]; -1: as it begins */
    /* For a cell of a chain that does not move, the first cache line is enough. */
    int32_t exit;
} __attribute__((aligned(TT_LINE_BYTES)));
_Static_assert(sizeof(void *) != 8 || offsetof(struct tt_engine_cell, sources[1]) == TT_LINE_BYTES,
               "one cache line");

/* A request that goes through its chains in step with the other members (C7): whole sequences in
 * one batch. A member that is through with a chain waits for the longest one while its rows are
 * still computed; or, where `diverging`, the task ends there (L6). A task may begin where earlier
 * ones left its members, whatever batches those were and however many cells each has done. */
struct tt_engine_sequence {
    const struct tt_engine_elements *inputs; /* as above */
    void *user;
    const int32_t *repeats; /* [step_count]: cells of each type (decoder: maximum); borrowed */
    int32_t slots[3];       /* of its own; the last may be the one that holds `state` */
    struct tt_cell_answer *answer; /* receives what it emits */
    /* Its position: cells done of the type (rounds, of the recurrent block) of first_step, and the
     * slot that its last cell wrote (-1: none has run). Updated at completion, but not when
     * aborted; the round is then that of next_step. */
    int32_t round, state;
    bool through; /* with the type at hand: the engine's */
    /* Set at completion: */
    int32_t next_step; /* where it goes on, if without error; step_count: all done */
    enum tt_err err;
    struct tt_error *why;
};

/* Which of the member arrays a task has. */
enum tt_engine_members {
    TT_ENGINE_REQUESTS,  /* `members`: of a model of one graph, or of stages */
    TT_ENGINE_CELLS,     /* `cells`: one cell of one type each, of a model of cells */
    TT_ENGINE_SEQUENCES, /* `sequences`: whole chains in step, of a model of cells */
};

struct tt_engine_task {
    struct tt_device_task head; /* first: what schedulers and remote devices see */
    struct tt_engine_model *model;
    enum tt_engine_members kind; /* says which of the following three is there */
    int32_t member_count;        /* 1 where the model is not batched */
    union {                      /* [member_count]; the caller's */
        struct tt_engine_member *members;
        struct tt_engine_cell *cells;
        struct tt_engine_sequence *sequences;
    };
    bool together;  /* members: none leaves early or skips steps, for measurements */
    bool diverging; /* sequences: stops where some are through with a chain; else all wait */
    int32_t stop;   /* the engine's: how it was asked to stop, under the executor's lock */
    /* Where to write when each step ended, first_step's first; NULL: not wanted. Steps beyond
     * `step_ends_capacity` are left out, and so are those of a batch that was run again one by
     * one. */
    int64_t *step_ends;
    int32_t step_ends_capacity;
    /* How often each step ran, of sequences; as many as step_ends; or NULL. For a recurrent block
     * of several steps the first to run has when the last one ended, and how many ran in all; the
     * others have nothing. */
    int32_t *step_rounds;
    /* Set at completion. Of the time between start and end: making the inputs contiguous, and
     * running. An engine that does not separate the two counts all of it as running. */
    int64_t input_ns, infer_ns;
    int64_t gathered_bytes; /* copied to make the batch contiguous, padding included */
    int64_t spilled_bytes;  /* of those, activations for which there were no slots */
    int64_t spared_bytes;   /* C6: of cells' states that were read where they lay */
    int64_t cell_count;     /* cells that ran, also those without effect */
};
_Static_assert(offsetof(struct tt_engine_task, head) == 0, "a device task is its beginning");

static inline struct tt_engine_task *tt_engine_task_of(struct tt_device_task *head) {
    return (struct tt_engine_task *)(void *)head;
}

struct tt_engine_ops {
    const char *name; /* "cpu", "emulated" */
    /* submit, yield and abort (core/device_set.h; `self` is the engine). All tasks of one executor
     * come from one thread. Completion is pushed: `done`. */
    struct tt_device_ops device;
    /* Instead of `submit`: runs the task on the calling thread, which waits for it and gets its
     * completion in `done`. Nothing may be queued or running on its executor, nor be submitted or
     * stopped meanwhile. NULL: the engine's executors are no threads of this machine. */
    void (*run_here)(struct tt_engine *engine, struct tt_engine_task *task);
    /* Steps of the model as loaded, >= 1. */
    int32_t (*step_count)(const struct tt_engine_model *model);
    const struct tt_signature *(*signature)(const struct tt_engine_model *model);
    /* How many rows' activations there is memory for between the steps of a model in stages; 0
     * where there is one step. Beyond that they are kept in memory of their own. NULL: the engine
     * has no such limit. */
    int32_t (*stage_slots)(const struct tt_engine_model *model);
    /* How many slots a model of cells has. NULL: the engine runs no models of cells. */
    int32_t (*cell_slots)(const struct tt_engine_model *model);
    void (*unload)(struct tt_engine_model *take_model); /* no task of it may be queued or running */
    /* Output `index` of the rows [first_row, first_row + rows) of the result; borrowed until its
     * release. */
    void (*output)(const struct tt_engine_result *result, int32_t index, int32_t first_row,
                   int32_t rows, struct tt_tensor_view *out_view);
    void (*result_release)(struct tt_engine_result *take_result); /* one reference */
    /* Of models of cells, when a cell is back; NULL where the engine has none. _emit: the outputs
     * in `slot` are the next of the answer (`most` cells will emit, at least 1). _finish: they are
     * its last; makes a result of one row with one reference. Errors: NO_MEMORY. */
    enum tt_err (*cell_emit)(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                             int32_t slot, int32_t most);
    enum tt_err (*cell_finish)(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                               int32_t slot, struct tt_engine_result **out_result);
    /* Any thread; NULL-safe; no task of the request may be queued or running. */
    void (*state_release)(struct tt_engine_state *take_state);
    void (*close)(struct tt_engine *take_engine); /* nothing may be queued, no model loaded */
};

/* Every engine and model begins with this, so that a caller dispatches through it. */
struct tt_engine {
    const struct tt_engine_ops *ops;
    int32_t executor_count;
    tt_device_done_fn *done;
    void *done_context;
};

struct tt_engine_model {
    struct tt_engine *engine;
};

static inline void tt_engine_submit(struct tt_engine *engine, struct tt_engine_task *task) {
    engine->ops->device.submit(engine, &task->head);
}
static inline void tt_engine_yield(struct tt_engine *engine, struct tt_engine_task *task) {
    engine->ops->device.yield(engine, &task->head);
}
static inline void tt_engine_abort(struct tt_engine *engine, struct tt_engine_task *task) {
    engine->ops->device.abort(engine, &task->head);
}

#endif
