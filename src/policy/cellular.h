/* C3-C5: cellular batching (BatchMaker): requests join and leave a running batch at every cell.
 *
 * A cell *type* is a step of a model, or a row of steps that runs as one. Ready cells of one type
 * share a batch, whatever their request, depth or branch of a tree. When an executor is due for a
 * visit, algorithm 1 chooses a type by the first of these criteria that some type meets:
 * (a) it has at least as many ready rows as its maximum batch;
 * (b) it has ready cells, and none of its tasks is in flight on any executor;
 * (c) it has ready cells.
 *
 * C1: models whose cells are the same share a type. Its queue is one, and so are its batches.
 *
 * Order among the types that meet the same criterion:
 * - Types of one model: the later one goes first (decoder before encoder, inner nodes before
 *   leaves). A type that models share lets later ones go first if in each of them there is one.
 * - Types of different models: the one whose first subgraph was released first goes first. So the
 *   encoders of one model do not wait for all work of another model.
 *
 * Life of a visit: the policy submits up to `max_tasks` tasks of the type at once. Each task takes
 * the cells that the task before makes ready, then others in the order of release. A follow-up task
 * needs `min_batch` ready rows, or a full batch. A model may state a larger minimum for a type.
 *
 * C5: a subgraph stays with the executor that has cells of it in flight. Its ready cells wait for
 * that executor, and do not count when another executor chooses a type. The maximum batch of a type
 * is that of its profile.
 *
 * Options:
 * - `ahead`: in the paper executors are asynchronous and may get their next tasks while the last
 *   ones run. With 1, a visit is due when one task is left. Criterion (b) then sees that task, so
 *   encoder and decoder alternate. With 0, the default and the algorithm as published, the executor
 *   must be idle. If it is alone in its domain, nothing is then in flight, so (b) never rejects a
 *   type. Decoders then delay encoders until these fill a batch.
 * - `choose`: `type` is the order of the paper. `slack` is an extension for requests with
 *   deadlines: within each of (a), (b), (c) the type goes first whose oldest ready request has the
 *   earliest deadline. `pays` is an extension for latency: of the types of a model those with a
 *   full batch go first, as with `type`; of the others the one that needs the least time per
 *   request that it lets go on (policy/cell_rest.h). So a newcomer's encoder runs before the
 *   decoders of others if these lose less than it gains, and joins them sooner. It asks again
 *   before each task if `max_tasks` is 1. Between models it changes nothing.
 * - `tokens`: `pace`: for models with objectives for the tokens of answers, policy/token_pace.h
 * says which types may run, and a visit is of one task. Other types than decoders go first, since
 * they wait until the decoders are ahead of their dues. `ignore`: as for models without.
 * - `drop`: whether to drop a request that has not begun and is hopeless, when its deadline is the
 *   earliest of its model's.
 *
 * Within a type, cells are ordered by priority, then by release. No later request overtakes an
 * earlier one of its priority, and a long sequence occupies one place of its batch. Executors are
 * visited in the order of their numbers.
 *
 * Cost: O(rows) per task, O(types with ready cells) per visit. */
#ifndef TT_POLICY_CELLULAR_H
#define TT_POLICY_CELLULAR_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_cellular_kind;

#endif
