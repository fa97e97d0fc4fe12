/* What runs on the devices of a domain, and how much it slows itself down, by the tasks' demands
 * (core/device.h).
 *
 * A run beside others takes longer, though its model is as fast as ever. What is learnt of its
 * duration (core/belief.h) must not depend on what ran beside it. So the time that the others took
 * is subtracted: while the demands of a device's tasks sum to s > 1, each loses 1 - 1/s of the
 * time. Policies read the sums to decide whether a task should begin beside others.
 *
 * A task whose profile does not know its demand takes nothing from others, and nothing is taken
 * from it. The same holds for tasks of cells, and for tasks that follow others on the device
 * (core/follow.h), because the mechanism does not know when they begin. Tasks that began while no
 * device had several executors do not count. A task begins when it is the oldest of its executor;
 * what its message takes to get there is neglected.
 *
 * Cost: O(1) per task, O(executors) per executor that is added. Pure; no clock, no thread.
 * Allocates only in init. */
#ifndef TT_CORE_SHARING_H
#define TT_CORE_SHARING_H

#include "core/step_model.h"
#include "core/task.h"

#include <stdint.h>

struct tt_shared_device {
    int32_t number; /* of the device; executors of one number share it */
    int32_t executors;
    int32_t running;    /* executors with a task that counts */
    int64_t demand_ppm; /* sum over their oldest tasks */
    int64_t at;         /* lost_ns is as of this instant */
    int64_t lost_ns;    /* by each task that ran all the time */
};

struct tt_shared_run {
    int32_t device; /* index; -1: the executor is of none */
    bool runs;
    int32_t demand_ppm; /* of its oldest task; 0: not known */
    int64_t lost_ns;    /* of the device when that task began */
};

struct tt_sharing {
    int32_t executor_count;
    int32_t device_count;             /* devices that have executors */
    int32_t shared_count;             /* those that have several */
    struct tt_shared_device *devices; /* [executor_count] */
    struct tt_shared_run *runs;       /* [executor_count] */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_sharing_init(struct tt_sharing *self, int32_t executor_count);
void tt_sharing_fini(struct tt_sharing *self);
/* The executor is of this device from now on. A task that runs on it counts no more. */
void tt_sharing_seat(struct tt_sharing *self, int64_t now, int32_t executor, int32_t device);
/* It is of no device any more. */
void tt_sharing_leave(struct tt_sharing *self, int64_t now, int32_t executor);
/* For the functions below. */
void tt_sharing_add(struct tt_sharing *self, int64_t now, const struct tt_task *task,
                    const struct tt_step_model *model);
int64_t tt_sharing_take(struct tt_sharing *self, int64_t now, int32_t executor);

/* The task begins on its executor, on which none runs. */
static inline void tt_sharing_begin(struct tt_sharing *self, int64_t now,
                                    const struct tt_task *task, const struct tt_step_model *model) {
    if (self->shared_count > 0)
        tt_sharing_add(self, now, task, model);
}
/* It has ended, or there was none: 0. Returns how much of its time it lost to others. */
static inline int64_t tt_sharing_end(struct tt_sharing *self, int64_t now, int32_t executor) {
    return self->runs[executor].runs ? tt_sharing_take(self, now, executor) : 0;
}

/* Checks that devices and runs agree. O(executors). */
void tt_sharing_check(const struct tt_sharing *self);

#endif
