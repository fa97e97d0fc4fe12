#include "serve/short_runs.h"

#include "base/err.h"

static int32_t size_of(int32_t rows) {
    tt_assert(rows >= 1);
    int32_t size = 0;
    while (size < TT_SHORT_RUNS_SIZES - 1 && rows > 1 << size)
        size++;
    return size;
}

void tt_short_runs_note(struct tt_short_runs *self, int32_t rows, int64_t took_ns, int64_t max_ns) {
    int32_t size = size_of(rows);
    uint8_t *points = &self->points[size];
    if (took_ns > max_ns) {
        *points = *points > TT_SHORT_RUNS_LONG ? *points - TT_SHORT_RUNS_LONG : 0;
        return;
    }
    if (*points < TT_SHORT_RUNS_MAX)
        ++*points;
    int64_t *typical_ns = &self->typical_ns[size];
    *typical_ns += *typical_ns ? (took_ns - *typical_ns) / 8 : took_ns;
}

bool tt_short_runs_expects(const struct tt_short_runs *self, int32_t rows) {
    return self->points[size_of(rows)] >= TT_SHORT_RUNS_TRUSTED;
}

int64_t tt_short_runs_budget(const struct tt_short_runs *self, int32_t rows, int64_t max_ns) {
    bool is_tiny = self->typical_ns[size_of(rows)] <= TT_SHORT_RUNS_HOP_NS;
    return is_tiny ? 4 * max_ns : max_ns;
}
