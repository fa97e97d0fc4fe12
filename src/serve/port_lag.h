/* How long requests and answers lie on a connection thread that has others to handle. Both count
 * against the deadline, and no scheduler sees them.
 *
 * Before: the thread reads its sockets in turns. What it finds after it has waited for them has
 * just come. What it finds at once may have come right after it last looked, while it handled the
 * requests of the turn before; it counts as come then, so that no deadline is promised in vain.
 * After: an answer lies until the thread takes it, and until the answers before it are written.
 * That time is learnt as the lateness of decisions is (core/lateness.h), one value per turn. A
 * request keeps at most a quarter of its time for it.
 *
 * It reads no clock. One thread. All functions are inline. */
#ifndef TT_SERVE_PORT_LAG_H
#define TT_SERVE_PORT_LAG_H

#include "core/lateness.h"

#define TT_PORT_LAG_WAITED_NS (50 * TT_US) /* a shorter wait may be that of the call alone */

struct tt_port_lag {
    struct tt_lateness answers;
    int64_t rests_at;  /* when it began to wait for its sockets; 0: it has not */
    int64_t looked_at; /* when it last looked; 0: it does not work in turns */
    int64_t since_at;  /* what it finds in this turn may have come then; 0: it has just come */
};

/* percent 0: nothing is learnt of answers. */
static inline void tt_port_lag_init(struct tt_port_lag *self, int32_t percent) {
    *self = (struct tt_port_lag){.rests_at = 0};
    tt_lateness_init(&self->answers, 0, percent);
}

/* The thread is about to wait for its sockets. */
static inline void tt_port_lag_rest(struct tt_port_lag *self, int64_t now) { self->rests_at = now; }

static inline bool tt_port_lag_rests(const struct tt_port_lag *self) { return self->rests_at != 0; }

/* The first use after _rest, or the end of a turn without one: what has come is handled now. */
static inline void tt_port_lag_wake(struct tt_port_lag *self, int64_t now) {
    tt_assert(tt_port_lag_rests(self));
    self->since_at = now - self->rests_at < TT_PORT_LAG_WAITED_NS ? self->looked_at : 0;
    self->looked_at = now;
    self->rests_at = 0;
}

/* The earliest instant at which a request that was read at `now` may have come. */
static inline int64_t tt_port_lag_since(const struct tt_port_lag *self, int64_t now) {
    if (self->since_at)
        return self->since_at;
    return self->looked_at ? self->looked_at : now;
}

/* The last answer of a turn was written at `now`; the first was computed at `computed_at`.
 * TT_NEVER: they were all refusals. Then what counts is how long the turn takes: so believing in
 * too long a time, which refuses every request, does not last. */
static inline void tt_port_lag_answered(struct tt_port_lag *self, int64_t computed_at,
                                        int64_t now) {
    if (computed_at == TT_NEVER)
        computed_at = tt_port_lag_since(self, now);
    if (self->answers.percent == 0)
        return;
    self->answers.due_at = computed_at;
    tt_lateness_decided(&self->answers, now);
}

/* What an answer is believed to need at most, from its computation until it is written. */
static inline int64_t tt_port_lag_answer_ns(const struct tt_port_lag *self) {
    return self->answers.believed_ns;
}

#endif
