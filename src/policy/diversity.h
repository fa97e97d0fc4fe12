/* Diversity: multi-entry multi-exit batching (DVABatch; D2, D3, D5, D6, D7, D8).
 *
 * A model is a pipeline of S stages. Executor e of E runs stage e mod S. If E < S, it runs all
 * stages s with s mod E = e, the last of them first. Batches are made, stretched and split at the
 * boundaries between stages (batch_table.h).
 *
 * Life of a decision, after all events of the instant:
 * 1. Parts that have ended a stage, oldest first. A part that is held for newcomers is not among
 *    them. The first of these rules that applies decides:
 *   - stretch (policy III): the part is held while all pending requests, up to bs_max rows, catch
 *     up. Conditions: its batch is the latest, is not older than `comp_wait` and has fewer than
 *     bs_max rows. It is not split, would not split later, and has not ended the last stage. An
 *     executor of the first stage is idle. A buffer is free behind the first stage, and another
 *     where the part is held.
 *   - split (policy II): the part is halved while T_remain(b) >= T_remain(b') + T_remain(b''), with
 *     b' = ceil(b/2) and b'' = b - b'. Each half is tested again. The pieces run one after the
 *     other.
 *   - otherwise the part continues with the next stage.
 * 2. Idle executors run the front part of the queue of their stage, later stages first.
 * 3. new: the pending requests become a batch if an executor of the first stage is idle, its queue
 *    is empty and a buffer is free. There must be bs_max pending rows (with `input: on`, of the
 *    oldest request's class), or the oldest has waited `window`.
 * Executors are taken by smallest number.
 *
 * D3: executors and buffers are state machines with the moves of core/stage_states.h, which
 * observers see (diversity_state.h, batch_table.h). A move follows from a decision and decides
 * nothing.
 *
 * Input diversity (`input: on`, policy I): a batch holds requests of one length class, padded to
 * the longest. Classes are the profile's length ranges, or with `width` w: 1..w, w+1..2w, ... The
 * class of the oldest pending request goes first. Its members are searched for among the first 4
 * bs_max + 64 pending requests. All batches together have at most bs_max rows. No batch is
 * stretched, because batches enter the pipeline independently.
 *
 * D4, `ahead: on`: when a batch begins a stage, its next stage is submitted, too. That one begins
 * without another decision (core/follow.h). This is the last action of a decision. It is taken only
 * if it is certain that the batch goes on as it is:
 *   - it cannot be stretched when it ends the stage: it is full, not the latest, or split, or by
 *     the profile it will then be older than `comp_wait`;
 *   - it is not catching up, and will not be split there;
 *   - no request may exit at the end of the stage (of exits in an arrivals file the policy does not
 *     know: such a request leaves where the next stage ends);
 *   - no part waits for the next stage, and the buffer behind that is free.
 * The next stage goes to an idle executor. If none is idle, it goes behind the only task of the
 * batch's own executor, or to the only executor of that stage if that has room (`depth`).
 *
 * Decisions where the paper is silent:
 * - A batch that would split at a later boundary at its present size is "known to split", and is
 *   not stretched.
 * - A stretch ignores the window. An arrival at the very end of a stage takes part in it.
 * - With one buffer pair no batch is stretched, because both parts need a buffer where they meet.
 * - For requests of several rows a half is the nearest possible number of rows from above.
 * - A request that exits early returns LEAVING. A request that skips stages continues in a batch of
 *   its own, which holds no buffer and is not stretched.
 * - Several models have tables of their own, and their turns by number.
 *
 * Extensions. A stretch makes a batch wait for newcomers, and a batch that begins beside others
 * slows them down. Neither always pays. `stretch: pays` and `beside: pays` evaluate the profile
 * each time (sharing_gain.h). With both, no load of the reproduction is served worse than by
 * batching without a window; the published rule is worse on devices that are full at small batches.
 * In a batch of similar lengths the first request waits for the last, and the requests between wait
 * for both. With `input: pays` a batch ends before the first request that would raise the sum of
 * the squared latencies of all requests looked at (joining.h). So requests join seldom at low load,
 * and whenever the queue is long and batching saves time.
 *
 * Options: `bs_max` (64, at most the model's maximum), `pairs` (2), `window` (0; with `input: on`
 * the first stage's duration at bs_max), `comp_wait` (not given: the whole model's latency at
 * bs_max), `stretch` (on), `split` (on), `beside` (always), `input` (off), `width`, `drop` (drops
 * hopeless heads of the pending queue), `ahead` (off).
 *
 * Cost: O(1) per table operation; a split visits the part's requests once; O(models + stages) per
 * decision. */
#ifndef TT_POLICY_DIVERSITY_H
#define TT_POLICY_DIVERSITY_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_diversity_kind;

#endif
