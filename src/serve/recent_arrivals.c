#include "serve/recent_arrivals.h"

#include <stdlib.h>

enum { WORDS = 3, ROWS_SHIFT = 32, PRIORITY_SHIFT = 48 };

struct tt_recent_arrivals *tt_recent_arrivals_new(void) {
    struct tt_recent_arrivals *self = calloc(1, sizeof(*self));
    if (self && tt_recent_init(&self->recent, TT_RECENT_ARRIVALS, WORDS)) {
        free(self);
        self = NULL;
    }
    return self;
}

void tt_recent_arrivals_free(struct tt_recent_arrivals *take_self) {
    if (!take_self)
        return;
    tt_recent_fini(&take_self->recent);
    free(take_self);
}

void tt_recent_arrivals_put(struct tt_recent_arrivals *self,
                            const struct tt_recent_arrival *arrival) {
    uint64_t words[WORDS] = {(uint64_t)arrival->at, (uint64_t)arrival->deadline_at,
                             (uint64_t)(uint32_t)arrival->length |
                                 (uint64_t)(uint16_t)arrival->rows << ROWS_SHIFT |
                                 (uint64_t)(uint16_t)arrival->priority << PRIORITY_SHIFT};
    tt_recent_put(&self->recent, words);
}

static bool read_one(const struct tt_recent_arrivals *self, uint64_t number,
                     struct tt_recent_arrival *out_arrival) {
    uint64_t words[WORDS];
    bool good = tt_recent_get(&self->recent, number, words);
    *out_arrival = (struct tt_recent_arrival){.at = (int64_t)words[0],
                                              .deadline_at = (int64_t)words[1],
                                              .length = (int32_t)words[2],
                                              .rows = (int16_t)(words[2] >> ROWS_SHIFT),
                                              .priority = (int16_t)(words[2] >> PRIORITY_SHIFT)};
    return good;
}

/* From the newest back, so that the writer overtakes the reader at the oldest ones only. */
int32_t tt_recent_arrivals_copy(const struct tt_recent_arrivals *self, int64_t from_at,
                                struct tt_recent_arrival *out_arrivals, int32_t limit) {
    uint64_t end = tt_recent_end(&self->recent), first = tt_recent_first(&self->recent);
    if (end - first > (uint64_t)limit)
        first = end - (uint64_t)limit;
    int32_t count = 0;
    for (uint64_t number = end; number > first; number--) {
        struct tt_recent_arrival arrival;
        if (!read_one(self, number - 1, &arrival) || arrival.at < from_at)
            break;
        out_arrivals[count++] = arrival;
    }
    for (int32_t i = 0; i < count / 2; i++) {
        struct tt_recent_arrival other = out_arrivals[i];
        out_arrivals[i] = out_arrivals[count - 1 - i];
        out_arrivals[count - 1 - i] = other;
    }
    return count;
}
