#include "sim/perturbation.h"

#include "base/instant.h"

/* The first span that ends after `at`. */
static int32_t first_after(const struct tt_perturbation *spans, int32_t count, int64_t at) {
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (spans[middle].until_at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t tt_perturbation_end(const struct tt_perturbation *spans, int32_t count, int64_t at,
                            int64_t work_ns) {
    for (int32_t i = first_after(spans, count, at); i < count; i++) {
        const struct tt_perturbation *span = &spans[i];
        int64_t before_ns = tt_instant_max(span->from_at - at, 0);
        if (work_ns <= before_ns)
            break;
        work_ns -= before_ns;
        at += before_ns;
        __int128 done_ns = (__int128)(span->until_at - at) * span->speed_permille / TT_SPEED_NORMAL;
        if (work_ns <= done_ns)
            return at + (int64_t)(((__int128)work_ns * TT_SPEED_NORMAL + span->speed_permille - 1) /
                                  span->speed_permille);
        work_ns -= (int64_t)done_ns;
        at = span->until_at;
    }
    return tt_instant_add(at, work_ns);
}
