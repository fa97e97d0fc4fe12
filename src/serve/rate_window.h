/* How many rows arrived in each of the last 60 seconds, and what follows: the rate now, how bursty
 * it is, and whether it grows. It is a ring of one-second slots, so that an arrival costs a few
 * instructions.
 *
 * It is written and read in or between the scheduler's turns, by one thread at a time. It never
 * reads a clock. Floats: only advice reads them. Implemented in rate_window.c. */
#ifndef TT_SERVE_RATE_WINDOW_H
#define TT_SERVE_RATE_WINDOW_H

#include "base/instant.h"

enum {
    TT_RATE_WINDOW_SLOTS = 61, /* 60 whole seconds and the current one */
    TT_RATE_WINDOW_S = 10,     /* the rate is that of so many whole seconds */
};

struct tt_rate_slot {
    int64_t second; /* which one it counts; a slot of an older second is empty */
    int64_t rows;
};

/* Zeroed memory is an empty window that begins with its first arrival. */
struct tt_rate_window {
    int64_t began_at; /* 0: nothing arrived yet */
    struct tt_rate_slot slots[TT_RATE_WINDOW_SLOTS];
};

static inline void tt_rate_window_arrived(struct tt_rate_window *self, int64_t now, int64_t rows) {
    int64_t second = now / TT_S;
    struct tt_rate_slot *slot = &self->slots[second % TT_RATE_WINDOW_SLOTS];
    if (self->began_at == 0)
        self->began_at = now;
    if (slot->second != second)
        *slot = (struct tt_rate_slot){.second = second};
    slot->rows += rows;
}

struct tt_rate_sum {
    double rows_per_s; /* over window_s */
    double window_s;   /* at most TT_RATE_WINDOW_S whole seconds; less after the first arrival; 0:
                          there is no whole second yet */
    double dispersion; /* variance over mean of the rows of a second, by the differences of
                          neighbouring seconds, so that a change of the rate hardly counts; 1 until
                          enough seconds are there */
    /* Rows per second per second: the smaller of the two slopes between three windows in a row, if
     * both grow. So a step is not taken for the beginning of a ramp. */
    double growth_per_s2;
};
struct tt_rate_sum tt_rate_window_sum(const struct tt_rate_window *self, int64_t now);

#endif
