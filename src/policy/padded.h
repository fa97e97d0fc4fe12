/* C7: padding and bucketing, a baseline of BatchMaker.
 *
 * Requests lie in buckets by the length of their input: (0, width], (width, 2 width], ... A model
 * has 512 of them; longer inputs share the last one. Width 0 makes one bucket for all lengths.
 *
 * Life of a batch: when an executor is idle, the next filled bucket gives its first requests,
 * by priority and arrival, up to the maximum batch; one with more rows runs alone. Buckets take
 * turns in cyclic order over all buckets of all models. The requests are padded to the end of the
 * bucket, or in the last bucket to the longest of the batch. They run through the whole model
 * together. A recurrent block runs until the last of them has ended it. There is no window: a batch
 * starts when its turn comes, however small it is.
 *
 * Cost: O(rows) per batch, O(buckets / 64) to find the next one. */
#ifndef TT_POLICY_PADDED_H
#define TT_POLICY_PADDED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_padded_kind;

#endif
