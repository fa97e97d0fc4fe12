#include "fleet/command_inbox.h"

void tt_command_inbox_init(struct tt_command_inbox *self) {
    *self = (struct tt_command_inbox){0};
    tt_lock_init(&self->lock);
}

void tt_command_inbox_fini(struct tt_command_inbox *self) {
    tt_assert(self->newest == NULL);
    tt_lock_fini(&self->lock);
}

void tt_command_inbox_attach(struct tt_command_inbox *self, void (*wake)(void *context),
                             void *context) {
    tt_lock_take(&self->lock);
    self->wake = wake;
    self->wake_context = context;
    tt_lock_give(&self->lock);
}

void tt_command_inbox_end(struct tt_model_command *take_command, enum tt_err err,
                          const char *text) {
    take_command->err = err ? tt_fail(err, &take_command->why, "%s", text) : TT_OK;
    tt_model_command_finish(take_command);
}

static void refuse(struct tt_model_command *take_command) {
    tt_command_inbox_end(take_command, TT_ERR_UNAVAILABLE, "this node of a cluster does not run");
}

void tt_command_inbox_close(struct tt_command_inbox *self) {
    if (!self)
        return;
    tt_command_inbox_attach(self, NULL, NULL);
    struct tt_model_command *command = tt_command_inbox_take(self);
    for (struct tt_model_command *next; command; command = next) {
        next = command->next;
        refuse(command);
    }
}

void tt_command_inbox_put(void *context, struct tt_model_command *take_command) {
    struct tt_command_inbox *self = context;
    tt_lock_take(&self->lock);
    bool is_open = self->wake != NULL;
    if (is_open) {
        take_command->next = self->newest;
        self->newest = take_command;
        self->wake(self->wake_context); /* under the lock: the node may close after it */
    }
    tt_lock_give(&self->lock);
    if (!is_open)
        refuse(take_command);
}

struct tt_model_command *tt_command_inbox_take(struct tt_command_inbox *self) {
    if (!self)
        return NULL;
    tt_lock_take(&self->lock);
    struct tt_model_command *newest = self->newest;
    self->newest = NULL;
    tt_lock_give(&self->lock);
    return tt_model_command_oldest_first(newest);
}
