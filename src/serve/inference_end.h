/* The end of a request, as its client and the statistics see it.
 *
 * Whatever way it ends (answered, given up, failed, cancelled, or refused before the mechanism ever
 * saw it), all that it still holds of the engine, of its input ring and of its cells is given back
 * here, once, and it goes to its port with its error, or OK. A model that keeps the order of its
 * answers holds computed ones back until those before them have ended. What a lost request is told
 * are the protocol's words, then the reason and the numbers. On the thread whose turn it is, as all
 * of its domain. */
#ifndef TT_SERVE_INFERENCE_END_H
#define TT_SERVE_INFERENCE_END_H

#include "core/mechanism.h"
#include "serve/inference.h"

/* It is the port's from here on, or waits for those before it. */
void tt_inference_end(struct tt_inference *inference, enum tt_err err);
/* Counts that it was answered, in time or late, and where its time went. Before its end. */
void tt_inference_end_count_answer(const struct tt_inference *inference, int64_t now);
/* Counts the time of one that was not. */
void tt_inference_end_count_loss(const struct tt_inference *inference, int64_t now);
/* The sentence and the error of a request that was given up. `request`: what the mechanism has of
 * it; inference->request is NULL while it is only just coming. */
enum tt_err tt_inference_end_say_dropped(struct tt_inference *inference,
                                         const struct tt_mechanism *mechanism,
                                         const struct tt_request *request, int64_t now,
                                         enum tt_drop_reason reason);

#endif
