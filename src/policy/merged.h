/* C7: dynamic graph merging, as DyNet and TensorFlow Fold do it: BatchMaker's baseline for trees.
 *
 * When an executor is idle, up to `max_requests` of the requests that wait (of the model whose
 * oldest has waited longest) are merged into one graph: after `merge_cell` times their cells, which
 * is what the host needs for it, the merged graph runs, cells of one type and of any of these
 * requests together, level by level from the leaves, up to the type's largest batch. Nobody joins;
 * when all of them have left, the next are merged. (A request is answered with its last cell here,
 * where those systems answer all at the end: the baseline looks the better for it.)
 *
 * O(cells of the merged graph) in all. */
#ifndef TT_POLICY_MERGED_H
#define TT_POLICY_MERGED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_merged_kind;

#endif
