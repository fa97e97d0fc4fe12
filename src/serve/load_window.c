#include "serve/load_window.h"

#include "base/err.h"

static struct tt_load_slot *slot_at(struct tt_load_window *self, int64_t now) {
    int64_t second = now / TT_S;
    struct tt_load_slot *slot = &self->slots[second % TT_LOAD_WINDOW_SLOTS];
    if (self->began_at == 0)
        self->began_at = now;
    if (slot->second != second)
        *slot = (struct tt_load_slot){.second = second};
    return slot;
}

void tt_load_window_ended(struct tt_load_window *self, int64_t now, bool is_bad) {
    struct tt_load_slot *slot = slot_at(self, now);
    slot->ended++;
    slot->bad += is_bad;
}

void tt_load_window_ran(struct tt_load_window *self, int64_t now, int64_t busy_ns) {
    slot_at(self, now)->busy_ns += busy_ns;
}

struct tt_load_sum tt_load_window_sum(const struct tt_load_window *self, int64_t now) {
    return tt_load_window_last(self, now, TT_LOAD_WINDOW_SLOTS);
}

struct tt_load_sum tt_load_window_last(const struct tt_load_window *self, int64_t now,
                                       int32_t seconds) {
    tt_assert(seconds >= 1 && seconds <= TT_LOAD_WINDOW_SLOTS);
    struct tt_load_sum sum = {0};
    if (self->began_at == 0)
        return sum;
    int64_t second = now / TT_S, oldest = second - seconds + 1;
    for (int32_t i = 0; i < TT_LOAD_WINDOW_SLOTS; i++) {
        const struct tt_load_slot *slot = &self->slots[i];
        if (slot->second < oldest || slot->second > second)
            continue;
        sum.ended += slot->ended;
        sum.bad += slot->bad;
        sum.busy_ns += slot->busy_ns;
    }
    int64_t from = oldest * TT_S > self->began_at ? oldest * TT_S : self->began_at;
    sum.length_ns = now - from;
    return sum;
}
