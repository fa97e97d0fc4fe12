/* How fast requests are answered, for the Retry-After of requests that are rejected or dropped.
 *
 * An average of the times between two answers, of weight 1/16; by Little's law what is in flight
 * takes that many of them. A pause without requests says nothing about the pace, so a time between
 * two answers counts as at most a second. It reads no clock. Implemented in pace.c. */
#ifndef TT_SERVE_PACE_H
#define TT_SERVE_PACE_H

#include <stdint.h>

struct tt_pace {
    int64_t last_at, gap_ns; /* 0: no answer yet */
};

/* One request was answered; `now` never goes back. */
void tt_pace_answered(struct tt_pace *self, int64_t now);
/* Seconds, 1 .. 60, after which `in_flight` requests will have been answered, at this pace. */
int32_t tt_pace_retry_after_s(const struct tt_pace *self, int64_t in_flight);

#endif
