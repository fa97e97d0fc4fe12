#include "core/perturbation.h"

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

/* How long work takes at a speed > 0, rounded up. */
static int64_t at_speed(int64_t work_ns, int32_t speed_permille) {
    return (int64_t)(((__int128)work_ns * TT_SPEED_NORMAL + speed_permille - 1) / speed_permille);
}

int64_t tt_perturbation_seen_at(const struct tt_perturbation *spans, int32_t count, int64_t at) {
    int32_t i = first_after(spans, count, at);
    return i < count && spans[i].jumps && spans[i].from_at < at ? spans[i].until_at : at;
}

int64_t tt_perturbation_end(const struct tt_perturbation *spans, int32_t count, int64_t at,
                            int64_t work_ns) {
    int32_t first = first_after(spans, count, at);
    if (first < count && spans[first].at_start && spans[first].from_at <= at)
        return tt_instant_add(at, at_speed(work_ns, spans[first].speed_permille));
    for (int32_t i = first; i < count; i++) {
        const struct tt_perturbation *span = &spans[i];
        if (span->at_start)
            continue;
        int64_t before_ns = tt_instant_max(span->from_at - at, 0);
        if (work_ns <= before_ns)
            break;
        work_ns -= before_ns;
        at += before_ns;
        __int128 done_ns = (__int128)(span->until_at - at) * span->speed_permille / TT_SPEED_NORMAL;
        if (work_ns <= done_ns)
            return at + at_speed(work_ns, span->speed_permille);
        work_ns -= (int64_t)done_ns;
        at = span->until_at;
    }
    return tt_instant_add(at, work_ns);
}
