/* Exchanges between two sub-clusters: up to two models of the one for up to two of the other, such
 * that both come nearest to the mean in rate and memory at once.
 *
 * With n models each there are about n^2 / 2 bundles on either side and n^4 / 4 exchanges. They are
 * not all tried: bundles are sorted by rate, and only those within the best distance found so far
 * are looked at. Implemented in place_exchange.c. */
#ifndef TT_PLACE_PLACE_EXCHANGE_H
#define TT_PLACE_PLACE_EXCHANGE_H

#include "place/place_state.h"

struct tt_place_bundle {
    double rate, memory; /* of its models, relative to the means */
    int32_t models[2];   /* -1: none */
};

/* Memory for the bundles of two sub-clusters. */
struct tt_place_exchange {
    struct tt_place_bundle *bundles[2];
    int32_t count[2];
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_exchange_init(struct tt_place_exchange *self);
void tt_place_exchange_fini(struct tt_place_exchange *self);
/* Exchanges what improves the two sub-clusters most, if anything does, keeps to the limits and the
 * cost. Returns whether the state changed. */
bool tt_place_exchange_pair(struct tt_place_exchange *self, struct tt_place_state *state,
                            int32_t left, int32_t right);
/* Exchanges between the worst sub-clusters and all others until no exchange improves the largest
 * deviations, or `rounds` exchanges were looked for. Returns how many were. */
int64_t tt_place_exchange_all(struct tt_place_exchange *self, struct tt_place_state *state,
                              int64_t rounds);

#endif
