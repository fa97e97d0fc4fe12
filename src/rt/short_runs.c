#include "rt/short_runs.h"

#include "base/err.h"

static uint8_t *of(struct tt_short_runs *self, int32_t rows) {
    tt_assert(rows >= 1);
    int32_t size = 0;
    while (size < TT_SHORT_RUNS_SIZES - 1 && rows > 1 << size)
        size++;
    return &self->points[size];
}

void tt_short_runs_note(struct tt_short_runs *self, int32_t rows, int64_t took_ns,
                        int64_t most_ns) {
    uint8_t *points = of(self, rows);
    if (took_ns > most_ns)
        *points = *points > TT_SHORT_RUNS_LONG ? *points - TT_SHORT_RUNS_LONG : 0;
    else if (*points < TT_SHORT_RUNS_MOST)
        ++*points;
}

bool tt_short_runs_expects(const struct tt_short_runs *self, int32_t rows) {
    return *of((struct tt_short_runs *)self, rows) >= TT_SHORT_RUNS_TRUSTED;
}
