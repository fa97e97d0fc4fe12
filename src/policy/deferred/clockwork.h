/* S5: Clockwork, as section 2.2 of the Symphony paper describes it (baseline S5).
 *
 * Queues are in order of deadline. For every model and every batch size b there is a candidate, the
 * first b rows of the queue, whose latest start is d - l(b) - delay(b), d the earliest deadline in
 * it (delay(b) = d_ctrl + d_data b, S4). When an executor is free, the candidate whose latest start
 * is the earliest, but has not passed, is dispatched; that withdraws all candidates which share
 * requests with it. Candidates are not stored: since d - l(b) falls as b grows, a model's candidate
 * of earliest latest start is its longest prefix that is still in time, and that one is formed
 * afresh for each dispatch.
 *
 * Option `reading`: `letter` (above) takes large batches, and cannot give the published figures for
 * Clockwork (1358 and 458 requests per second in table 2); those are what batches of a single
 * request give, and `batch_of_one` keeps that reading: the candidates are the heads alone. Report
 * which one a figure is of.
 *
 * Ties: equal latest starts go by the model's number, requests without a deadline come last among
 * them all, equal deadlines by arrival number, executors by smallest id. Scan order over models
 * does not matter: (latest, model) is a total order. A head that would be late even alone and at
 * once is dropped at that instant. The published system plans a few milliseconds ahead of a
 * device's becoming free; here a device is given work when it is free.
 *
 * O(M b) per dispatch, O(log M) per other event. */
#ifndef TT_POLICY_DEFERRED_CLOCKWORK_H
#define TT_POLICY_DEFERRED_CLOCKWORK_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_clockwork_kind;

#endif
