#include "engine/row_compare.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* floats: compares computed values; no scheduling decision depends on them. */
static double number_at(const void *bytes, enum tt_dtype dtype, size_t index) {
    uint16_t half;
    uint32_t bits;
    float single;
    double real;
    if (dtype == TT_DTYPE_FP32) {
        memcpy(&single, (const char *)bytes + index * 4, 4);
        return (double)single;
    }
    if (dtype == TT_DTYPE_FP64) {
        memcpy(&real, (const char *)bytes + index * 8, 8);
        return real;
    }
    memcpy(&half, (const char *)bytes + index * 2, 2);
    if (dtype == TT_DTYPE_BF16) {
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, 4);
        return (double)single;
    }
    real = ldexp((half & 0x3ff) + (half >> 10 & 31 ? 1024 : 0),
                 (half >> 10 & 31 ? half >> 10 & 31 : 1) - 25);
    return half >> 15 ? -real : real;
}

enum tt_row_match tt_row_compare(const void *a, const void *b, size_t bytes, enum tt_dtype dtype) {
    if (memcmp(a, b, bytes) == 0)
        return TT_ROW_SAME;
    bool real = dtype == TT_DTYPE_FP32 || dtype == TT_DTYPE_FP64 || dtype == TT_DTYPE_BF16 ||
                dtype == TT_DTYPE_FP16;
    if (!real)
        return TT_ROW_DIFFERENT;
    size_t count = bytes / tt_dtype_bytes(dtype);
    double largest = 0, apart = 0;
    for (size_t i = 0; i < count; i++) {
        double x = number_at(a, dtype, i), y = number_at(b, dtype, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        largest = fmax(largest, fmax(fabs(x), fabs(y)));
        apart = isfinite(x - y) ? fmax(apart, fabs(x - y)) : INFINITY;
    }
    return apart <= largest / 50 ? TT_ROW_ROUNDED : TT_ROW_DIFFERENT;
}
