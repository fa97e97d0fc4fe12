/* What a device does with the work given to it: the pure model that the simulator and the emulated
 * engine share.
 *
 * Capacity. A task that runs demands a share of the device (its profile says which, in millionths).
 * While the demands of the running tasks sum to at most one whole device they do not disturb each
 * other; beyond that all slow down by the same factor (processor sharing). Since all run at one
 * speed, the device keeps one virtual clock that advances at that speed, and a task is its end on
 * the virtual clock. A device that is used exclusively is the case of one task at a time. Whole
 * nanoseconds: with total demand at most one the arithmetic is exact, above it less than 1 ns is
 * lost whenever the set of running tasks changes.
 *
 * Copies. A copy engine moves bytes one transfer after another, each at a fixed cost plus bytes /
 * bandwidth. A device has one in each direction; they neither share with each other nor with the
 * computation.
 *
 * Nothing here reads a clock or allocates after init; `now` never goes back. */
#ifndef TT_CORE_DEVICE_H
#define TT_CORE_DEVICE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_device_run {
    int64_t virtual_end_at;
    int32_t executor;
    int32_t demand_ppm;
};

struct tt_device {
    int64_t real_at, virtual_at; /* the virtual clock shows virtual_at at the instant real_at */
    int64_t remainder;           /* of the division that advanced it */
    int64_t demand_ppm;          /* sum over the running */
    int64_t busy_ns;             /* time with at least one running, up to real_at */
    int32_t count, capacity;
    struct tt_device_run *runs;
};

/* `capacity`: most tasks at once, its executors. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_device_init(struct tt_device *self, int32_t capacity);
void tt_device_fini(struct tt_device *self);
/* `executor` starts work that takes `work_ns` (> 0) where nothing disturbs it. */
void tt_device_start(struct tt_device *self, int64_t now, int32_t executor, int64_t work_ns,
                     int32_t demand_ppm);
/* When the first of the running tasks ends if nothing changes; TT_NEVER: none runs. */
int64_t tt_device_next_at(const struct tt_device *self);
/* Takes out one task that has ended by `now` (the earliest end; smaller executor first): its
 * executor, or -1. */
int32_t tt_device_take_ended(struct tt_device *self, int64_t now);
/* Takes out a running task before its end. */
void tt_device_stop(struct tt_device *self, int64_t now, int32_t executor);

struct tt_copy_engine {
    int64_t fixed_ns;
    int64_t bytes_per_s; /* 0: bytes cost nothing */
    int64_t free_at;
    int64_t busy_ns;
};

/* Queues a transfer; returns when it is done. */
int64_t tt_copy_engine_add(struct tt_copy_engine *self, int64_t now, int64_t bytes);

#endif
