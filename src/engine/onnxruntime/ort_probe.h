/* Runs an optimised graph to find what its file does not state: the type and shape of every tensor,
 * whether its rows are independent, and how long each node takes.
 *
 * Rows are compared by running synthetic rows alone and together. A tensor keeps its rows if its
 * dimension 0 is the batch size in every run, and each row equals that of a run alone. Rows may
 * differ by rounding, because a kernel may sum in another order for another batch size. They still
 * count as kept, but their last bits depend on the batch, and such tensors are counted. If the
 * model's outputs do not keep their rows, the model does not have the batch dimension that it
 * claims.
 *
 * This is the `cutting` of ONNX Runtime's kind (engine/engine_kind.h), implemented in ort_probe.c
 * and ort_times.c. The options' `shared` is a struct tt_ort_library. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_PROBE_H
#define TT_ENGINE_ONNXRUNTIME_ORT_PROBE_H

#include "engine/engine_kind.h"
#include "engine/onnxruntime/ort_library.h"
#include "model/onnx/onnx_graph.h"

static inline const struct tt_ort_library *
tt_ort_probe_library(const struct tt_engine_probe_options *options) {
    return options->shared;
}
/* Errors: INVALID (the model runs with no kind of synthetic input, or it does not batch as
 * configured; the message names the node), UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_probe(const struct tt_engine_probe_options *options,
                                       struct tt_engine_probe_report *out_report,
                                       struct tt_error *why);
/* Writes to out_times_ns[node_count] how long each node takes for a batch of `rows`: the median of
 * `runs` runs. The runtime's clock has microseconds. `scratch` is a directory for its temporary
 * file. */
TT_MUST_CHECK enum tt_err tt_ort_time_nodes(const struct tt_engine_probe_options *options,
                                            enum tt_synthetic_input_kind synthetic, int32_t rows,
                                            int32_t runs, const char *scratch,
                                            int64_t *out_times_ns, struct tt_error *why);

#endif
