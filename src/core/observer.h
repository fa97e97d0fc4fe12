/* Observers of a domain: the only seam through which recording, traces and tests see the events
 * that a policy received and the answers that it gave.
 *
 * Every event of a mechanism passes here in order, at the instant at which it was reported: what
 * the carrier reports (arrivals, completions ...), DECIDE, the answers of that decision, then what
 * follows from both.
 *
 * An observer is called on the thread that drives the mechanism and must return quickly. It may
 * read the request, task or arrival of the event, during the call only, and it changes nothing.
 * Without an observer the cost is a load and a branch per event. */
#ifndef TT_CORE_OBSERVER_H
#define TT_CORE_OBSERVER_H

#include "core/policy_ops.h"
#include "core/stage_states.h"

enum tt_event_kind {
    /* Reported by the carrier. The policy is called after the observers. */
    TT_EVENT_ARRIVED,   /* request, and its arrival */
    TT_EVENT_REFUSED,   /* arrival; the domain's limit was reached, the policy is not called */
    TT_EVENT_READY,     /* request */
    TT_EVENT_CANCELLED, /* request; queued, or running and marked as cancelled */
    TT_EVENT_FINISHED,  /* task: outcome, last_step_done and fates are as the carrier set them */
    TT_EVENT_MODEL,     /* index, change; TT_CHANGE_BELIEF is the mechanism's own */
    TT_EVENT_EXECUTOR,  /* index, change; the same */
    TT_EVENT_DECIDE,
    /* Answered by the policy, between two of the above. */
    TT_EVENT_RUN,   /* task */
    TT_EVENT_DROP,  /* request, reason */
    TT_EVENT_YIELD, /* index of the executor */
    TT_EVENT_ABORT, /* index of the executor */
    TT_EVENT_STAGE, /* stage; a policy's state machine has moved, perhaps because of an event (D3)
                     */
    /* Consequences. */
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
    const struct tt_stage_event *stage;
};

struct tt_observer {
    void (*observe)(struct tt_observer *self, const struct tt_event *event);
    struct tt_observer *next; /* set by the mechanism */
};

/* Adds an observer for the rest of the mechanism's life (borrowed). Call it before the first event
 * to miss none. Several observers are called in the order in which they were added. */
void tt_mechanism_observe(struct tt_mechanism *self, struct tt_observer *observer);
/* For policies: passes a move of the policy's own to the observers. */
void tt_mechanism_stage_moved(const struct tt_mechanism *self, const struct tt_stage_event *move);

#endif
