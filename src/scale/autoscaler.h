/* Turns advice about devices (devices_wanted.h) into a target that does not flutter.
 *
 * - Up, at once: if even the fewest devices that the advice thinks possible are more than the
 *   target; or if requests are bad and more are wanted.
 * - Down, after `hold_s`: if during all that time even the most that the advice thinks possible
 *   were fewer than the target. The new target is the highest number wanted within that time.
 * - Else the target stays: the advice is not sure.
 * - Not down to a target that failed: one on which requests were bad. That ends when the work is
 *   surely less than it was then, or after TT_AUTOSCALER_FAILURE_S. So a load at the edge between
 * two targets does not change them by the noise of its rates.
 *
 * A state machine without clock, memory or I/O: _init, then _step with ascending instants.
 * Implemented in autoscaler.c. */
#ifndef TT_SCALE_AUTOSCALER_H
#define TT_SCALE_AUTOSCALER_H

#include "scale/devices_wanted.h"

#define TT_AUTOSCALER_FAILURE_S 3600.0

struct tt_autoscaler {
    int32_t target, least, most; /* least <= target <= most */
    double hold_s;
    double over_since_s; /* the target is too high since then; below 0: it is not */
    int32_t highest;     /* wanted since then */
    int32_t adjustments; /* changes of the target so far */
    int32_t failed;      /* the highest target that failed; 0: none */
    double failed_work;  /* the least that it may have been */
    double failed_at_s;
};

void tt_autoscaler_init(struct tt_autoscaler *self, int32_t target, int32_t least, int32_t most,
                        double hold_s);
/* `bad`: the share of bad requests while `target` devices served; 0 while fewer did. Returns the
 * target. */
int32_t tt_autoscaler_step(struct tt_autoscaler *self, double now_s,
                           const struct tt_devices_wanted *wanted, double bad);
void tt_autoscaler_check(const struct tt_autoscaler *self);

#endif
