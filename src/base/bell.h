/* How a thread sleeps until somebody needs it before it would look by itself.
 *
 * The sleeper says when it will look again anyway (`tt_bell_arm`), looks at its inputs once more,
 * and waits. Who brings something first makes it visible and then rings, saying by when it must be
 * looked at: the sleeper is only woken if it would come too late by itself. So things that can wait
 * a little (arrivals) are found by a sleeper that rests between looks, without a system call for
 * each, and things that cannot (a device was granted) wake it at once. A thread that is awake is
 * never rung: it looks before it sleeps.
 *
 * Built on base/parker.h, whose wakes are never lost. One thread sleeps, any thread rings. */
#ifndef TT_BASE_BELL_H
#define TT_BASE_BELL_H

#include "base/parker.h"

#include <stdatomic.h>

#define TT_BELL_AT_ONCE INT64_MIN

struct tt_bell {
    _Alignas(64) _Atomic int64_t looks_at; /* INT64_MIN: it is awake */
    struct tt_parker parker;
};

void tt_bell_init(struct tt_bell *self);
/* Sleeper: "I look again at `until_at`" (the monotonic clock; TT_NEVER: only when rung). Look at
 * all inputs after this, and then either wait or disarm. */
void tt_bell_arm(struct tt_bell *self, int64_t until_at);
/* Sleeper: waits, then is awake. */
void tt_bell_wait(struct tt_bell *self, int64_t until_at);
/* Sleeper: found something after all; is awake. */
void tt_bell_disarm(struct tt_bell *self);
/* Something is visible that must be looked at by `due_at` (TT_BELL_AT_ONCE: now). */
void tt_bell_ring(struct tt_bell *self, int64_t due_at);

#endif
