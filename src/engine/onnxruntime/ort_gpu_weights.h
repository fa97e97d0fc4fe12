/* The weights of a model that several streams of a GPU share: each is on the GPU once.
 *
 * A session takes an initializer that it is offered as it is, without a copy. So every node of the
 * session has to run on the GPU. A session that was offered weights is therefore made without the
 * right to leave nodes to the processor; where that fails, the caller makes one per stream that has
 * weights of its own. Shared are floats and bytes of at least 1 KiB that are in the model's file or
 * in that of its stages; kernels may read integers on the host.
 *
 * Life: made with the model; _keep copies those of a step to the GPU; _offer gives them to
 * sessions; _forget drops what was read of the file; freed when all sessions are closed. Where the
 * bytes are kept is the caller's. One thread. Implemented in ort_gpu_weights.c. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_GPU_WEIGHTS_H
#define TT_ENGINE_ONNXRUNTIME_ORT_GPU_WEIGHTS_H

#include "engine/onnxruntime/ort_model.h"

struct tt_ort_gpu_weights;

/* `model` and `memory`, which is the GPU's, outlive it. Errors: NO_MEMORY, those of reading the
 * model's file. */
TT_MUST_CHECK enum tt_err tt_ort_gpu_weights_new(const struct tt_ort_model *model,
                                                 const OrtMemoryInfo *memory,
                                                 struct tt_ort_gpu_weights **out_weights,
                                                 struct tt_error *why);
void tt_ort_gpu_weights_free(struct tt_ort_gpu_weights *take_self); /* NULL-safe */
/* True if the step has any that can be shared. */
bool tt_ort_gpu_weights_has(const struct tt_ort_gpu_weights *self, int32_t step);
/* Errors: those of `keep` and of the runtime. */
TT_MUST_CHECK enum tt_err tt_ort_gpu_weights_keep(struct tt_ort_gpu_weights *self, int32_t step,
                                                  tt_engine_keep_fn *keep, void *keep_context,
                                                  struct tt_error *why);
/* Offers those of the step that are kept, and takes the right to leave nodes to the processor.
 * Errors: those of the runtime. */
TT_MUST_CHECK enum tt_err tt_ort_gpu_weights_offer(const struct tt_ort_gpu_weights *self,
                                                   int32_t step, OrtSessionOptions *options,
                                                   struct tt_error *why);
void tt_ort_gpu_weights_forget(struct tt_ort_gpu_weights *self); /* NULL-safe */

#endif
