/* C7: dynamic graph merging, as in DyNet and TensorFlow Fold: BatchMaker's baseline for trees.
 *
 * Life of a merged graph: when an executor is idle, up to `max_requests` waiting requests of one
 * model are merged, the first by priority and arrival. The model is the one whose first request has
 * waited longest. Merging takes the host `merge_cell` per cell; decoders count at their longest.
 * Then the graph runs from the leaves, one task at a time: ready cells of the first step that has
 * some, in the order of release, whichever of these requests they belong to, up to the type's
 * maximum batch. No request joins. The next requests are merged when all of these have left.
 *
 * This baseline looks better than the published systems, for two reasons. A request is answered
 * with its last cell; there all are answered at the end. A level that exceeds the maximum batch is
 * not kept apart: cells of the next level fill its last batch.
 *
 * Cost: O(cells of the merged graph) in all. */
#ifndef TT_POLICY_MERGED_H
#define TT_POLICY_MERGED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_merged_kind;

#endif
