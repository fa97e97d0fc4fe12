/* The engine that computes: ONNX Runtime on this machine's CPU. The backend "onnxruntime", which is
 * the default.
 *
 * An executor is a thread. All share one session per step of a model, which runs on the thread that
 * calls it, so as many batches run at once as there are executors. A model is one step, the whole
 * graph, or the stages of a graph that was cut (model/onnx/slices.h), one step each. Between tasks
 * the activations of its requests wait in slots (engine/slots.h). A batch whose members' bytes are
 * adjacent is passed where it lies. Outputs stay where the runtime put them until the last member
 * has released the result.
 *
 * What is equal bit for bit: the steps of a cut graph, run for one batch, give what the whole graph
 * gives for that batch. Whether a row's result is independent of its batch mates is a property of
 * the runtime's kernels and of the graph; the slicer finds out.
 *
 * A run that fails is attributed only after the members ran one by one. A member whose input was at
 * fault (an index out of range, say) says INVALID with the runtime's sentence, and the others have
 * their results. Where the outputs do not follow the batch (dimension 0 is not its rows), the model
 * is at fault and all members say INTERNAL.
 *
 * The engine is reached by its kind (engine/engine_kind.h), whose shared part is the library
 * (ort_library.h). Tests call it directly. */
#ifndef TT_ENGINE_ONNXRUNTIME_ONNXRUNTIME_H
#define TT_ENGINE_ONNXRUNTIME_ONNXRUNTIME_H

#include "engine/engine_kind.h"
#include "engine/onnxruntime/ort_library.h"

#include <stdbool.h>

/* Starts the executors. `library` outlives the engine. Errors: INVALID (a count below 1),
 * NO_MEMORY, IO. Close it with its `close`. */
TT_MUST_CHECK enum tt_err tt_ort_engine_open(struct tt_ort_library *library,
                                             const struct tt_engine_options *options,
                                             struct tt_engine **out_engine, struct tt_error *why);

enum tt_ort_optimization {
    TT_ORT_OPTIMIZE_ALL, /* level 99: what the runtime knows for this CPU */
    TT_ORT_OPTIMIZE_EXTENDED,
    TT_ORT_OPTIMIZE_BASIC,
    TT_ORT_OPTIMIZE_NONE, /* a graph that was optimised before */
};

struct tt_ort_model_options {
    const char *name;  /* for messages; NULL: the path */
    const char *path;  /* of an ONNX file; or NULL and: */
    const void *bytes; /* the file's contents, needed during the call only */
    size_t size_bytes;
    bool batched;      /* dimension 0 of every input and output is the rows */
    int32_t max_batch; /* >= 1 where batched */
    enum tt_ort_optimization optimization;
    const char *save_optimized; /* where to write the optimised graph; NULL: nowhere */
};

/* Makes the session, which may take seconds, on the calling thread; any thread, also while others
 * run. Errors: NOT_FOUND, INVALID (no model in there, or it does not batch), UNSUPPORTED (operators
 * or types), NO_MEMORY; the sentence begins with name or path. Unload it with the engine's
 * `unload`. */
TT_MUST_CHECK enum tt_err tt_ort_engine_load(struct tt_engine *engine,
                                             const struct tt_ort_model_options *options,
                                             struct tt_engine_model **out_model,
                                             struct tt_error *why);

struct tt_ort_slices_options {
    const char *name;      /* for messages; NULL: the directory */
    const char *directory; /* that tt_slices_write made */
    int32_t max_batch;     /* >= 1; of no matter where the model is not batched */
    int32_t slot_count;    /* rows that may wait between tasks in the pool; 0: >= 64, and as many
                              full batches as there are stages and one, or executors, >= 4 */
    int32_t executors;     /* that will run it, as far as known; for the usual slot_count */
    int32_t own_arenas;    /* E3: this many executors have an arena each for what they compute in,
                              and sessions of their own with it; 0: all share one */
    int32_t exit_count;
    const struct tt_engine_exit *exits;
};

/* The same for a model that was cut: a step per stage. Errors: also IO. */
TT_MUST_CHECK enum tt_err tt_ort_engine_load_slices(struct tt_engine *engine,
                                                    const struct tt_ort_slices_options *options,
                                                    struct tt_engine_model **out_model,
                                                    struct tt_error *why);

struct tt_cells;

struct tt_ort_cells_options {
    const char *name;             /* for messages */
    const struct tt_cells *cells; /* outlives the model */
    int32_t slot_count;           /* 0: 1 GiB of states, at most 262,144 */
};

/* A model of cells: a step per type, tasks of cells or of whole sequences. Errors: as above. */
TT_MUST_CHECK enum tt_err tt_ort_engine_load_cells(struct tt_engine *engine,
                                                   const struct tt_ort_cells_options *options,
                                                   struct tt_engine_model **out_model,
                                                   struct tt_error *why);

#endif
