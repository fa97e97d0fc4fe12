/* S11: an engine that lets time pass and computes nothing: for experiments on this machine about
 * machines that are not here. The backend "emulated".
 *
 * It has executors, models of several steps and a profile that says how long each step takes at
 * each batch size. A task waits that long on the monotonic clock, step by step, and can be stopped
 * between steps (yield) or anywhere (abort). Executors of one device slow each other down as the
 * simulator's do (core/device.h). Members are checked and gathered as on a real device.
 * A model of cells goes cell by cell, or by sequences that walk its steps together, for as long as
 * each step's profile says for so many of them (engine/emulated/emulated_cells.h).
 * When a model's last step is done, its outputs are a copy of input 0 where output and input agree
 * in type and shape, else zeros (BYTES: empty strings).
 *
 * The engine is reached by its kind (engine/engine_kind.h); tests call it directly. */
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
