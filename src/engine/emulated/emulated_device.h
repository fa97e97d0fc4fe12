/* A device in wall time whose executors share its capacity: core/device.h, which says what happens
 * when, under a lock.
 *
 * An executor begins work and asks now and then whether it has ended; in between it sleeps, until
 * the first of all running works ends at the latest. Ends are exact on the device's own clock,
 * however late somebody looks; who aborts work wakes the others, since theirs goes on faster. */
#ifndef TT_ENGINE_EMULATED_EMULATED_DEVICE_H
#define TT_ENGINE_EMULATED_EMULATED_DEVICE_H

#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "core/device.h"

struct tt_emulated_place; /* of one executor */

struct tt_emulated_device {
    struct tt_lock lock;
    struct tt_device device;
    struct tt_copy_engine copy_in, copy_out;
    struct tt_emulated_place *places; /* [executors] */
    int32_t executors;
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_emulated_device_init(struct tt_emulated_device *self,
                                                  int32_t executors);
void tt_emulated_device_fini(struct tt_emulated_device *self);
/* Work of `work_ns` begins at `at` (or where the device's clock has got to) on `place`, whose
 * thread waits on `eventcount`. */
void tt_emulated_device_begin(struct tt_emulated_device *self, int32_t place,
                              struct tt_eventcount *eventcount, int64_t at, int64_t work_ns,
                              int32_t demand_ppm);
/* Has it ended by `now`? Then when, in `out_at`; else `out_at` is when to ask again. */
bool tt_emulated_device_ended(struct tt_emulated_device *self, int32_t place, int64_t now,
                              int64_t *out_at);
/* It is aborted. */
void tt_emulated_device_stop(struct tt_emulated_device *self, int32_t place, int64_t now);
/* When a transfer of so many bytes that begins now is done. */
int64_t tt_emulated_device_copy(struct tt_emulated_device *self, struct tt_copy_engine *engine,
                                int64_t now, int64_t bytes);

#endif
