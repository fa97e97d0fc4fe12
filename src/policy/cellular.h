/* C3-C5: BatchMaker's cellular batching: requests join and leave a running batch at every cell.
 *
 * Ready cells of one type (a model's step, or a row of steps that runs as one) batch together,
 * whichever requests, depths or branches of a tree they come from. When an executor becomes idle,
 * algorithm 1 chooses a type by the first of these criteria that some type meets:
 *   (a) it has as many ready cells as its largest batch;
 *   (b) it has ready cells, and no task of it is in flight on any executor;
 *   (c) it has ready cells.
 * Among several types of one model the later one goes first (decoder before encoder, internal nodes
 * before leaves). Among types of different models the one whose first subgraph was released first
 * goes first, so that no model's encoders wait for all work of another model.
 *
 * Up to `max_tasks` tasks of the type are submitted at once. Each takes the cells that the one
 * before made ready, and others in the order of their subgraphs' release. There is no follow-up
 * task while fewer than `min_batch` rows are ready, unless they fill a batch.
 *
 * A subgraph stays with the executor that has cells of it in flight (C5). Its ready cells then wait
 * for that executor, and do not count when another one chooses a type. A type's largest batch is
 * that of its profile.
 *
 * Option `ahead`: the paper's executors are asynchronous and may get their next tasks while the
 * last ones run. With `ahead` 1 an executor's next visit is due when one task is left. Criterion
 * (b) then sees that task, and encoder and decoder take turns. With 0, the default and the letter
 * of the algorithm, the executor is idle first. Alone in its domain it then has nothing in flight,
 * so (b) never passes a type over, and decoders keep encoders waiting until these fill a batch.
 *
 * Option `choose`: `type` is the paper's order. `slack` is ours, for requests with deadlines:
 * within each of (a), (b), (c) the type goes first whose oldest ready request has least time left.
 * Option `drop`: whether to drop a request that has not begun and cannot meet its deadline even
 * alone.
 *
 * O(rows) per task and O(types with ready cells) per visit. Cells are ordered by release only: no
 * later request overtakes an earlier one within a type, and a long sequence holds one place of its
 * batch. */
#ifndef TT_POLICY_CELLULAR_H
#define TT_POLICY_CELLULAR_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_cellular_kind;

#endif
