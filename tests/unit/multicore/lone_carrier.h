/* A carrier of one executor that only stores the task it was given: the test says when and how it
 * ends. */
#ifndef LONE_CARRIER_H
#define LONE_CARRIER_H

#include "core/mechanism.h"

static inline void lone_start(void *context, int64_t now, struct tt_task *task) {
    (void)now;
    *(struct tt_task **)context = task;
}

static inline void lone_stop(void *context, int64_t now, int32_t executor) {
    (void)context, (void)now, (void)executor;
}

static inline void lone_ended(void *context, int64_t now, struct tt_request *request,
                              enum tt_ending ending, enum tt_drop_reason reason) {
    (void)context, (void)now, (void)request, (void)ending, (void)reason;
}

/* *running: the task that was started last. The caller owns the pointer as long as the carrier is
 * used. */
static inline struct tt_carrier lone_carrier(struct tt_task **running) {
    return (struct tt_carrier){.context = running,
                               .start = lone_start,
                               .yield = lone_stop,
                               .abort = lone_stop,
                               .ended = lone_ended};
}

#endif
