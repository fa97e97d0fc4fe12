/* C7: dynamic graph merging, as in DyNet and TensorFlow Fold: BatchMaker's baseline for trees.
 *
 * Life of a merged graph: when an executor is idle, up to `max_requests` waiting requests of one
 * model are merged, the first by priority and arrival. The model is the one whose first request has
 * waited longest. Merging takes the host `merge_cell` per cell; decoders count at their longest.
 * Then the graph runs from the leaves, one task at a time: ready cells of the first step that has
 * some, whichever of these requests they belong to, up to the type's maximum batch. No request
 * joins. The next requests are merged when all of these have left.
 *
 * Option `order` says which cells are ready, and their order within a step and a priority:
 * - `step`: all whose inputs are there, by release. Cells of the next level fill the last batch of
 * a level that exceeds the maximum batch.
 * - `level`, as published: those of a level of the merged graph, in the order in which they became
 *   ready. The next level begins when none is left.
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
