/* C7: padding and bucketing, the baseline of BatchMaker.
 *
 * Requests are put into buckets by the length of their input: (0, width], (width, 2 width] ... When
 * an executor is idle and any bucket has requests, the next one that has, in turn over all buckets
 * of all models, gives its oldest, up to the largest batch; they are padded to the bucket's end and
 * walk the whole model together, recurrent blocks until the last of them is through. There is no
 * window: a batch starts as soon as its turn comes, however small. Lengths beyond the last bucket
 * share one, padded to the longest of the batch. Width 0 makes one bucket of all.
 *
 * O(rows) per batch, O(buckets / 64) to find the next. */
#ifndef TT_POLICY_PADDED_H
#define TT_POLICY_PADDED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_padded_kind;

#endif
