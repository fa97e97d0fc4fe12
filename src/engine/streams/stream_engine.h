/* D4, E1, E7: an engine whose executors are streams of an asynchronous device.
 *
 * Each executor is a stream (device/async_executors.h). A task that takes up the members of another
 * (`after`) waits for that one's event on the device, not on the host. Inputs and outputs cross by
 * streams of their own, each request alone and in order, so copies overlap with computation; a
 * task waits for the event of its last input. Inputs in the model's ring (engine/engine.h, struct
 * tt_engine_input_ops) cross when they arrive; a kernel reads adjacent ones in place, and others
 * are gathered on the device. With TT_STREAM_WHOLE a batch is copied as a whole, on the executor's
 * own stream, strictly before and behind its computation: the baseline.
 *
 * Memory is taken when a model is loaded, and never grows: per executor and place in its queue an
 * arena for all tensors of a batch, and pinned memory for inputs and outputs; per model slots for
 * rows between two steps (stream_layout.h). A row of a request keeps its slot until the last step.
 * So stages that follow each other find it in place, whatever batches they are in.
 *
 * Memory that runs out. A step that finds no device memory for its batch runs in halves, down to
 * single requests. A request that does not fit alone gets NO_MEMORY with the numbers, and takes no
 * part in later steps; the others go on.
 *
 * E7: with TT_STREAM_EACH a member has its answer (`answered` of a task) when its outputs are
 * there, also if those of others are not; the last one with its batch.
 *
 * Life of a task: submitted; its inputs are copied; its stream waits for them, and for the task
 * named by `after`; a kernel runs its steps; the outputs are copied out; `done` is called from a
 * thread of the device, or, in virtual time, from the thread that advances it. A task whose copies
 * or kernel the device refuses fails alone, and what follows it is aborted. A failure of the device
 * makes all tasks fail: those under way come back from `return_failed`, later ones at once. When
 * its models are unloaded and it is closed, the device can restart, and another engine open it.
 *
 * A run that takes too long cannot be stopped. When it is given up (struct tt_engine_watch_ops),
 * the device fails; the reason names the stream and the batch. If the run is in a C function, it is
 * lost, and what it uses stays until the function returns.
 *
 * D8: a task ends behind each step whose exits let requests leave or skip steps
 * (engine/streams/stream_exits.h), unless it says `together`; no task names it by `after`.
 *
 * Stopping. A task whose steps are C functions that take their own time stops at a step boundary
 * when it is asked to yield, unless a task names it by `after`. Others run to their end; `abort`
 * has no effect.
 *
 * Models of requests have signatures of fixed shapes; those of cells are in
 * engine/streams/stream_cells.h, and run tasks of cells, not of sequences. What a step computes is
 * a function of the caller's. The engine never decides what runs, and never waits for the device on
 * the submitting thread. Implemented in stream_engine.c, stream_load.c and stream_model.c;
 * stream_watch.c is what watchdogs see. */
#ifndef TT_ENGINE_STREAMS_STREAM_ENGINE_H
#define TT_ENGINE_STREAMS_STREAM_ENGINE_H

#include "device/async_executors.h"
#include "engine/engine_kind.h"

enum tt_stream_transfer { TT_STREAM_EACH, TT_STREAM_WHOLE };

struct tt_stream_engine_options {
    struct tt_engine_options engine; /* devices, jitter, noise and seed are not read */
    struct tt_async_device *device;  /* borrowed */
    enum tt_stream_transfer transfer;
    /* Maximum rows of a batch. Models can be loaded and unloaded while others run. 0: that of the
     * models loaded before anything runs. */
    int32_t max_rows;
    /* Operations that a stream of the device holds: models that may need more are refused. 0: as
     * many as any of them needs (tt_stream_engine_operations). */
    int32_t queue_depth;
};

/* What a model computes and how long that takes. */
struct tt_stream_program {
    const struct tt_signature *signature; /* copied; only the rows vary */
    int32_t step_count;                   /* >= 1 */
    int32_t slot_count; /* rows between steps, >= the signature's max_batch; 0: one step */
    /* What the steps read and make; outlives the model. NULL: one tensor of `state_bytes` per row,
     * from each step to the next. */
    const struct tt_dataflow *dataflow;
    /* A model of cells (engine/streams/stream_cells.h): a step is a type of them, `signature` is
     * theirs, slot_count (0: the default) is that of cells, `dataflow` is not read, and `in` and
     * `out` below are the rows of the type's inputs and outputs in the order of its plan
     * (engine/cell_set.h). Outlives the model. NULL: a model of requests. */
    const struct tt_cells *cells;
    /* Emulated devices: the time that a task of cells adds, and that per row that it gathers. */
    int64_t task_ns, gather_row_ns;
    size_t state_bytes; /* > 0 with several steps */
    void *context;      /* outlives the model */
    /* Emulated devices: how long it takes; NULL: 1 ns. */
    tt_engine_latency_fn *latency_ns;
    tt_engine_demand_fn *demand_ppm; /* NULL: the whole device */
    /* Computes a step, or the test of an exit (tt_dataflow_run), for rows that lie one behind the
     * other: `in` and `out` are its tensors in the dataflow's order. On the device. INVALID: it is
     * computed again for each member alone, and those at fault get the error. NO_MEMORY: it has
     * done nothing, and is called again with fewer rows. Another error makes the device fail. NULL:
     * the first bytes of a row are copied, others are zero. */
    enum tt_err (*compute)(void *context, int32_t step, int32_t rows, const void *const *in,
                           void *const *out, struct tt_error *why);
    /* The same for devices that run no C functions: puts a step on the stream of `executor`, which
     * is `native_stream` (a CUstream). `in` and `out` are addresses on the device. Errors as of
     * `compute`, but another one makes only the task fail. On the submitting thread. NULL: the
     * model does not run there. */
    enum tt_err (*enqueue)(void *context, int32_t executor, void *native_stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why);
    /* Gets the executors' streams before anything is put on them for the model, on the loading
     * thread. An error is that of loading. NULL: nothing to do. */
    enum tt_err (*prepare)(void *context, void *const *native_streams, int32_t count,
                           struct tt_error *why);
    /* Called when the model is unloaded; not if it could not be loaded. NULL: nothing to do. */
    void (*release)(void *context);
};

/* Operations of all tasks of `places` places for batches of a model with this signature: what a
 * stream must hold. */
int64_t tt_stream_engine_operations(const struct tt_signature *signature, int32_t places);
/* Errors: INVALID, NO_MEMORY, and those of streams and events. */
TT_MUST_CHECK enum tt_err tt_stream_engine_open(const struct tt_stream_engine_options *options,
                                                struct tt_engine **out_engine,
                                                struct tt_error *why);
/* Errors: INVALID (a shape that varies, a count that does not fit, more rows or operations than the
 * engine's options state), UNSUPPORTED (no `enqueue`), NO_MEMORY (of the device, or of the host;
 * nothing is kept). */
TT_MUST_CHECK enum tt_err tt_stream_engine_load(struct tt_engine *engine,
                                                const struct tt_stream_program *program,
                                                struct tt_engine_model **out_model,
                                                struct tt_error *why);

#endif
