/* What runs tasks: the seam between the mechanism and a device.
 *
 * An engine has executors (worker threads on a CPU, streams on a GPU, timers on an emulated
 * device), each of which runs one task at a time in the order of submission, and models that any of
 * its executors can run. A task names a model, the steps to run (0..0 for a whole graph) and its
 * members: per request the rows it brings and where its input bytes lie. Where the members' bytes
 * are adjacent in memory, in order, and of one shape, the engine binds them as one batch without a
 * copy; else it gathers them, and says how many bytes that moved.
 *
 * A task that begins in the middle of a model takes up its members where their last tasks left
 * them, in whatever batches those were; one that ends in the middle leaves what later steps need
 * with each member (`state`). The inputs must be there until the last step is done. Of what the
 * model itself may decide about a request on its way, that it leaves early or skips steps, the
 * member tells at completion (`next_step`); within a task the others go on without it, and where
 * nobody is left to run for, the remaining steps count as done.
 *
 * Life of a task: the caller fills `struct tt_engine_task` (its own memory, untouched until
 * completion) and calls `submit`; the executor runs it; the engine calls `done(context, task)`
 * once, on the executor's thread (or the caller's: `run_here`), after which the outputs live until
 * `tt_engine_result_release`. When the run of a batch fails, the executor runs the members one by
 * one, so that only the offender carries the error. A task that was aborted leaves no result (its
 * members say TT_ERR_CANCELLED and may run again), nor, but for who left early, does one that was
 * preempted (its members say TT_OK).
 *
 * The engine never decides what to run or when, and reads no policy. */
#ifndef TT_ENGINE_ENGINE_H
#define TT_ENGINE_ENGINE_H

#include "base/err.h"
#include "base/line.h"
#include "core/tensor.h"

#include <stdbool.h>

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
    /* What the engine keeps of the request between two tasks: NULL before the first, handed on from
     * each task to the next, NULL again after the one that ended with the last step. A request that
     * goes before that (cancelled, failed, dropped) gives it to `state_release`. */
    struct tt_engine_state *state;
    /* Set at completion: */
    enum tt_err err;
    struct tt_error *why;            /* where to write the sentence; may be NULL */
    struct tt_engine_result *result; /* owned by the member: release it; NULL on error */
    int32_t first_row;               /* of this member within the result */
    /* D8: where the request goes on, if not at the step behind the task's last one done: step_count
     * where it left the model early (and has its result). -1: with the others. */
    int32_t next_step;
    int32_t skips; /* how often it went on behind some steps, within the task or at its end */
};

enum { TT_ENGINE_MAX_SOURCES = 8 };

/* An input of a request to a model of cells: elements behind each other, of the size that the model
 * says; borrowed. */
struct tt_engine_elements {
    const void *bytes;
    size_t size_bytes;
};

/* One cell of one request in a task of a model of cells (model/cells/cells.h): the task's one step
 * is the cell's type. A slot is where a cell's outputs stay for those that read it; the caller, who
 * knows which cells are still to come, hands slots out (engine/cell_slots.h). Reading and writing
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
    /* C6: how slots become adjacent that would not be. `moves_in`: the first source is copied to
     * `seat` and read there. `moves_out`: what it makes is written to `exit`, and from there copied
     * to `slot`. Nobody else has to do with these two until the task is back, but tasks behind it
     * on its executor. */
    bool moves_in, moves_out;
    bool is_read; /* by cells to come; else `slot` is for the answer alone */
    int32_t staging_slot;
    int32_t sources[TT_ENGINE_MAX_SOURCES]; /* slots that it reads, [arity]; -1: as it begins */
    /* Of a chain's cell that stays where it is all that matters is in the first line. */
    int32_t exit;
} __attribute__((aligned(TT_LINE_BYTES)));
_Static_assert(sizeof(void *) != 8 || offsetof(struct tt_engine_cell, sources[1]) == TT_LINE_BYTES,
               "one cache line");

/* A request that goes through its chains in step with the other members (C7): what whole sequences
 * in one batch are. Who is through with a chain waits for the longest, and its rows are computed
 * on; or, where the members part, the task ends there (L6). A task may begin where earlier ones
 * left its members, whatever batches those were and however many cells each has behind it. */
struct tt_engine_sequence {
    const struct tt_engine_elements *inputs; /* as above */
    void *user;
    const int32_t *repeats; /* [step_count]: cells of each type, in a decoder the most; borrowed */
    int32_t slots[3];       /* of its own; the last may be the one that holds `state` */
    struct tt_cell_answer *answer; /* what it emits goes there, and what its last cell gave */
    /* Where it stands: cells behind it of the type (rounds, of the recurrent block) of first_step,
     * and the slot that its last cell wrote (-1: none has run). Set anew at completion, but not
     * when aborted; then the round is that of next_step. */
    int32_t round, state;
    bool through; /* with the type at hand: the engine's */
    /* Set at completion: */
    int32_t next_step; /* where it goes on, if without error; step_count: through with all */
    enum tt_err err;
    struct tt_error *why;
};

enum tt_engine_outcome {
    TT_ENGINE_DONE,
    TT_ENGINE_ABORTED,
    TT_ENGINE_PREEMPTED,
    TT_ENGINE_DIVERGED, /* some sequences are through with the type of last_step_done, others not */
};

struct tt_engine_task {
    struct tt_engine_model *model;
    int32_t executor;
    int32_t first_step, last_step;
    int32_t length; /* > 0: pad dimension 1 of every input of a batched model where it is variable
                       to this */
    int32_t member_count; /* 1 where the model is not batched */
    struct tt_engine_member *members;
    bool together; /* nobody leaves early or skips steps: for who measures */
    /* Of a model of cells, instead of members, `member_count` of one of these: */
    struct tt_engine_cell *cells;
    struct tt_engine_sequence *sequences;
    bool diverging; /* sequences: stops where some are through with a chain; else all wait */
    void *user;     /* the caller's */
    int32_t stop;   /* the engine's: how it was asked to stop, under the executor's lock */
    /* Where to write when each step ended, first_step's first; NULL: nobody asks. Steps beyond
     * `step_ends_capacity` go without, and so do those of a batch that was run again one by one. */
    int64_t *step_ends;
    int32_t step_ends_capacity;
    /* And how often it ran, of sequences; as many as step_ends; or NULL. Of a recurrent block of
     * several steps the first to run has when the last one ended, and how many ran in all, one
     * after the other and around; the others have nothing. */
    int32_t *step_rounds;
    /* Set at completion: */
    enum tt_engine_outcome outcome;
    int32_t last_step_done;
    int64_t started_at, finished_at; /* of the monotonic clock */
    /* Of the time between: making the inputs contiguous, and running. An engine that does not tell
     * them apart has run all the time. */
    int64_t input_ns, infer_ns;
    int64_t gathered_bytes; /* copied to make the batch contiguous, padding included */
    int64_t spilled_bytes;  /* of those, activations for which there were no slots */
    int64_t spared_bytes;   /* C6: of cells' states that were read where they lay */
    int64_t cell_count;     /* that ran, those in vain too */
};

typedef void tt_engine_done_fn(void *context, struct tt_engine_task *task);

struct tt_engine_ops {
    const char *name; /* "cpu", "emulated" */
    /* Queues the task on its executor. Never blocks; the caller keeps within the executor's depth,
     * and all tasks of one executor come from one thread. */
    void (*submit)(struct tt_engine *engine, struct tt_engine_task *task);
    /* Instead of `submit`: runs the task on the calling thread, which waits for it and hears of it
     * in `done`. Nothing may be queued or running on its executor, nor be submitted or stopped
     * meanwhile. NULL: the engine's executors are no threads of this machine. */
    void (*run_here)(struct tt_engine *engine, struct tt_engine_task *task);
    /* Asks a submitted task to stop: at its next step boundary, at least one step done (yield), or
     * as soon as the device can, before it began if need be (abort). It names the task, not the
     * executor, so that it can never hit the one that followed. Completion comes in either case,
     * and only once; it may be DONE where the task was quicker. From the thread that submits, and
     * before that thread has given the task's memory up. */
    void (*yield)(struct tt_engine *engine, struct tt_engine_task *task);
    void (*abort)(struct tt_engine *engine, struct tt_engine_task *task);
    /* Steps of the model as loaded, >= 1. */
    int32_t (*step_count)(const struct tt_engine_model *model);
    const struct tt_signature *(*signature)(const struct tt_engine_model *model);
    void (*unload)(struct tt_engine_model *take_model); /* no task of it may be queued or running */
    /* Output `index` of the rows [first_row, first_row + rows) of the result; borrowed until its
     * release. */
    void (*output)(const struct tt_engine_result *result, int32_t index, int32_t first_row,
                   int32_t rows, struct tt_tensor_view *out_view);
    void (*result_release)(struct tt_engine_result *take_result); /* one reference */
    /* Of models of cells, when a cell is back, NULL where the engine has none: the outputs that lie
     * in `slot` are the next of the answer (`most` cells will emit, at least 1), or its last: a
     * result of one row, one reference. Errors: NO_MEMORY. */
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
    tt_engine_done_fn *done;
    void *done_context;
};

struct tt_engine_model {
    struct tt_engine *engine;
};

#endif
