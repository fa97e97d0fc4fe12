/* D4, E1, E7: an engine whose executors are streams of an asynchronous device.
 *
 * Each executor is a stream (device/async_executors.h). A task that takes up the members of another
 * (`after`) waits for that one's event on the device, not on the host. Inputs and outputs cross by
 * streams of their own, each request alone and in order, so copies overlap with computation; a
 * task waits for the event of its last input. With TT_STREAM_WHOLE a batch is copied as a whole, on
 * the executor's own stream, strictly before and behind its computation: the baseline.
 *
 * Memory is taken when a model is loaded, and never grows: per executor and place in its queue an
 * arena for inputs, outputs and one step's results, and pinned memory of the same size; per model
 * slots for rows between two steps. A row of a request keeps its slot until the last step. So
 * stages that follow each other find it in place, whatever batches they are in.
 *
 * Life of a task: submitted; its inputs are copied; its stream waits for them, and for the task
 * named by `after`; a kernel runs its steps; the outputs are copied out; `done` is called from a
 * thread of the device, or, in virtual time, from the thread that advances it. A failure of the
 * device makes all tasks fail: those under way come back from `return_failed`, later ones at once.
 * When its models are unloaded and it is closed, the device can restart, and another engine open
 * it.
 *
 * Models have signatures of fixed shapes. What a step computes is a function of the caller's. The
 * engine stops no task: `yield` and `abort` have no effect. It never decides what runs, and never
 * waits for the device on the submitting thread. Implemented in stream_engine.c and
 * stream_model.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_ENGINE_H
#define TT_ENGINE_STREAMS_STREAM_ENGINE_H

#include "device/async_executors.h"
#include "engine/engine_kind.h"

enum tt_stream_transfer { TT_STREAM_EACH, TT_STREAM_WHOLE };

struct tt_stream_engine_options {
    struct tt_engine_options engine; /* devices, jitter, noise and seed are not read */
    struct tt_async_device *device; /* borrowed; its streams hold 8 + max_batch operations a task */
    enum tt_stream_transfer transfer;
};

/* What a model computes and how long that takes. */
struct tt_stream_program {
    const struct tt_signature *signature; /* copied; only the rows vary */
    int32_t step_count;                   /* >= 1 */
    int32_t slot_count; /* rows between steps, >= the signature's max_batch; 0: one step */
    size_t state_bytes; /* of a row between steps; > 0 with several steps */
    void *context;      /* outlives the model */
    /* Emulated devices: how long it takes; NULL: 1 ns. */
    tt_engine_latency_fn *latency_ns;
    int32_t demand_ppm; /* 0: the whole device */
    /* Computes a step for rows that lie one behind the other. Step 0 reads the inputs, others the
     * state; the last step writes the outputs, others the state. An error makes the device fail. On
     * the device. NULL: the first bytes of a row are copied, others are zero. */
    enum tt_err (*compute)(void *context, int32_t step, int32_t rows, const void *const *in,
                           void *const *out);
};

/* Errors: INVALID, NO_MEMORY, and those of streams and events. */
TT_MUST_CHECK enum tt_err tt_stream_engine_open(const struct tt_stream_engine_options *options,
                                                struct tt_engine **out_engine,
                                                struct tt_error *why);
/* Errors: INVALID (a shape that varies, a count that does not fit), NO_MEMORY (of the device, or
 * of the host; nothing is kept). */
TT_MUST_CHECK enum tt_err tt_stream_engine_load(struct tt_engine *engine,
                                                const struct tt_stream_program *program,
                                                struct tt_engine_model **out_model,
                                                struct tt_error *why);

#endif
