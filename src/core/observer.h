/* Who listens to a domain: the one seam through which recording, traces and tests see what a policy
 * was told and what it answered.
 *
 * Every event of a mechanism passes here in order, each under the instant at which it was told:
 * what the carrier says (arrivals, completions ...), DECIDE, then the answers of that decision,
 * then what follows from both. An observer is called on the thread that carries the mechanism and
 * must be quick; it may read the request, task or arrival that the event points to, during the call
 * only, and changes nothing. Where nobody listens the cost is a load and a branch per event. */
#ifndef TT_CORE_OBSERVER_H
#define TT_CORE_OBSERVER_H

#include "core/policy_ops.h"

enum tt_event_kind {
    /* What the carrier told; the policy hears of it after the observers. */
    TT_EVENT_ARRIVED, /* request, and the arrival that it was */
    TT_EVENT_REFUSED, /* arrival; the domain's limit was reached, the policy does not hear of it */
    TT_EVENT_READY,   /* request */
    TT_EVENT_CANCELLED, /* request; queued, or running and marked */
    TT_EVENT_FINISHED,  /* task: outcome, last_step_done and fates are as the carrier set them */
    TT_EVENT_MODEL,     /* index, change */
    TT_EVENT_EXECUTOR,  /* index, change */
    TT_EVENT_DECIDE,
    /* What the policy answered, between two of the above. */
    TT_EVENT_RUN,   /* task */
    TT_EVENT_DROP,  /* request, reason */
    TT_EVENT_YIELD, /* index of the executor */
    TT_EVENT_ABORT, /* index of the executor */
    /* What follows. */
    TT_EVENT_ENDED, /* request, ending, reason; its memory is reused when the call returns */
};

struct tt_event {
    enum tt_event_kind kind;
    int32_t index;
    enum tt_change change;
    enum tt_ending ending;
    enum tt_drop_reason reason;
    int64_t now;
    const struct tt_mechanism *domain;
    const struct tt_request *request;
    const struct tt_task *task;
    const struct tt_arrival *arrival;
};

struct tt_observer {
    void (*observe)(struct tt_observer *self, const struct tt_event *event);
    struct tt_observer *next; /* the mechanism's */
};

/* Listens from now on, for the mechanism's life (borrowed). Before anything is told, to miss
 * nothing. Several are called in the order in which they came. */
void tt_mechanism_observe(struct tt_mechanism *self, struct tt_observer *observer);

#endif
