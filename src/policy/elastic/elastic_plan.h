/* The best set of workers for a load, found ahead (E5; E2bird's offline phase).
 *
 * For a total of rows (4, 8, 16, 32 in the paper) every choice among the workers that there are
 * whose sizes add up to that total is tried: all start full at the same instant on a device that
 * they share, and the choice with the lowest mean latency over its workers is kept. How workers
 * disturb each other is the device's model (core/device.h): they slow each other down once their
 * demands exceed the whole device. Equal means: fewer workers, then the larger ones first.
 *
 * A total of 32 has 202 choices when enough workers of every size are there. Pure, and allocates
 * nothing. Worker sizes are powers of two; a choice is counts[k] workers of size 2^k. */
#ifndef TT_POLICY_ELASTIC_ELASTIC_PLAN_H
#define TT_POLICY_ELASTIC_ELASTIC_PLAN_H

#include "core/profile.h"

enum {
    TT_ELASTIC_SIZES = 8, /* 1 .. 128 */
    TT_ELASTIC_MAX_TOTAL = 64,
    TT_ELASTIC_MAX_CHOICES = 1828, /* of that total */
};

struct tt_elastic_choice {
    int32_t total;        /* sum of the sizes; 0: no such choice */
    int32_t worker_count; /* sum of the counts */
    int32_t tried;        /* choices that were compared */
    int64_t latency_sum;  /* over the workers, ns: the mean is this / worker_count */
    int32_t counts[TT_ELASTIC_SIZES];
};

/* The best choice of `total` rows (<= TT_ELASTIC_MAX_TOTAL) among available[k] workers of size 2^k.
 * Its total is 0 when no choice has that sum. */
struct tt_elastic_choice tt_elastic_plan(const struct tt_profile *profile,
                                         const int32_t available[TT_ELASTIC_SIZES], int32_t total);
/* Every choice of workers of at most `largest` rows (a power of two) that sums to `total`, the one
 * with the most of the largest first: into out_counts[limit] (at least TT_ELASTIC_MAX_CHOICES
 * always suffice). Returns how many there are. */
int32_t tt_elastic_choices(int32_t total, int32_t largest, int32_t (*out_counts)[TT_ELASTIC_SIZES],
                           int32_t limit);
/* When all workers of counts[] (at most TT_ELASTIC_MAX_TOTAL) start full at once: the sum of their
 * latencies, ns. */
int64_t tt_elastic_corun(const struct tt_profile *profile, const int32_t counts[TT_ELASTIC_SIZES]);

#endif
