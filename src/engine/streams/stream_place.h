/* A place in an executor's queue of a stream engine: its task's work on the device, and the copies
 * to and from it.
 *
 * Life: the engine fills it when a task is submitted; _bring and _put put the copies on streams,
 * and _run is the kernel; when the task is back, _answer makes the result. Then the place may be
 * used again. The submitting thread fills it; until the task is back only the device's threads read
 * it. Implemented in stream_place.c (what is put on streams) and stream_steps.c (the kernel). */
#ifndef TT_ENGINE_STREAMS_STREAM_PLACE_H
#define TT_ENGINE_STREAMS_STREAM_PLACE_H

#include "base/threads/flag.h"
#include "base/threads/lock.h"
#include "engine/engine_task.h"
#include "engine/streams/stream_model.h"

struct tt_stream_cell_work;
struct tt_stream_place;

/* E7: the answer of one valid member, which leaves before the others. */
struct tt_stream_answer {
    struct tt_stream_place *place;
    int32_t member, first_row; /* of the task's valid ones; of its rows in the arena */
    bool is_given;
    struct tt_async_completion completion;
};

/* A place in an executor's queue: everything that its task needs until it is back. */
struct tt_stream_place {
    struct tt_async_task async; /* first */
    enum tt_stream_transfer transfer;
    struct tt_engine_task *task;
    struct tt_stream_model *model;
    struct tt_stream_arena arena; /* the model's, for this place */
    /* TT_STREAM_EACH: behind the copies of the inputs, and, with the order checker, behind those of
     * the outputs; else NULL. */
    struct tt_async_event *inputs_came, *outputs_left;
    struct tt_async_task *after; /* the task named */
    struct tt_engine_valid_members valid;
    int32_t *slots;   /* [max_rows]: of each row, in order */
    bool is_adjacent; /* they are, and the kernel reads and writes them in place */
    /* E1, of a task that begins the model: where the copies of each member were sent. */
    int32_t *ring_slots; /* [max_rows]: the first one of each valid member; -1: its inputs come with
                            the batch */
    int32_t staged;      /* valid members of these */
    int32_t newest;      /* the ring slot whose copy ends last; -1: none */
    bool is_in_place;    /* the kernel reads the ring: all members are there, adjacent */
    struct tt_stream_answer *answers; /* [max_rows]: of the valid members */
    bool gives_answers;               /* one was given: its task's times are known */
    struct tt_flag has_ended; /* its kernel, on the device; raised before its slots are free */
    struct tt_flag is_over;   /* its task has come back */
    int64_t computed_at;      /* when its kernel, a C function, ended; 0: it has not run */
    bool is_known;            /* the submitting thread has noticed the end */
    enum tt_err brought;      /* why the inputs' copies were refused, or TT_OK */
    bool is_refused;          /* the task named was refused, and so is this one */
    struct tt_error why;      /* of a refusal */
    /* Of a task of cells; NULL: it is one of requests, and has no valid members. */
    struct tt_stream_cell_work *cells;
    void (*lost)(struct tt_stream_place *self); /* the kernel of a lost task has returned */
    void (*answer)(void *context);  /* the outputs of a member have come: a tt_stream_answer */
    struct tt_lock lock;            /* guards: */
    bool is_closed;                 /* the device has failed: no kernel begins */
    bool is_computing;              /* the kernel, in a C function, on the device's thread */
    bool is_lost;                   /* the kernel was given up */
    bool is_proven;                 /* a task that took up its members is done: so is this one */
    bool is_asked;                  /* to stop between two steps */
    bool is_followed;               /* a task takes up its members: it does not stop */
    int32_t last_done;              /* the step at which it has stopped; -1: it has not */
    uint64_t turn;                  /* number of tasks so far */
    struct tt_stream_place *before; /* of the task named, in its turn `before_turn`; NULL */
    uint64_t before_turn;
    bool was_cut;
};
_Static_assert(offsetof(struct tt_stream_place, async) == 0,
               "an asynchronous task is its beginning");

/* True if the task runs the model's last step. */
static inline bool tt_stream_place_ends_model(const struct tt_stream_place *self) {
    return self->async.head.last_step == self->model->program.step_count - 1;
}
/* Finds where the inputs are, of a task whose members are known. The submitting thread. */
void tt_stream_place_find_inputs(struct tt_stream_place *self);
/* The kernel, in its two forms; `context` is the place. */
enum tt_err tt_stream_place_run(struct tt_async_device *device, void *context);
enum tt_err tt_stream_place_enqueue(struct tt_async_device *device, void *context,
                                    void *native_stream, struct tt_error *why);
/* The task stops at its next step, if its kernel is a C function that takes its own time, and has
 * slots for its rows. The submitting thread. */
void tt_stream_place_yield(struct tt_stream_place *self);
/* The step at which the task has stopped; -1: it has not. */
int32_t tt_stream_place_stopped(struct tt_stream_place *self);
/* Calls `run` within a kernel that is a C function, unless the device has failed. If it was given
 * up meanwhile, the task is lost, and this calls `lost`. */
enum tt_err tt_stream_place_guard(struct tt_stream_place *self, struct tt_async_device *device,
                                  enum tt_err (*run)(struct tt_stream_place *self,
                                                     struct tt_async_device *device));
/* Puts the copies of the inputs that come with the batch on the stream; with TT_STREAM_EACH records
 * `inputs_came` behind them, also if some were refused. An error is kept in `brought`. */
void tt_stream_place_bring(struct tt_stream_place *self, struct tt_async_stream *stream);
/* What tt_async_task.put does for the task. */
enum tt_err tt_stream_place_put(struct tt_async_task *task, enum tt_async_put where,
                                struct tt_async_stream *stream, struct tt_error *why);
/* E7: the outputs of this member are in pinned memory: gives it its result. False: it has none yet,
 * for want of memory, or it has failed, or the task has stopped before its end. */
bool tt_stream_place_give(struct tt_stream_place *self, struct tt_stream_answer *answer);
/* The task is done and its outputs are in pinned memory: gives each member that has none its
 * result, or an error. */
void tt_stream_place_answer(const struct tt_stream_place *self);
/* The result of rows of what was copied out, shared by `members`; output o begins at[o] bytes into
 * the arena's pinned part. NULL: no memory. */
struct tt_engine_result *tt_stream_place_result(const struct tt_stream_place *self, int32_t members,
                                                const size_t *at, int32_t first_row, int32_t rows);
/* The place is the task's, whose members are those of the task in `before`, or its own (NULL). The
 * submitting thread. */
void tt_stream_place_begin(struct tt_stream_place *self, struct tt_engine_task *task,
                           struct tt_stream_place *before);
/* Lists the slots of all rows, and what the kernel touches. The members are known. */
void tt_stream_place_list_memory(struct tt_stream_place *self);
/* The task is done. So are those whose members it took up, although the device may fail before they
 * have come back: they must not fail. */
void tt_stream_place_proves(struct tt_stream_place *self);
/* The task was refused, alone or with the device: gives each member the reason. A task that takes
 * up the members of one that was refused is aborted. */
void tt_stream_place_fail(struct tt_stream_place *self);
/* The device has failed: no kernel of the place begins any more. False: one runs, and is not
 * lost. */
bool tt_stream_place_shut(struct tt_stream_place *self);

#endif
