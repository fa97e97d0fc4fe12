/* A whole graph outside of an engine's executors: the `compute` of engine/engine_kind.h. It makes a
 * value per tensor over the caller's memory, runs the session, and keeps nothing. Any thread. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_COMPUTE_H
#define TT_ENGINE_ONNXRUNTIME_ORT_COMPUTE_H

#include "engine/engine.h"

/* `signature`: the model's, with all dimensions but the rows fixed. Errors: see engine_kind.h. */
TT_MUST_CHECK enum tt_err tt_ort_compute(struct tt_engine_model *model,
                                         const struct tt_signature *signature, int32_t rows,
                                         const void *const *in, void *const *out,
                                         struct tt_error *why);

#endif
