/* S5: Clockwork, as section 2.2 of the Symphony paper describes it (a baseline).
 *
 * Queues are in order of deadline. For every model and every batch size b there is a candidate: the
 * first b rows of the queue. Its latest start is d - l(b) - delay(b), with d its earliest deadline,
 * l the profile and delay(b) = d_ctrl + d_data b (S4). When an executor is free, the candidate with
 * the earliest latest start that has not passed is dispatched. Candidates that share requests with
 * it are withdrawn.
 *
 * Candidates are not stored. d - l(b) falls as b grows, so a model's candidate of earliest latest
 * start is its longest prefix that is still in time. The policy forms that one anew for each
 * dispatch.
 *
 * Option `reading`: `letter` is the rule above. It takes large batches, and so cannot give the
 * figures published for Clockwork (1358 and 458 requests per second in table 2). Batches of a
 * single request do give them: with `batch_of_one` the candidates are the heads alone. State the
 * reading with every figure.
 *
 * Order:
 * - Equal latest starts go by the model's number. Requests without a deadline come last.
 * - Equal deadlines go by arrival number.
 * - The idle executor with the smallest number runs the batch.
 * - The scan order over models does not matter: (latest, model) is a total order.
 * A head that is hopeless is dropped at that instant. The published system plans a few milliseconds
 * before a device becomes free; this policy gives a device work when it is free.
 *
 * Cost: O(M b) per dispatch, O(log M) per other event, for M models. */
#ifndef TT_POLICY_DEFERRED_CLOCKWORK_H
#define TT_POLICY_DEFERRED_CLOCKWORK_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_clockwork_kind;

#endif
