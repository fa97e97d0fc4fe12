/* What a domain did in the last minute: requests that ended, how many of them were bad, and how
 * long its executors ran. It is a ring of one-second slots, so that an event costs a few
 * instructions.
 *
 * It is written and read in or between the scheduler's turns, by one thread at a time. It never
 * reads a clock. Implemented in load_window.c. */
#ifndef TT_SERVE_LOAD_WINDOW_H
#define TT_SERVE_LOAD_WINDOW_H

#include "base/instant.h"

#include <stdbool.h>

enum { TT_LOAD_WINDOW_SLOTS = 60 };

struct tt_load_slot {
    int64_t second; /* which one it counts; a slot of an older second is empty */
    int64_t ended, bad, busy_ns;
};

/* Zeroed memory is an empty window that begins at its first event. */
struct tt_load_window {
    int64_t began_at; /* 0: no event yet */
    struct tt_load_slot slots[TT_LOAD_WINDOW_SLOTS];
};

/* A request ended at `now`. Cancelled requests are not counted. */
void tt_load_window_ended(struct tt_load_window *self, int64_t now, bool is_bad);
/* An executor's run ended at `now`; it counts as a whole then. */
void tt_load_window_ran(struct tt_load_window *self, int64_t now, int64_t busy_ns);

struct tt_load_sum {
    int64_t ended, bad, busy_ns;
    int64_t length_ns; /* of the window: at most 60 s; 0: no event yet */
};
struct tt_load_sum tt_load_window_sum(const struct tt_load_window *self, int64_t now);
/* Of the current second and those before it, `seconds` (1 .. TT_LOAD_WINDOW_SLOTS) in all. */
struct tt_load_sum tt_load_window_last(const struct tt_load_window *self, int64_t now,
                                       int32_t seconds);

#endif
