/* How long a device takes from its order until it serves: what advice about growing loads needs. It
 * is given, or learnt from the latest starts that were seen.
 *
 * The estimate is their mean. Its confidence is 1 less two standard errors as a share, where one
 * more start that is off by half counts along: a single start says nothing about the spread.
 *
 * No clock, no memory. Floats: no decision of the scheduler depends on them. Implemented in
 * start_up_time.c. */
#ifndef TT_SCALE_START_UP_TIME_H
#define TT_SCALE_START_UP_TIME_H

#include <stdint.h>

enum { TT_START_UP_KEPT = 16 };

/* Zeroed memory: nothing is known. */
struct tt_start_up_time {
    double given_s; /* above 0: it is not learnt */
    double seen_s[TT_START_UP_KEPT];
    int64_t seen_count; /* ever; the latest are kept */
};

struct tt_start_up_estimate {
    double seconds; /* 0: not known */
    double confidence;
};

/* A start took so long, 0 or more. */
void tt_start_up_time_learn(struct tt_start_up_time *self, double seconds);
struct tt_start_up_estimate tt_start_up_time_of(const struct tt_start_up_time *self);

#endif
