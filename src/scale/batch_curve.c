#include "scale/batch_curve.h"

#define SECONDS_PER_NS 1e-9

struct tt_batch_curve tt_batch_curve_of(const struct tt_profile *profile, int32_t length,
                                        int32_t max_batch) {
    tt_assert(max_batch >= 1);
    tt_assert(max_batch <= profile->max_batch);
    struct tt_batch_curve curve = {.count = 0};
    for (int32_t rows = 1;; rows = 2 * rows < max_batch ? 2 * rows : max_batch) {
        tt_assert(curve.count < TT_BATCH_CURVE_POINTS);
        int32_t at = curve.count++;
        curve.rows[at] = rows;
        curve.centre_s[at] = SECONDS_PER_NS * (double)tt_profile_latency(profile, rows, length);
        curve.tail_s[at] = SECONDS_PER_NS * (double)tt_profile_tail(profile, rows, length);
        if (rows == max_batch)
            return curve;
    }
}

static double between(const struct tt_batch_curve *self, const double *values, double rows) {
    tt_assert(rows >= 1);
    int32_t at = 1;
    while (at < self->count - 1 && self->rows[at] < rows)
        at++;
    if (at >= self->count)
        return values[0];
    double share = (rows - self->rows[at - 1]) / (self->rows[at] - self->rows[at - 1]);
    return values[at - 1] + share * (values[at] - values[at - 1]);
}

double tt_batch_curve_centre(const struct tt_batch_curve *self, double rows) {
    return between(self, self->centre_s, rows);
}

double tt_batch_curve_tail(const struct tt_batch_curve *self, double rows) {
    return between(self, self->tail_s, rows);
}
