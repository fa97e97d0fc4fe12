/* Finds out by running an optimised graph what its file does not say: the type and shape of every
 * tensor, whether rows stay apart in it, and how long each node takes.
 *
 * Rows are looked at by running made-up rows alone and together. A tensor keeps its rows where its
 * dimension 0 counts them in every run and each row's content is that of the row alone. Where the
 * content is another by no more than rounding (a kernel that sums in another order for another
 * batch), rows are kept too, but a row's result then depends in its last bits on its batch: such
 * tensors are counted. Where a tensor that the model's answers come from does not keep its rows and
 * so the answers do not either, the file lies about its batch dimension. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_PROBE_H
#define TT_ENGINE_ONNXRUNTIME_ORT_PROBE_H

#include "engine/onnxruntime/ort_library.h"
#include "engine/synthetic_input.h"
#include "model/onnx/onnx_graph.h"

struct tt_ort_probe_options {
    const struct tt_ort_library *library;
    struct tt_onnx_graph *graph; /* optimised; its tables are filled in */
    const struct tt_signature *signature;
    int32_t length; /* what variable dimensions become */
};

struct tt_ort_probe_report {
    enum tt_synthetic_input_kind synthetic; /* the first kind that the model ran with */
    int32_t rounded_count;                  /* tensors whose rows are equal up to rounding only */
    int32_t first_rounded;                  /* the first of them; -1: none */
};

/* Errors: INVALID (the model does not run with any made-up input; or it is said to batch and does
 * not: the sentence names the node), UNSUPPORTED, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ort_probe(const struct tt_ort_probe_options *options,
                                       struct tt_ort_probe_report *out_report,
                                       struct tt_error *why);
/* Writes how long each node takes for a batch of `rows`, the median of `runs` runs, to
 * out_times_ns[node_count]; the runtime's clock counts microseconds. `scratch` is a folder for its
 * file. */
TT_MUST_CHECK enum tt_err tt_ort_time_nodes(const struct tt_ort_probe_options *options,
                                            enum tt_synthetic_input_kind synthetic, int32_t rows,
                                            int32_t runs, const char *scratch,
                                            int64_t *out_times_ns, struct tt_error *why);

#endif
