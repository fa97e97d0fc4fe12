/* Diversity: DVABatch (D2, D3, D5, D6, D7, D8).
 *
 * A model is a pipeline of stages; executor e runs stage e mod S (with fewer executors than stages,
 * executor e runs all stages s with s mod E = e, the last one first). Batches are made, stretched
 * and split at the boundaries between stages (batch_table.h).
 *
 * Life of a decision, after everything of the instant has been told. First the parts that have
 * ended a stage, oldest first: a part that waits for newcomers it asked for earlier is not among
 * them; `stretch` (policy III): the latest batch, if it is younger than `comp_wait`, smaller than
 * bs_max, neither splits nor was split and has not ended the last but one... the last stage, is
 * held while everything pending (up to bs_max) catches up, when an executor of the first stage is
 * idle, a buffer is free there and another one where the batch is held; else `split` (policy II):
 * while T_remain(b) >= T_remain(b') + T_remain(b'') for its halves b' = ceil(b/2), b'' =
 * floor(b/2), it is halved, each half again, and the pieces run one after the other; else it goes
 * on. Then executors that are idle take the front of the queue of their stage, later stages first.
 * Last, `new`: when an executor of the first stage is idle, its queue is empty and a buffer is
 * free, the pending requests become a batch, as soon as there are bs_max rows or the oldest has
 * waited `window`.
 *
 * Input diversity (`input: on`, policy I): a batch holds requests of one class of lengths (the
 * profile's rows; or `width`: lengths 1..w, w+1..2w, ...), padded to the longest; the oldest
 * pending request's class first, of which others are looked for among the first 4 bs_max + 64
 * pending; the rows in all batches are at most bs_max; nothing is stretched,
 * since batches enter the pipeline by themselves.
 *
 * Readings, where the paper is silent. A batch that would split at a later boundary at its present
 * size is "known to split" and is not stretched. A stretch ignores the window, and an arrival at
 * the very end of a stage still takes part. One pair cannot stretch, since both parts need one
 * where they meet. Of requests with several rows the halves are what comes nearest from above.
 * Early exits come back LEAVING; a request that skips stages goes on in a part of its own.
 *
 * Beyond the paper. A stretch makes a batch wait for newcomers, and a batch that begins beside
 * others slows them down, whether that pays or not. `stretch: pays` and `beside: pays` ask the
 * profile each time (sharing_gain.h); with both, no load of the reproduction is served worse than
 * by batching without a window, while the letter is on devices that are full at small batches.
 * Likewise a batch of like lengths has its first wait for its last, and those between for both:
 * with `input: pays` a request joins only where the squares of latencies of all who wait add up to
 * less for it (joining.h), which is seldom under little load, and whenever the queue is long and
 * the batch saves anything.
 *
 * Options: `bs_max` (64, at most the model's), `pairs` (2), `window` (0; with `input: on` the first
 * stage's duration at bs_max), `comp_wait` (not given: the whole model's latency at bs_max),
 * `stretch`, `split` (on), `beside` (always), `input` (off), `width`, `drop` (heads of the pending
 * queue that cannot finish in time even if they ran alone at once).
 *
 * O(1) per table operation; a split looks at the part's requests once; O(models + stages) per
 * decision. */
#ifndef TT_POLICY_DIVERSITY_H
#define TT_POLICY_DIVERSITY_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_diversity_kind;

#endif
