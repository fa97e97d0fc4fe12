/* How late decisions come: the time from the instant at which a policy wanted to decide to the
 * instant at which it could.
 *
 * The value begins with a given one. From then on it is a high quantile of the last 32 decisions
 * that were due at an instant. It moves when that quantile has left it by more than 5 % and 10 us.
 * In virtual time no decision is late. Pure; all functions are inline. */
#ifndef TT_CORE_LATENESS_H
#define TT_CORE_LATENESS_H

#include "base/instant.h"
#include "core/quantile_window.h"

enum { TT_LATENESS_MOVE_PERCENT = 5 };
#define TT_LATENESS_MOVE_NS (10 * TT_US)
#define TT_LATENESS_MAX_NS (4 * TT_S)

struct tt_lateness {
    struct tt_quantile_window waits; /* ns */
    struct tt_quantile_watch watch;
    int64_t believed_ns;
    int64_t due_at; /* when the next decision is due; TT_NEVER: it has no instant */
    int32_t percent;
};

static inline void tt_lateness_believe(struct tt_lateness *self, int64_t ns) {
    int64_t slack_ns = tt_instant_max(ns * TT_LATENESS_MOVE_PERCENT / 100, TT_LATENESS_MOVE_NS);
    self->believed_ns = ns;
    tt_quantile_watch_set(&self->watch, &self->waits, (uint32_t)tt_instant_max(ns - slack_ns, 0),
                          (uint32_t)tt_instant_min(ns + slack_ns, UINT32_MAX));
}

/* percent 0: nothing is learnt, and `prior_ns` stays. */
static inline void tt_lateness_init(struct tt_lateness *self, int64_t prior_ns, int32_t percent) {
    *self = (struct tt_lateness){.due_at = TT_NEVER, .percent = percent};
    self->watch.index = tt_quantile_window_index(percent > 0 ? percent : 1);
    tt_quantile_window_fill(&self->waits, (uint32_t)tt_instant_min(prior_ns, TT_LATENESS_MAX_NS));
    tt_lateness_believe(self, tt_instant_min(prior_ns, TT_LATENESS_MAX_NS));
}

/* A decision comes at `now`. One that an event brought before its instant does not count. */
static inline void tt_lateness_decided(struct tt_lateness *self, int64_t now) {
    if (now < self->due_at)
        return;
    uint32_t wait_ns = (uint32_t)tt_instant_min(now - self->due_at, TT_LATENESS_MAX_NS);
    tt_quantile_watch_add(&self->watch, tt_quantile_window_add(&self->waits, wait_ns), wait_ns);
    if (tt_quantile_watch_left(&self->watch))
        tt_lateness_believe(self, tt_quantile_window_at(&self->waits, self->percent));
}

#endif
