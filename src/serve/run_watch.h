/* How long one executor's run takes, by the watchdog's own time: when it is to be cut, and when to
 * be given up.
 *
 * Life: all zero, then one _look() per tick of the watchdog (serve/watchdog.h). A run that is seen
 * for longer than its limit is cut, once. If the executor still runs it after the patience, it is
 * given up; that verdict repeats, since the caller may be unable to act on it.
 *
 * Only time between ticks counts, and of each tick at most what the watchdog allows. So a process
 * that was stopped, or a clock that jumps, cuts no run. Pure; no clock, no thread. */
#ifndef TT_SERVE_RUN_WATCH_H
#define TT_SERVE_RUN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum tt_run_verdict { TT_RUN_GOES_ON, TT_RUN_CUT, TT_RUN_GIVE_UP };

struct tt_run_watch {
    bool is_known; /* a run was seen at the last look; it began at: */
    int64_t started_at;
    int64_t ran_ns; /* since it was first seen; after the cut, since then */
    bool is_cut;
};

/* Nothing runs now. */
static inline void tt_run_watch_idle(struct tt_run_watch *self) {
    *self = (struct tt_run_watch){0};
}
/* The run that began at `started_at` runs now. `elapsed_ns`: since the last look. `limit_ns` 0: it
 * may run for ever. */
static inline enum tt_run_verdict tt_run_watch_look(struct tt_run_watch *self, int64_t started_at,
                                                    int64_t elapsed_ns, int64_t limit_ns,
                                                    int64_t patience_ns) {
    if (!self->is_known || self->started_at != started_at) {
        *self = (struct tt_run_watch){.is_known = true, .started_at = started_at};
        return TT_RUN_GOES_ON;
    }
    self->ran_ns += elapsed_ns;
    if (self->is_cut)
        return self->ran_ns > patience_ns ? TT_RUN_GIVE_UP : TT_RUN_GOES_ON;
    if (limit_ns <= 0 || self->ran_ns <= limit_ns)
        return TT_RUN_GOES_ON;
    self->is_cut = true;
    self->ran_ns = 0;
    return TT_RUN_CUT;
}

#endif
