/* Window: wait a little for company, then run what is there.
 *
 * D9, L4, E7: the baselines ZeroBatch, DelayBatch, GraphB and the batcher of TF-Serving; also what
 * Triton's `dynamic_batching` asks for.
 *
 * The candidate of a model is the longest prefix of its queue of at most max_batch rows. The first
 * request always counts, whatever its rows; a request at another step ends the prefix. The
 * candidate is due
 *   - at once, cut to the largest *preferred* size (model->preferred) that some prefix has exactly;
 *   - else at once when it is full: it has max_batch rows, or the next request would not fit or
 *     stands at another step;
 *   - else at once while its model drains: no company will come;
 *   - else when its oldest member has waited for max_delay, counted from that member's arrival.
 * A due candidate runs on the idle executor with the smallest number. Without an idle executor it
 * keeps growing, and is formed again from what is there when an executor is idle.
 *
 * Options:
 *   max_delay    0 is ZeroBatch; not given: the model's own window
 *   max_batch    lowers the model's maximum
 *   static       on: preferred sizes are ignored. If neither the option nor the model gives a
 * delay, a batch waits until it is full or its model drains (TF-Serving's static batch). padded: in
 * addition, a batch that is not full is filled up with empty rows, since the graph takes batches of
 * one size only (E7) order        of models that are due together: oldest (smallest arrival number
 * of the head), or round_robin (the first due model behind the one that ran last, by number,
 * around) drop         as in serial same_length  on: only requests whose input is as long as the
 * head's, among the first 4 max_batch + 64 requests. Others wait until they are the head. For
 * models whose variable dimension cannot be padded
 *
 * Within a model smaller `priority` goes first, then arrival number. A stream of urgent requests
 * may starve the others. Deadlines do not shape a batch: with drop = deadline only lost heads go.
 *
 * O(max_batch) per event of a model while an executor is idle, O(log M) while none is; round robin
 * adds O(M) per RUN. */
#ifndef TT_POLICY_WINDOW_H
#define TT_POLICY_WINDOW_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_window_kind;

#endif
