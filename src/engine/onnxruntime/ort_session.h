/* The settings of all ONNX Runtime sessions: they run on the caller's thread and use the
 * environment's arena. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_SESSION_H
#define TT_ENGINE_ONNXRUNTIME_ORT_SESSION_H

#include "engine/onnxruntime/onnxruntime.h"
#include "engine/synthetic_input.h"

/* The caller releases the options. */
TT_MUST_CHECK enum tt_err tt_ort_session_options_new(const struct tt_ort_library *library,
                                                     enum tt_ort_optimization optimization,
                                                     OrtSessionOptions **out_options,
                                                     struct tt_error *why);
/* Gives the session an arena of its own, with a memory plan per input shape: for an executor whose
 * batches all have one size. */
TT_MUST_CHECK enum tt_err tt_ort_session_options_own_arena(const struct tt_ort_library *library,
                                                           OrtSessionOptions *options,
                                                           struct tt_error *why);

/* Runs the session once with synthetic inputs, and returns the named outputs. On an error some of
 * out_values may be set. */
TT_MUST_CHECK enum tt_err tt_ort_session_run(const struct tt_ort_library *library,
                                             OrtSession *session,
                                             const struct tt_signature *signature,
                                             const struct tt_synthetic_input *synthetic,
                                             const char *const *names, int32_t count,
                                             OrtValue **out_values, struct tt_error *why);

#endif
