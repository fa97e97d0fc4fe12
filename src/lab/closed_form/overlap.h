/* E6: what overlapping copies with computation can gain, and when two batches that run at once both
 * end in time (E2bird, equations 1 to 5).
 *
 * Equation 1: a device alternates between copying a batch (t_T) and computing it (t_c). Copying the
 * next batch meanwhile hides the shorter of the two. lambda = t_T / (t_T + t_c) is the share of
 * *time* that this saves while t_T <= t_c; throughput grows by min(t_T, t_c) / max(t_T, t_c). The
 * paper calls lambda the "ratio of the throughput increase"; both are here.
 *
 * Equations 2-5: worker 1 begins at 0 and has the whole capacity until worker 2 begins. Then worker
 * 2 gets u2 of it and worker 1 the rest, until worker 1 ends; then worker 2 has all of it. Both
 * must end within the promise, each counted from its own start. The paper's equation 5 does not
 * follow from its equation 4; it follows from equations 2 and 3 with the capacities of its
 * figure 8.
 *
 * Pure; work is in any unit, capacity in that unit per time. Nothing is allocated. */
#ifndef TT_LAB_CLOSED_FORM_OVERLAP_H
#define TT_LAB_CLOSED_FORM_OVERLAP_H

#include <stdbool.h>

struct tt_overlap_gain {
    double time_share;      /* lambda: of the time without overlap, 0 .. 1 */
    double throughput_gain; /* 0.25: 25 % more */
};

/* Both >= 0, not both 0. */
struct tt_overlap_gain tt_overlap_gain(double transfer, double computation);

struct tt_overlap_pair {
    double capacity; /* u0 > 0 */
    double before;   /* W1: work that worker 1 has done when worker 2 begins, >= 0 */
    double after;    /* W2: the rest of worker 1's work, > 0 */
    double other;    /* W'0: all work of worker 2, > 0 */
    double promise;  /* t3 > 0 */
};

/* When each worker ends, counted from its own start; worker 2 gets 0 < share < capacity. */
void tt_overlap_ends(const struct tt_overlap_pair *pair, double share, double *out_first,
                     double *out_second);
/* Equation 5 without the paper's W'1, which depends on u2: both end in time if and only if
 * *out_least <= u2 <= *out_most. False: no 0 < u2 < capacity suffices. */
bool tt_overlap_bounds(const struct tt_overlap_pair *pair, double *out_least, double *out_most);

#endif
