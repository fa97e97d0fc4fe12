#include "net/sockets/busy_poll.h"

#include "base/err.h"

void tt_busy_poll_init(struct tt_busy_poll *self, int64_t limit_ns) {
    *self = (struct tt_busy_poll){.limit_ns = limit_ns, .next_pause = TT_BUSY_POLL_PAUSE};
    if (limit_ns < 0) {
        self->is_adaptive = true;
        self->limit_ns = TT_BUSY_POLL_ADAPTIVE_NS;
    }
}

int64_t tt_busy_poll_before(struct tt_busy_poll *self, int64_t now, bool has_requests) {
    self->since = now;
    self->is_counted = !self->is_adaptive || !has_requests;
    self->is_in_vain = false;
    return self->is_on && self->is_counted ? self->limit_ns : 0;
}

void tt_busy_poll_in_vain(struct tt_busy_poll *self) {
    tt_assert(self->is_on);
    self->is_in_vain = true;
}

static void turn_on(struct tt_busy_poll *self, int64_t limit_ns) {
    self->is_on = true;
    self->limit_ns = limit_ns;
    self->recent = UINT32_MAX; /* a sleeper's waits are no measure of a watcher's */
    self->usual_ns = 0;
    self->in_a_row = 0;
}

static void turn_off(struct tt_busy_poll *self) {
    bool has_lasted = self->in_a_row >= TT_BUSY_POLL_LASTED;
    self->is_on = false;
    self->limit_ns = TT_BUSY_POLL_ADAPTIVE_NS;
    self->recent = self->even = 0;
    self->usual_ns = 0;
    self->pause = has_lasted ? TT_BUSY_POLL_PAUSE : self->next_pause;
    self->next_pause =
        2 * self->pause < TT_BUSY_POLL_MAX_PAUSE ? 2 * self->pause : TT_BUSY_POLL_MAX_PAUSE;
}

/* True if the wait is within a factor of two of the usual one, which it moves; a long one by no
 * more than twice the usual one would. */
static bool is_even(struct tt_busy_poll *self, int64_t wait_ns) {
    if (self->usual_ns == 0)
        self->usual_ns = wait_ns;
    int64_t usual_ns = self->usual_ns;
    self->usual_ns += (tt_instant_min(wait_ns, 2 * usual_ns) - usual_ns) / TT_BUSY_POLL_WEIGHT;
    return wait_ns <= 2 * usual_ns && usual_ns <= 2 * wait_ns;
}

/* True if nearly all recent waits have the bit. */
static bool pays(uint32_t bits) {
    return __builtin_popcount(bits) >= TT_BUSY_POLL_WAITS - TT_BUSY_POLL_LONG;
}

void tt_busy_poll_after(struct tt_busy_poll *self, int64_t now) {
    /* The time to wake up is a part of what a sleeper waited. */
    int64_t wait_ns = now - self->since;
    bool is_short = wait_ns <= 2 * self->limit_ns;
    if (!self->is_adaptive) {
        self->is_on = self->limit_ns > 0 && is_short;
        return;
    }
    if (!self->is_counted)
        return;
    if (self->pause > 0)
        self->pause--;
    if (self->is_on) {
        bool may_be_uneven = self->limit_ns == TT_BUSY_POLL_ADAPTIVE_NS;
        bool is_good = !self->is_in_vain && (is_even(self, wait_ns) || may_be_uneven);
        self->recent = self->recent << 1 | is_good;
        self->in_a_row += self->in_a_row < TT_BUSY_POLL_LASTED;
        if (!pays(self->recent))
            turn_off(self);
        return;
    }
    self->recent = self->recent << 1 | is_short;
    self->even = self->even << 1 | (is_even(self, wait_ns) && wait_ns <= 2 * TT_BUSY_POLL_EVEN_NS);
    if (self->pause == 0 && pays(self->even))
        turn_on(self, TT_BUSY_POLL_EVEN_NS);
    else if (self->pause == 0 && pays(self->recent))
        turn_on(self, TT_BUSY_POLL_ADAPTIVE_NS);
}
