/* S11: a device that takes its time and computes nothing: for experiments on this machine about
 * machines that are not here.
 *
 * It has executors, models of several steps and a profile that says how long each step takes at
 * each batch size; a task waits that long on the monotonic clock, step by step, and can be stopped
 * between steps (yield) or anywhere (abort). Members are checked and gathered as on a real device.
 * When a model's last step is done, its outputs are a copy of input 0 where output and input agree
 * in type and shape, else zeros (BYTES: empty strings). */
#ifndef TT_ENGINE_EMULATED_H
#define TT_ENGINE_EMULATED_H

#include "engine/engine.h"

struct tt_emulated_engine_options {
    int32_t executor_count; /* >= 1 */
    int32_t queue_depth;    /* >= 1: the most tasks submitted and not done, per executor */
    tt_engine_done_fn *done;
    void *done_context;
};

/* Errors: INVALID, NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_emulated_engine_open(const struct tt_emulated_engine_options *options,
                                                  struct tt_engine **out_engine,
                                                  struct tt_message *why);

/* Nanoseconds that steps first..last take for `rows` rows; `length` is the padded length, or
 * without padding dimension 1 of the first input where that is variable, or 0. Called on executors'
 * threads. */
typedef int64_t tt_emulated_latency_fn(void *context, int32_t rows, int32_t length,
                                       int32_t first_step, int32_t last_step);

struct tt_emulated_model_options {
    const struct tt_signature *signature; /* copied */
    int32_t step_count;                   /* >= 1 */
    tt_emulated_latency_fn *latency_ns;
    void *latency_context; /* outlives the model */
};

/* Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_emulated_engine_load(struct tt_engine *engine,
                                                  const struct tt_emulated_model_options *options,
                                                  struct tt_engine_model **out_model,
                                                  struct tt_message *why);

/* Its tasks run on this engine, an emulated one, from now on; none is queued or running. */
void tt_emulated_engine_adopt(struct tt_engine *engine, struct tt_engine_model *model);

#endif
