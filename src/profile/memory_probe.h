/* How much memory a model takes: its weights with all that the runtime keeps beside them (static),
 * and what one run of its largest batch needs besides (dynamic), as growth of this process's
 * resident memory. Plans of a cluster read both.
 *
 * Life: _begin; load the model; _loaded; _run. In between nothing else may allocate. A runtime that
 * keeps its memory after a run has it counted all the same: the first run's growth is kept apart.
 * What a model takes outside of this process is not seen. Inputs do not count.
 *
 * Implemented in memory_probe.c. */
#ifndef TT_PROFILE_MEMORY_PROBE_H
#define TT_PROFILE_MEMORY_PROBE_H

#include "engine/engine.h"

struct tt_memory_probe {
    int64_t before; /* private memory before the model was loaded */
    int64_t static_bytes;
};

void tt_memory_probe_begin(struct tt_memory_probe *self);
/* `weight_bytes`: of the model's file (0: not known). Weights that the runtime maps from a file are
 * no private memory, so static_bytes is at least this. */
void tt_memory_probe_loaded(struct tt_memory_probe *self, int64_t weight_bytes);
/* Runs one row of this length, then `rows`, on an engine that does nothing else. Errors: those of
 * the runs; UNSUPPORTED where the system cannot reset the peak. */
TT_MUST_CHECK enum tt_err tt_memory_probe_run(struct tt_engine_model *model, int32_t rows,
                                              int32_t length, int64_t *out_dynamic_bytes,
                                              struct tt_error *why);

#endif
