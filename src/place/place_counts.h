/* Whether so few moves can bring every sub-cluster within given deviations, by counting: how many
 * models each one must give and take (place_bound.h uses it).
 *
 * Each answer "no" is a proof. Take any assignment that keeps the deviations r of rate and m of
 * memory at the allowed cost. All sub-clusters together give as many models as they take, at most
 * as many as the cost allows. For one sub-cluster and one direction (a, b):
 * - load is the sum of a * rate + b * memory over its models now, less a + b, the mean;
 * - the models it gives lower it by at most the sum of its largest, as many as it gives;
 * - those it takes lower it by at most the sum of the smallest that any other gives;
 * - afterwards it is at most |a| * r + |b| * m.
 * So each direction rules out pairs of counts, and more models given or taken never rule out more.
 * The sums over all sub-clusters of the least counts, and of the least weighted sums of both, must
 * be within the moves.
 *
 * What the others must have leaves each sub-cluster a most. A model then stays where the most that
 * may leave and come, this model among them, do not suffice. It is neither given nor taken, which
 * lowers the sums above: all of it is repeated some times.
 *
 * Rounding: relative to the means, loads are sums of at most MAX_SIZE / sub-clusters amounts and
 * below 8 * sub-clusters in any direction, so errors stay below 1e-9, which each comparison allows.
 *
 * It leaves out which model goes where. Only problems of some thousand models and few moves are
 * looked at. Implemented in place_counts.c. */
#ifndef TT_PLACE_PLACE_COUNTS_H
#define TT_PLACE_PLACE_COUNTS_H

#include "place/place_problem.h"

struct tt_place_counts;

/* `*out_counts` is NULL where counting says nothing: costs are not limited, a model lies nowhere
 * yet, or the problem is too large. Models must have rates and memory. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_counts_new(const struct tt_place_problem *problem,
                                              struct tt_place_counts **out_counts);
void tt_place_counts_free(struct tt_place_counts *take_self);
/* False: no assignment within the cost keeps both deviations (relative to the mean). */
bool tt_place_counts_may_hold(struct tt_place_counts *self, double rate_deviation,
                              double memory_deviation);

#endif
