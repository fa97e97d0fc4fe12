/* What a scenario's devices could serve if everything came as evenly as possible: the closed forms
 * to hold a measured goodput against.
 *
 * staggered      perfectly coordinated. Each model takes batches of b at its rate r, so the first
 * of a batch waits b / r: b / r + l(b) <= SLO, and the devices' time must suffice, sum r l(b) / b
 * <= N. For one model alone that is (1 + 1/N) l(b) <= SLO and N b / l(b) (S, section 3.3).
 * uncoordinated  a request waits a whole execution: 2 l(b) <= SLO.
 *
 * They hold for even arrivals, whole batches and no network; bursts lower what can be reached,
 * while 1 % of bad requests, and batches that pool what luck brings together, may lift it a little
 * above. Floats: nothing decides by them. */
#ifndef TT_LAB_CLOSED_FORM_BOUND_H
#define TT_LAB_CLOSED_FORM_BOUND_H

#include "lab/scenario/scenario.h"

struct tt_bound {
    double staggered_per_s, uncoordinated_per_s; /* over all models; 0: there is no such form */
};

/* Zeroes where a device runs several tasks at once, or a model has no SLO. */
struct tt_bound tt_bound_of(const struct tt_scenario *scenario);

#endif
