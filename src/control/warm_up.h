/* The runs that a configuration's `model_warmup` asks for, before a model may serve: first runs
 * make plans and touch memory, and a client should not have to wait for that. */
#ifndef TT_CONTROL_WARM_UP_H
#define TT_CONTROL_WARM_UP_H

#include "engine/engine.h"
#include "model/config/config.h"

/* Runs every sample as often as it says. `directory` is the model's: data files lie in its warmup/.
 * Nothing else may use the model's engine meanwhile. Errors: INVALID (a sample that does not fit
 * the model; a file of another size), NOT_FOUND, IO (files), and what a run fails with; the
 * sentence names the sample. */
TT_MUST_CHECK enum tt_err tt_warm_up(struct tt_engine_model *model,
                                     const Inference__ModelConfig *config, const char *directory,
                                     struct tt_error *why);

#endif
