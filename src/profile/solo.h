/* One task after another on an engine that serves nobody yet: for measuring and checking models
 * before they serve. While it is begun, completions of the engine come here. */
#ifndef TT_PROFILE_SOLO_H
#define TT_PROFILE_SOLO_H

#include "base/parker.h"
#include "engine/engine.h"

struct tt_solo {
    struct tt_engine *engine;
    tt_engine_done_fn *done; /* whose completions they were */
    void *done_context;
    struct tt_parker parker;
};

void tt_solo_begin(struct tt_solo *self, struct tt_engine *engine);
/* Submits the task and waits for its end. */
void tt_solo_run(struct tt_solo *self, struct tt_engine_task *task);
void tt_solo_end(struct tt_solo *self);

#endif
