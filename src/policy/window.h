/* D9, L4, E7: window: waits for a larger batch, but at most for a given time. It implements the
 * baselines ZeroBatch, DelayBatch, GraphB and the batcher of TF-Serving, and Triton's
 * `dynamic_batching`.
 *
 * Each model has one candidate: the longest prefix of its queue of at most max_batch rows. The
 * first request always belongs to it, whatever its rows. A request at another step ends the prefix.
 * The first rule that applies says when the candidate is due:
 * 1. at once, cut to the largest *preferred* size (model->preferred) that some prefix has exactly;
 * 2. at once when it is full: it has max_batch rows, or the next request would not fit or stands at
 *    another step;
 * 3. at once while its model drains, because no more requests will arrive;
 * 4. when its oldest member has waited for max_delay, counted from that member's arrival.
 *
 * Life of a candidate: it grows while no executor is idle. When one is, the candidate is formed
 * again from the queue. If due, it runs on the idle executor with the smallest number.
 *
 * Options:
 * - max_delay: 0 is ZeroBatch; not given: the model's own window.
 * - max_batch: lowers the model's maximum.
 * - static: `on` ignores preferred sizes. If neither the option nor the model gives a delay, a
 *   batch waits until it is full or its model drains (TF-Serving's static batch). `padded` also
 *   fills up a smaller batch with empty rows, for graphs that accept one batch size only (E7).
 * - order of models that are due together: `oldest` (smallest arrival number of the head) or
 *   `round_robin` (the first due model after the one that ran last, by number, cyclically).
 * - drop: as in serial.
 * - same_length: with `on`, only requests whose input is as long as the head's, among the first 4
 *   max_batch + 64 requests. Other requests wait until they are the head. For models whose variable
 *   dimension cannot be padded.
 *
 * Within a model a smaller `priority` goes first, then the arrival number. A stream of urgent
 * requests may starve the others. Deadlines do not shape a batch; `drop: deadline` drops hopeless
 * heads only.
 *
 * Cost: O(max_batch) per event of a model while an executor is idle, O(log M) while none is. Round
 * robin adds O(M) per RUN. */
#ifndef TT_POLICY_WINDOW_H
#define TT_POLICY_WINDOW_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_window_kind;

#endif
