#include "serve/mailbox.h"

enum { MESSAGES = 4 }; /* of one inference in one direction */

enum tt_err tt_mailbox_init(struct tt_mailbox *self, int32_t capacity, tt_mailbox_wake_fn *wake,
                            void *wake_context) {
    tt_assert(capacity >= 1);
    tt_assert(wake != NULL);
    enum tt_err err = tt_ring_init(&self->to_scheduler, MESSAGES * capacity);
    if (err)
        return err;
    err = tt_ring_init(&self->to_port, MESSAGES * capacity);
    if (err) {
        tt_ring_fini(&self->to_scheduler);
        return err;
    }
    tt_eventcount_init(&self->eventcount);
    self->wake = wake;
    self->wake_context = wake_context;
    self->has_mail = false;
    self->next = NULL;
    return TT_OK;
}

void tt_mailbox_fini(struct tt_mailbox *self) {
    tt_assert(tt_ring_is_empty(&self->to_scheduler));
    tt_assert(tt_ring_is_empty(&self->to_port));
    tt_ring_fini(&self->to_scheduler);
    tt_ring_fini(&self->to_port);
}
