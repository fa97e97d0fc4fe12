/* Models on the streams of a GPU, by ONNX Runtime's CUDA provider: the `gpu` of
 * engine/engine_kind.h.
 *
 * The provider takes its stream when a session is made (user_compute_stream), so there is a session
 * per stream and step. With several streams they share the weights (ort_gpu_weights.h); those of
 * cells are not shared. A run puts its kernels on that stream and returns: its options switch
 * synchronisation off. Inputs and outputs are values over addresses on the GPU, and bound, so
 * nothing is copied. The arena of each session is bounded, not the sum of them; what a run gives
 * back to it is used again only by later runs of the same stream.
 *
 * Nodes that the provider leaves to the CPU make a run wait for the stream. The library of the CPU
 * has no CUDA provider; `make cuda` fetches one that has it.
 *
 * Life: opened when a model is loaded, which runs its largest batch once on every stream; runs are
 * enqueued, by one thread at a time per stream; closed when all have ended. Implemented in
 * ort_gpu.c. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_GPU_H
#define TT_ENGINE_ONNXRUNTIME_ORT_GPU_H

#include "engine/engine_kind.h"

extern const struct tt_engine_gpu tt_ort_gpu;

#endif
