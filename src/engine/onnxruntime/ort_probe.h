/* Runs an optimised graph to find what its file does not say: the type and shape of every tensor,
 * whether its rows are independent, and how long each node takes.
 *
 * Rows are compared by running synthetic rows alone and together. A tensor keeps its rows where its
 * dimension 0 counts them in every run and each row's content is that of the row alone. The content
 * may differ by rounding (a kernel sums in another order for another batch): rows are kept too, but
 * a row's result then depends in its last bits on its batch, and such tensors are counted. Where
 * the model's outputs do not keep their rows, the file is wrong about its batch dimension.
 *
 * The `cutting` of ONNX Runtime's kind (engine/engine_kind.h); implemented in ort_probe.c and
 * ort_times.c. The options' `shared` is a struct tt_ort_library. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_PROBE_H
#define TT_ENGINE_ONNXRUNTIME_ORT_PROBE_H

#include "engine/engine_kind.h"
#include "engine/onnxruntime/ort_library.h"
#include "model/onnx/onnx_graph.h"

static inline const struct tt_ort_library *
tt_ort_probe_library(const struct tt_engine_probe_options *options) {
    return options->shared;
}
/* Errors: INVALID (the model does not run with any made-up input; or it is said to batch and does
 * not: the sentence names the node), UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_probe(const struct tt_engine_probe_options *options,
                                       struct tt_engine_probe_report *out_report,
                                       struct tt_error *why);
/* Writes how long each node takes for a batch of `rows`, the median of `runs` runs, to
 * out_times_ns[node_count]; the runtime's clock counts microseconds. `scratch` is a folder for its
 * file. */
TT_MUST_CHECK enum tt_err tt_ort_time_nodes(const struct tt_engine_probe_options *options,
                                            enum tt_synthetic_input_kind synthetic, int32_t rows,
                                            int32_t runs, const char *scratch,
                                            int64_t *out_times_ns, struct tt_error *why);

#endif
