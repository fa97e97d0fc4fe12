/* Elastic: elastic batching (E2bird; E1, E2, E4, E5).
 *
 * A device holds the inputs of requests in a ring of slots. Each input is transferred by itself as
 * soon as its request arrives. Executors are *workers*, each for batches of one size, a power of
 * two. When inputs have arrived (`ready`), idle workers take ranges of them, the oldest first. No
 * request waits for others to share its batch. Several batches run at once: large ones when many
 * rows wait, small ones when few do.
 *
 * Life of a decision (algorithm 1). R = min(ready rows that wait, max_inf - rows that run). Idle
 * workers are visited from the largest to the smallest (equal sizes: smallest number). The first
 * whose size is at most R and at most the model's largest batch takes the next range of exactly its
 * size. R falls by that, and the search begins again, until no worker fits.
 *
 * `variant: enhanced` (algorithm 2) restricts the workers to the configuration of the load. That is
 * the best choice of workers (elastic_plan.h) for the largest power of two that is at most the
 * load. Below the smallest such total one worker of size 1 and one of size 2 count, as in the
 * paper; without both, one of the smallest size. The load is the rows of the model that wait in the
 * pool, with `load: pending` also the running rows of all models.
 *
 * Rows that were handed out may change the load, and uncover the next range. So the decision is
 * repeated for the rest, at the same instant, until it assigns nothing.
 *
 * Decisions where the paper is silent:
 * - The load is rounded down. Rounding up would leave requests waiting for a worker that never
 *   fills.
 * - A range is a run of adjacent slots. The ring's end, or a slot whose request left, cuts it, and
 *   R counts only the rows before the cut. In the enhanced variant the rows before the cut are a
 *   load of their own, because the range cannot grow.
 * - A request of several rows is not divided (elastic_workers.h). Workers take whole requests up to
 *   their size. The smallest worker that holds the oldest request does not wait until it is full. A
 *   request with more rows than any worker goes to the largest. If no worker of a configuration
 *   holds the oldest request, the smallest workers that hold it count too.
 * - If nothing runs after a model's turn and requests of it still wait, the smallest idle worker
 *   that can hold the range takes it, else the largest. This happens when the workers that would
 *   take it are gone, or when a request has more rows than `max_inf`.
 * - Several models: the model with the oldest request has the first turn, then the others by
 *   number; with `enhanced` again, until none assigns anything. A range holds requests of one
 *   model; `max_inf` counts the rows of all.
 *
 * Options:
 * - `workers` (1,1,2,4,8,16): a size for each executor, by number. Not given: 1, 1, 2, 4, ... If
 *   all requests have 8 rows, workers of less than 8 would be idle.
 * - `max_inf`: at least the largest size. Not given: the sum of the sizes.
 * - `variant`, `load`: as above.
 * - `configurations` (4;4,4;8,8,16): the workers that count at each load, for all models, as
 *   measured on the device. Not given: computed for each model from its profile.
 * - `qos` (off): with `on`, computed configurations keep the QoS condition for two workers
 *   (elastic_qos.h) for the model's objective, where some choice does.
 * - `drop`: whether hopeless heads are dropped.
 *
 * Cost: most decisions can assign nothing, and the policy detects that. After such a decision only
 * these events call for another: a worker becomes idle; a request leaves a queue; a queue has grown
 * enough for the smallest idle worker that counts, or for the next load. Without such an event a
 * decision costs a few instructions. One that assigns nothing costs a few per model with a queue,
 * however long the queue is. One that assigns rows is O(rows). */
#ifndef TT_POLICY_ELASTIC_ELASTIC_H
#define TT_POLICY_ELASTIC_ELASTIC_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_elastic_kind;

#endif
