/* Conversion between ONNX Runtime's tensors and ours: element types, signatures, values,
 * outputs. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_TENSOR_H
#define TT_ENGINE_ONNXRUNTIME_ORT_TENSOR_H

#include "core/tensor.h"
#include "engine/engine.h"
#include "engine/engine_result.h"
#include "engine/onnxruntime/ort_library.h"

/* Reads the session's inputs and outputs. In a batched model the first dimension of every tensor
 * must be variable. Errors: UNSUPPORTED (not a tensor, or an element type or size that Tutti
 * lacks), INVALID (not batched), those of tt_ort_check. */
TT_MUST_CHECK enum tt_err
tt_ort_signature_read(const struct tt_ort_library *library, const OrtSession *session, bool batched,
                      int32_t max_batch, struct tt_signature *out_signature, struct tt_error *why);
/* Makes a value of the view. It refers to the view's bytes, which must outlive it; BYTES are copied
 * as strings. */
TT_MUST_CHECK enum tt_err tt_ort_value_new(const struct tt_ort_library *library,
                                           enum tt_dtype dtype, const struct tt_tensor_view *view,
                                           OrtValue **out_value, struct tt_error *why);
/* The value's bytes, in place, and its shape; not for BYTES. Errors: INTERNAL (another element
 * type). */
TT_MUST_CHECK enum tt_err tt_ort_value_view(const struct tt_ort_library *library,
                                            enum tt_dtype dtype, OrtValue *value,
                                            struct tt_tensor_view *out_view, struct tt_error *why);
/* A value over bytes in this memory, of which they need not be readable here. Not for BYTES. */
TT_MUST_CHECK enum tt_err tt_ort_value_in(const struct tt_ort_library *library,
                                          const OrtMemoryInfo *memory, enum tt_dtype dtype,
                                          const struct tt_tensor_view *view, OrtValue **out_value,
                                          struct tt_error *why);
/* Makes a value with a copy of the view's bytes. */
TT_MUST_CHECK enum tt_err tt_ort_value_copy(const struct tt_ort_library *library,
                                            enum tt_dtype dtype, const struct tt_tensor_view *view,
                                            OrtValue **out_value, struct tt_error *why);
/* Makes `value` output `index` of the result, and checks that a batched model returned one row per
 * input row. Takes the value, also on failure. Errors: INTERNAL (the output does not follow the
 * batch), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_output_read(const struct tt_ort_library *library,
                                             const struct tt_tensor_spec *spec, int32_t index,
                                             OrtValue *take_value, struct tt_engine_result *result,
                                             struct tt_error *why);
/* The `dispose` of results that hold values; `context` is the library. */
void tt_ort_output_dispose(const void *context, void *handle);

#endif
