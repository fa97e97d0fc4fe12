/* Engine kinds: how an engine is opened, how it loads a model, and what else it can do.
 *
 * A kind is a constant table in the engine's own file, and one line in engine/engine_registry.c. No
 * other file names the engine: the loader, the slicer, the profiler, the lab and the verbs use
 * kinds only. examples/engine/echo.c is a complete kind.
 *
 * Life:
 *  - tt_engine_runtime_open, once per kind and process: loads a runtime library, for example;
 *  - tt_engine_open, per domain;
 *  - tt_engine_load, per model, on an engine that serves no requests;
 *  - tt_engine_adopt moves a loaded model to the engine that will run it;
 *  - engines are closed before their runtime.
 * One thread at a time opens, loads, adopts and closes.
 *
 * Optional parts, and what happens without them:
 *   open_shared   nothing is shared between the kind's engines
 *   adopt         a loaded model runs on any engine of the kind
 *   cutting       the kind cannot cut models: with `stages` in tutti.pbtxt a model is refused if
 *                 the kind emulates, and else served as one step; `tutti slice` reports an error
 *   lay_out, compute  models do not run on the streams of a device, unless the kind emulates; one
 *                 that emulates needs `compute` for models of cells
 *   gpu           models do not run on the streams of a GPU; it needs lay_out
 *   check_versions  files of any version are tried when they are loaded
 *   traits        see core/engine_traits.h */
#ifndef TT_ENGINE_ENGINE_KIND_H
#define TT_ENGINE_ENGINE_KIND_H

#include "base/err.h"
#include "base/log/log_settings.h"
#include "core/device.h"
#include "core/engine_traits.h"
#include "core/network_delay.h"
#include "core/noise.h"
#include "core/perturbation.h"
#include "core/step_model.h"
#include "engine/dataflow.h"
#include "engine/engine.h"
#include "engine/synthetic_input.h"

struct tt_cells;
struct tt_onnx_graph;

/* ---- opening ---- */

struct tt_engine_runtime_options {
    const char *onnxruntime; /* path of the ONNX Runtime library; NULL: search for it */
    int64_t memory_bytes; /* of all models together, weights and runs, where the runtime can bound
                             it; 0: no limit */
    const char *python;   /* the interpreter of models in Python; NULL: python3, in PATH */
    int64_t max_load_ms;  /* that a process of the kind may take to load a model; 0: no limit */
    /* Receives log lines of processes of the kind, on a thread of its own; NULL: silent. Borrowed
     * for life. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
    void *context; /* the caller's, for a kind that the caller supplies; borrowed */
};

/* One emulated device. Its executors share its capacity according to the demands of their
 * models. */
struct tt_engine_device {
    int32_t executors;
    struct tt_copy_engine copy_in,
        copy_out;     /* for models with input or output bytes; all 0: copies take no time */
    int64_t abort_ns; /* how long an executor is unavailable after an abort */
    struct tt_network_delay delay; /* S4: of messages to its executors */
};

struct tt_engine_options {
    int32_t executor_count; /* >= 1 */
    int32_t queue_depth;    /* >= 1: maximum of submitted, unfinished tasks per executor */
    tt_device_done_fn *done;
    void *done_context;
    /* Read by kinds that emulate: executors are assigned to these devices in order. NULL: one
     * device per executor. */
    const struct tt_engine_device *devices;
    int32_t device_count;
    int32_t
        jitter_permille;   /* a step takes its latency * (1 + j), j uniform in -jitter .. +jitter */
    struct tt_noise noise; /* of executions, besides the jitter */
    uint64_t seed;         /* of both */
    /* Spans of time since the engine was opened in which its devices have another speed; copied. */
    const struct tt_perturbation *perturbations;
    int32_t perturbation_count;
};

/* ---- loading ---- */

/* D8: an early exit. After `step`, a request that meets the condition leaves the model or skips
 * steps. */
struct tt_engine_exit {
    int32_t step;          /* from 0; not the last one */
    int32_t to;            /* the step that follows; 0: the request leaves the model */
    const char *graph;     /* an ONNX file that reads tensors of the model; NULL: none */
    const char *condition; /* a BOOL or FP32 (true if > 0) output of the graph, per row; NULL: the
                              next two */
    const char *moved, *since; /* true for a row if |moved - since| < less_than * |since| */
    double less_than;
    /* Tensors that the skipped steps would have made: an output of the graph with the same name, or
     * the one given here. */
    int32_t give_count;
    const struct tt_engine_give {
        const char *tensor;
        const char *from; /* an output of the graph, or a tensor that exists at `step` */
    } * gives;
};

/* How many nanoseconds steps first..last take for `rows` rows. `length` is the padded length;
 * without padding, dimension 1 of the first input if that is variable, else 0. Called on executors'
 * threads. */
typedef int64_t tt_engine_latency_fn(void *context, int32_t rows, int32_t length,
                                     int32_t first_step, int32_t last_step);
/* The share of its device that a step occupies, in millionths; parameters as above. */
typedef int32_t tt_engine_demand_fn(void *context, int32_t rows, int32_t length, int32_t step);

/* An emulated model of cells (model/cells/cells.h, plain form): one step per type. */
struct tt_engine_emulated_cells {
    const struct tt_cells *cells;      /* borrowed; NULL: a model of one graph */
    const struct tt_step_model *steps; /* borrowed */
    int32_t slot_count;
    /* C6: the time that a task adds to that of its cells, and the time per row that it gathers. */
    int64_t task_ns, gather_row_ns;
};

/* Durations and sizes of an emulated model. */
struct tt_engine_emulation {
    const struct tt_signature *signature; /* copied */
    int32_t step_count;                   /* >= 1 */
    tt_engine_latency_fn *latency_ns;
    void *latency_context;           /* outlives the model */
    tt_engine_demand_fn *demand_ppm; /* NULL: the whole device */
    int64_t input_bytes,
        output_bytes; /* of one row; copied before the first step and after the last */
    struct tt_engine_emulated_cells cells;
};

enum tt_engine_form {
    TT_ENGINE_GRAPH,    /* one graph, one step; `path` is its file (NULL if no file is needed) */
    TT_ENGINE_STAGES,   /* one step per stage; `path` is the directory of the cut */
    TT_ENGINE_CELL_SET, /* one step per type of cells; `cells` */
};

struct tt_engine_model_spec {
    enum tt_engine_form form;
    const char *name; /* for messages; NULL: use the path */
    const char *path;
    const char *config_json; /* the configuration, for kinds that pass it on; NULL: not known */
    const struct tt_signature *signature; /* as configured; copied; NULL: read from the file */
    bool batched;                         /* dimension 0 of every input and output is the rows */
    int32_t max_batch;                    /* >= 1 if batched */
    /* Stages: */
    int32_t slot_count; /* rows that may wait between tasks; 0: the engine's default */
    int32_t executors;  /* expected number of executors; for the default of slot_count */
    int32_t
        own_arenas; /* E3: number of executors with working memory of their own; 0: all share one */
    int32_t exit_count;
    const struct tt_engine_exit *exits;
    /* Cells: */
    const struct tt_cells *cells; /* outlives the model */
    /* Durations; read by kinds that emulate. */
    const struct tt_engine_emulation *emulation;
    const char *save_optimized; /* graphs, kinds with `cutting`: path to write the optimised graph
                                   to; NULL: none */
    bool portable; /* graphs: optimised for any device, not for this machine's processor */
};

/* ---- cutting ---- */

struct tt_engine_probe_options {
    void *shared;                /* what open_shared returned */
    struct tt_onnx_graph *graph; /* optimised; probe fills its tables */
    const struct tt_signature *signature;
    int32_t length; /* value of variable dimensions */
};

struct tt_engine_probe_report {
    enum tt_synthetic_input_kind synthetic; /* the first kind of input that the model accepted */
    int32_t rounded_count;                  /* tensors whose rows are equal only up to rounding */
    int32_t first_rounded;                  /* the first of them; -1: none */
};

/* What the slicer (slicer/slicer.h) needs to cut a model. */
struct tt_engine_cutting {
    /* Release of the runtime. Stages made with another release are made again. */
    const char *(*version)(const void *shared);
    /* Finds types, shapes and row dimension of every tensor by running synthetic inputs. Errors:
     * INVALID (no synthetic input is accepted, or the configuration says that the model batches and
     * it does not), UNSUPPORTED, NO_MEMORY. */
    enum tt_err (*probe)(const struct tt_engine_probe_options *options,
                         struct tt_engine_probe_report *out_report, struct tt_error *why);
    /* Writes to out_times_ns[node_count] how long each node takes for a batch of `rows`: the median
     * of `runs` runs. `scratch` is a directory for temporary files. */
    enum tt_err (*time_nodes)(const struct tt_engine_probe_options *options,
                              enum tt_synthetic_input_kind synthetic, int32_t rows, int32_t runs,
                              const char *scratch, int64_t *out_times_ns, struct tt_error *why);
};

/* ---- on a GPU ---- */

/* Copies weights to the memory of a device, where they stay until the model has been unloaded.
 * Errors: NO_MEMORY, UNAVAILABLE. */
typedef enum tt_err tt_engine_keep_fn(void *context, const void *bytes, size_t size_bytes,
                                      uint64_t *out_address, struct tt_error *why);

struct tt_engine_gpu_options {
    int32_t gpu;                          /* counted from 0, as the driver does */
    const struct tt_signature *signature; /* the model's, with all dimensions but the rows fixed;
                                             copied */
    const struct tt_dataflow *dataflow;   /* made by lay_out; outlives it */
    tt_engine_keep_fn *keep;              /* for weights, which all streams share */
    void *keep_context;
    void *const *streams; /* native ones (device/async_device.h); they outlive it */
    int32_t stream_count;
    int64_t memory_bytes; /* of the GPU, that the runtime may take for each stream and step, beside
                             what `keep` keeps */
};

struct tt_engine_on_gpu;

/* A loaded model on the streams of a GPU, whose memory this process cannot access. */
struct tt_engine_gpu {
    /* Errors: UNSUPPORTED (the runtime cannot use the GPU, or not for this model), INVALID,
     * NO_MEMORY. It may take seconds. */
    enum tt_err (*open)(struct tt_engine_model *model, const struct tt_engine_gpu_options *options,
                        struct tt_engine_on_gpu **out_self, struct tt_error *why);
    /* Puts a step on the stream with this index, and does not wait for it. `in` and `out` are the
     * addresses of the rows of each of its tensors. One thread at a time per stream. Errors: as
     * `compute` of the kind; later ones are the device's. */
    enum tt_err (*enqueue)(struct tt_engine_on_gpu *self, int32_t stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why);
    void (*close)(struct tt_engine_on_gpu *take_self); /* NULL-safe; all runs have ended */
};

/* ---- the kind ---- */

struct tt_engine_kind {
    struct tt_engine_traits traits;
    /* Opens what all engines of the kind share in a process, such as a library. */
    enum tt_err (*open_shared)(const struct tt_engine_runtime_options *options, void **out_shared,
                               struct tt_error *why);
    void (*close_shared)(void *take_shared);
    /* Errors: INVALID, NO_MEMORY, IO. Closed by the engine's `close`. */
    enum tt_err (*open)(void *shared, const struct tt_engine_options *options,
                        struct tt_engine **out_engine, struct tt_error *why);
    /* May take seconds; may run while other engines of the kind serve. Errors: NOT_FOUND, INVALID,
     * UNSUPPORTED, NO_MEMORY, IO; the message begins with the name or path. */
    enum tt_err (*load)(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why);
    void (*adopt)(struct tt_engine *engine, struct tt_engine_model *model);
    /* Finds out which tensors the steps of a model read and make. Of a model of cells a step is a
     * type, and its tensors are in the order of its plan (engine/cell_set.h); `signature` is not
     * read. Another one batches, and `signature` is
     * its own with all dimensions but the rows fixed; sizes between steps may be found by a run.
     * Errors: UNSUPPORTED (a tensor has no fixed size, or a model of another form), INVALID,
     * NO_MEMORY. */
    enum tt_err (*lay_out)(struct tt_engine_model *model, const struct tt_signature *signature,
                           struct tt_dataflow *out_dataflow, struct tt_error *why);
    /* Runs a step of a model that was laid out, outside of its engine's executors: for those that
     * are streams of a device whose memory this process can access. `in` and `out` hold the rows of
     * each of the step's tensors, one row behind the other. Any thread, several at once. Errors:
     * INVALID (the rows are at fault), NO_MEMORY, INTERNAL. */
    enum tt_err (*compute)(struct tt_engine_model *model, const struct tt_dataflow *dataflow,
                           int32_t step, int32_t rows, const void *const *in, void *const *out,
                           struct tt_error *why);
    const struct tt_engine_gpu *gpu;
    /* Checks that the runtime runs ONNX files of these versions (0: not known). Errors:
     * UNSUPPORTED, with the highest one, NO_MEMORY. */
    enum tt_err (*check_versions)(const void *shared, int64_t ir_version, int64_t opset,
                                  struct tt_error *why);
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
/* The traits of all kinds, for the model repository. */
const struct tt_engine_list *tt_engines(void);
const struct tt_engine_kind *tt_engine_kind_of(const struct tt_engine_traits *traits);
/* The first kind that emulates; NULL: none. */
const struct tt_engine_kind *tt_engine_kind_emulating(void);

/* Errors: those of the kind, such as NOT_FOUND for a library; BUSY (already open). */
TT_MUST_CHECK enum tt_err tt_engine_runtime_open(const struct tt_engine_kind *kind,
                                                 const struct tt_engine_runtime_options *options,
                                                 struct tt_engine_runtime *out_runtime,
                                                 struct tt_error *why);
/* After all its engines are closed. Accepts a runtime that is not open. */
void tt_engine_runtime_close(struct tt_engine_runtime *self);
TT_MUST_CHECK enum tt_err tt_engine_open(const struct tt_engine_runtime *runtime,
                                         const struct tt_engine_options *options,
                                         struct tt_engine **out_engine, struct tt_error *why);
/* Errors: those of the kind's `load`; UNSUPPORTED if the kind does not run models of this form.
 * Unloaded by the engine's `unload`. */
TT_MUST_CHECK enum tt_err tt_engine_load(const struct tt_engine_runtime *runtime,
                                         struct tt_engine *engine,
                                         const struct tt_engine_model_spec *spec,
                                         struct tt_engine_model **out_model, struct tt_error *why);
/* Moves the model to this engine of the same kind. No task of it may be queued or running. */
void tt_engine_adopt(const struct tt_engine_runtime *runtime, struct tt_engine *engine,
                     struct tt_engine_model *model);

#endif
