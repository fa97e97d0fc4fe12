/* The best set of workers for a load, computed in advance (E5; E2bird's offline phase).
 *
 * For a total of rows (4, 8, 16, 32 in the paper), every choice among the available workers whose
 * sizes add up to that total is tried. All its workers start full at the same instant on a device
 * that they share. The choice with the lowest mean latency over its workers is kept. Workers slow
 * each other down once their demands exceed the whole device (the model of core/device.h). Equal
 * means: fewer workers, then the larger ones first.
 *
 * With a promise, the choices that keep the QoS condition for two workers (elastic_qos.h) go before
 * all others.
 *
 * With enough workers of every size, a total of 32 has 202 choices. Pure; does not allocate. Worker
 * sizes are powers of two; a choice is counts[k] workers of size 2^k. */
#ifndef TT_POLICY_ELASTIC_ELASTIC_PLAN_H
#define TT_POLICY_ELASTIC_ELASTIC_PLAN_H

#include "policy/elastic/elastic_corun.h"

#include <stdbool.h>

enum { TT_ELASTIC_MAX_CHOICES = 1828 }; /* for TT_ELASTIC_MAX_TOTAL */

struct tt_elastic_choice {
    int32_t total;        /* sum of the sizes; 0: no such choice */
    int32_t worker_count; /* sum of the counts */
    int32_t tried;        /* number of choices that were compared */
    int32_t kept;         /* of these, those that keep the QoS condition */
    bool keeps;           /* this one does */
    int64_t latency_sum;  /* over the workers, ns; the mean is this / worker_count */
    int32_t counts[TT_ELASTIC_SIZES];
};

/* The best choice for `total` rows (<= TT_ELASTIC_MAX_TOTAL) among available[k] workers of size
 * 2^k. Its total is 0 if no choice has that sum. */
struct tt_elastic_choice tt_elastic_plan(const struct tt_profile *profile,
                                         const int32_t available[TT_ELASTIC_SIZES], int32_t total);
/* The same, for workers that must keep the promise, in ns (TT_NEVER: none). If no choice does, the
 * best of all is returned, and does not keep it. */
struct tt_elastic_choice tt_elastic_plan_within(const struct tt_profile *profile,
                                                const int32_t available[TT_ELASTIC_SIZES],
                                                int32_t total, int64_t promise_ns);
/* Asserts that the choice has these sums and workers of `available` only. */
void tt_elastic_choice_check(const struct tt_elastic_choice *self,
                             const int32_t available[TT_ELASTIC_SIZES]);
/* Writes every choice of workers of at most `largest` rows (a power of two) that sums to `total` to
 * out_counts[limit]. The choice with the most workers of the largest size comes first. Returns the
 * number of choices; TT_ELASTIC_MAX_CHOICES entries always suffice. */
int32_t tt_elastic_choices(int32_t total, int32_t largest, int32_t (*out_counts)[TT_ELASTIC_SIZES],
                           int32_t limit);
#endif
