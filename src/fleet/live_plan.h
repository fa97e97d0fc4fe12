/* S8: a plan for a running cluster, made from what its devices had to do.
 *
 * The load of a model is the device time that its rows took in the largest batches. The search
 * (place/place_search.h) balances loads and numbers of models over the pools, by their devices, and
 * moves at most `max_moves` models. A plan that gains little is not made, since every move costs
 * loads.
 *
 * The search knows sub-clusters of one size only. So each pool has, beside its models, the share of
 * the load that its missing devices would have, and that does not move.
 *
 * Where models state their memory and pools that of a device, it is balanced instead of the numbers
 * of models, and a pool never gets more than its device with the least holds: the sum of the static
 * memory and the largest dynamic one. Models load before others unload, so a pool must hold both
 * meanwhile. What states nothing takes no memory, and has no limit.
 *
 * Pure: it may run on any thread. Implemented in live_plan.c. */
#ifndef TT_FLEET_LIVE_PLAN_H
#define TT_FLEET_LIVE_PLAN_H

#include "cluster/cluster.h"
#include "place/place_search.h"

struct tt_live_load {
    const struct tt_cluster_settings *settings;
    const uint16_t *homes;  /* [model_count]: the placement in force */
    const int64_t *rows;    /* [model_count]: that came */
    int64_t span_ns;        /* in this time; > 0 */
    int32_t max_moves;      /* C_max, > 0 */
    const int32_t *devices; /* [pools]: that take work */
    const bool *served;     /* [model_count]: the others take no memory; NULL: all are */
};

struct tt_live_plan {
    /* The largest deviation of a pool's load from its share, relative to that of the largest pool.
     */
    double before, after;
    int32_t moves;
};

/* Every pool that gets models holds them beside those that lie there in `homes`; [model_count], as
 * `served` is.
 * Errors: UNAVAILABLE: the pool that does not, and by how much. */
TT_MUST_CHECK enum tt_err tt_live_plan_fits(const struct tt_cluster_settings *settings,
                                            const bool *served, const uint16_t *homes,
                                            const uint16_t *next, struct tt_error *why);

/* Writes to out_homes[model_count]. Errors: UNAVAILABLE: no request came, or no plan gains enough
 * or keeps the limits, or no device of a pool takes work; INVALID: a model fits nowhere; NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_live_plan_make(const struct tt_live_load *load,
                                            const struct tt_place_effort *effort,
                                            uint16_t *out_homes, struct tt_live_plan *out_plan,
                                            struct tt_error *why);

#endif
