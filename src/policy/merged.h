/* C7: dynamic graph merging, as in DyNet and TensorFlow Fold: BatchMaker's baseline for trees.
 *
 * When an executor is idle, up to `max_requests` waiting requests of one model are merged into one
 * graph: the model is the one whose oldest request has waited longest. Merging takes the host
 * `merge_cell` per cell. Then the merged graph runs level by level from the leaves: cells of one
 * type batch together, whichever of these requests they belong to, up to the type's largest batch.
 * No request joins; the next are merged when all of them have left. (Here a request is answered
 * with its last cell. Those systems answer all at the end, so the baseline looks better than they
 * are.)
 *
 * O(cells of the merged graph) in all. */
#ifndef TT_POLICY_MERGED_H
#define TT_POLICY_MERGED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_merged_kind;

#endif
