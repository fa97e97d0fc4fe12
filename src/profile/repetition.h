/* How often a measured run is repeated, and what its times come to. Pure. */
#ifndef TT_PROFILE_REPETITION_H
#define TT_PROFILE_REPETITION_H

#include <stdbool.h>
#include <stdint.h>

struct tt_repetition {
    int32_t runs;     /* at least so many */
    int32_t max_runs; /* never more */
    int64_t least_ns; /* at least so long in all */
    int64_t max_ns;   /* no further run once the runs took so long */
};

/* How long a run took, which no profile states as 0: a device's clock may not have moved meanwhile.
 */
static inline int64_t tt_run_ns(int64_t started_at, int64_t ended_at) {
    return ended_at > started_at ? ended_at - started_at : 1;
}

struct tt_run_times {
    int64_t median_ns, low_ns, high_ns; /* low and high: 10th and 90th percentile */
};

/* Whether another run follows the `count` runs that took `total_ns`. The first always does. */
bool tt_repetition_again(const struct tt_repetition *self, int32_t count, int64_t total_ns);
/* Sorts `times_ns`; count >= 1. */
struct tt_run_times tt_run_times_of(int64_t *times_ns, int32_t count);

#endif
