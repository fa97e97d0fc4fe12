/* Seeded random integers: xoshiro256** initialised by splitmix64, so streams with neighbouring
 * seeds are unrelated. Integer arithmetic only: the same seed gives the same numbers on every
 * machine and compiler. All functions are inline; there is no .c file. */
#ifndef TT_BASE_PRNG_H
#define TT_BASE_PRNG_H

#include <stdint.h>

struct tt_prng {
    uint64_t s[4];
};

static inline uint64_t tt_prng_mix(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* `stream` separates independent uses of one seed (a model's arrivals, its lengths, ...). */
static inline void tt_prng_init(struct tt_prng *self, uint64_t seed, uint64_t stream) {
    uint64_t state = seed;
    uint64_t salt = tt_prng_mix(&state) ^ (stream * UINT64_C(0xd1342543de82ef95));
    for (int i = 0; i < 4; i++)
        self->s[i] = tt_prng_mix(&salt);
}

static inline uint64_t tt_prng_next(struct tt_prng *self) {
    uint64_t *s = self->s;
    uint64_t product = s[1] * 5;
    uint64_t result = ((product << 7) | (product >> 57)) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* Uniform in [0, bound), bound > 0, with negligible modulo bias (multiply-shift on 64 bits). */
static inline uint64_t tt_prng_below(struct tt_prng *self, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)tt_prng_next(self) * bound) >> 64);
}

#endif
