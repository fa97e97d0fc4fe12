/* Runs the `model_warmup` of a configuration before a model serves. First runs are slow, because
 * they make plans and touch memory; no client should wait for that. */
#ifndef TT_CONTROL_WARM_UP_H
#define TT_CONTROL_WARM_UP_H

#include "engine/engine.h"
#include "model/config/config.h"

/* Runs every sample as often as it states. `directory` is the model's; data files are in its
 * warmup/. No other task may use the model's engine meanwhile. Errors: INVALID (a sample that does
 * not fit the model; a file of the wrong size), NOT_FOUND, IO (files), those of a run; the message
 * names the sample. */
TT_MUST_CHECK enum tt_err tt_warm_up(struct tt_engine_model *model,
                                     const Inference__ModelConfig *config, const char *directory,
                                     struct tt_error *why);

#endif
