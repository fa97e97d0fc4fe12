/* The pure model of what a device does with its work. The simulator and the emulated engine share
 * it.
 *
 * Capacity. A running task demands a share of the device, in millionths (from its profile). While
 * the demands sum to at most one whole device, tasks do not slow each other down. Beyond that, all
 * slow down by the same factor (processor sharing). All tasks run at one speed, so the device keeps
 * one virtual clock at that speed, and a task is its end on the virtual clock. An exclusive device
 * is the case of one task at a time.
 *
 * Precision: whole nanoseconds. With a total demand of at most one the arithmetic is exact. Above
 * it, less than 1 ns is lost whenever the set of running tasks changes.
 *
 * Copies. A copy engine moves bytes one transfer after another, each at a fixed cost plus bytes /
 * bandwidth. A device has one per direction. Copy engines share nothing with each other or with the
 * computation.
 *
 * Nothing here reads a clock or allocates after init. `now` never goes back. */
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
    int64_t real_at, virtual_at; /* the virtual clock shows virtual_at at instant real_at */
    int64_t remainder;           /* of the division that advanced the virtual clock */
    int64_t demand_ppm;          /* sum over the running tasks */
    int64_t busy_ns;             /* time with at least one running task, up to real_at */
    int32_t count, capacity;
    struct tt_device_run *runs;
};

/* `capacity`: maximum number of tasks at once, its executors. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_device_init(struct tt_device *self, int32_t capacity);
void tt_device_fini(struct tt_device *self);
/* Starts work on `executor` that takes `work_ns` (> 0) if nothing slows it down. */
void tt_device_start(struct tt_device *self, int64_t now, int32_t executor, int64_t work_ns,
                     int32_t demand_ppm);
/* Runs work of `work_ns` from `now` to its end on the device, on which nothing runs and nothing
 * begins meanwhile. */
void tt_device_pass(struct tt_device *self, int64_t now, int64_t work_ns);
/* When the first running task ends if nothing changes; TT_NEVER: none runs. */
int64_t tt_device_next_at(const struct tt_device *self);
/* Removes one task that has ended by `now` (earliest end first, then smaller executor). Returns its
 * executor; -1: none. */
int32_t tt_device_take_ended(struct tt_device *self, int64_t now);
/* Removes a running task before its end. */
void tt_device_stop(struct tt_device *self, int64_t now, int32_t executor);

struct tt_copy_engine {
    int64_t fixed_ns;
    int64_t bytes_per_s; /* 0: bytes cost nothing */
    int64_t free_at;
    int64_t busy_ns;
};

/* Queues a transfer; returns the instant at which it is done. */
int64_t tt_copy_engine_add(struct tt_copy_engine *self, int64_t now, int64_t bytes);

#endif
