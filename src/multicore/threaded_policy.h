/* The multicore scheduler as the policy of a server's domain: `tutti serve --scheduler-threads N`.
 *
 * To the mechanism it is a policy like any other, on the server's thread: it receives requests,
 * runs batches and drops requests. It decides nothing itself. Arrivals and cancellations go on to
 * the model threads as metadata (multicore/multicore.h), together at the next `decide`. `decide`
 * carries out what the threads have decided since: batches to run, requests to drop. So everything
 * that the mechanism does for a domain (limits, rules, order, traces, the checks of every action)
 * stays the same.
 *
 * Requests travel as handles. A request that has left meanwhile (cancelled, for example) is omitted
 * from the batch that comes back. The rank thread treats an executor as busy from its grant until
 * the mechanism has reported the end of the task; where messages take time and executors have a
 * depth of 2, it grants the next batch so that it arrives then (S4). A model that is removed is
 * taken from its thread before `model_changed` returns. Requests that come while a thread is far
 * behind are dropped (queue_full); a recording of that does not replay.
 *
 * Until it is started, and if it cannot be, it has no threads: `decide` runs their turns, and
 * next_at says when they are due. Tests in virtual time use it so. */
#ifndef TT_MULTICORE_THREADED_POLICY_H
#define TT_MULTICORE_THREADED_POLICY_H

#include "multicore/turn_log.h"
#include "policy/policy.h"

struct tt_threaded_policy_options {
    int32_t threads;       /* 1: one thread for everything; more: one of them is the rank thread */
    int32_t max_batch;     /* rows; of any model */
    int32_t request_limit; /* the mechanism's */
    /* The threads have decided something: call the mechanism's decide soon. Called on any thread.
     */
    void (*wake)(void *context);
    void *wake_context;
};

/* Creates it for the named policy and attaches it; tt_policy_destroy ends it. Errors: UNSUPPORTED
 * (the policy does not split into halves, policy/deferred/deferred.h), NOT_FOUND, INVALID,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err
tt_threaded_policy_create(struct tt_mechanism *mechanism, const char *name,
                          const struct tt_policy_setup *setup,
                          const struct tt_threaded_policy_options *options, struct tt_error *why);
/* Sets the turn logs of the policy and its threads, one per party, borrowed for life
 * (multicore/turn_log.h). Call it before the start; or, if they play, instead of it. */
int32_t tt_threaded_policy_parties(const struct tt_policy *self);
void tt_threaded_policy_use_turn_logs(struct tt_policy *self, struct tt_turn_log *const *turn_logs);
/* Plays the party's next turn. Not the domain's, which is the mechanism's decide. */
void tt_threaded_policy_play_turn(struct tt_policy *self, int32_t party, int64_t now);
/* Starts the threads. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_threaded_policy_start(struct tt_policy *self, struct tt_error *why);

#endif
