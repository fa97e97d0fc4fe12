/* Sessions of ONNX Runtime as Tutti makes them all: on the caller's thread, with the environment's
 * arena. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_SESSION_H
#define TT_ENGINE_ONNXRUNTIME_ORT_SESSION_H

#include "engine/onnxruntime/onnxruntime.h"
#include "engine/synthetic_input.h"

/* To be released by the caller. */
TT_MUST_CHECK enum tt_err tt_ort_session_options_new(const struct tt_ort_library *library,
                                                     enum tt_ort_optimization optimization,
                                                     OrtSessionOptions **out_options,
                                                     struct tt_error *why);
/* The session has an arena of its own, laid out once for each shape that comes: for an executor
 * whose batches are all of one size. */
TT_MUST_CHECK enum tt_err tt_ort_session_options_own_arena(const struct tt_ort_library *library,
                                                           OrtSessionOptions *options,
                                                           struct tt_error *why);

/* Runs the session once on the specimen of its model's inputs, for the outputs of these names; on
 * an error some of out_values may have been set. */
TT_MUST_CHECK enum tt_err tt_ort_session_run(const struct tt_ort_library *library,
                                             OrtSession *session,
                                             const struct tt_signature *signature,
                                             const struct tt_synthetic_input *synthetic,
                                             const char *const *names, int32_t count,
                                             OrtValue **out_values, struct tt_error *why);

#endif
