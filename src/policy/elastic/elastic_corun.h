/* How long workers take that start full at once on one device, by the profile (core/device.h): they
 * slow each other down once their demands exceed the whole device. counts[k] workers have size 2^k.
 * Inputs are as long as the profile's longest; shorter ones end sooner.
 * Pure; does not allocate. */
#ifndef TT_POLICY_ELASTIC_ELASTIC_CORUN_H
#define TT_POLICY_ELASTIC_ELASTIC_CORUN_H

#include "core/profile.h"

enum {
    TT_ELASTIC_SIZES = 8, /* 1 .. 128 */
    TT_ELASTIC_MAX_TOTAL = 64,
};

/* The length for which workers are chosen. */
static inline int32_t tt_elastic_length(const struct tt_profile *profile) {
    return profile->lengths[profile->length_count - 1];
}
/* The sum of the latencies, in ns, if all workers of counts[] (at most TT_ELASTIC_MAX_TOTAL) start
 * full at once. */
int64_t tt_elastic_corun(const struct tt_profile *profile, const int32_t counts[TT_ELASTIC_SIZES]);
/* When the last of them ends; 0 without workers. */
int64_t tt_elastic_corun_last(const struct tt_profile *profile,
                              const int32_t counts[TT_ELASTIC_SIZES]);

#endif
