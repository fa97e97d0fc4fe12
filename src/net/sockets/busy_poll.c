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

static void turn_on(struct tt_busy_poll *self) {
    self->is_on = true;
    self->recent = UINT32_MAX; /* a sleeper's waits are no measure of a watcher's */
    self->in_a_row = 0;
}

static void turn_off(struct tt_busy_poll *self) {
    bool has_lasted = self->in_a_row >= TT_BUSY_POLL_LASTED;
    self->is_on = false;
    self->recent = 0;
    self->pause = has_lasted ? TT_BUSY_POLL_PAUSE : self->next_pause;
    self->next_pause =
        2 * self->pause < TT_BUSY_POLL_MAX_PAUSE ? 2 * self->pause : TT_BUSY_POLL_MAX_PAUSE;
}

void tt_busy_poll_after(struct tt_busy_poll *self, int64_t now) {
    /* The time to wake up is a part of what a sleeper waited. */
    bool is_short = now - self->since <= 2 * self->limit_ns;
    if (!self->is_adaptive) {
        self->is_on = self->limit_ns > 0 && is_short;
        return;
    }
    if (!self->is_counted)
        return;
    self->recent = self->recent << 1 | (self->is_on ? !self->is_in_vain : is_short);
    bool pays = __builtin_popcount(self->recent) >= TT_BUSY_POLL_WAITS - TT_BUSY_POLL_LONG;
    if (self->pause > 0)
        self->pause--;
    if (self->is_on) {
        self->in_a_row += self->in_a_row < TT_BUSY_POLL_LASTED;
        if (!pays)
            turn_off(self);
    } else if (pays && self->pause == 0) {
        turn_on(self);
    }
}
