/* How long the outputs of a model with decoder steps are: learnt from the requests that have ended.
 *
 * A histogram with forgetting. A length counts in a bucket: one per length up to 16, then eight per
 * octave, so a bucket's largest length is at most 12.5 % above the true one. When 512 outputs
 * count, all counts are halved: an output of k x 256 outputs ago counts about 1 / 2^k.
 *
 * The quantiles are written at most once per 32 outputs, and only when the median or the 90th
 * percentile has left the written one by more than 5 %. Until 32 outputs have ended they are those
 * of the model (core/step_model.h), which a configuration may state. A quantile is the largest
 * length of its bucket. The last one is the longest output that still counts.
 *
 * O(1) per output, but for the 32nd, which is O(buckets). Pure; integers only; allocates nothing.
 */
#ifndef TT_CORE_OUTPUT_LENGTHS_H
#define TT_CORE_OUTPUT_LENGTHS_H

#include "core/step_model.h"

enum {
    TT_OUTPUT_EXACT = 16,                   /* lengths with a bucket of their own */
    TT_OUTPUT_PER_OCTAVE = 8,               /* buckets, above */
    TT_OUTPUT_LENGTH_BUCKETS = 16 + 8 * 26, /* up to 2^30 */
    TT_OUTPUT_PAUSE = 32,                   /* outputs from one look at the quantiles to the next */
    TT_OUTPUT_MEMORY = 512,                 /* outputs that count at most */
    TT_OUTPUT_WEIGHT = 64,                  /* of an output when it ends */
    TT_OUTPUT_MOVE_PERCENT = 5,             /* smaller moves are not written */
    TT_OUTPUT_MAX_LENGTH = (1 << 30),       /* longer ones count as this */
};

struct tt_output_lengths {
    int32_t quantiles[TT_QUANTILES]; /* as in struct tt_step_model: what is believed */
    int32_t pause;                   /* outputs until the next look */
    int32_t total;                   /* sum of the counts */
    int64_t moves;                   /* how often the quantiles were written */
    int32_t counts[TT_OUTPUT_LENGTH_BUCKETS];
};

/* Begins with the model's quantiles. */
void tt_output_lengths_init(struct tt_output_lengths *self, const int32_t prior[TT_QUANTILES]);
/* An output of `length` (0 counts as 1) has ended. True: the quantiles have moved. */
bool tt_output_lengths_add(struct tt_output_lengths *self, int32_t length);
/* Asserts what the rest of the program takes for granted. O(buckets). */
void tt_output_lengths_check(const struct tt_output_lengths *self);

/* Index of the bucket of a length >= 1, and the largest length of a bucket. */
int32_t tt_output_lengths_bucket(int32_t length);
int32_t tt_output_lengths_largest(int32_t bucket);

#endif
