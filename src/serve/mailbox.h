/* The two rings between a port and the scheduler, and whether the port's thread sleeps.
 *
 * A port's thread sends inferences and cancellations; the scheduler sends back ended inferences,
 * acknowledged cancellations, inferences that the engine returned after their end, and inferences
 * that have emitted (serve/emissions.h). Each inference has at most one message of each kind under
 * way. The rings have room for that, so a push never fails.
 *
 * Life: a part of its port, which opens it with _init(), has it added to the scheduler
 * (serve/scheduler.h), and takes it out again before _fini(). An inference that is sent belongs to
 * the receiver, until it is sent back. A mailbox never looks into an inference.
 *
 * Implemented here, and in mailbox.c. */
#ifndef TT_SERVE_MAILBOX_H
#define TT_SERVE_MAILBOX_H

#include "base/threads/eventcount.h"
#include "base/threads/ring.h"

struct tt_inference;

/* Wakes the port's thread. Called from other threads; must not block. */
typedef void tt_mailbox_wake_fn(void *context);

enum tt_mail {
    TT_MAIL_INFERENCE,  /* it is submitted, or has ended */
    TT_MAIL_CANCEL,     /* its cancellation, or the acknowledgement of it */
    TT_MAIL_GIVEN_BACK, /* to the port: it ended before, and now the engine has returned it */
    TT_MAIL_EMITTED,    /* to the port: it has emissions to read */
    TT_MAIL_MASK = TT_MAIL_EMITTED,
};

struct tt_mailbox {
    struct tt_ring to_scheduler; /* struct tt_inference *, with enum tt_mail in the lowest bits */
    struct tt_ring to_port;      /* the same */
    struct tt_eventcount eventcount; /* whether the port's thread must be woken; see _claim() */
    tt_mailbox_wake_fn *wake;
    void *wake_context;
    bool has_mail;           /* the scheduler's: to be woken at the end of the turn */
    struct tt_mailbox *next; /* the scheduler's */
};

/* `capacity`: inferences at once. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_mailbox_init(struct tt_mailbox *self, int32_t capacity,
                                          tt_mailbox_wake_fn *wake, void *wake_context);
void tt_mailbox_fini(struct tt_mailbox *self);

static inline void tt_mailbox_push(struct tt_ring *ring, const struct tt_inference *inference,
                                   enum tt_mail mail) {
    bool pushed = tt_ring_push(ring, (void *)((uintptr_t)inference | (uintptr_t)mail));
    tt_assert(pushed);
}
static inline struct tt_inference *tt_mailbox_pop(struct tt_ring *ring, enum tt_mail *out_mail) {
    uintptr_t message = (uintptr_t)tt_ring_pop(ring);
    *out_mail = (enum tt_mail)(message & TT_MAIL_MASK);
    return (struct tt_inference *)(message & ~(uintptr_t)TT_MAIL_MASK);
}

/* ---- the port's thread ---- */

static inline void tt_mailbox_send(struct tt_mailbox *self, struct tt_inference *inference) {
    tt_mailbox_push(&self->to_scheduler, inference, TT_MAIL_INFERENCE);
}
static inline void tt_mailbox_send_cancel(struct tt_mailbox *self, struct tt_inference *inference) {
    tt_mailbox_push(&self->to_scheduler, inference, TT_MAIL_CANCEL);
}
/* The next inference with news; NULL: no more. */
static inline struct tt_inference *tt_mailbox_receive(struct tt_mailbox *self,
                                                      enum tt_mail *out_mail) {
    return tt_mailbox_pop(&self->to_port, out_mail);
}
static inline bool tt_mailbox_is_empty(struct tt_mailbox *self) {
    return tt_ring_is_empty(&self->to_port);
}

/* ---- the scheduler, in a turn ---- */

/* The next submitted inference, or (*out_cancels) one that is cancelled; NULL: no more. */
static inline struct tt_inference *tt_mailbox_take(struct tt_mailbox *self, bool *out_cancels) {
    enum tt_mail mail;
    struct tt_inference *inference = tt_mailbox_pop(&self->to_scheduler, &mail);
    *out_cancels = mail == TT_MAIL_CANCEL;
    return inference;
}
/* The inference has ended: it is the port's again. */
static inline void tt_mailbox_return(struct tt_mailbox *self, struct tt_inference *inference) {
    self->has_mail = true;
    tt_mailbox_push(&self->to_port, inference, TT_MAIL_INFERENCE);
}
/* It has emissions to read. Before its return, and not while such a message is under way. */
static inline void tt_mailbox_announce(struct tt_mailbox *self, struct tt_inference *inference) {
    self->has_mail = true;
    tt_mailbox_push(&self->to_port, inference, TT_MAIL_EMITTED);
}
/* The scheduler has no message about the inference's cancellation any more. */
static inline void tt_mailbox_acknowledge(struct tt_mailbox *self, struct tt_inference *inference) {
    self->has_mail = true;
    tt_mailbox_push(&self->to_port, inference, TT_MAIL_CANCEL);
}
/* The engine has returned an inference that had ended before. */
static inline void tt_mailbox_give_back(struct tt_mailbox *self, struct tt_inference *inference) {
    self->has_mail = true;
    tt_mailbox_push(&self->to_port, inference, TT_MAIL_GIVEN_BACK);
}

#endif
