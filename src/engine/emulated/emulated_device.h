/* An emulated device in wall time, whose executors share its capacity. core/device.h computes when
 * work ends; this adds a lock.
 *
 * An executor begins work and then asks whether it has ended. Between questions it sleeps, at the
 * latest until the first of all running work on the device ends. Ends are exact on the device's own
 * clock, however late an executor asks. Aborting work wakes the other executors, because theirs
 * then runs faster. */
#ifndef TT_ENGINE_EMULATED_EMULATED_DEVICE_H
#define TT_ENGINE_EMULATED_EMULATED_DEVICE_H

#include "base/threads/eventcount.h"
#include "base/threads/lock.h"
#include "core/device.h"

struct tt_emulated_place; /* one per executor */

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
/* Begins work of `work_ns` on `place` at `at`, or at the device's clock if that is later. The
 * place's thread waits on `eventcount`. */
void tt_emulated_device_begin(struct tt_emulated_device *self, int32_t place,
                              struct tt_eventcount *eventcount, int64_t at, int64_t work_ns,
                              int32_t demand_ppm);
/* True if the work has ended by `now`; *out_at is then its end. Otherwise *out_at is when to ask
 * again. */
bool tt_emulated_device_ended(struct tt_emulated_device *self, int32_t place, int64_t now,
                              int64_t *out_at);
/* Aborts the work on `place`. */
void tt_emulated_device_stop(struct tt_emulated_device *self, int32_t place, int64_t now);
/* Returns when a transfer of `bytes` that begins at `now` is done. */
int64_t tt_emulated_device_copy(struct tt_emulated_device *self, struct tt_copy_engine *engine,
                                int64_t now, int64_t bytes);

#endif
