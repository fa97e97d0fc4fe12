/* E6: what overlap can gain, and when two batches that run at once both end in time (E2bird, eq.
 * 1-5).
 *
 * Equation 1: where a device alternates between moving a batch (t_T) and computing it (t_c), moving
 * the next meanwhile hides the shorter of the two. lambda = t_T / (t_T + t_c) is the share of
 * *time* that this saves while t_T <= t_c; throughput grows by min(t_T, t_c) / max(t_T, t_c). The
 * paper calls the former "ratio of the throughput increase"; both are here.
 *
 * Equations 2-5: worker 1 began at 0 and has the whole capacity until worker 2 begins; then worker
 * 2 gets u2 of it and worker 1 the rest, until worker 1 ends; then worker 2 has it all. Both must
 * end within the promise, each counted from its own start. The paper's equation 4 does not give its
 * equation 5; equations 2 and 3 with the capacities of its figure 8 do.
 *
 * Pure; units of work per unit of time, whatever they are. Nothing is allocated. */
#ifndef TT_LAB_CLOSED_FORM_OVERLAP_H
#define TT_LAB_CLOSED_FORM_OVERLAP_H

#include <stdbool.h>

struct tt_overlap_gain {
    double time_share;      /* lambda: of the time of one after the other, 0 .. 1 */
    double throughput_gain; /* 0.25: a quarter more */
};

/* Both >= 0, not both 0. */
struct tt_overlap_gain tt_overlap_gain(double transfer, double computation);

struct tt_overlap_pair {
    double capacity; /* u0 > 0 */
    double before;   /* W1: work of worker 1 that is done when worker 2 begins, >= 0 */
    double after;    /* W2: the rest of it, > 0 */
    double other;    /* W'0: all work of worker 2, > 0 */
    double promise;  /* t3 > 0 */
};

/* When the two end, each counted from its own start, with 0 < share < capacity for worker 2. */
void tt_overlap_ends(const struct tt_overlap_pair *pair, double share, double *out_first,
                     double *out_second);
/* Equation 5 without the paper's W'1, which itself depends on u2: both end in time exactly for
 * *out_least <= u2 <= *out_most. False: for no u2 within 0 < u2 < capacity. */
bool tt_overlap_bounds(const struct tt_overlap_pair *pair, double *out_least, double *out_most);

#endif
