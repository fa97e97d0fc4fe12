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

struct tt_lateness {
    struct tt_quantile_window waits; /* ns, at most 4 s each */
    int64_t believed_ns;
    int64_t due_at; /* when the next decision is due; TT_NEVER: it has no instant */
    int32_t percent;
};

static inline void tt_lateness_init(struct tt_lateness *self, int64_t prior_ns, int32_t percent) {
    *self = (struct tt_lateness){.believed_ns = prior_ns, .due_at = TT_NEVER, .percent = percent};
    tt_quantile_window_fill(&self->waits, (uint32_t)tt_instant_min(prior_ns, UINT32_MAX));
}

/* A decision comes at `now`. One that an event brought before its instant does not count. */
static inline void tt_lateness_decided(struct tt_lateness *self, int64_t now) {
    if (now < self->due_at)
        return;
    tt_quantile_window_add(&self->waits, (uint32_t)tt_instant_min(now - self->due_at, UINT32_MAX));
    int64_t value = tt_quantile_window_at(&self->waits, self->percent);
    int64_t distance =
        value < self->believed_ns ? self->believed_ns - value : value - self->believed_ns;
    if (distance > TT_LATENESS_MOVE_NS &&
        distance * 100 > self->believed_ns * TT_LATENESS_MOVE_PERCENT)
        self->believed_ns = value;
}

#endif
