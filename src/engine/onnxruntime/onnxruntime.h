/* Backend "onnxruntime", the default engine: ONNX Runtime on this machine's CPU.
 *
 * An executor is a thread. All executors share one session per step of a model. A session runs on
 * the thread that calls it, so as many batches run at once as there are executors. A model is one
 * graph (one step), or the stages of a graph that was cut (model/onnx/slices.h), one step each.
 * Between tasks the activations of requests wait in slots (engine/slots.h). A batch of adjacent
 * inputs is passed in place. Outputs stay in the runtime's memory until the last member releases
 * the result.
 *
 * Bitwise equality: the steps of a cut graph, run for one batch, give exactly what the whole graph
 * gives for that batch. Whether a row's result depends on the other rows of its batch is a property
 * of the graph and of the runtime's kernels; the slicer checks it.
 *
 * If a batch fails, its members run one by one. A member whose input is at fault (an index out of
 * range, for example) gets INVALID with the runtime's message; the others get their results. If
 * dimension 0 of the outputs is not the batch's rows, the model is at fault and all members get
 * INTERNAL.
 *
 * The engine is used through its kind (engine/engine_kind.h). Its shared part is the library
 * (ort_library.h). Tests call it directly. */
#ifndef TT_ENGINE_ONNXRUNTIME_ONNXRUNTIME_H
#define TT_ENGINE_ONNXRUNTIME_ONNXRUNTIME_H

#include "engine/engine_kind.h"
#include "engine/onnxruntime/ort_library.h"

#include <stdbool.h>

/* Starts the executors. `library` must outlive the engine. Errors: INVALID (executor count or queue
 * depth below 1), NO_MEMORY, IO. Closed by the engine's `close`. */
TT_MUST_CHECK enum tt_err tt_ort_engine_open(struct tt_ort_library *library,
                                             const struct tt_engine_options *options,
                                             struct tt_engine **out_engine, struct tt_error *why);

enum tt_ort_optimization {
    TT_ORT_OPTIMIZE_ALL, /* level 99: everything the runtime has for this CPU */
    TT_ORT_OPTIMIZE_EXTENDED,
    TT_ORT_OPTIMIZE_BASIC,
    TT_ORT_OPTIMIZE_NONE, /* for a graph that is already optimised */
};

struct tt_ort_model_options {
    const char *name;  /* for messages; NULL: the path */
    const char *path;  /* of an ONNX file; or NULL, and then: */
    const void *bytes; /* the file's contents; read during the call only */
    size_t size_bytes;
    bool batched;      /* dimension 0 of every input and output is the rows */
    int32_t max_batch; /* >= 1 if batched */
    enum tt_ort_optimization optimization;
    const char *save_optimized; /* path to write the optimised graph to; NULL: none */
};

/* Makes the session on the calling thread, which may take seconds. Any thread; other models may run
 * meanwhile. Errors: NOT_FOUND, INVALID (not an ONNX model, or it does not batch), UNSUPPORTED
 * (operators or types), NO_MEMORY; the message begins with the name or path. Unloaded by the
 * engine's `unload`. */
TT_MUST_CHECK enum tt_err tt_ort_engine_load(struct tt_engine *engine,
                                             const struct tt_ort_model_options *options,
                                             struct tt_engine_model **out_model,
                                             struct tt_error *why);

struct tt_ort_slices_options {
    const char *name;      /* for messages; NULL: the directory */
    const char *directory; /* made by tt_slices_write */
    int32_t max_batch;     /* >= 1; ignored if the model is not batched */
    int32_t slot_count;    /* rows that may wait between tasks in the pool. 0: at least 64, and
                              max_batch times the largest of stages + 1, executors, and 4 */
    int32_t executors;     /* expected number of executors; for the default of slot_count */
    int32_t own_arenas;    /* E3: this many executors have sessions of their own, each with an arena
                              for its activations; 0: all executors share one */
    int32_t exit_count;
    const struct tt_engine_exit *exits;
};

/* Loads a model that was cut: one step per stage. Errors: as above, and IO. */
TT_MUST_CHECK enum tt_err tt_ort_engine_load_slices(struct tt_engine *engine,
                                                    const struct tt_ort_slices_options *options,
                                                    struct tt_engine_model **out_model,
                                                    struct tt_error *why);

struct tt_cells;

struct tt_ort_cells_options {
    const char *name;             /* for messages */
    const struct tt_cells *cells; /* outlives the model */
    int32_t slot_count;           /* 0: as many as 1 GiB of states holds, at most 262,144 */
};

/* Loads a model of cells: one step per type, for tasks of cells or of whole sequences. Errors: as
 * above. */
TT_MUST_CHECK enum tt_err tt_ort_engine_load_cells(struct tt_engine *engine,
                                                   const struct tt_ort_cells_options *options,
                                                   struct tt_engine_model **out_model,
                                                   struct tt_error *why);

#endif
