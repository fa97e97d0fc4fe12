/* How long real batches take, relative to their profiles: the quantiles of a measured ratio.
 *
 * A simulation draws a factor per execution. Integers only; immutable. */
#ifndef TT_SIM_SPREAD_H
#define TT_SIM_SPREAD_H

#include "base/prng.h"

#include <stdint.h>

enum { TT_SPREAD_POINTS = 101 };

struct tt_spread {
    /* [p]: the ratio that p percent do not exceed, in thousandths; ascending. [0] = 0: none, every
     * execution takes what its profile says. */
    int32_t permille[TT_SPREAD_POINTS];
};

/* A ratio in thousandths: interpolated at a uniform random quantile. Draws one random number; none,
 * and returns 1000, if the spread is empty. */
int32_t tt_spread_draw(const struct tt_spread *self, struct tt_prng *prng);

#endif
