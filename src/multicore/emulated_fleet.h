/* Thousands of emulated devices without a thread: each runs one batch at a time, for as long as the
 * model's profile says, counted from the moment it got the batch (S11). What ends when is computed,
 * and told when somebody asks, never early. The instant that counts for deadlines is the device's,
 * not that of the asking. A device that goes away loses its batch at once. */
#ifndef TT_MULTICORE_EMULATED_FLEET_H
#define TT_MULTICORE_EMULATED_FLEET_H

#include "base/heap.h"
#include "core/step_model.h"
#include "multicore/multicore_devices.h"

struct tt_emulated_fleet {
    const struct tt_step_model *models;  /* [model count], borrowed */
    struct tt_heap ends;                 /* executors that run, by when they end */
    struct tt_multicore_batch **batches; /* [executor] */
    int64_t busy_ns;                     /* of all devices, batches that ended */
};

TT_MUST_CHECK enum tt_err tt_emulated_fleet_init(struct tt_emulated_fleet *self, int32_t executors,
                                                 const struct tt_step_model *models);
void tt_emulated_fleet_fini(struct tt_emulated_fleet *self);
struct tt_multicore_devices tt_emulated_fleet_devices(struct tt_emulated_fleet *self);

#endif
