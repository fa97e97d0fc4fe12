/* The multicore scheduler as the policy of a server's domain: `tutti serve --scheduler-threads N`.
 *
 * To the mechanism it is a policy like any other, on the server's thread: it hears of requests,
 * runs batches, drops. But it decides nothing itself: arrivals and cancellations go on to the model
 * threads as metadata (multicore/multicore.h), and `decide` carries out what the threads have
 * decided since: batches to run, requests to drop. So all that the mechanism does for a domain
 * (limits, rules, order, traces, the checks of every action) stays as it is.
 *
 * Requests travel as handles: one that has left in the meantime, cancelled say, is left out of the
 * batch that it comes back in. The rank thread holds an executor busy from its grant until the
 * mechanism has heard that the task ended. A model that goes away is taken from its thread before
 * `model_changed` returns. */
#ifndef TT_MULTICORE_THREADED_POLICY_H
#define TT_MULTICORE_THREADED_POLICY_H

#include "multicore/turn_log.h"
#include "policy/policy.h"

struct tt_threaded_policy_options {
    int32_t threads;       /* 1: one for all; more: one of them ranks */
    int32_t max_batch;     /* rows, of any model */
    int32_t request_limit; /* of the mechanism */
    /* The threads have decided something: call the mechanism's decide soon. Any thread. */
    void (*wake)(void *context);
    void *wake_context;
};

/* Makes it for the named policy and attaches it; it decides nothing before it is started.
 * tt_policy_destroy ends it. UNSUPPORTED: the policy does not split into halves
 * (policy/deferred/deferred.h). */
TT_MUST_CHECK enum tt_err
tt_threaded_policy_create(struct tt_mechanism *mechanism, const char *name,
                          const struct tt_policy_setup *setup,
                          const struct tt_threaded_policy_options *options, struct tt_error *why);
/* What it and its threads find goes over these tapes, one for each party, borrowed for life
 * (multicore/turn_log.h). Before the start, or, when the tapes play, in its place. */
int32_t tt_threaded_policy_parties(const struct tt_policy *self);
void tt_threaded_policy_use_turn_logs(struct tt_policy *self, struct tt_turn_log *const *turn_logs);
/* The tapes play: the party's next turn (not the domain's, which is the mechanism's decide). */
void tt_threaded_policy_play_turn(struct tt_policy *self, int32_t party, int64_t now);
/* Starts the threads. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_threaded_policy_start(struct tt_policy *self, struct tt_error *why);

#endif
