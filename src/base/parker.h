/* Where one thread waits until others have something for it.
 *
 * The waiting thread looks for work, and when there is none calls `tt_parker_park`; a thread that
 * brings work first makes it visible (a push, say) and then calls `tt_parker_unpark`. A wake that
 * comes before the park is kept, so none is lost; several wakes become one, so the waiter looks
 * again until it finds nothing. It spins a little before it sleeps, since a batch is often followed
 * at once by the next. */
#ifndef TT_BASE_PARKER_H
#define TT_BASE_PARKER_H

#include "base/instant.h"

#include <stdatomic.h>
#include <stdbool.h>

struct tt_parker {
    _Atomic uint32_t state;
};

void tt_parker_init(struct tt_parker *self);
/* Waits for a wake, or until the instant `until_at` of the monotonic clock (TT_NEVER: for ever).
 * True when woken; false when the time has come or the wait ended for no reason. Only one thread
 * may wait on a parker. */
bool tt_parker_park(struct tt_parker *self, int64_t until_at);
/* The same without spinning first. */
bool tt_parker_sleep(struct tt_parker *self, int64_t until_at);
/* The calling thread's waits end as exactly as the kernel can (by default they may last 50
 * microseconds longer). */
void tt_parker_be_punctual(void);
/* Any thread. */
void tt_parker_unpark(struct tt_parker *self);

#endif
