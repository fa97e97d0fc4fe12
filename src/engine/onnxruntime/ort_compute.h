/* ONNX Runtime on the streams of a device whose memory this process can access: `lay_out` and
 * `compute` of engine/engine_kind.h. The sessions are those of the model's first executor. Values
 * lie where the caller says, so nothing is copied. Implemented in ort_compute.c. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_COMPUTE_H
#define TT_ENGINE_ONNXRUNTIME_ORT_COMPUTE_H

#include "engine/engine_kind.h"

enum tt_err tt_ort_lay_out(struct tt_engine_model *model, const struct tt_signature *signature,
                           struct tt_dataflow *out_dataflow, struct tt_error *why);
enum tt_err tt_ort_compute(struct tt_engine_model *model, const struct tt_dataflow *dataflow,
                           int32_t step, int32_t rows, const void *const *in, void *const *out,
                           struct tt_error *why);

#endif
