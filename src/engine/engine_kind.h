/* The kinds of engines: how each is opened, how it loads a model, and what else it can do.
 *
 * A kind is a constant table in the engine's own file, and one line in engine/engine_registry.c.
 * Nothing else outside that file knows the engine: the loader, the slicer, the profiler, the lab
 * and the verbs speak to kinds only. examples/engine/echo.c is a complete kind.
 *
 * Life: tt_engine_runtime_open once per kind and process (it loads a runtime library, say);
 * tt_engine_open per domain; tt_engine_load per model, on an engine that serves no requests;
 * tt_engine_adopt moves a loaded model to the engine that will run it. Engines are closed before
 * their runtime. One thread at a time opens, loads, adopts and closes.
 *
 * Optional parts and what happens without them:
 *   open_shared   nothing is shared between the kind's engines
 *   adopt         a loaded model runs on any engine of the kind
 *   cutting       the kind cannot cut models: `stages` in tutti.pbtxt has no effect, and the model
 *                 is served as one step; `tutti slice` reports an error
 *   traits        see core/engine_traits.h */
#ifndef TT_ENGINE_ENGINE_KIND_H
#define TT_ENGINE_ENGINE_KIND_H

#include "base/err.h"
#include "core/device.h"
#include "core/engine_traits.h"
#include "core/step_model.h"
#include "engine/engine.h"
#include "engine/synthetic_input.h"

struct tt_cells;
struct tt_onnx_graph;

/* ---- opening ---- */

struct tt_engine_runtime_options {
    const char *onnxruntime; /* path of the ONNX Runtime library; NULL: looked for */
};

/* One emulated device: its executors share its capacity as the demands of their models say. */
struct tt_engine_device {
    int32_t executors;
    struct tt_copy_engine copy_in, copy_out; /* for models with bytes; all 0: they cost no time */
    int64_t abort_ns;                        /* an aborted executor recovers for so long */
};

struct tt_engine_options {
    int32_t executor_count; /* >= 1 */
    int32_t queue_depth;    /* >= 1: maximum of tasks submitted and not done, per executor */
    tt_device_done_fn *done;
    void *done_context;
    /* Read by kinds that emulate. Executors are assigned to devices in this order; NULL: each has
     * one of its own. */
    const struct tt_engine_device *devices;
    int32_t device_count;
    int32_t jitter_permille; /* a step takes its latency * (1 + j), j uniform in -this .. +this */
    uint64_t seed;           /* of the jitter */
};

/* ---- loading ---- */

/* D8: a request that meets the condition after the step leaves the model there, or skips steps. */
struct tt_engine_exit {
    int32_t step;              /* from 0; not the last one */
    int32_t to;                /* the step that follows; 0: none, the request leaves */
    const char *graph;         /* an ONNX file that reads tensors of the model; NULL: none */
    const char *condition;     /* an output of it, a BOOL or a FP32 (above 0) per row; NULL: that */
    const char *moved, *since; /* row by row, |moved - since| < less_than * |since| */
    double less_than;
    /* What skipped steps would have made is the graph's output of the same name, or: */
    int32_t give_count;
    const struct tt_engine_give {
        const char *tensor;
        const char *from; /* an output of the graph, or a tensor that is there */
    } * gives;
};

/* Nanoseconds that steps first..last take for `rows` rows; `length` is the padded length, or
 * without padding dimension 1 of the first input where that is variable, or 0. Called on
 * executors' threads. */
typedef int64_t tt_engine_latency_fn(void *context, int32_t rows, int32_t length,
                                     int32_t first_step, int32_t last_step);
/* The share of its device that a step keeps busy, in millionths; as above. */
typedef int32_t tt_engine_demand_fn(void *context, int32_t rows, int32_t length, int32_t step);

/* Of an emulated model of cells (model/cells/cells.h: plain): a type per step. */
struct tt_engine_emulated_cells {
    const struct tt_cells *cells;      /* borrowed; NULL: a model of one graph */
    const struct tt_step_model *steps; /* borrowed */
    int32_t slot_count;
    /* C6: what a task by cells takes besides its cells, and for each row where it gathers. */
    int64_t task_ns, gather_row_ns;
};

/* How long a model takes, for kinds that emulate. */
struct tt_engine_emulation {
    const struct tt_signature *signature; /* copied */
    int32_t step_count;                   /* >= 1 */
    tt_engine_latency_fn *latency_ns;
    void *latency_context;           /* outlives the model */
    tt_engine_demand_fn *demand_ppm; /* NULL: the whole device */
    int64_t input_bytes,
        output_bytes; /* of one row: copied before the first step, after the last */
    struct tt_engine_emulated_cells cells;
};

enum tt_engine_form {
    TT_ENGINE_GRAPH,    /* one graph, one step; `path` is its file (NULL where no file is needed) */
    TT_ENGINE_STAGES,   /* one step per stage; `path` is the directory of the cut */
    TT_ENGINE_CELL_SET, /* one step per type of cells; `cells` */
};

struct tt_engine_model_spec {
    enum tt_engine_form form;
    const char *name; /* for messages; NULL: the path */
    const char *path;
    const struct tt_signature *signature; /* as configured; copied; NULL: as the file says */
    bool batched;                         /* dimension 0 of every input and output is the rows */
    int32_t max_batch;                    /* >= 1 where batched */
    /* Stages: */
    int32_t slot_count; /* rows that may wait between tasks; 0: the engine's default */
    int32_t executors;  /* that will run it, as far as known; for the default slot_count */
    int32_t own_arenas; /* E3: so many executors get working memory each; 0: all share one */
    int32_t exit_count;
    const struct tt_engine_exit *exits;
    /* Cells: */
    const struct tt_cells *cells; /* outlives the model */
    /* How long it takes; read by kinds that emulate. */
    const struct tt_engine_emulation *emulation;
    const char *save_optimized; /* graph, kinds with `cutting`: where to write the optimised graph;
                                   NULL: nowhere */
};

/* ---- cutting ---- */

struct tt_engine_probe_options {
    void *shared;                /* the runtime's */
    struct tt_onnx_graph *graph; /* optimised; its tables are filled in */
    const struct tt_signature *signature;
    int32_t length; /* what variable dimensions become */
};

struct tt_engine_probe_report {
    enum tt_synthetic_input_kind synthetic; /* the first kind that the model ran with */
    int32_t rounded_count;                  /* tensors whose rows are equal up to rounding only */
    int32_t first_rounded;                  /* the first of them; -1: none */
};

/* What the slicer needs of an engine to cut a model (slicer/slicer.h). */
struct tt_engine_cutting {
    /* Release of the runtime: stages made by another one are made anew. */
    const char *(*version)(const void *shared);
    /* Finds types, shapes and rows of every tensor by running made-up inputs. Errors: INVALID (no
     * made-up input runs, or the model is said to batch and does not), UNSUPPORTED, NO_MEMORY. */
    enum tt_err (*probe)(const struct tt_engine_probe_options *options,
                         struct tt_engine_probe_report *out_report, struct tt_error *why);
    /* Writes how long each node takes for a batch of `rows`, the median of `runs` runs, to
     * out_times_ns[node_count]. `scratch` is a directory for temporary files. */
    enum tt_err (*time_nodes)(const struct tt_engine_probe_options *options,
                              enum tt_synthetic_input_kind synthetic, int32_t rows, int32_t runs,
                              const char *scratch, int64_t *out_times_ns, struct tt_error *why);
};

/* ---- the kind ---- */

struct tt_engine_kind {
    struct tt_engine_traits traits;
    /* What all engines of the kind share in a process, such as a library. */
    enum tt_err (*open_shared)(const struct tt_engine_runtime_options *options, void **out_shared,
                               struct tt_error *why);
    void (*close_shared)(void *take_shared);
    /* Errors: INVALID, NO_MEMORY, IO. Closed with its `close`. */
    enum tt_err (*open)(void *shared, const struct tt_engine_options *options,
                        struct tt_engine **out_engine, struct tt_error *why);
    /* May take seconds; also while other engines of the kind run. Errors: NOT_FOUND, INVALID,
     * UNSUPPORTED, NO_MEMORY, IO; the sentence begins with name or path. */
    enum tt_err (*load)(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why);
    void (*adopt)(struct tt_engine *engine, struct tt_engine_model *model);
    const struct tt_engine_cutting *cutting;
};

/* A kind that is open in this process. */
struct tt_engine_runtime {
    const struct tt_engine_kind *kind; /* NULL: not open */
    void *shared;
};

/* All kinds, in the order of the registry; the first is the default. */
int32_t tt_engine_kind_count(void);
const struct tt_engine_kind *tt_engine_kind_at(int32_t index);
/* Their traits, for the repository of models. */
const struct tt_engine_list *tt_engines(void);
const struct tt_engine_kind *tt_engine_kind_of(const struct tt_engine_traits *traits);
/* The first one that emulates; NULL: there is none. */
const struct tt_engine_kind *tt_engine_kind_emulating(void);

/* Errors: those of the kind, such as NOT_FOUND for a library; BUSY (open already). */
TT_MUST_CHECK enum tt_err tt_engine_runtime_open(const struct tt_engine_kind *kind,
                                                 const struct tt_engine_runtime_options *options,
                                                 struct tt_engine_runtime *out_runtime,
                                                 struct tt_error *why);
/* After every engine of it. Also of one that is not open. */
void tt_engine_runtime_close(struct tt_engine_runtime *self);
TT_MUST_CHECK enum tt_err tt_engine_open(const struct tt_engine_runtime *runtime,
                                         const struct tt_engine_options *options,
                                         struct tt_engine **out_engine, struct tt_error *why);
/* Errors: also UNSUPPORTED, where the kind does not run models of this form. Unloaded with the
 * engine's `unload`. */
TT_MUST_CHECK enum tt_err tt_engine_load(const struct tt_engine_runtime *runtime,
                                         struct tt_engine *engine,
                                         const struct tt_engine_model_spec *spec,
                                         struct tt_engine_model **out_model, struct tt_error *why);
/* The model's tasks run on this engine of the same kind from now on. No task of it may be queued or
 * running. */
void tt_engine_adopt(const struct tt_engine_runtime *runtime, struct tt_engine *engine,
                     struct tt_engine_model *model);

#endif
