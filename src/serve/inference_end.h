/* The end of a request, as its client and the statistics see it.
 *
 * A request ends by an answer, a drop, a failure, a cancellation, or a rejection before the
 * mechanism saw it. What it still holds of the engine, of its input ring and of its cells is
 * released here, once. It goes back to its port with its error, or OK. A model that keeps the order
 * of its answers holds computed ones back until earlier ones have ended. The message of a lost
 * request starts with the protocol's words, then gives the reason and the numbers.
 *
 * On the thread that takes the turn. Implemented in inference_end.c. */
#ifndef TT_SERVE_INFERENCE_END_H
#define TT_SERVE_INFERENCE_END_H

#include "core/mechanism.h"

struct tt_inference;
struct tt_served_model;

/* What a domain calls upwards. It gets this at its creation, and calls nothing else above it. */
struct tt_domain_client {
    void *context;
    /* The inference has ended: err, why and result are set, and it belongs to its port. In a turn.
     */
    void (*ended)(void *context, struct tt_inference *inference);
    /* An inference that ended while the engine still used it: the engine has returned it. In a
     * turn. */
    void (*given_back)(void *context, struct tt_inference *inference);
    /* The model fails all its requests from now on; `failure` in it says why. Once, in a turn. */
    void (*failed)(void *context, struct tt_served_model *model);
    /* The domain's own threads have something for it: it needs a turn. Any of those threads. */
    void (*wake)(void *context);
};

/* Ends it with `err`. It goes to the client now, or after the answers that come before it. */
void tt_inference_end(struct tt_inference *inference, enum tt_err err,
                      const struct tt_domain_client *client);
/* Counts that it was answered, in time or late, and where its time went. Before its end. */
void tt_inference_end_count_answer(const struct tt_inference *inference, int64_t now);
/* Counts the time of one that was not answered. Before its end. */
void tt_inference_end_count_loss(const struct tt_inference *inference, int64_t now);
/* Sets the message of a dropped request, and returns its error. `request`: what the mechanism has
 * of it; inference->request is NULL while it is only arriving. */
enum tt_err tt_inference_end_say_dropped(struct tt_inference *inference,
                                         const struct tt_mechanism *mechanism,
                                         const struct tt_request *request, int64_t now,
                                         enum tt_drop_reason reason);

#endif
