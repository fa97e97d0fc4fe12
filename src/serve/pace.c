#include "serve/pace.h"

#include "base/instant.h"

enum { WEIGHT = 16, MAX_S = 60 };

void tt_pace_answered(struct tt_pace *self, int64_t now) {
    int64_t gap_ns = tt_instant_min(now - self->last_at, TT_S);
    if (self->last_at > 0)
        self->gap_ns = self->gap_ns ? self->gap_ns + (gap_ns - self->gap_ns) / WEIGHT : gap_ns;
    self->last_at = now;
}

int32_t tt_pace_retry_after_s(const struct tt_pace *self, int64_t in_flight) {
    if (self->gap_ns > 0 && in_flight >= MAX_S * TT_S / self->gap_ns)
        return MAX_S;
    int64_t whole_s = (in_flight * self->gap_ns + TT_S - 1) / TT_S;
    return whole_s > 1 ? (int32_t)whole_s : 1;
}
