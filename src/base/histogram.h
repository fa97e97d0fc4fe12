/* A histogram of non-negative int64 values (usually latencies in ns) in log-linear buckets.
 *
 * Every power of two is divided into 128 equal parts, so the error of a quantile is less than 1/256
 * of its value in any range; values below 256 are exact. It grows as larger values come. Two
 * histograms can be merged. Count, sum, minimum and maximum are exact. If there is no memory for a
 * larger value, `failed` is set and the value counts in the last existing bucket. Implemented in
 * histogram.c. */
#ifndef TT_BASE_HISTOGRAM_H
#define TT_BASE_HISTOGRAM_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_histogram {
    uint64_t *counts;
    int32_t capacity; /* buckets in counts */
    bool failed;
    int64_t count;
    int64_t sum;              /* saturates */
    int64_t minimum, maximum; /* INT64_MAX, -1 while empty */
};

void tt_histogram_init(struct tt_histogram *self);
void tt_histogram_fini(struct tt_histogram *self);
/* `value` >= 0. */
void tt_histogram_add(struct tt_histogram *self, int64_t value);
void tt_histogram_merge(struct tt_histogram *self, const struct tt_histogram *other);
/* The smallest value v such that at least numerator/denominator of all values are <= v, to the
 * bucket's precision (its middle, kept within minimum .. maximum); 0 when empty. quantile(99, 100)
 * is the p99. */
int64_t tt_histogram_quantile(const struct tt_histogram *self, int64_t numerator,
                              int64_t denominator);
/* Sum / count, rounded down; 0 when empty. */
int64_t tt_histogram_mean(const struct tt_histogram *self);

#endif
