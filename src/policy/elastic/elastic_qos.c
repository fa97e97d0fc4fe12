#include "policy/elastic/elastic_qos.h"

#include "base/instant.h"
#include "core/device.h"

#include <string.h>

/* Equation 2 with the capacities of figure 8, without a division: what is left of worker 1 at the
 * launch is W2, all of worker 2 is W'0. */
bool tt_elastic_pair_keeps(const struct tt_elastic_pair *self, int64_t launch_ns) {
    tt_assert(launch_ns >= 0 && launch_ns <= self->first_ns);
    if (self->promise_ns == TT_NEVER)
        return true;
    __int128 left = self->first_ns - launch_ns, other = self->other_ns;
    __int128 first_share = self->first_demand_ppm, other_share = self->other_demand_ppm;
    __int128 both = first_share + other_share, slack = self->promise_ns - launch_ns;
    if (slack < 0)
        return false;
    /* The device is never idle: the last one ends when all work is done. */
    if (left * other_share >= other * first_share) /* worker 2 ends first */
        return left + other <= slack && other * both <= self->promise_ns * other_share;
    return left * both <= slack * first_share && left + other <= self->promise_ns;
}

int64_t tt_elastic_pair_launch(const struct tt_elastic_pair *self) {
    int64_t low = 0, high = self->first_ns;
    if (!tt_elastic_pair_keeps(self, high))
        return TT_NEVER;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (tt_elastic_pair_keeps(self, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

struct tt_elastic_pair tt_elastic_pair_of(const struct tt_profile *profile,
                                          const int32_t counts[TT_ELASTIC_SIZES], int32_t size,
                                          int64_t promise_ns) {
    int32_t others[TT_ELASTIC_SIZES];
    int64_t demand_ppm = 0;
    int32_t length = tt_elastic_length(profile);
    memcpy(others, counts, sizeof(others));
    tt_assert(others[__builtin_ctz((unsigned)size)] > 0);
    others[__builtin_ctz((unsigned)size)]--;
    for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
        if (others[k] > 0)
            demand_ppm += (int64_t)others[k] * tt_profile_demand(profile, 1 << k, length);
    bool is_full = demand_ppm > TT_DEMAND_WHOLE;
    return (struct tt_elastic_pair){.first_ns = tt_elastic_corun_last(profile, others),
                                    .other_ns = tt_profile_latency(profile, size, length),
                                    .promise_ns = promise_ns,
                                    .first_demand_ppm = is_full          ? TT_DEMAND_WHOLE
                                                        : demand_ppm > 0 ? (int32_t)demand_ppm
                                                                         : 1,
                                    .other_demand_ppm = tt_profile_demand(profile, size, length)};
}

bool tt_elastic_keeps(const struct tt_profile *profile, const int32_t counts[TT_ELASTIC_SIZES],
                      int64_t promise_ns) {
    for (int32_t k = 0; promise_ns != TT_NEVER && k < TT_ELASTIC_SIZES; k++) {
        if (counts[k] == 0)
            continue;
        const struct tt_elastic_pair pair = tt_elastic_pair_of(profile, counts, 1 << k, promise_ns);
        if (!tt_elastic_pair_keeps(&pair, 0))
            return false;
    }
    return true;
}
