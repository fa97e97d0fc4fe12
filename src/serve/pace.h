/* How fast requests are answered, for those who are told to come back later.
 *
 * An average of the times between two answers, of weight 1/16; by Little's law what is in flight
 * takes that many of them. A pause in which nobody asked says nothing of the pace, so that a time
 * between two answers counts as a second at the most. It reads no clock. */
#ifndef TT_SERVE_PACE_H
#define TT_SERVE_PACE_H

#include <stdint.h>

struct tt_pace {
    int64_t last_at, gap_ns; /* 0: nobody was answered yet */
};

/* One request was answered; time does not go back. */
void tt_pace_answered(struct tt_pace *self, int64_t now);
/* Seconds, 1 .. 60, after which so many in flight will be through, at this pace. */
int32_t tt_pace_retry_after_s(const struct tt_pace *self, int64_t in_flight);

#endif
