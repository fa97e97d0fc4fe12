/* Runs tasks on an engine that does not serve yet, to measure and check models: one task, or
 * several at once, and blocks until they end. Between _begin and _end the engine's completions come
 * here; _end restores their receiver. Nothing else may use the engine meanwhile. */
#ifndef TT_PROFILE_BLOCKING_RUN_H
#define TT_PROFILE_BLOCKING_RUN_H

#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "engine/engine.h"

struct tt_blocking_run {
    struct tt_engine *engine;
    tt_device_done_fn *done; /* the receiver of completions, restored by _end */
    void *done_context;
    struct tt_eventcount eventcount;
    struct tt_lock lock;
    int32_t running; /* tasks; under the lock */
};

void tt_blocking_run_begin(struct tt_blocking_run *self, struct tt_engine *engine);
/* Submits the task and blocks until it ends. */
void tt_blocking_run_run(struct tt_blocking_run *self, struct tt_engine_task *task);
/* Submits all tasks, in order, and blocks until the last of them has ended. An executor gets at
 * most as many as its queue holds. */
void tt_blocking_run_all(struct tt_blocking_run *self, struct tt_engine_task *tasks, int32_t count);
/* Runs all steps of the model for `rows` rows of these inputs (one view per input of the signature)
 * as one task. `out_ns`: how long it ran; may be NULL. The caller releases `*out_result`. Errors:
 * the run's. */
TT_MUST_CHECK enum tt_err
tt_blocking_run_whole(struct tt_blocking_run *self, struct tt_engine_model *model, int32_t rows,
                      const struct tt_tensor_view *inputs, int64_t *out_ns,
                      struct tt_engine_result **out_result, struct tt_error *why);
void tt_blocking_run_end(struct tt_blocking_run *self);

#endif
