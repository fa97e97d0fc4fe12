/* C7: padding and bucketing, the baseline of BatchMaker.
 *
 * Requests lie in buckets by the length of their input: (0, width], (width, 2 width] ... When an
 * executor is idle, the next bucket with requests, in turn over all buckets of all models, gives
 * its oldest ones, up to the largest batch. They are padded to the bucket's end and run through the
 * whole model together; a recurrent block runs until the last of them is through. There is no
 * window: a batch starts when its turn comes, however small. Lengths beyond the last bucket share
 * one, padded to the longest of the batch. Width 0 makes one bucket of all lengths.
 *
 * O(rows) per batch, O(buckets / 64) to find the next one. */
#ifndef TT_POLICY_PADDED_H
#define TT_POLICY_PADDED_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_padded_kind;

#endif
