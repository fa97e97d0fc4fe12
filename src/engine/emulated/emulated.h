/* S11: backend "emulated", an engine whose steps take time but compute nothing. For experiments
 * about machines that are not available.
 *
 * It has executors, models of several steps, and a profile: how long each step takes at each batch
 * size. A task waits that long on the monotonic clock, step by step. It can be stopped between
 * steps (yield) or at any time (abort). Executors of one device slow each other down as in the
 * simulator (core/device.h). Members are checked and gathered as on a real device. A model of cells
 * runs cell by cell, or as sequences in step; each step takes as long as its profile says for that
 * many rows (engine/emulated/emulated_cells.h).
 *
 * After a model's last step, each output is a copy of input 0 if the two agree in type and shape.
 * Otherwise it is zeros (BYTES: empty strings).
 *
 * The engine is used through its kind (engine/engine_kind.h); tests call it directly. */
#ifndef TT_ENGINE_EMULATED_EMULATED_H
#define TT_ENGINE_EMULATED_EMULATED_H

#include "engine/engine_kind.h"

/* Errors: INVALID, NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_emulated_engine_open(const struct tt_engine_options *options,
                                                  struct tt_engine **out_engine,
                                                  struct tt_error *why);
/* Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_emulated_engine_load(struct tt_engine *engine,
                                                  const struct tt_engine_emulation *options,
                                                  struct tt_engine_model **out_model,
                                                  struct tt_error *why);

#endif
