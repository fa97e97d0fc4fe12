/* Thousands of emulated devices without a thread: a pull device set (core/device_set.h).
 *
 * Each executor runs one task at a time, for as long as the model's profile says, from the moment
 * it was submitted (S11). What ends when is computed, and reported when the scheduler asks, never
 * early. The instant that counts for deadlines is the device's, not that of the question. An
 * executor that goes away loses its task at once. Times are those of whole models; no payload is
 * read. One thread calls it. */
#ifndef TT_MULTICORE_EMULATED_FLEET_H
#define TT_MULTICORE_EMULATED_FLEET_H

#include "base/heap.h"
#include "core/device_set.h"
#include "core/step_model.h"

struct tt_emulated_fleet {
    const struct tt_step_model *models; /* [model count], borrowed */
    struct tt_heap ends;                /* executors that run, by when they end */
    struct tt_device_task **tasks;      /* [executor] */
    int64_t busy_ns;                    /* of all devices, tasks that ended */
};

TT_MUST_CHECK enum tt_err tt_emulated_fleet_init(struct tt_emulated_fleet *self, int32_t executors,
                                                 const struct tt_step_model *models);
void tt_emulated_fleet_fini(struct tt_emulated_fleet *self);
struct tt_device_set tt_emulated_fleet_devices(struct tt_emulated_fleet *self);

#endif
