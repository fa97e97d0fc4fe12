/* C7: dynamic graph merging, as in DyNet and TensorFlow Fold: BatchMaker's baseline for trees.
 *
 * Life of a merged graph: when an executor is idle, up to `max_requests` waiting requests of one
 * model are merged. The model is the one whose oldest request has waited longest. Merging takes the
 * host `merge_cell` per cell. Then the graph runs level by level from the leaves. Cells of one type
 * share a batch, whichever of these requests they belong to, up to the type's maximum batch. No
 * request joins. The next requests are merged when all of these have left.
 *
 * A request is answered with its last cell. The published systems answer all requests at the end,
 * so this baseline looks better than they are.
 *
 * Cost: O(cells of the merged graph) in all. */
#ifndef TT_POLICY_MERGED_H
#define TT_POLICY_MERGED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_merged_kind;

#endif
