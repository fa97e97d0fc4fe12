/* C3-C5: BatchMaker's cellular batching: requests join and leave a running batch at every cell.
 *
 * Ready cells of one type (a model's step, or the row of steps that runs as one) batch together,
 * whichever requests, depths or branches of a tree they come from. When an executor has become idle
 * a type is chosen (algorithm 1): (a) one with as many ready cells as its largest batch, else (b)
 * one with ready cells of which no task is in flight anywhere, else (c) any with ready cells; among
 * several of one model the one that comes later in it (decoder before encoder, internal nodes
 * before leaves), among those of different models the one whose first subgraph was released first:
 * no model's encoders wait until there is nothing to do for another one. Of it up to `max_tasks`
 * tasks are submitted at once, each of the cells that the one before made ready and of others in
 * the order of their subgraphs' release; but no follow-up task while fewer than `min_batch` rows
 * are ready, and fewer than fill a batch.
 *
 * A subgraph stays with the executor that has cells of it in flight (C5). What is ready of it then
 * waits there, and does not count when a type is chosen for another executor. A type's largest
 * batch is that of its profile.
 *
 * Option `ahead`: the paper's executors are asynchronous, and may be given their next tasks while
 * the last ones run. With `ahead` 1 an executor's next visit is due when one task is left, of which
 * (b) then knows: encoder and decoder take turns. With 0, the default and the letter of the
 * algorithm, an executor is idle first; then, alone in its domain, it has nothing in flight, (b)
 * never passes a type over, and decoders keep encoders waiting until these have a full batch.
 *
 * Option `choose`: `type` is the paper's order. `slack` is ours, for requests with deadlines, which
 * the paper does not have: in each of (a), (b), (c) the type goes first whose oldest ready request
 * has least time left until its deadline. Option `drop`: whether who has not begun and cannot make
 * its deadline any more, even alone, is given up.
 *
 * O(rows) per task and O(types with ready cells) per visit. Nothing is ordered but by release, so
 * that who came first is never overtaken within a type, and a long sequence holds one place of its
 * batch, no more. */
#ifndef TT_POLICY_CELLULAR_H
#define TT_POLICY_CELLULAR_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_cellular_kind;

#endif
