#include "sim/spread.h"

int32_t tt_spread_draw(const struct tt_spread *self, struct tt_prng *prng) {
    if (self->permille[0] == 0)
        return 1000;
    uint64_t at = tt_prng_below(prng, (TT_SPREAD_POINTS - 1) * UINT64_C(1024));
    int64_t low = self->permille[at / 1024], high = self->permille[at / 1024 + 1];
    return (int32_t)(low + (high - low) * (int64_t)(at % 1024) / 1024);
}
