/* A run of all steps of a model with synthetic rows, on the calling thread, each step by a session
 * of the caller's choice: to learn the sizes of what passes between them, and to let a runtime make
 * ready what a first run needs. All inputs are zeros. Implemented in ort_trial.c. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_TRIAL_H
#define TT_ENGINE_ONNXRUNTIME_ORT_TRIAL_H

#include "engine/onnxruntime/ort_model.h"

/* `sessions`: one per step. `signature`: the model's, with all dimensions but the rows fixed.
 * values[t] becomes tensor t; all are NULL before, and _drop releases them, also after an error.
 * Errors: those of the runtime, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_trial_run(const struct tt_ort_model *model,
                                           OrtSession *const *sessions,
                                           const struct tt_signature *signature, int32_t rows,
                                           OrtValue **values, struct tt_error *why);
/* D8: then the graph of an exit of the model, by this session; out_values, NULL before, become its
 * outputs, also after an error. Errors: those of the runtime, UNSUPPORTED (too many tensors). */
TT_MUST_CHECK enum tt_err tt_ort_trial_run_exit(const struct tt_ort_model *model,
                                                const struct tt_ort_exit *exit, OrtSession *session,
                                                OrtValue *const *values, OrtValue **out_values,
                                                struct tt_error *why);
void tt_ort_trial_drop(const struct tt_ort_model *model, OrtValue **values);

#endif
