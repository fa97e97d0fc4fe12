#include "serve/plugin_inbox.h"

#include "serve/inference_state.h"
#include "serve/mailbox.h"

void tt_plugin_inbox_init(struct tt_plugin_inbox *self, struct tt_mailbox *mailbox) {
    self->mailbox = mailbox;
    tt_lock_init(&self->lock);
}

void tt_plugin_inbox_fini(struct tt_plugin_inbox *self) { tt_lock_fini(&self->lock); }

/* Under the lock, which it gives back. */
static void wake(struct tt_plugin_inbox *self) {
    tt_counter_add(&self->put, 1);
    if (tt_eventcount_claim(&self->mailbox->eventcount))
        self->mailbox->wake(self->mailbox->wake_context);
    tt_lock_give(&self->lock); /* last: when the port has what came, it may be freed */
}

void tt_plugin_inbox_put(struct tt_inference *inference) {
    struct tt_plugin_inbox *self = inference->plugin_inbox;
    tt_lock_take(&self->lock);
    inference->next_unfolded = self->unfolded;
    self->unfolded = inference;
    wake(self);
}

void tt_plugin_inbox_give_back(struct tt_inference *inference) {
    struct tt_plugin_inbox *self = inference->plugin_inbox;
    tt_lock_take(&self->lock);
    inference->next_given_back = self->given_back;
    self->given_back = inference;
    wake(self);
}

bool tt_plugin_inbox_has_mail(const struct tt_plugin_inbox *self) {
    return tt_counter_get(&self->put) != self->taken;
}

struct tt_inference *tt_plugin_inbox_take(struct tt_plugin_inbox *self,
                                          struct tt_inference **out_given_back) {
    tt_lock_take(&self->lock);
    struct tt_inference *newest = self->unfolded, *oldest = NULL;
    *out_given_back = self->given_back;
    self->unfolded = self->given_back = NULL;
    self->taken = tt_counter_get(&self->put);
    tt_lock_give(&self->lock);
    for (struct tt_inference *next; newest; newest = next) {
        next = newest->next_unfolded;
        newest->next_unfolded = oldest;
        oldest = newest;
    }
    return oldest;
}

void tt_plugin_inbox_keep(struct tt_plugin_inbox *self, struct tt_inference *given_back) {
    tt_lock_take(&self->lock);
    given_back->next_given_back = self->given_back;
    self->given_back = given_back;
    tt_counter_add(&self->put, 1);
    tt_lock_give(&self->lock);
}
