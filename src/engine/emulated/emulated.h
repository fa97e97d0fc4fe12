/* S11: a device that takes its time and computes nothing: for experiments on this machine about
 * machines that are not here.
 *
 * It has executors, models of several steps and a profile that says how long each step takes at
 * each batch size; a task waits that long on the monotonic clock, step by step, and can be stopped
 * between steps (yield) or anywhere (abort). Executors of one device slow each other down as the
 * simulator's do (core/device.h). Members are checked and gathered as on a real device.
 * A model of cells goes cell by cell, or by sequences that walk its steps together, as long as each
 * step's profile says for so many of them (engine/emulated/emulated_cells.h).
 * When a model's last step is done, its outputs are a copy of input 0 where output and input agree
 * in type and shape, else zeros (BYTES: empty strings). */
#ifndef TT_ENGINE_EMULATED_EMULATED_H
#define TT_ENGINE_EMULATED_EMULATED_H

#include "core/device.h"
#include "core/step_model.h"
#include "engine/engine.h"

/* One device: its executors share its capacity as the demands of their models say. */
struct tt_emulated_device_options {
    int32_t executors;
    struct tt_copy_engine copy_in, copy_out; /* for models with bytes; all 0: they cost no time */
    int64_t abort_ns;                        /* an aborted executor needs so long to recover */
};

struct tt_emulated_engine_options {
    int32_t executor_count; /* >= 1 */
    int32_t queue_depth;    /* >= 1: the most tasks submitted and not done, per executor */
    tt_engine_done_fn *done;
    void *done_context;
    /* Executors are dealt out to devices in this order; NULL: each has one of its own. */
    const struct tt_emulated_device_options *devices;
    int32_t device_count;
    int32_t jitter_permille; /* a step takes its latency * (1 + j), j uniform in -this .. +this */
    uint64_t seed;           /* of the jitter */
};

/* Errors: INVALID, NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_emulated_engine_open(const struct tt_emulated_engine_options *options,
                                                  struct tt_engine **out_engine,
                                                  struct tt_error *why);

/* Nanoseconds that steps first..last take for `rows` rows; `length` is the padded length, or
 * without padding dimension 1 of the first input where that is variable, or 0. Called on executors'
 * threads. */
typedef int64_t tt_emulated_latency_fn(void *context, int32_t rows, int32_t length,
                                       int32_t first_step, int32_t last_step);

/* The share of its device that a step keeps busy, in millionths; as above. */
typedef int32_t tt_emulated_demand_fn(void *context, int32_t rows, int32_t length, int32_t step);

struct tt_cells;

/* Of a model of cells (model/cells/cells.h: plain): a type per step. */
struct tt_emulated_cells_options {
    const struct tt_cells *cells;      /* borrowed; NULL: a model of one graph */
    const struct tt_step_model *steps; /* borrowed */
    int32_t slot_count;
    /* C6: what a task by cells takes besides its cells, and for each row where it gathers. */
    int64_t task_ns, gather_row_ns;
};

struct tt_emulated_model_options {
    const struct tt_signature *signature; /* copied */
    int32_t step_count;                   /* >= 1 */
    tt_emulated_latency_fn *latency_ns;
    void *latency_context;             /* outlives the model */
    tt_emulated_demand_fn *demand_ppm; /* NULL: the whole device */
    int64_t input_bytes,
        output_bytes; /* of one row: copied before the first step, after the last */
    struct tt_emulated_cells_options cells;
};

/* Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_emulated_engine_load(struct tt_engine *engine,
                                                  const struct tt_emulated_model_options *options,
                                                  struct tt_engine_model **out_model,
                                                  struct tt_error *why);

/* Its tasks run on this engine, an emulated one, from now on; none is queued or running. */
void tt_emulated_engine_adopt(struct tt_engine *engine, struct tt_engine_model *model);

#endif
