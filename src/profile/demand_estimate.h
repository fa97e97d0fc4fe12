/* Estimates demand, the share of a device that a batch occupies (core/device.h), from runs of the
 * batch beside others.
 *
 * Definition. Several executors run without a pause. While k of them run, a batch that demands d
 * advances at the speed 1 / max(1, d + (k - 1) o), where o is the demand of each of the others. A
 * run that takes alone_ns with the device to itself ends when it has advanced by alone_ns. The
 * demand of a run is the smallest d in [1 / executors, 1] for which it has. The others are copies
 * (o = d), or batches of known mean demand. Gaps between runs do not matter: only the time that
 * a run really spent beside others counts.
 *
 * Resolution. Copies that do not slow each other down show only that d <= 1 / executors. The
 * estimate is then 1 / executors: a smaller one would let policies run more batches side by side
 * than were measured.
 *
 * Estimator. The median over the runs that spent at least half of their time beside all others. The
 * spread is their 10th and 90th percentile. Without such a run the demand is not known.
 *
 * Pure; integers only. No clock is read, and nothing is allocated. */
#ifndef TT_PROFILE_DEMAND_ESTIMATE_H
#define TT_PROFILE_DEMAND_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_DEMAND_MAX_EXECUTORS = 64, TT_DEMAND_OF_COPIES = 0 };

/* How many runs there are at any time: running[i] of them from at[i] to at[i + 1]. */
struct tt_run_timeline {
    int64_t *at;      /* [2 x runs], the caller's */
    int32_t *running; /* [2 x runs], the caller's */
    int32_t count;
};

/* From `runs` runs, given by their starts and ends in any order; sorts both. `at` and `running` of
 * *self are set. */
void tt_run_timeline_make(struct tt_run_timeline *self, int64_t *starts, int64_t *ends,
                          int32_t runs);
/* For how long k runs ran between the two instants: out_ns[k], k = 1 .. executors. One of the runs
 * lasted that long. An executor runs one at a time. */
void tt_run_timeline_beside(const struct tt_run_timeline *self, int64_t started_at,
                            int64_t ended_at, int32_t executors, int64_t *out_ns);

/* True if a run with these times spent at least half of them beside all others. */
bool tt_demand_counts(const int64_t *beside_ns, int32_t executors);
/* The demand of a run with these times, in millionths. alone_ns > 0. others_ppm: the demand of each
 * of the others, or TT_DEMAND_OF_COPIES. */
int32_t tt_demand_of_run(const int64_t *beside_ns, int32_t executors, int64_t alone_ns,
                         int32_t others_ppm);

#endif
