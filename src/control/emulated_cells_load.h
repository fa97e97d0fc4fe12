/* S11, C2: loads an emulated model of cells, as `emulation { cells { ... } }` of tutti.pbtxt states
 * it: a type of cells per step of the profile, in plain form (model/cells/cells.h).
 *
 * Life: _load makes the cells, loads them into the engine, and fills the served model as the loader
 * does for others; the served model owns all of it. It reads no file but the profile. Implemented
 * in emulated_cells_load.c. */
#ifndef TT_CONTROL_EMULATED_CELLS_LOAD_H
#define TT_CONTROL_EMULATED_CELLS_LOAD_H

#include "engine/engine_kind.h"
#include "model/repository/repository.h"
#include "serve/served_model.h"

struct tt_emulated_cells_options {
    const struct tt_repository_model *model;
    const struct tt_engine_runtime *runtime;
    struct tt_engine *engine;
    tt_engine_latency_fn *latency_ns; /* their context is the served model */
    tt_engine_demand_fn *demand_ppm;
    bool is_whole; /* the engine takes whole requests (core/engine_traits.h) */
    bool by_cell;  /* its policy works by cells; else by sequences */
};

/* `served` is new. Errors: INVALID (no profile, or one with other steps than the kind needs; a
 * signature that is not that of such cells), NO_MEMORY, IO. After an error the caller frees
 * `served`, which owns what was made. */
TT_MUST_CHECK enum tt_err tt_emulated_cells_load(const struct tt_emulated_cells_options *options,
                                                 struct tt_served_model *served,
                                                 struct tt_error *why);

#endif
