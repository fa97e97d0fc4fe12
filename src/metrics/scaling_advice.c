#include "metrics/scaling_advice.h"

#include "base/err.h"

static const double threshold = 0.01;

struct tt_scaling_advice tt_scaling_advice_of(double count, double bad_rate, double idle_share) {
    tt_assert(count >= 0);
    tt_assert(bad_rate >= 0);
    tt_assert(idle_share <= 1);
    struct tt_scaling_advice advice = {.bad_rate = bad_rate, .idle_share = idle_share};
    if (bad_rate > threshold)
        advice.add = bad_rate < 1 ? count * bad_rate / (1 - bad_rate) : count;
    else
        advice.release = count * idle_share;
    return advice;
}
