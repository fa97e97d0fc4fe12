/* The goodput that a scenario's devices could reach if requests arrived evenly: closed forms to
 * compare a measured goodput with.
 *
 * staggered      perfectly coordinated. Each model takes batches of b at its rate r, so the first
 *                request of a batch waits b / r: b / r + l(b) <= SLO. The devices' time must
 * suffice: sum r l(b) / b <= N. For a single model this is (1 + 1/N) l(b) <= SLO and N b / l(b) (S,
 * section 3.3). uncoordinated  a request waits a whole execution: 2 l(b) <= SLO.
 *
 * They assume even arrivals, full batches and no network. Bursts lower the reachable goodput; 1 %
 * of bad requests, and batches that gather random clusters, may lift it slightly above. Floats: no
 * decision depends on them. */
#ifndef TT_LAB_CLOSED_FORM_BOUND_H
#define TT_LAB_CLOSED_FORM_BOUND_H

#include "lab/scenario/scenario.h"

struct tt_bound {
    double staggered_per_s, uncoordinated_per_s; /* over all models; 0: the form does not apply */
};

/* Zeroes if a device runs several tasks at once, if a model has no SLO, or if the arrivals come
 * from a file. */
struct tt_bound tt_bound_of(const struct tt_scenario *scenario);

#endif
