/* How long work takes on a device that is not exact: its planned time, spread around it, and now
 * and then a multiple of it.
 *
 * The factor is close to log-normal with median 1: exp(spread x z), z a sum of 12 uniform numbers.
 * On top of it one piece of work in so many takes `outlier_times` as long. Integers only, so that
 * one seed gives one result on every machine. Inline; draws nothing if there is no noise. */
#ifndef TT_CORE_NOISE_H
#define TT_CORE_NOISE_H

#include "base/prng.h"

struct tt_noise {
    int32_t spread_permille;  /* standard deviation of the factor's logarithm; 0 .. 1000 */
    int32_t outlier_permille; /* how often work takes longer; 0: never */
    int32_t outlier_times;    /* how much longer; >= 1 */
};

/* exp(x) for |x| <= 6 in 1 / 2^16, by exp(x / 64) ^ 64. */
static inline int64_t tt_noise_exp(int64_t x) {
    int64_t one = 1 << 16, y = x / 64;
    int64_t value = one + y + y * y / (2 * one) + y * y / one * y / (6 * one);
    value <<= 14; /* 1 / 2^30, for the squares below */
    for (int i = 0; i < 6; i++)
        value = (int64_t)((__int128)value * value >> 30);
    return value >> 14;
}

static inline int64_t tt_noise_of(const struct tt_noise *self, struct tt_prng *prng,
                                  int64_t work_ns) {
    if (self->spread_permille > 0) {
        int64_t z = -6 * INT64_C(65536);
        for (int i = 0; i < 3; i++) {
            uint64_t bits = tt_prng_next(prng);
            for (int k = 0; k < 64; k += 16)
                z += (int64_t)(bits >> k & 0xffff);
        }
        int64_t factor = tt_noise_exp(z * self->spread_permille / 1000);
        work_ns = (int64_t)((__int128)work_ns * factor >> 16);
    }
    if (self->outlier_permille > 0 && tt_prng_below(prng, 1000) < (uint64_t)self->outlier_permille)
        work_ns *= self->outlier_times;
    return work_ns > 0 ? work_ns : 1;
}

#endif
