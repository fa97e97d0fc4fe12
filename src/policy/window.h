/* Window: wait a little for company, then run what is there.
 *
 * D9, L4, E7: the baselines ZeroBatch, DelayBatch, GraphB and the batcher of TF-Serving; and what
 * Triton's `dynamic_batching` asks for.
 *
 * The candidate of a model is the longest prefix of its queue of at most max_batch rows (the first
 * request always counts, whatever its rows; requests at another step end it). It is due
 *   - at once, cut to the largest *preferred* size (model->preferred) that some prefix has exactly;
 *   - else at once when it is full: it has max_batch rows, or the next request would not fit, or
 * stands at another step;
 *   - else at once while its model drains: no company will come;
 *   - else when its oldest member has waited for max_delay.
 * The delay is anchored at the oldest member's arrival, not at the moment when a device fell idle.
 * A due candidate runs on the idle executor with the smallest id; with none it keeps growing, and
 * is formed from what is there when one is.
 *
 * Options: `max_delay` (0 is ZeroBatch; not given: the model's own window), `max_batch` (lowers the
 * model's maximum), `static` = on: preferred sizes are ignored, and where neither the option nor
 * the model gives a delay a batch waits until it is full or its model drains (TF-Serving's static
 * batch); `static` = padded: and what runs before it is full is filled up with rows of nobody,
 * since the graph takes batches of one size only (E7), `order` of models that are due together:
 * `oldest` (smallest arrival number of the head) or `round_robin` (the first due model after the
 * one that ran last, in the order of their numbers, around), `drop` as in serial, `same_length` =
 * on: only requests whose input is as long as the head's, looking at no more than 4 max_batch + 64
 * requests from the head on (the skipped ones wait for their turn as head; for models whose
 * variable dimension cannot be padded).
 *
 * Within a model smaller `priority` first, then arrival number. A stream of urgent requests may
 * starve the others. The deadlines do not shape a batch: with drop = deadline only heads that are
 * lost go.
 *
 * O(max_batch) per event of a model while an executor is idle, O(log M) while none is; round robin
 * adds O(M) per RUN. */
#ifndef TT_POLICY_WINDOW_H
#define TT_POLICY_WINDOW_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_window_kind;

#endif
