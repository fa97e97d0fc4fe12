/* How much time the ready cells of a type need per request that they let go on: the index by which
 * `choose: pays` of policy/cellular.h orders the types of a model.
 *
 * If a type runs alone until its k-th request has no more cells there, it takes
 *
 *     rest_k = cells left of the request with the k-th fewest x time of a task of all ready rows
 *
 * The index is the least rest_k / k: Gittins' index, with batches as jobs. If types did not change
 * each other's batches, requests would wait least in sum when types run in its order.
 *
 * How long an open-ended chain will be is not known. It counts as half of the outputs that are
 * longer than it is now (the upper median of core/output_lengths.h). Without known outputs it
 * counts at its maximum. Subgraphs of one request that follow each other in the queue, such as the
 * leaves of a tree, are one request with what the first of them has left.
 *
 * O(requests), up to TT_CELL_REST_MOST, if they stand in the order of what they have left, as they
 * roughly do in a queue; at most its square. Pure; allocates nothing. */
#ifndef TT_POLICY_CELL_REST_H
#define TT_POLICY_CELL_REST_H

#include "policy/cell_queue.h"

/* The first so many requests of a batch stand for all. */
enum { TT_CELL_REST_MOST = 64 };

/* The index of a type that has ready cells for the executor, in nanoseconds. */
int64_t tt_cell_rest_ns(const struct tt_mechanism *domain, const struct tt_cell_type *type,
                        int32_t executor);

#endif
