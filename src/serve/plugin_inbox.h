/* What comes to a port from the threads of unfold plug-ins (serve/unfolder.h): inferences that were
 * unfolded or failed, and those that a plug-in returned after it was given up.
 *
 * Life: a part of a port, which takes from it on its own thread. Any thread puts; the port's thread
 * is woken. An inference names the inbox of its port. Implemented in plugin_inbox.c. */
#ifndef TT_SERVE_PLUGIN_INBOX_H
#define TT_SERVE_PLUGIN_INBOX_H

#include "base/threads/counter.h"
#include "base/threads/lock.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_inference;
struct tt_mailbox;

struct tt_plugin_inbox {
    struct tt_mailbox *mailbox;                 /* the port's, whose thread is woken */
    struct tt_lock lock;                        /* guards the two lists, newest first: */
    struct tt_inference *unfolded, *given_back; /* by next_unfolded; by next_given_back */
    struct tt_counter put;                      /* ever put into the two lists, under the lock */
    int64_t taken;                              /* the port's: `put` at the last _take */
};

void tt_plugin_inbox_init(struct tt_plugin_inbox *self, struct tt_mailbox *mailbox);
void tt_plugin_inbox_fini(struct tt_plugin_inbox *self);
/* Any thread: an inference comes from its model's plug-in, unfolded or with its error, and is to be
 * sent to the scheduler. */
void tt_plugin_inbox_put(struct tt_inference *inference);
/* Any thread: the plug-in has returned an inference that was lost to it. */
void tt_plugin_inbox_give_back(struct tt_inference *inference);

/* ---- the port's thread ---- */

bool tt_plugin_inbox_has_mail(const struct tt_plugin_inbox *self);
/* Those that were put, oldest first, by next_unfolded, and those that were given back, by
 * next_given_back; NULL: none. */
struct tt_inference *tt_plugin_inbox_take(struct tt_plugin_inbox *self,
                                          struct tt_inference **out_given_back);
/* The inference has not ended yet: the next _take returns it again. */
void tt_plugin_inbox_keep(struct tt_plugin_inbox *self, struct tt_inference *given_back);

#endif
