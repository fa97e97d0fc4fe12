/* One task after another on an engine that serves nobody yet: for measuring and checking models
 * before they serve. While it is begun, completions of the engine come here. */
#ifndef TT_PROFILE_BLOCKING_RUN_H
#define TT_PROFILE_BLOCKING_RUN_H

#include "base/parker.h"
#include "engine/engine.h"

struct tt_blocking_run {
    struct tt_engine *engine;
    tt_device_done_fn *done; /* whose completions they were */
    void *done_context;
    struct tt_parker parker;
};

void tt_blocking_run_begin(struct tt_blocking_run *self, struct tt_engine *engine);
/* Submits the task and waits for its end. */
void tt_blocking_run_run(struct tt_blocking_run *self, struct tt_engine_task *task);
void tt_blocking_run_end(struct tt_blocking_run *self);

#endif
