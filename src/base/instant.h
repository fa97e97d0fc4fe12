/* Instants and durations: int64_t nanoseconds. An instant is passed in (`now`) and never read here.
 * All functions are inline; there is no .c file. */
#ifndef TT_BASE_INSTANT_H
#define TT_BASE_INSTANT_H

#include <stdint.h>

#define TT_NEVER INT64_MAX
#define TT_US INT64_C(1000)
#define TT_MS INT64_C(1000000)
#define TT_S INT64_C(1000000000)

/* a + b, saturating, so that TT_NEVER plus anything stays TT_NEVER. */
static inline int64_t tt_instant_add(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b < 0 ? INT64_MIN : TT_NEVER;
    return a == TT_NEVER ? TT_NEVER : sum;
}

static inline int64_t tt_instant_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tt_instant_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
