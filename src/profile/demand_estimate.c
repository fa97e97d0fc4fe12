#include "profile/demand_estimate.h"

#include "base/err.h"
#include "base/sort.h"
#include "core/profile.h"

#include <string.h>

void tt_run_timeline_make(struct tt_run_timeline *self, int64_t *starts, int64_t *ends,
                          int32_t runs) {
    tt_sort_int64(starts, runs);
    tt_sort_int64(ends, runs);
    self->count = 0;
    int32_t s = 0, e = 0;
    while (e < runs) {
        int64_t at = s < runs && starts[s] < ends[e] ? starts[s] : ends[e];
        while (e < runs && ends[e] == at)
            e++;
        while (s < runs && starts[s] == at)
            s++;
        tt_assert(s >= e); /* what ended has begun */
        self->at[self->count] = at;
        self->running[self->count++] = s - e;
    }
    tt_assert(self->count <= 2 * runs);
    tt_assert(self->count == 0 || self->running[self->count - 1] == 0);
}

/* Index of the last change at or before the instant. */
static int32_t find(const struct tt_run_timeline *self, int64_t at) {
    int32_t low = 0, high = self->count - 1;
    while (low < high) {
        int32_t middle = high - (high - low) / 2;
        if (self->at[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void tt_run_timeline_beside(const struct tt_run_timeline *self, int64_t started_at,
                            int64_t ended_at, int32_t executors, int64_t *out_ns) {
    memset(out_ns, 0, (size_t)(executors + 1) * sizeof(*out_ns));
    if (started_at >= ended_at)
        return;
    for (int32_t i = find(self, started_at); i + 1 < self->count && self->at[i] < ended_at; i++) {
        int64_t from = self->at[i] > started_at ? self->at[i] : started_at;
        int64_t until = self->at[i + 1] < ended_at ? self->at[i + 1] : ended_at;
        tt_assert(self->running[i] >= 1);
        tt_assert(self->running[i] <= executors);
        out_ns[self->running[i]] += until - from;
    }
}

bool tt_demand_counts(const int64_t *beside_ns, int32_t executors) {
    int64_t all = 0;
    for (int32_t k = 1; k <= executors; k++)
        all += beside_ns[k];
    return all > 0 && beside_ns[executors] >= all - beside_ns[executors];
}

/* How far a run advances if it demands demand_ppm. */
static int64_t advance(const int64_t *beside_ns, int32_t executors, int32_t demand_ppm,
                       int32_t others_ppm) {
    __int128 sum = 0;
    int32_t other = others_ppm == TT_DEMAND_OF_COPIES ? demand_ppm : others_ppm;
    for (int32_t k = 1; k <= executors; k++) {
        int64_t total_ppm = demand_ppm + (k - 1) * (int64_t)other;
        sum += total_ppm <= TT_DEMAND_WHOLE ? beside_ns[k]
                                            : (__int128)beside_ns[k] * TT_DEMAND_WHOLE / total_ppm;
    }
    return (int64_t)sum;
}

int32_t tt_demand_of_run(const int64_t *beside_ns, int32_t executors, int64_t alone_ns,
                         int32_t others_ppm) {
    tt_assert(alone_ns > 0);
    tt_assert(executors >= 1);
    tt_assert(executors <= TT_DEMAND_MAX_EXECUTORS);
    int32_t low = (TT_DEMAND_WHOLE + executors - 1) / executors, high = TT_DEMAND_WHOLE;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (advance(beside_ns, executors, middle, others_ppm) <= alone_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
