/* Commands of clients to load or unload models, on their way to the thread of a cluster's node.
 *
 * Life of a command: any port's thread _puts it, the node's thread _takes it, and finishes it
 * (serve/model_command.h) when the cluster has carried it out. Before _attach and after _close it
 * is finished at once, as UNAVAILABLE. Implemented in command_inbox.c. */
#ifndef TT_FLEET_COMMAND_INBOX_H
#define TT_FLEET_COMMAND_INBOX_H

#include "base/threads/lock.h"
#include "serve/model_command.h"

struct tt_command_inbox {
    struct tt_lock lock;
    struct tt_model_command *newest; /* list by `next` */
    void (*wake)(void *context);     /* NULL: not attached, or closed */
    void *wake_context;
};

void tt_command_inbox_init(struct tt_command_inbox *self);
void tt_command_inbox_fini(struct tt_command_inbox *self);
/* `wake` is called after each command, on any thread. */
void tt_command_inbox_attach(struct tt_command_inbox *self, void (*wake)(void *context),
                             void *context);
/* Finishes what waits. NULL-safe. */
void tt_command_inbox_close(struct tt_command_inbox *self);
/* `context` is the inbox; a struct tt_model_controller's `submit`. */
void tt_command_inbox_put(void *context, struct tt_model_command *take_command);
/* All that came, the oldest first, by `next`. NULL: none, or no inbox. */
struct tt_model_command *tt_command_inbox_take(struct tt_command_inbox *self);
/* Sets the command's outcome and finishes it. */
void tt_command_inbox_end(struct tt_model_command *take_command, enum tt_err err, const char *text);

#endif
