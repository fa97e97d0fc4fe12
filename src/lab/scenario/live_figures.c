#include "lab/scenario/live_figures.h"

struct tt_live_spread tt_live_spread_of(const struct tt_histogram *histogram) {
    struct tt_live_spread spread = {.count = histogram->count};
    if (spread.count == 0)
        return spread;
    spread.mean = tt_histogram_mean(histogram);
    spread.p50 = tt_histogram_quantile(histogram, 1, 2);
    spread.p99 = tt_histogram_quantile(histogram, 99, 100);
    spread.maximum = histogram->maximum;
    return spread;
}
