/* The devices behind the multicore scheduler, as its rank thread sees them.
 *
 * Two kinds exist: emulated ones (multicore/emulated_fleet.h), whose completions are computed, and
 * the executors of an engine. All functions are called by the rank thread only. */
#ifndef TT_MULTICORE_MULTICORE_DEVICES_H
#define TT_MULTICORE_MULTICORE_DEVICES_H

#include "multicore/multicore_messages.h"

struct tt_multicore_devices {
    void *context;
    /* Runs the batch on its executor, which is idle; or when the turn is over, `begun`, which may
     * be NULL. */
    void (*begin)(void *context, int64_t now, struct tt_multicore_batch *batch);
    void (*begun)(void *context);
    /* A batch that has ended by now, with started_at and ended_at set; NULL: no more. */
    struct tt_multicore_batch *(*ended)(void *context, int64_t now);
    /* Is there an ended batch to be taken? Asked before the rank thread sleeps, so that what ends
     * just then is not slept over. NULL: `next_at` says all. */
    bool (*look)(void *context);
    /* When to ask again even if nobody rings; TT_NEVER. */
    int64_t (*next_at)(void *context);
    /* The executor has gone: its batch, if it has one, will not end. Its `lost` is set and `ended`
     * returns it at once (emulated), or when the engine gives it up. */
    void (*lose)(void *context, int64_t now, int32_t executor);
};

#endif
