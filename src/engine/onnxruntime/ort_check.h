/* Errors of ONNX Runtime as errors of ours, with messages for users. Implemented in ort_check.c. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_CHECK_H
#define TT_ENGINE_ONNXRUNTIME_ORT_CHECK_H

#include "engine/onnxruntime/ort_library.h"

/* TT_OK for a NULL status. Otherwise writes the runtime's message without source file names and
 * function signatures, frees the status, and returns the error: INVALID (the model or the tensors
 * are at fault), NOT_FOUND, UNSUPPORTED, NO_MEMORY, INTERNAL. */
enum tt_err tt_ort_check(const struct tt_ort_library *library, OrtStatus *take_status,
                         struct tt_error *why);
/* The readable part of a message of the runtime; see tt_ort_check. */
void tt_ort_plain_sentence(const char *message, char *out, size_t capacity);

#endif
