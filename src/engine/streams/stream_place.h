/* A place in an executor's queue of a stream engine: its task's work on the device, and the copies
 * to and from it.
 *
 * Life: the engine fills it when a task is submitted; _bring and _put put the copies on streams,
 * and _run is the kernel; when the task is back, _answer makes the result. Then the place may be
 * used again. The submitting thread fills it; until the task is back only the device's threads read
 * it. Implemented in stream_place.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_PLACE_H
#define TT_ENGINE_STREAMS_STREAM_PLACE_H

#include "base/threads/flag.h"
#include "engine/engine_task.h"
#include "engine/streams/stream_model.h"

/* A place in an executor's queue: everything that its task needs until it is back. */
struct tt_stream_place {
    struct tt_async_task async; /* first */
    enum tt_stream_transfer transfer;
    struct tt_engine_task *task;
    struct tt_stream_model *model;
    struct tt_stream_arena arena; /* the model's, for this place */
    /* TT_STREAM_EACH: behind the copies of the inputs, and behind those of the outputs. */
    struct tt_async_event *inputs_came, *outputs_left;
    struct tt_async_task *after; /* the task named */
    struct tt_engine_valid_members valid;
    struct tt_async_range *ranges; /* [max_rows + 1] */
    int32_t *slots;                /* [max_rows]: of each row, in order */
    struct tt_flag has_ended;      /* its task, on the device; raised before its slots are free */
    struct tt_flag is_over;        /* its task has come back */
    bool is_known;                 /* the submitting thread has noticed the end */
};
_Static_assert(offsetof(struct tt_stream_place, async) == 0,
               "an asynchronous task is its beginning");

/* True if the task runs the model's last step. */
bool tt_stream_place_ends_model(const struct tt_stream_place *self);
/* The kernel; `context` is the place. */
enum tt_err tt_stream_place_run(struct tt_async_device *device, void *context);
/* Puts the copies of the inputs on the stream; with TT_STREAM_EACH records `inputs_came` behind
 * them. */
enum tt_err tt_stream_place_bring(struct tt_stream_place *self, struct tt_async_stream *stream);
/* What tt_async_task.put does for the task. */
enum tt_err tt_stream_place_put(struct tt_async_task *task, enum tt_async_put where,
                                struct tt_async_stream *stream);
/* The task is done and its outputs are in pinned memory: gives each member its result, or an
 * error. */
void tt_stream_place_answer(const struct tt_stream_place *self);

#endif
