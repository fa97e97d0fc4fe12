/* A lower bound of the objective of a partition (place_problem.h): no assignment can be better.
 *
 * Two reasons give one. Models are whole: of the n * sub-clusters + 1 busiest models, n + 1 share a
 * sub-cluster. And moves cost: a sub-cluster that has too much must give models away, and one that
 * has too little must get some, which the limit on the cost allows only so often; where few models
 * may move, both are counted together (place_counts.h). The bound leaves out which model goes
 * where, so the best assignment may be above it. Implemented in place_bound.c. */
#ifndef TT_PLACE_PLACE_BOUND_H
#define TT_PLACE_PLACE_BOUND_H

#include "place/place_problem.h"

/* 0 or more; 0 says nothing. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_bound(const struct tt_place_problem *problem, double *out_bound);

#endif
