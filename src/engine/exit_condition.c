#include "engine/exit_condition.h"

#include <math.h>

bool tt_exit_condition_is_met(const void *bytes, enum tt_dtype dtype, int64_t row) {
    return dtype == TT_DTYPE_BOOL ? ((const bool *)bytes)[row] : ((const float *)bytes)[row] > 0;
}

bool tt_exit_condition_moved_less(const float *a, const float *b, int64_t count, double less_than) {
    double moved = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        double step = (double)a[i] - (double)b[i];
        moved += step * step;
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(moved) < less_than * sqrt(size);
}
